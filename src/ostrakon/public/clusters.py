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
    found: dict[int, int] = {}
    taken = np.zeros(len(points), bool)
    taken[without] = True
    order = np.argsort(-members, kind="stable")
    left = order
    while len(left):
        best, place = np.full(len(left), -np.inf, np.float32), np.full(len(left), -1)
        at = 0
        for block, near in _near(points, centres[left]):
            near -= np.square(block).sum(axis=1, keepdims=True) / 2
            near[taken[at : at + len(block)]] = -np.inf
            nearest = near.argmax(axis=0)
            value = near[nearest, np.arange(len(left))]
            better = value > best
            best[better], place[better] = value[better], at + nearest[better]
            at += len(block)
        if not len(points) or (place < 0).any():
            raise ValueError(f"There must be as many points as centres, {len(centres)}.")
        # Where two centres share a point it goes to the one with more members; the other looks again.
        _, first = np.unique(place, return_index=True)
        found.update({int(left[at]): int(place[at]) for at in first})
        taken[place[first]] = True
        left = np.delete(left, first)
    return [found[int(centre)] for centre in order]


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
