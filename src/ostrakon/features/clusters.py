"""Clusters of more points than all distances fit memory for: centres that settle, and medoids, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]

_CELLS = 2**20
"""Of points by centres, whose distances are held at once."""
_FIXED = 64
"""Fixed centres whose distances are held at once."""
_TOGETHER = 8
"""How often all centres look for their points together, before those that are left do one by one."""


def spread(points: FloatArray, fixed: FloatArray, more: int, rng: np.random.Generator) -> FloatArray:
    """`more` different points, far from each other and from the `fixed` ones: where clusters begin.

    Each is the best of a few points, drawn in proportion to the squared distance from what is there (greedy k-means++,
    Arthur and Vassilvitskii 2007): the one that leaves the least sum of squared distances.
    """
    squares = np.square(points).sum(axis=1)

    def distances(centres: FloatArray) -> FloatArray:
        away = centres @ points.T
        away *= -2
        away += squares
        away += np.square(centres).sum(axis=1)[:, None]
        return np.maximum(away, 0, out=away)

    least = np.full(len(points), np.inf, np.float32)
    for at in range(0, len(fixed), _FIXED):
        np.minimum(least, distances(fixed[at : at + _FIXED]).min(axis=0), out=least)
    tries = 2 + int(np.log(len(fixed) + more))
    chosen = np.empty(more, np.int64)
    for place in range(more):
        # Where all are alike, or nothing is there yet, all are as likely.
        weights = np.cumsum(least, dtype=np.float64) if np.isfinite(least[0]) and least.any() else None
        if weights is None:
            drawn = rng.integers(len(points), size=tries)
        else:
            drawn = np.searchsorted(weights, rng.random(tries) * weights[-1], side="right").clip(max=len(points) - 1)
        away = np.minimum(distances(points[drawn]), least)
        best = int(away.sum(axis=1, dtype=np.float64).argmin())
        chosen[place], least = drawn[best], away[best]
    return points[chosen]


def settled(
    points: FloatArray, fixed: FloatArray, centres: FloatArray, *, rounds: int
) -> tuple[FloatArray, NDArray[np.int64]]:
    """(centres after so many rounds of Lloyd's algorithm, how many points each had in the last one).

    points: (rows, features); centres: (centres, features). fixed: centres that stay where they are, and have their own
    points. A centre without points stays, too. It ends early where no centre moves.
    """
    members = np.zeros(len(centres), np.int64)
    for _ in range(rounds):
        sums = np.zeros(centres.shape)
        members[:] = 0
        for block, near in _near(points, np.concatenate([fixed, centres])):
            own = near.argmax(axis=1) - len(fixed)
            here = np.flatnonzero(own >= 0)
            ones = np.ones(len(here), np.float32)
            shape = (len(centres), len(block))
            sums += csr_array((ones, (own[here], here)), shape=shape) @ block
            members += np.bincount(own[here], minlength=len(centres))
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
    found = np.full(len(centres), -1)
    order = np.argsort(-members, kind="stable")
    left = order
    for _ in range(_TOGETHER):
        place = _nearest_of(points, centres[left], taken)
        # Where two centres share a point it goes to the one with more members; the other looks again.
        _, first = np.unique(place, return_index=True)
        found[left[first]] = place[first]
        taken[place[first]] = True
        left = np.delete(left, first)
    for centre in left:
        found[centre] = _nearest_of(points, centres[[centre]], taken)[0]
        taken[found[centre]] = True
    return [int(place) for place in found[order]]


def _nearest_of(points: FloatArray, centres: FloatArray, taken: NDArray[np.bool_]) -> IntArray:
    """The nearest point to each centre, (centres,), of those that are not taken; the first of those as near."""
    best, place, at = np.full(len(centres), -np.inf, np.float32), np.full(len(centres), -1), 0
    for block, near in _near(points, centres):
        near -= np.square(block).sum(axis=1, keepdims=True) / 2
        near[taken[at : at + len(block)]] = -np.inf
        nearest = near.argmax(axis=0)
        value = near[nearest, np.arange(len(centres))]
        better = value > best
        best[better], place[better] = value[better], at + nearest[better]
        at += len(block)
    return place


def _near(points: FloatArray, centres: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """(some points, how near each is to every centre: the larger, the nearer), block by block."""
    turned = np.ascontiguousarray(centres.T)
    half = np.square(centres).sum(axis=1) / 2
    some = max(1, _CELLS // max(1, len(centres)))
    for at in range(0, len(points), some):
        block = points[at : at + some]
        near = block @ turned
        near -= half
        yield block, near
