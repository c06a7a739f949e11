"""Clusters of more points than fit in memory as a matrix of distances: Lloyd's algorithm and medoids, in blocks.

All cores work on blocks, whose results are combined in order, so the number of cores does not change the result.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import csc_array

from ostrakon.votes import IntArray

FloatArray = NDArray[np.float32]
Advance = Callable[[float], None]

_CELLS = 2**20
"""Number of distances in memory at once."""
_ALL = 8192
"""Number of points up to which the distances of all of them may be in memory, 256 MB."""
_FIXED = 64
"""Number of fixed centres whose distances are in memory at once."""
_JOINT_ROUNDS = 8
"""Number of rounds in which all centres choose points at once, before the remaining ones choose one by one."""


def _no_report(share: float) -> None:
    """Report nothing."""


def spread(
    points: FloatArray,
    fixed: FloatArray,
    more: int,
    rng: np.random.Generator,
    *,
    precomputed: Callable[[], FloatArray] | None = None,
    advance: Advance = _no_report,
) -> FloatArray:
    """Return `more` points, far from each other and from the `fixed` ones: the initial centres of clusters.

    Greedy k-means++ (Arthur and Vassilvitskii 2007): of a few points, drawn in proportion to their squared distance
    from earlier ones, the one with the smallest remaining sum of squared distances. known: returns `all_distances` of
    the points. advance: receives the finished share of the work.
    """
    distances = _distances_to(points)
    least = np.full(len(points), np.inf, np.float32)
    for at in range(0, len(fixed), _FIXED):
        np.minimum(least, distances(fixed[at : at + _FIXED]).min(axis=0), out=least)
    tries = 2 + int(np.log(len(fixed) + more))
    # With few points, computing all distances once is faster than those of every draw.
    matrix = precomputed() if precomputed is not None and len(points) <= min(_ALL, 26 * more) else None
    chosen = np.empty(more, np.int64)
    for index in range(more):
        # If all are equal, or there is no point yet, all are equally likely.
        weights = np.cumsum(least, dtype=np.float64) if np.isfinite(least[0]) and least.any() else None
        if weights is None:
            draws = rng.integers(len(points), size=tries)
        else:
            draws = np.searchsorted(weights, rng.random(tries) * weights[-1], side="right").clip(max=len(points) - 1)
        squared = np.minimum(distances(points[draws]) if matrix is None else matrix[draws], least)
        best = int(squared.sum(axis=1, dtype=np.float64).argmin())
        chosen[index], least = draws[best], squared[best]
        advance((index + 1) / more)
    return points[chosen]


def all_distances(points: FloatArray) -> FloatArray:
    """Return the squared distances of all points from each other, (rows, rows)."""
    return _distances_to(points)(points)


def _distances_to(points: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function from rows to their squared distances from the points, (rows, points)."""
    squares, turned = np.square(points).sum(axis=1), np.ascontiguousarray(points.T)

    def distances(rows: FloatArray) -> FloatArray:
        squared = (-2 * rows) @ turned
        squared += squares
        squared += np.square(rows).sum(axis=1)[:, None]
        return np.maximum(squared, 0, out=squared)

    return distances


