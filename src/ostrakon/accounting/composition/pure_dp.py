"""Optimal composition of pure differential privacy."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from ostrakon.accounting.composition.gaussian_dp import LOG_SLACK
from ostrakon.validation import fraction, non_negative, whole


def pure_dp_log_delta(epsilon_per_query: float, *, queries: int, epsilon: float) -> float:
    """Natural log of the smallest delta at which `queries` pure-DP queries together are (epsilon, delta)-DP.

    Randomized response is the worst eps-DP mechanism: its privacy loss over k queries is (2 i - k) eps with
    probability Binomial(k, e^eps / (1 + e^eps)) at i. Charged upward by the rounding of the sum.
    Source: Kairouz, Oh and Viswanath 2015, Theorem 3.3.
    """
    e = non_negative("epsilon_per_query", epsilon_per_query)
    k = whole("queries", queries, at_least=1)
    hits = np.arange(k + 1)
    loss = (2 * hits - k) * e
    log_p = -np.log1p(math.exp(-e)) if e < 700 else 0.0
    weight = gammaln(k + 1) - gammaln(hits + 1) - gammaln(k - hits + 1) + hits * log_p + (k - hits) * (log_p - e)
    above = loss > epsilon
    if not above.any():
        return -math.inf
    terms = weight[above] + np.log(-np.expm1(epsilon - loss[above]))
    return float(np.asarray(logsumexp(terms))) + LOG_SLACK + 1e-15 * k * math.log(k + 1)


def pure_dp_epsilon(epsilon_per_query: float, *, queries: int, delta: float) -> float:
    """The smallest epsilon at which `queries` adaptively chosen pure-DP queries are (epsilon, delta)-DP.

    Guarantee: rounded upward; never above `queries * epsilon_per_query`.

    >>> pure_dp_epsilon(0.1, queries=3, delta=1e-9) <= 3 * 0.1
    True
    """
    e, delta = non_negative("epsilon_per_query", epsilon_per_query), fraction("delta", delta)
    k = whole("queries", queries, at_least=1)
    low, high = 0.0, k * e
    target = math.log(delta)
    if pure_dp_log_delta(e, queries=k, epsilon=0.0) <= target:
        return 0.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        over = pure_dp_log_delta(e, queries=k, epsilon=middle) > target
        low, high = (middle, high) if over else (low, middle)
    return high
