"""The envelope by adaptive composition: the privacy profile of every data set within d teachers, two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from ostrakon.accounting.composition.adaptive import Family, Grid, best_of, extend, left_of, stencils_of
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.supremum import two_class_law
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray, Votes

_SHARE = 0.03
"""The chords add at most this share of the run's variance, divided by six."""

_FEWEST_POINTS = 400
_ROUNDING = 1e-13
_UNDERFLOW = 1e-290
_BLOCK = 256
_SECONDS = 1e-7
"""What Python needs for one product."""


def has_profiles(mechanism: Mechanism, *, teachers: int, classes: int, abstentions: bool) -> bool:
    """Return whether `ProfileEnvelope` covers such votes: two classes, no abstentions, one law for every query."""
    if classes != 2 or abstentions or isinstance(mechanism, StatefulMechanism) or mechanism.fixed_queries is not None:
        return False
    return answer_law(mechanism, teachers=teachers, classes=classes) is not None


def grid_around(epsilon: float, *, queries: int, delta: float) -> Grid:
    """Return the grid for profiles near `epsilon` and `delta`, from public numbers."""
    deviation = epsilon / math.sqrt(2 * max(math.log(1 / delta), 0.5))
    length = 1.1 * epsilon + 0.5 * deviation
    step = min(deviation * math.sqrt(_SHARE / queries), length / _FEWEST_POINTS)
    return Grid(step=float(f"{step:.3g}"), count=math.ceil(length / step))


@dataclass(frozen=True, eq=False)
class ProfileEnvelope:
    """U(D, d) as a profile: delta at the points of a grid. Private, if the votes are.

    Query i's family holds the pairs of every histogram within d of the query's own with all its neighbours, in the
    order of the queries. V is the supremum of P(S) - y Q(S) with P in the ball and Q a neighbour, W the reverse.

    top: the winner's votes by query. first, last: the rows of every pair's stencils by the top count. known: profiles
    that were computed, by distance.

    Guarantee: U(D, d) never decreases in d; U(D', d) <= U(D, d + 1) for neighbours, to the last bit: rows of the
    smaller ball are rows of the larger one, and sums of products of non-negative floats and maxima are monotone.
    Source: docs/adaptive.md.
    """

    grid: Grid
    teachers: int
    top: IntArray
    rows: tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray, int]
    known: dict[int, FloatArray]

    @classmethod
    def of(cls, votes: Votes, mechanism: Mechanism, grid: Grid) -> Self:
        """Return the envelope of these votes; `has_profiles` must hold."""
        n = votes.teachers
        law = np.exp(two_class_law(mechanism, n))
        # Of every top count M: a vote lost, then a vote gained. Both classes give the same pairs.
        tops = np.repeat(np.arange((n + 1) // 2, n + 1), 2)[:-1]
        after = tops + np.where(np.arange(len(tops)) % 2, 1, -1)
        stencils = stencils_of(Family(p=law[tops], q=law[after]), grid)
        return cls(grid, n, votes.top, stencils.parts(), {})

    def at(self, distance: int) -> FloatArray:
        """Return delta at the points of the grid, shape (count + 1,)."""
        d = min(distance, self.teachers)
        if d not in self.known:
            lowest = (self.teachers + 1) // 2
            first = 2 * (np.maximum(self.top - d, lowest) - lowest)
            pairs = (len(self.rows[4]) - 1) // 2
            last = np.minimum(2 * (np.minimum(self.top + d, self.teachers) - lowest) + 2, pairs)
            composed = _composed.worth(_SECONDS * self.work(d))
            self.known[d] = composed(first, last, self.grid.step, self.grid.count, *self.rows)
        return self.known[d]

    def work(self, distance: int) -> float:
        """Return the number of products of a profile at this distance."""
        pairs = np.minimum(self.top + distance, self.teachers) - np.maximum(self.top - distance, self.teachers // 2)
        return 24.0 * self.grid.count * float(pairs.sum() + len(pairs))

    def exceeds(self, distance: int, point: int, delta: float) -> bool:
        """Return whether U(D, d) at a point is above delta; profiles of other distances are asked first."""
        beyond = [d for d in self.known if d >= distance]
        if beyond and self.known[min(beyond)][point] <= delta:
            return False
        below = [d for d in self.known if d <= distance]
        if below and self.known[max(below)][point] > delta:
            return True
        return bool(self.at(distance)[point] > delta)


@compiled
def _composed(
    first: IntArray, last: IntArray, h: float, count: int, near: IntArray, far: IntArray, near_weight: FloatArray,
    far_weight: FloatArray, constant: FloatArray, reach: int,
) -> FloatArray:  # fmt: skip
    """Return the larger of V and W at every point of the grid; the rows first .. last - 1 are a query's pairs."""
    middle, pairs = count + reach, (len(constant) - 1) // 2
    wide, sum_, left = np.empty(2 * middle + 1), np.empty(_BLOCK), left_of(h, middle + 1)
    forward, backward = np.zeros(count + 1), np.zeros(count + 1)
    ahead, back = np.empty(count + 1), np.empty(count + 1)
    for query in range(len(first) - 1, -1, -1):
        low, high = first[query], last[query]
        ahead[:] = 0.0
        back[:] = 0.0
        extend(forward, backward, left, wide)
        best_of(wide, middle, near, far, near_weight, far_weight, constant, low, high, ahead, sum_)
        extend(backward, forward, left, wide)
        best_of(wide, middle, near, far, near_weight, far_weight, constant, pairs + low, pairs + high, back, sum_)
        for j in range(count + 1):
            forward[j] = min(1.0, ahead[j] * (1.0 + _ROUNDING) + _UNDERFLOW)
            backward[j] = min(1.0, back[j] * (1.0 + _ROUNDING) + _UNDERFLOW)
    return np.maximum(forward, backward)
