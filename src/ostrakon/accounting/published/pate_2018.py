"""The 2018 paper's data-dependent bound for Gaussian noise: Propositions 7 and 10, Theorem 6.

A query's cost is bounded through q alone, the probability that the plurality is not the answer.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr as log_ndtr_of_array

from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.numerics.inverse import least
from ostrakon.numerics.normal import log1mexp, log1p_sum, log_ndtr
from ostrakon.validation import InvalidInput, finite, positive

ROOT_2 = math.sqrt(2)


def log_q_gaussian(counts: ArrayLike, *, sigma: float) -> FloatArray:
    """Return the natural log of a bound on P[argmax_j (n_j + N(0, sigma^2)) is not the plurality], shape (queries,).

    counts: finite reals, shape (queries, classes). sigma: noise standard deviation, in votes.
    `sum_j Phi((n_j - n_1) / (sqrt(2) sigma))` over all classes but the plurality, and never more than
    1 - 1/classes, which the likeliest outcome cannot miss by more. In log space: no gap is too large.
    Errors: `InvalidInput` for counts of another shape or not finite, or a sigma not above 0.
    Source: pate-2018, Proposition 7.

    >>> round(float(np.exp(log_q_gaussian([[60, 40]], sigma=10))[0]), 6)
    0.07865
    """
    histograms = require_histograms(counts)
    return _log_q.worth(1e-6 * histograms.size)(histograms, positive("sigma", sigma))


def rdp_gaussian(log_q: ArrayLike, *, sigma: float, orders: ArrayLike) -> FloatArray:
    """Return the cost by Theorem 6 for GNMax at every query and order, or order / sigma^2 where that is smaller;
    (queries, orders).

    log_q: `log_q_gaussian`'s values, shape (queries,), finite and at most 0. sigma: the same sigma.
    mu_1, mu_2 as Proposition 10 chooses them. Where a condition of the theorem fails, the data-independent
    order / sigma^2 stands alone.
    Guarantee: bounds the Rényi divergence from this dataset to every neighbour (one vote moved); depends on the votes.
    Errors: `InvalidInput` for a log q that is not finite or above 0.
    Source: pate-2018, Theorem 6 and Propositions 8 and 10.
    """
    log_q, orders = require_log_q(log_q), require_orders(orders)
    sigma = positive("sigma", sigma)
    if len(orders) == 1:
        return _rdp.worth(5e-6 * len(log_q))(log_q, sigma, orders)
    # Of few teachers many queries have the same q.
    distinct, back = np.unique(log_q, return_inverse=True)
    return _rdp.worth(1e-6 * len(distinct) * len(orders))(distinct, sigma, orders)[back]


def log_pr_answered(counts: ArrayLike, *, threshold: float, sigma1: float) -> FloatArray:
    """Return ln P[max_j n_j + N(0, sigma1^2) >= threshold], shape (queries,): the chance that a query is answered.

    Source: pate-2018, Algorithm 1.
    """
    top = require_histograms(counts).max(axis=1)
    return log_ndtr_of_array((top - finite("threshold", threshold)) / positive("sigma1", sigma1))


def rdp_threshold(counts: ArrayLike, *, threshold: float, sigma1: float, orders: ArrayLike) -> FloatArray:
    """Return the cost by Theorem 6 for the threshold check `max_j n_j + N(0, sigma1^2) >= threshold`; shape (queries,
    orders).

    The check has two outcomes and sensitivity 1, half the squared sensitivity of GNMax: the same bound holds with
    sqrt(2) sigma1 for sigma and the rarer outcome's probability for q.
    Source: pate-2018, Appendix A, applied to Algorithm 1's first step as the published code does.
    """
    top = require_histograms(counts).max(axis=1)
    margin = (top - finite("threshold", threshold)) / positive("sigma1", sigma1)
    return rdp_gaussian(log_ndtr_of_array(-np.abs(margin)), sigma=math.sqrt(2) * sigma1, orders=orders)


def log_q0(*, sigma: float, order: float) -> float:
    """Return ln q0: Theorem 6 beats order / sigma^2 below q0 and nowhere above it.

    -inf where it never does. Found by bisection to the last bit; that the region is one interval is condition C5,
    which `ostrakon.papers.local_sensitivity.LabelSensitivity.check_conditions` checks. Source: pate-2018, Appendix A,
    after Proposition 10.
    """
    sigma, order = positive("sigma", sigma), require_order(order)

    def cost(minus_log_q: float) -> float:
        return theorem_6.interpreted(-minus_log_q, sigma, order)

    below = math.nextafter(order / sigma**2, 0)
    return -least(cost, below, start=max(4.0, 4 * (order / sigma) ** 2), tolerance=0.0, furthest=1e300)


@compiled
def theorem_6(log_q: float, sigma: float, order: float) -> float:
    """Return the cost of one query by Theorem 6, inf where one of its conditions fails (compiled, unchecked)."""
    mu_1, log_not_q, log_a, log_b = _without_order(log_q, sigma)
    if not mu_1 >= order:
        return math.inf
    total = log1p_sum(log_not_q + (order - 1) * log_a, log_q + (order - 1) * log_b)
    return max(total, 0.0) / (order - 1)


@compiled
def _without_order(log_q: float, sigma: float) -> tuple[float, float, float, float]:
    """Return (mu_1, ln(1 - q), ln A, ln B): Theorem 6 holds for orders up to mu_1, for none where that is 0."""
    if not log_q < 0:
        return 0.0, 0.0, 0.0, 0.0
    mu_2 = sigma * math.sqrt(-log_q)
    mu_1 = mu_2 + 1
    if not mu_2 > 1:
        return 0.0, 0.0, 0.0, 0.0
    eps_1, eps_2 = mu_1 / sigma**2, mu_2 / sigma**2
    increasing = (mu_2 - 1) * eps_2 - mu_2 * (math.log1p(1 / (mu_1 - 1)) + math.log1p(1 / (mu_2 - 1)))
    if not (log_q <= increasing and log_q + eps_2 < 0):
        return 0.0, 0.0, 0.0, 0.0
    log_not_q = log1mexp(log_q)
    log_a = log_not_q - log1mexp((log_q + eps_2) * (1 - 1 / mu_2))
    log_b = eps_1 - log_q / (mu_1 - 1)
    return mu_1, log_not_q, log_a, log_b


@compiled
def beta(log_q: float, sigma: float, order: float) -> float:
    """Return min(Theorem 6, order / sigma^2): the paper's beta_sigma(q) (compiled, unchecked)."""
    return min(theorem_6(log_q, sigma, order), order / sigma**2)


