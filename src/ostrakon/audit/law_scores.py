"""Whole-number scores of a run, sums over its independent queries, with their exact law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray

_GRID = 2**16
_LARGEST = 4.0
"""Weights beyond it count as it: what is so rare says little in a sum."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """of: from answers (runs, queries) to one integer for each run. tail: by the law, P(score >= i), i = 0, 1 ..."""

    of: Callable[[IntArray], IntArray]
    tail: FloatArray

    def probability(self, *, sign: int, threshold: IntArray) -> FloatArray:
        """Of sign * score >= threshold, to about 1e-10, elementwise."""
        level = threshold if sign > 0 else 1 - threshold
        at_least = np.append(self.tail, 0.0)[np.clip(level, 0, len(self.tail))]
        return at_least if sign > 0 else 1 - at_least


def weighted_score(weights: FloatArray, law: FloatArray) -> Score:
    """The sum over the queries of the weight of each answer, in whole steps of a grid.

    weights, law: of every outcome of every query, (queries, classes + 1), the last column for no answer.
    """
    clipped = np.clip(weights, -_LARGEST, _LARGEST)
    above = clipped - clipped.min(axis=1, keepdims=True)
    longest = float(above.max(axis=1).sum())
    places = np.floor(above * ((_GRID - 1) / longest if longest > 0 else 0.0)).astype(np.int64)
    rows = np.arange(len(places))
    # Index -1 is the last column: no answer.
    return Score(of=lambda answers: places[rows, answers].sum(axis=1), tail=_tail(places, law))


def agreement_score(law: FloatArray) -> Score:
    """How many neighbouring queries (first and second, third and fourth ...) got the same answer."""
    even = len(law) - len(law) % 2
    equal = (law[0:even:2] * law[1:even:2]).sum(axis=1)
    return Score(
        of=lambda answers: (answers[:, 0:even:2] == answers[:, 1:even:2]).sum(axis=1),
        tail=_tail(np.tile([0, 1], (len(equal), 1)), np.column_stack([1 - equal, equal])),
    )


def _tail(places: IntArray, law: FloatArray) -> FloatArray:
    """P(sum >= i) for a sum of independent terms, those of row r at `places[r]` with probabilities `law[r]`."""
    size = int(places.max(axis=1).sum()) + 1
    length = 2 ** (size - 1).bit_length()
    kinds, often = np.unique(np.column_stack([places, law]), axis=0, return_counts=True)
    transformed = np.ones(length // 2 + 1, dtype=np.complex128)
    for kind, times in zip(kinds, often, strict=True):
        step, mass = np.split(kind, 2)
        transformed *= np.fft.rfft(np.bincount(step.astype(np.int64), weights=mass, minlength=length)) ** int(times)
    mass = np.fft.irfft(transformed, length)[:size]
    return np.clip(np.cumsum(mass[::-1])[::-1], 0.0, 1.0)
