"""Clusters of more points than fit in memory as a matrix of distances: Lloyd's algorithm and medoids, in blocks."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]
Advance = Callable[[float], None]

_CELLS = 2**20
"""Number of distances in memory at once."""
_ALL = 8192
"""Number of points up to which the distances of all of them may be in memory, 256 MB."""
_FIXED = 64
"""Fixed centres whose distances are in memory at once."""
_TOGETHER = 8
"""Rounds in which all centres choose their points together, before the remaining ones choose one by one."""


def _silent(share: float) -> None:
    """Report nothing."""


def spread(
    points: FloatArray, fixed: FloatArray, more: int, rng: np.random.Generator, *, advance: Advance = _silent
) -> FloatArray:
    """`more` different points, far from each other and from the `fixed` ones: the initial centres of clusters.

    Each is the best of a few points, drawn in proportion to their squared distance from the points before it (greedy
    k-means++, Arthur and Vassilvitskii 2007): the one with the smallest remaining sum of squared distances. advance:
    receives the share of the work that is done.
    """
    squares, turned = np.square(points).sum(axis=1), np.ascontiguousarray(points.T)

    def distances(centres: FloatArray) -> FloatArray:
        away = (-2 * centres) @ turned
        away += squares
        away += np.square(centres).sum(axis=1)[:, None]
        return np.maximum(away, 0, out=away)

    least = np.full(len(points), np.inf, np.float32)
    for at in range(0, len(fixed), _FIXED):
        np.minimum(least, distances(fixed[at : at + _FIXED]).min(axis=0), out=least)
    tries = 2 + int(np.log(len(fixed) + more))
    # Of few points all distances at once take less time than those of every draw.
    known = distances(points) if len(points) <= min(_ALL, 26 * more) else None
    chosen = np.empty(more, np.int64)
    for index in range(more):
        # If all are equal, or there is no point yet, all are equally likely.
        weights = np.cumsum(least, dtype=np.float64) if np.isfinite(least[0]) and least.any() else None
        if weights is None:
            drawn = rng.integers(len(points), size=tries)
        else:
            drawn = np.searchsorted(weights, rng.random(tries) * weights[-1], side="right").clip(max=len(points) - 1)
        away = np.minimum(distances(points[drawn]) if known is None else known[drawn], least)
        best = int(away.sum(axis=1, dtype=np.float64).argmin())
        chosen[index], least = drawn[best], away[best]
        advance((index + 1) / more)
    return points[chosen]


def settled(
    points: FloatArray, fixed: FloatArray, centres: FloatArray, *, rounds: int, advance: Advance = _silent
) -> tuple[FloatArray, NDArray[np.int64]]:
    """(centres after `rounds` rounds of Lloyd's algorithm, number of points of every centre in the last round).

    points: (rows, features); centres: (centres, features). fixed: additional centres that do not move. A centre without
    points does not move, either. It ends early when no centre moves. advance: as of `spread`,
    after every block of a round.
    """
    members, together = np.zeros(len(centres), np.int64), len(fixed) + len(centres)
    # The fixed centres are compared once, because neither they nor the points move.
    taken = np.full(len(points), -np.inf, np.float32)
    if len(fixed):
        taken = np.concatenate([near.max(axis=1) for _, near in _near(points, fixed, together)])
    for done in range(rounds):
        sums, rows = np.zeros(centres.shape), 0
        members[:] = 0
        for block, near in _near(points, centres, together):
            own = near.argmax(axis=1)
            here = np.flatnonzero(near[np.arange(len(block)), own] > taken[rows : rows + len(block)])
            ones = np.ones(len(here), np.float32)
            shape = (len(centres), len(block))
            sums += csr_array((ones, (own[here], here)), shape=shape) @ block
            members += np.bincount(own[here], minlength=len(centres))
            rows += len(block)
            advance((done + rows / len(points)) / rounds)
        moved = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres).astype(np.float32)
        if np.allclose(moved, centres):
            break
        centres = moved
    return centres, members


def medoids(points: FloatArray, centres: FloatArray, *, members: IntArray, without: IntArray) -> list[int]:
    """The nearest point to each centre, none twice and none of `without`; the centres with most `members` first.

    Errors: `ValueError` where there are fewer points than centres.
    """
    taken = np.zeros(len(points), bool)
    taken[without] = True
    if len(points) - int(taken.sum()) < len(centres):
        raise ValueError(f"There must be as many points as centres, {len(centres)}.")
    chosen = np.full(len(centres), -1)
    order = np.argsort(-members, kind="stable")
    left = order
    for _ in range(_TOGETHER):
        nearest = _nearest_of(points, centres[left], taken)
        # If two centres choose the same point, the one with more members gets it; the other chooses again.
        _, first = np.unique(nearest, return_index=True)
        chosen[left[first]] = nearest[first]
        taken[nearest[first]] = True
        left = np.delete(left, first)
    for centre in left:
        chosen[centre] = _nearest_of(points, centres[[centre]], taken)[0]
        taken[chosen[centre]] = True
    return [int(nearest) for nearest in chosen[order]]


def _nearest_of(points: FloatArray, centres: FloatArray, taken: NDArray[np.bool_]) -> IntArray:
    """The nearest point to each centre, (centres,), that is not taken; a tie goes to the first."""
    best, position, at = np.full(len(centres), -np.inf, np.float32), np.full(len(centres), -1), 0
    for block, near in _near(points, centres, len(centres)):
        near -= np.square(block).sum(axis=1, keepdims=True) / 2
        near[taken[at : at + len(block)]] = -np.inf
        nearest = near.argmax(axis=0)
        value = near[nearest, np.arange(len(centres))]
        better = value > best
        best[better], position[better] = value[better], at + nearest[better]
        at += len(block)
    return position


def _near(points: FloatArray, centres: FloatArray, together: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """(points, their similarity to every centre: larger is nearer), in blocks whose size depends on `together`."""
    turned = np.ascontiguousarray(centres.T)
    half = np.square(centres).sum(axis=1) / 2
    some = max(1, _CELLS // max(1, together))
    for at in range(0, len(points), some):
        block = points[at : at + some]
        near = block @ turned
        near -= half
        yield block, near