@compiled
def _log_q(counts: FloatArray, sigma: float) -> FloatArray:
    queries, classes = counts.shape
    scale = 1 / (2 * sigma)
    most = math.log1p(-1 / classes)
    result = np.empty(queries)
    for i in range(queries):
        row = counts[i]
        winner = row.argmax()
        second = -math.inf
        for j in range(classes):
            if j != winner:
                second = max(second, row[j])
        total = 0.0
        for j in range(classes):
            if j != winner:
                total += math.erfc((row[winner] - row[j]) * scale)
        if total > 1e-280:
            result[i] = min(math.log(0.5 * total), most)
            continue
        # The terms underflow: they are summed relative to the runner-up's, the largest.
        lead = log_ndtr((second - row[winner]) * ROOT_2 * scale)
        total = 0.0
        for j in range(classes):
            if j != winner:
                total += math.exp(log_ndtr((row[j] - row[winner]) * ROOT_2 * scale) - lead)
        result[i] = min(lead + math.log(total), most)
    return result


@compiled
def _rdp(log_q: FloatArray, sigma: float, orders: FloatArray) -> FloatArray:
    result = np.empty((len(log_q), len(orders)))
    # Of floats, not NumPy's scalars: where it is interpreted it takes half the time.
    for i in range(len(log_q)):
        this = float(log_q[i])
        mu_1, log_not_q, log_a, log_b = _without_order(this, sigma)
        for k in range(len(orders)):
            order = float(orders[k])
            cost = order / sigma**2
            if mu_1 >= order:
                more = order - 1
                total = log1p_sum(log_not_q + more * log_a, this + more * log_b)
                cost = min(max(total, 0.0) / more, cost)
            result[i, k] = cost
    return result


def require_histograms(counts: ArrayLike) -> FloatArray:
    """Return `counts` as floats, refused unless finite reals of shape (queries, at least 2 classes)."""
    array = _reals("counts", counts)
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidInput(
            f"counts must have the shape (queries, classes) with at least 2 classes, got the shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidInput(f"counts must be finite, got {array[~np.isfinite(array)][0]}.")
    return array


def require_order(order: float) -> float:
    """Return `order` as a float, refused unless a finite number above 1."""
    return float(require_orders([finite("order", order)])[0])


def require_log_q(log_q: ArrayLike) -> FloatArray:
    """Return `log_q` as floats of shape (queries,), refused unless finite and at most 0."""
    array = _reals("log_q", log_q)
    if array.ndim != 1:
        raise InvalidInput(f"log_q must have the shape (queries,), got {array.shape}.")
    bad = ~(np.isfinite(array) & (array <= 0))
    if bad.any():
        raise InvalidInput(f"log_q must be finite and at most 0, got {array[bad][0]}.")
    return array


def _reals(name: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(f"{name} must be a rectangular array, got rows of different lengths.") from None
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"{name} must be real numbers, got values of type {array.dtype}.")
    return np.asarray(array, dtype=np.float64, order="C")
