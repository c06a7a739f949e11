"""The certificate of a gate: a finite check of its table gives the unconditional (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

from ostrakon.accounting.composition.gaussian_dp import LOG_SLACK
from ostrakon.accounting.composition.rdp_to_delta import renyi_delta
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.inverse import least
from ostrakon.validation import InvalidInput, fraction, non_negative, positive

Level = tuple[float, float, float]
"""(probability to pass, Rényi order, largest cost in nats) of one score; the place in the table is the score."""

LEAST = 1e-9
"""The smallest epsilon of a certificate."""

_ROUNDING = 1e-14
"""More than the rounding of a logarithm of two probabilities, and of a probability drawn with 53 bits."""


def require_levels(levels: Sequence[Level]) -> tuple[Level, ...]:
    """The table, if it is one: probabilities in (0, 1] that never grow, orders above 1, costs above 0."""
    if not isinstance(levels, Sequence) or isinstance(levels, str | bytes) or not len(levels):  # pyright: ignore
        raise InvalidInput(f"levels must be a list of (probability, order, cost), got {levels!r}.")
    table: list[Level] = []
    for level in levels:
        if not isinstance(level, Sequence) or isinstance(level, str | bytes) or len(level) != 3:  # pyright: ignore
            raise InvalidInput(f"levels must be a list of (probability, order, cost), got {level!r} in it.")
        passes, order, cost = (positive("levels", value) for value in level)
        if passes > (table[-1][0] if table else 1):
            raise InvalidInput(f"levels must have probabilities of at most 1 that never grow, got {passes!r}.")
        if not order > 1:
            raise InvalidInput(f"levels must have orders above 1, got {order!r}.")
        table.append((passes, order, cost))
    return tuple(table)


def gate_delta(levels: Sequence[Level], *, epsilon: float, prefix_mu: float = 0.0) -> float:
    """An upper bound on the delta at which the gate is (epsilon, delta)-DP, whatever the votes.

    The gate: release all outputs with the probability of the votes' score; else refuse, and release outputs of a
    `prefix_mu`-Gaussian-DP mechanism in their place (0: nothing). Scores beyond the table never pass.

    Guarantee: an upper bound for every pair of neighbours, whose scores differ by at most 1 (`score.level`).
    Source: docs/mathematics.md D6; Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    table = require_levels(levels)
    epsilon, mu = non_negative("epsilon", epsilon), non_negative("prefix_mu", prefix_mu)
    p, order, cost = np.array(table).T
    after = np.append(p[1:], 0.0)
    r, r_after = 1 - p, 1 - after
    with np.errstate(divide="ignore"):
        step = np.log(p) - np.log(after)
        grows = np.log(r_after) - np.log(r)
    grows = np.where(r > 0, grows, np.where(r_after > 0, np.inf, 0.0))
    worse = p * _released(cost, epsilon - step, order) + r * _gaussian_delta(mu, epsilon + grows)
    same = p * _released(cost, np.full_like(p, epsilon), order) + r * _gaussian_delta(mu, np.full_like(p, epsilon))
    better = after * _released(cost, epsilon + step, order) + r_after * _gaussian_delta(mu, epsilon - grows)
    never = float(_gaussian_delta(mu, np.array([epsilon]))[0])
    largest = max(float(np.max([worse, same, better])), never)
    return min(1.0, largest * (1 + LOG_SLACK) + _ROUNDING * (1 + math.exp(min(epsilon, 30.0))) / 8)


def _released(cost: FloatArray, epsilon: FloatArray, order: FloatArray) -> FloatArray:
    """delta of the released part by level."""
    result = np.ones(len(cost))
    for a in np.unique(order):
        here = np.flatnonzero((order == a) & (epsilon > -50) & (epsilon < np.inf))
        result[here] = np.minimum(renyi_delta(cost[here], epsilon[here] - _ROUNDING, float(a)), 1.0)
    return np.where(np.isposinf(epsilon), 0.0, result)


def gate_epsilon(levels: Sequence[Level], *, delta: float, prefix_mu: float = 0.0) -> float:
    """The smallest epsilon, at least `LEAST`, that `gate_delta` certifies at `delta`, rounded upward.

    inf if none up to 1000 does.
    """
    delta, table = fraction("delta", delta), require_levels(levels)

    def cost(epsilon: float) -> float:
        return gate_delta(table, epsilon=epsilon, prefix_mu=prefix_mu)

    # At a large delta every epsilon is enough, and bisection would run to the smallest float.
    if cost(LEAST) <= delta:
        return LEAST
    return least(cost, delta, start=1.0, tolerance=1e-7, furthest=1000)


def _gaussian_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """delta of a mu-Gaussian-DP mechanism at any real epsilon."""
    if mu == 0:
        return -np.expm1(np.minimum(epsilon, 0.0))
    high = mu / 2 - epsilon / mu
    # The rounding error of the difference is added. An infinite epsilon has no difference.
    with np.errstate(invalid="ignore"):
        first, second = log_ndtr(high), epsilon + log_ndtr(high - mu)
        result = np.exp(first) * np.clip(-np.expm1(np.minimum(second - first, 0.0)) + 1e-12, 0.0, 1.0)
    return np.where(np.isposinf(epsilon), 0.0, np.where(np.isneginf(epsilon), 1.0, result))
