"""The exact privacy profile of an adversary that chooses every query after it has seen all earlier answers.

A step of a run is a `Family`: pairs (P, Q) of laws of one answer, under two neighbouring data sets. The adversary
chooses one pair of the family for every step. With V_0(y) = max(1 - y, 0) and

    V_k(y) = sup over (P, Q) of sum_o P(o) V_{k-1}(y Q(o) / P(o)),

k steps are (epsilon, V_k(e^epsilon))-differentially private, and no smaller delta holds. Proof: docs/adaptive.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.numerics.inverse import least
from ostrakon.validation import InvalidInput, fraction, non_negative, positive, whole
from ostrakon.votes import IntArray

RELATIVE_ERROR = 1e-10
"""Charged to every probability of a family: more than the relative error of any outcome law here."""

_ROUNDING = 1e-13
"""Charged to every value of a step: more than the rounding of a sum of a few hundred non-negative terms."""

_UNDERFLOW = 1e-290
"""Added to every value of a step: more than the probabilities that floats cannot hold."""

_MAX_LENGTHS = 4
"""Number of grid lengths up to which likelihood ratios are kept; beyond, the value at the nearer end is used."""

_BLOCK = 256
_SECONDS = 4e-7
"""Python's time for one outcome at one point of the grid; numba needs a thousandth."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Pairs of laws among which the adversary chooses one for a step.

    Parameters
    ----------
    p, q : array, shape (pairs, outcomes)
        Probabilities of the outcomes under the two data sets, padded with zeros.
    low, high : array of the same shape, optional
        Bounds of ln(q/p) if an outcome represents several; every refinement within the bounds is covered.
    symmetric : bool
        Whether p and q contain the exchanged pairs (q, p); otherwise they are added.
    common_p, common_q : array, shape (outcomes,), optional
        Outcomes that belong to every pair; exchanging p and q must give the same set.

    Raises
    ------
    InvalidInput
        For shapes that differ, and values that are NaN, negative or above 1 (except for rounding).

    Notes
    -----
    Probabilities may add up to more than 1 in p and to less in q: p V(y q / p) grows with p and falls with q, so a pair
    with a larger p and a smaller q is an upper bound. `RELATIVE_ERROR` charges rounding in this way.
    """

    p: FloatArray
    q: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    common_p: FloatArray | None = None
    common_q: FloatArray | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.p.ndim != 2 or self.p.shape != self.q.shape:
            raise InvalidInput(f"p and q must have one shape (pairs, outcomes), got {self.p.shape} and {self.q.shape}.")
        for name in ("p", "q", "common_p", "common_q"):
            values = getattr(self, name)
            if values is not None and not ((values >= 0) & (values <= 1 + 1e-9)).all():
                raise InvalidInput(f"{name} must hold probabilities between 0 and 1.")
        if (self.low is None) != (self.high is None):
            raise InvalidInput("low and high must be given together.")
        if self.low is not None and self.high is not None and not (self.low <= self.high).all():
            raise InvalidInput("low must be at most high.")


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The points y = e^(j step), j = 0 .. count, at which profiles are kept. Points y < 1 follow by symmetry."""

    step: float
    count: int

    def __post_init__(self) -> None:
        positive("step", self.step)
        whole("count", self.count, at_least=2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """An upper bound on delta at epsilon = j step, j = 0 .. count: shape (count + 1,).

    The true profile is convex in e^epsilon, so chords between the points are upper bounds too; beyond the last point
    its value is one.
    """

    grid: Grid
    values: FloatArray

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the delta of (epsilon, delta)-DP; epsilon at least 0."""
        position = non_negative("epsilon", epsilon) / self.grid.step
        j = math.floor(position * (1 - 1e-15))
        if j >= self.grid.count:
            return float(self.values[-1])
        share = math.expm1((position - j) * self.grid.step) / math.expm1(self.grid.step) * (1 - 1e-12)
        share = min(max(share, 0.0), 1.0)
        left, right = float(self.values[j]), float(self.values[j + 1])
        return min(1.0, (left + share * (right - left)) * (1 + _ROUNDING))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the bound is at most `delta`; inf if it is beyond the grid."""
        delta = fraction("delta", delta)
        below = np.flatnonzero(self.values <= delta)
        if not len(below):
            return math.inf
        if below[0] == 0:
            return 0.0
        end = int(below[0]) * self.grid.step
        return min(end, least(self.delta, delta, start=end, tolerance=1e-9, furthest=end))


def start_profile(grid: Grid) -> Profile:
    """Return the profile of a run without steps: 0 at every epsilon."""
    return Profile(grid=grid, values=np.zeros(grid.count + 1))


def compose_adaptively(
    steps: Sequence[tuple[Family, int]], *, grid: Grid, after: Profile | None = None, slack: float = 0.0
) -> Profile:
    """Return an upper bound on the privacy profile of a run whose steps are chosen adaptively.

    Parameters
    ----------
    steps : sequence of (Family, int)
        Families and numbers of steps, in the order of the run.
    grid : Grid
        Points of the profile.
    after : Profile, optional
        The profile of what follows these steps, on the same grid.
    slack : float
        Probability that the families do not cover; it is added to every value of a step, times 1 + y.

    Returns
    -------
    Profile
        Never below the exact optimum over all adaptive strategies.

    Notes
    -----
    Proof: every V_k is convex in y, so a chord between two points of the grid is an upper bound; right of the grid
    V_k falls; left of y = 1 the exchanged pairs give V(y) = 1 - y + y V(1/y). Rounding is charged upward.

    Examples
    --------
    >>> coin = Family(p=np.array([[0.75, 0.25]]), q=np.array([[0.25, 0.75]]))
    >>> profile = compose_adaptively([(coin, 2)], grid=Grid(step=math.log(3) / 8, count=40))
    >>> round(profile.delta(0.0), 6)  # two answers of randomized response at epsilon = ln 3
    0.5
    """
    if after is not None and after.grid != grid:
        raise InvalidInput("after must be a profile on the same grid.")
    values = (after or start_profile(grid)).values
    for family, count in reversed(steps):
        count = whole("count", count, at_least=0)
        stencils = stencils_of(family, grid)
        work = _SECONDS * count * grid.count * stencils.near.size
        added = slack * (1 + math.exp(grid.count * grid.step)) + _UNDERFLOW
        values = _run.worth(work)(values, grid.step, count, *stencils.parts(), added)
    return Profile(grid=grid, values=np.where(values >= 0, values, np.inf))


@dataclass(frozen=True, eq=False)
class Stencils:
    """Outcomes as two points of the grid: at point j they add near_weight V[j + near] + far_weight V[j + far].

    Arrays of the shape (pairs + 1, outcomes); the last row is of the common outcomes. constant: shape (pairs + 1,),
    added to a pair's value. reach: the largest |near| or |far|, and 1.
    """

    near: IntArray
    far: IntArray
    near_weight: FloatArray
    far_weight: FloatArray
    constant: FloatArray
    reach: int

    def parts(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray, int]:
        """Return the arguments of the compiled loops."""
        return self.near, self.far, self.near_weight, self.far_weight, self.constant, self.reach


def stencils_of(family: Family, grid: Grid) -> Stencils:
    """Return the stencils of the family, its exchanged pairs, and the common outcomes as the last row."""
    p, q = family.p, family.q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(q) - np.log(p)
    low = ratio if family.low is None else np.fmin(family.low, ratio)
    high = ratio if family.high is None else np.fmax(family.high, ratio)
    if not family.symmetric:
        p, q = np.vstack([p, q]), np.vstack([q, p])
        low, high = np.vstack([low, -high]), np.vstack([high, -low])
    extra = 0 if family.common_p is None else max(0, len(family.common_p) - p.shape[1])
    p, q, low, high = (np.pad(x, ((0, 1), (0, extra))) for x in (p, q, low, high))
    if family.common_p is not None and family.common_q is not None:
        width = len(family.common_p)
        p[-1, :width], q[-1, :width] = family.common_p, family.common_q
        with np.errstate(divide="ignore", invalid="ignore"):
            low[-1] = high[-1] = np.log(q[-1]) - np.log(p[-1])
    return two_points(p, q, low, high, grid)


def two_points(p: FloatArray, q: FloatArray, low: FloatArray, high: FloatArray, grid: Grid) -> Stencils:
    """Return stencils of outcomes with ln(q/p) in [low, high], as chords between points of the grid."""
    h, cap = grid.step, _MAX_LENGTHS * grid.count
    # Every ratio falls by twice the charged error.
    p_up, q_down = p * (1 + RELATIVE_ERROR), q * (1 - RELATIVE_ERROR)
    impossible = ~(p > 0)
    with np.errstate(all="ignore"):
        near = np.floor((low - 2.1 * RELATIVE_ERROR) / h)
        far = np.maximum(np.ceil((high - 1.9 * RELATIVE_ERROR) / h), near + 1)
    # A ratio below the grid: V is at most 1. Above it: V falls, so all of p at the nearer point is an upper bound.
    low_ratio, high_ratio = ~impossible & ~(near >= -cap), ~impossible & (far > cap)
    regular = ~(impossible | low_ratio | high_ratio)
    near = np.where(regular, near, np.where(high_ratio, np.clip(near, -cap, cap), 0.0))
    far = np.where(regular, far, near)
    with np.errstate(all="ignore"):
        below, above = np.exp(near * h), np.exp(far * h)
        share = np.where(regular, (q_down / p_up - below) / (above - below), 0.0)
    share = np.clip(np.where(np.isnan(share), 0.0, share), 0.0, 1.0) * (1 - 1e-12)
    weight = np.where(impossible | low_ratio, 0.0, p_up)
    constant = np.where(low_ratio, p_up, 0.0).sum(axis=1)
    reach = int(max(np.abs(near).max(), np.abs(far).max())) + 1
    near, far = near.astype(np.int64), far.astype(np.int64)
    return Stencils(near, far, weight * (1 - share), weight * share, constant, reach)


@compiled
def left_of(h: float, size: int) -> FloatArray:
    """Return 1 - y and y at y = e^(-j h), shape (2, size)."""
    result = np.empty((2, size))
    for j in range(size):
        result[0, j], result[1, j] = -math.expm1(-j * h), math.exp(-j * h)
    return result


@compiled
def extend(values: FloatArray, exchanged: FloatArray, left: FloatArray, wide: FloatArray) -> None:
    """Write the profile at j = -(count + reach) .. count + reach to `wide`: V(y) = 1 - y + y W(1/y) left of 0.

    W is of the exchanged laws. left: `left_of` with count + reach + 1 points.
    """
    count = len(values) - 1
    middle = left.shape[1] - 1
    for j in range(middle + 1):
        position = min(j, count)
        wide[middle - j] = (left[0, j] + left[1, j] * exchanged[position]) * (1 + 1e-14)
        wide[middle + j] = values[position]


@compiled
def best_of(
    wide: FloatArray,
    middle: int,
    near: IntArray,
    far: IntArray,
    near_weight: FloatArray,
    far_weight: FloatArray,
    constant: FloatArray,
    first: int,
    last: int,
    best: FloatArray,
    sum_: FloatArray,
) -> None:
    """Raise `best` to the largest value of the pairs first .. last - 1 at every point of the grid."""
    size = len(best)
    outcomes = near.shape[1]
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        n = stop - start
        for r in range(first, last):
            for i in range(n):
                sum_[i] = constant[r]
            for o in range(outcomes):
                a, b = near_weight[r, o], far_weight[r, o]
                if a == 0.0 and b == 0.0:
                    continue
                left = wide[middle + start + near[r, o] : middle + start + near[r, o] + n]
                right = wide[middle + start + far[r, o] : middle + start + far[r, o] + n]
                for i in range(n):
                    sum_[i] += a * left[i] + b * right[i]
            target = best[start:stop]
            for i in range(n):
                target[i] = max(target[i], sum_[i])


@compiled
def _run(
    values: FloatArray,
    h: float,
    steps: int,
    near: IntArray,
    far: IntArray,
    near_weight: FloatArray,
    far_weight: FloatArray,
    constant: FloatArray,
    reach: int,
    slack: float,
) -> FloatArray:
    count = len(values) - 1
    middle = count + reach
    wide, sum_ = np.empty(2 * middle + 1), np.empty(_BLOCK)
    values = values.copy()
    pairs = len(constant) - 1
    common = np.empty(count + 1)
    left = left_of(h, middle + 1)
    for _ in range(steps):
        extend(values, values, left, wide)
        values[:] = 0.0
        best_of(wide, middle, near, far, near_weight, far_weight, constant, 0, pairs, values, sum_)
        common[:] = 0.0
        best_of(wide, middle, near, far, near_weight, far_weight, constant, pairs, pairs + 1, common, sum_)
        for j in range(count + 1):
            values[j] = min(1.0, (values[j] + common[j]) * (1.0 + _ROUNDING) + slack)
    return values
