"""Composition of the checks inside the mechanisms that answer exactly, up to a failure counted in delta.

The accountant has both theorems, too, one layer up, where mechanisms may not reach; a test holds them equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

# The computed logarithms of delta are good to 1e-12; every root is found with this much against us.
_SLACK = 1e-9


def pure_checks_epsilon(epsilon: float, *, checks: int, log_delta: float) -> float:
    """Smallest e such that `checks` adaptive epsilon-DP checks are (e, exp(log_delta))-DP; rounded upward.

    Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3 (randomized response is the worst epsilon-DP check).
    """
    i = np.arange(checks + 1)
    loss = (checks - 2 * i) * epsilon
    log_choose = gammaln(checks + 1) - gammaln(i + 1) - gammaln(checks - i + 1)
    log_weight = log_choose - i * epsilon - checks * math.log1p(math.exp(-epsilon))

    def log_delta_at(target: float) -> float:
        above = loss > target
        if not above.any():
            return -math.inf
        terms = log_weight[above] + np.log(-np.expm1(target - loss[above]))
        return float(np.asarray(logsumexp(terms)))

    return _smallest(log_delta_at, high=checks * epsilon, log_delta=log_delta)


def gaussian_checks_epsilon(mu: float, *, log_delta: float) -> float:
    """Smallest e such that a mu-Gaussian-DP mechanism is (e, exp(log_delta))-DP; rounded upward.

    Source: Dong, Roth and Su 2022, Corollary 2.13.
    """

    def log_delta_at(target: float) -> float:
        first = float(log_ndtr(mu / 2 - target / mu))
        ratio = target + float(log_ndtr(-mu / 2 - target / mu)) - first
        return first + (math.log(-math.expm1(ratio)) if ratio < 0 else 0.0)

    # mu-Gaussian-DP is mu^2/2-zCDP, which bounds the root from above.
    high = mu * mu / 2 + mu * math.sqrt(2 * (_SLACK - log_delta))
    return _smallest(log_delta_at, high=high, log_delta=log_delta)


def _smallest(log_delta_at: Callable[[float], float], *, high: float, log_delta: float) -> float:
    target = log_delta - _SLACK
    if log_delta_at(0.0) <= target:
        return 0.0
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high or high - low <= 1e-12 * high:
            break
        low, high = (middle, high) if log_delta_at(middle) > target else (low, middle)
    return high