def lloyd(
    points: FloatArray, fixed: FloatArray, centres: FloatArray, *, rounds: int, advance: Advance = _no_report
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return (centres after `rounds` rounds of Lloyd's algorithm, number of points of every centre in the last round).

    points: (rows, features); centres: (centres, features). fixed: additional centres that do not move. A centre without
    points does not move, either. It ends early when no centre moves. advance: as of `spread`,
    after every block of a round.
    """
    columns = len(fixed) + len(centres)
    # The fixed centres are compared once, because neither they nor the points move.
    to_fixed, members = np.full(len(points), -np.inf, np.float32), np.zeros(len(centres), np.int64)
    if len(fixed):
        near_fixed = _nearness(fixed)
        to_fixed = np.concatenate(list(_in_blocks(lambda _, block: near_fixed(block).max(axis=1), points, columns)))
    assigned, value = np.zeros(len(points), np.int64), np.empty(len(points), np.float32)
    moved = np.ones(len(centres), bool)
    for done in range(rounds):
        sums, members, rows = np.zeros(centres.shape), np.zeros(len(centres), np.int64), 0
        for added, joined, some in _in_blocks(_assignment(centres, moved, assigned, value, to_fixed), points, columns):
            sums += added
            members += joined
            rows += some
            advance((done + rows / len(points)) / rounds)
        before = centres
        centres = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], before).astype(np.float32)
        moved = (centres != before).any(axis=1)
        if np.allclose(centres, before):
            return before, members
    return centres, members


def _assignment(
    centres: FloatArray, moved: NDArray[np.bool_], assigned: IntArray, value: FloatArray, to_fixed: FloatArray
) -> Callable[[int, FloatArray], tuple[Any, IntArray, int]]:
    """Return a function from a block to the sums of the points of every centre, their numbers, and the block's size.

    moved: the centres that moved since `assigned`, the centre of each point, and `value`, its nearness, were written;
    both are updated. to_fixed: the nearness of every point to the fixed centres.
    """
    nearness, which = _nearness(centres), np.flatnonzero(moved)
    nearness_of_moved = _nearness(centres[which])

    def joining(at: int, block: FloatArray) -> tuple[Any, IntArray, int]:
        mine, best = assigned[at : at + len(block)], value[at : at + len(block)]
        undecided = np.arange(len(block))
        if 2 * len(which) < len(centres):
            # A point whose centre did not move can only change to one that moved.
            undecided = np.flatnonzero(moved[mine])
            near = nearness_of_moved(block)
            first, nearest = near.argmax(axis=1), near.max(axis=1)
            better = (nearest > best) | ((nearest == best) & (which[first] < mine))
            mine[better], best[better] = which[first[better]], nearest[better]
        near = nearness(block[undecided])
        mine[undecided] = near.argmax(axis=1)
        best[undecided] = near[np.arange(len(undecided)), mine[undecided]]
        joins = best > to_fixed[at : at + len(block)]
        joined, ends = mine[joins], np.concatenate([[0], np.cumsum(joins)])
        chosen = csc_array((np.ones(len(joined), np.float32), joined, ends), shape=(len(centres), len(block)))
        return chosen @ block, np.bincount(joined, minlength=len(centres)), len(block)

    return joining


def medoids(points: FloatArray, centres: FloatArray, *, members: IntArray, without: IntArray) -> list[int]:
    """Return the nearest point to each centre, without repetition and without `without`; largest `members` first.

    Errors: `ValueError` if there are fewer points than centres.
    """
    used = np.zeros(len(points), bool)
    used[without] = True
    if len(points) - int(used.sum()) < len(centres):
        raise ValueError(f"There must be as many points as centres, {len(centres)}.")
    chosen = np.full(len(centres), -1)
    order = np.argsort(-members, kind="stable")
    waiting = order
    for _ in range(_JOINT_ROUNDS):
        nearest = _nearest_of(points, centres[waiting], used)
        # If two centres choose the same point, the one with more members gets it; the other chooses again.
        _, first = np.unique(nearest, return_index=True)
        chosen[waiting[first]] = nearest[first]
        used[nearest[first]] = True
        waiting = np.delete(waiting, first)
    for centre in waiting:
        chosen[centre] = _nearest_of(points, centres[[centre]], used)[0]
        used[chosen[centre]] = True
    return [int(nearest) for nearest in chosen[order]]


def _nearest_of(points: FloatArray, centres: FloatArray, used: NDArray[np.bool_]) -> IntArray:
    """Return the nearest point to each centre that is not used, (centres,); the first one in a tie."""
    nearness = _nearness(centres)

    def nearest(at: int, block: FloatArray) -> tuple[FloatArray, IntArray]:
        near = nearness(block)
        near -= np.square(block).sum(axis=1, keepdims=True) / 2
        near[used[at : at + len(block)]] = -np.inf
        first = near.argmax(axis=0)
        return near[first, np.arange(len(centres))], at + first

    best, position = np.full(len(centres), -np.inf, np.float32), np.full(len(centres), -1)
    for value, row in _in_blocks(nearest, points, len(centres)):
        better = value > best
        best[better], position[better] = value[better], row[better]
    return position


def _nearness(centres: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function from rows to their nearness to every centre, (rows, centres): larger is nearer."""
    turned, half = np.ascontiguousarray(centres.T), np.square(centres).sum(axis=1) / 2

    def nearness(rows: FloatArray) -> FloatArray:
        near = rows @ turned
        near -= half
        return near

    return nearness


def _in_blocks(work: Callable[[int, FloatArray], Any], points: FloatArray, columns: int) -> Iterator[Any]:
    """Yield `work(start, points)` for all blocks in order; their size depends on `columns`."""
    size = max(1, _CELLS // max(1, columns))
    starts = range(0, len(points), size)
    blocks = [points[at : at + size] for at in starts]
    if len(starts) < 2:
        yield from map(work, starts, blocks)
        return
    with ThreadPoolExecutor(effective_n_jobs(-1)) as cores:
        yield from cores.map(work, starts, blocks)
