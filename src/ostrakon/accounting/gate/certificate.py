"""The certificate of a gate: a finite check of its table gives the unconditional (epsilon, delta)."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import log_ndtr

from ostrakon.accounting.composition.gaussian_dp import LOG_SLACK
from ostrakon.accounting.composition.rdp_to_delta import renyi_delta
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.inverse import least
from ostrakon.validation import InvalidInput, fraction, non_negative, positive, whole

Level = tuple[float, float, float]
"""(probability to pass, Rényi order, largest cost in nats) of one score; the place in the table is the score.

With a grid: (probability to pass, point of the grid, largest delta there).
"""

Points = tuple[float, int]
"""(step, number of points) of the epsilons at which profiles are compared: 0, step, 2 step, ..."""

LEAST = 1e-9
"""The smallest epsilon of a certificate."""

_ROUNDING = 1e-14
"""More than the rounding of a logarithm of two probabilities, and of a probability drawn with 53 bits."""


def require_grid(grid: Sequence[float] | None) -> Points | None:
    """Return the grid, if it is one; None without one."""
    if grid is None:
        return None
    if not isinstance(grid, Sequence) or isinstance(grid, str | bytes) or len(grid) != 2:  # pyright: ignore
        raise InvalidInput(f"grid must be (step, number of points), got {grid!r}.")
    return positive("grid", grid[0]), whole("grid", grid[1], at_least=2)


def require_levels(levels: Sequence[Level], grid: Points | None = None) -> tuple[Level, ...]:
    """Return the table, if it is one: probabilities in (0, 1] that never grow, orders above 1, costs above 0.

    With a grid: points on it, and deltas of at most 1.
    """
    if not isinstance(levels, Sequence) or isinstance(levels, str | bytes) or not len(levels):  # pyright: ignore
        raise InvalidInput(f"levels must be a list of (probability, order, cost), got {levels!r}.")
    table: list[Level] = []
    for level in levels:
        if not isinstance(level, Sequence) or isinstance(level, str | bytes) or len(level) != 3:  # pyright: ignore
            raise InvalidInput(f"levels must be a list of (probability, order, cost), got {level!r} in it.")
        passes, order, cost = (positive("levels", value) for value in level)
        if passes > (table[-1][0] if table else 1):
            raise InvalidInput(f"levels must have probabilities of at most 1 that never grow, got {passes!r}.")
        if grid is None and not order > 1:
            raise InvalidInput(f"levels must have orders above 1, got {order!r}.")
        if grid is not None and not (order.is_integer() and order <= grid[1] and cost <= 1):
            raise InvalidInput(f"levels must have points 1 to {grid[1]} of the grid and deltas up to 1, got {level!r}.")
        table.append((passes, order, cost))
    return tuple(table)


def gate_delta(
    levels: Sequence[Level], *, epsilon: float, prefix_mu: float = 0.0, grid: Sequence[float] | None = None
) -> float:
    """Return an upper bound on the delta at which the gate is (epsilon, delta)-DP, whatever the votes.

    The gate: release all outputs with the probability of the votes' score; else refuse, and release outputs of a
    `prefix_mu`-Gaussian-DP mechanism in their place (0: nothing). Scores beyond the table never pass. grid: of levels
    that limit privacy profiles.

    Guarantee: an upper bound for every pair of neighbours, whose scores differ by at most 1 (`score.level`).
    Source: docs/mathematics.md D6; Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    points = require_grid(grid)
    table = require_levels(levels, points)
    epsilon, mu = non_negative("epsilon", epsilon), non_negative("prefix_mu", prefix_mu)
    p, order, cost = np.array(table).T
    after = np.append(p[1:], 0.0)
    r, r_after = 1 - p, 1 - after
    with np.errstate(divide="ignore"):
        step = np.log(p) - np.log(after)
        grows = np.log(r_after) - np.log(r)
    grows = np.where(r > 0, grows, np.where(r_after > 0, np.inf, 0.0))
    released = _by_order if points is None else _by_point(points[0])
    worse = p * released(cost, epsilon - step, order) + r * _gaussian_delta(mu, epsilon + grows)
    same = p * released(cost, np.full_like(p, epsilon), order) + r * _gaussian_delta(mu, np.full_like(p, epsilon))
    better = after * released(cost, epsilon + step, order) + r_after * _gaussian_delta(mu, epsilon - grows)
    never = float(_gaussian_delta(mu, np.array([epsilon]))[0])
    largest = max(float(np.max([worse, same, better])), never)
    return min(1.0, largest * (1 + LOG_SLACK) + _ROUNDING * (1 + math.exp(min(epsilon, 30.0))) / 8)


def _by_point(step: float) -> Callable[[FloatArray, FloatArray, FloatArray], FloatArray]:
    """Return delta of the released part by level: its limit from the level's point on, and 1 before."""

    def released(delta: FloatArray, epsilon: FloatArray, point: FloatArray) -> FloatArray:
        return np.where(np.isposinf(epsilon), 0.0, np.where(epsilon - _ROUNDING >= point * step, delta, 1.0))

    return released


def _by_order(cost: FloatArray, epsilon: FloatArray, order: FloatArray) -> FloatArray:
    """Return delta of the released part by level."""
    result = np.ones(len(cost))
    for a in np.unique(order):
        here = np.flatnonzero((order == a) & (epsilon > -50) & (epsilon < np.inf))
        result[here] = np.minimum(renyi_delta(cost[here], epsilon[here] - _ROUNDING, float(a)), 1.0)
    return np.where(np.isposinf(epsilon), 0.0, result)


def gate_epsilon(
    levels: Sequence[Level], *, delta: float, prefix_mu: float = 0.0, grid: Sequence[float] | None = None
) -> float:
    """Return the smallest epsilon, at least `LEAST`, that `gate_delta` certifies at `delta`, rounded upward.

    inf if none up to 1000 does.
    """
    delta = fraction("delta", delta)

    def cost(epsilon: float) -> float:
        return gate_delta(levels, epsilon=epsilon, prefix_mu=prefix_mu, grid=grid)

    # At a large delta every epsilon is enough, and bisection would run to the smallest float.
    if cost(LEAST) <= delta:
        return LEAST
    return least(cost, delta, start=1.0, tolerance=1e-7, furthest=1000)


def _gaussian_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return delta of a mu-Gaussian-DP mechanism at any real epsilon."""
    if mu == 0:
        return -np.expm1(np.minimum(epsilon, 0.0))
    high = mu / 2 - epsilon / mu
    # The rounding error of the difference is added. An infinite epsilon has no difference.
    with np.errstate(invalid="ignore"):
        first, second = log_ndtr(high), epsilon + log_ndtr(high - mu)
        result = np.exp(first) * np.clip(-np.expm1(np.minimum(second - first, 0.0)) + 1e-12, 0.0, 1.0)
    return np.where(np.isposinf(epsilon), 0.0, np.where(np.isneginf(epsilon), 1.0, result))
