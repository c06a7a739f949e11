"""Optimal composition of pure differential privacy."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, logsumexp

from ostrakon.accounting.composition.gaussian_dp import LOG_SLACK
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.numerics.inverse import least
from ostrakon.numerics.rounding import product_above
from ostrakon.validation import fraction, non_negative, whole

MOST_SUMMED = 1_000_000
"""Up to this number of queries the optimal composition is summed exactly; beyond, Rényi DP bounds it."""

_BEYOND: tuple[float, ...] = tuple(1 + 10.0**power for power in np.arange(-8, 12.01, 0.02))


def pure_dp_epsilon(epsilon_per_query: float, *, queries: int, delta: float) -> float:
    """Return the smallest epsilon at which adaptively chosen pure-DP queries are together (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon_per_query : float
        Finite, at least 0.
    queries : int
        At least 1.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Rounded upward; never above `queries * epsilon_per_query`, rounded upward.

    Raises
    ------
    InvalidInput
        For numbers out of range.

    Notes
    -----
    Guarantee: no run of this number of queries, of at most this pure epsilon each and chosen after the answers before
    it, needs a larger epsilon at this delta. More than `MOST_SUMMED` queries are charged by their Rényi divergence at
    the best of many orders, some per cent more than the smallest epsilon.

    References
    ----------
    Kairouz, Oh and Viswanath 2015, Theorem 3.3.

    Examples
    --------
    >>> pure_dp_epsilon(0.1, queries=3, delta=1e-9) <= 3 * 0.1
    True
    """
    e, delta = non_negative("epsilon_per_query", epsilon_per_query), fraction("delta", delta)
    k = whole("queries", queries, at_least=1)
    added = product_above(k, e)
    if k > MOST_SUMMED:
        orders = np.array(_BEYOND)
        with np.errstate(over="ignore"):
            together = Curve(orders, k * rdp_of_pure_dp(orders, e) * (1 + 1e-9))
        return min(added, together.epsilon(delta=delta)[0])
    log_delta, target = _log_delta(e, k), math.log(delta)
    if log_delta(0.0) <= target:
        return 0.0
    # Epsilons add up even without a delta, though a loss that was rounded upward may exceed their sum.
    return min(added, least(log_delta, target, start=added, tolerance=1e-10, furthest=added))


def _log_delta(e: float, k: int) -> Callable[[float], float]:
    """Return ln of the smallest delta at which k queries of e-DP together are (epsilon, delta)-DP, as a function of
    epsilon.

    Randomized response is the worst e-DP mechanism: its privacy loss over k queries is (2 i - k) e with probability
    Binomial(k, e^e / (1 + e^e)) at i. Charged upward by the rounding of the sum.
    """
    hits = np.arange(k + 1)
    # Rounded upward, so that no loss is underestimated.
    loss = np.nextafter((2 * hits - k) * e, np.inf)
    log_p = -np.log1p(math.exp(-e)) if e < 700 else 0.0
    weight = gammaln(k + 1) - gammaln(hits + 1) - gammaln(k - hits + 1) + hits * log_p + (k - hits) * (log_p - e)
    slack = LOG_SLACK + 1e-15 * k * (math.log(k + 1) + e)

    def log_delta(epsilon: float) -> float:
        above = loss > epsilon
        if not above.any():
            return -math.inf
        terms = weight[above] + np.log(-np.expm1(epsilon - loss[above]))
        return float(np.asarray(logsumexp(terms))) + slack

    return log_delta
