"""Rényi cost of pure differential privacy, and of a mechanism of bounded range."""

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.mechanisms.base import FloatArray, finite_orders
from ostrakon.validation import non_negative, positive


def rdp_of_pure_dp(orders: ArrayLike, epsilon: float) -> FloatArray:
    """Return the largest Rényi divergence at each order (> 1) that epsilon-DP allows; same shape as `orders`.

    `ln[(sinh(a e) - sinh((a-1) e)) / sinh e] / (a-1)`, reached by randomized response, evaluated from the
    exponent of its larger outcome so that no order overflows.
    epsilon: at least 0. Errors: `InvalidInput` where epsilon is negative or not finite, or an order is not above 1.
    Source: docs/mathematics.md B; Bun and Steinke 2016, Proposition 3.3 (weaker form).

    >>> float(rdp_of_pure_dp([2.0], 0.0)[0])
    0.0
    """
    e = non_negative("epsilon", epsilon)
    a = finite_orders(orders)
    # (1-p) = 1/(1+q) keeps its answer: (1-p)^a p^(1-a) + p^a (1-p)^(1-a) = (e^{(a-1)e} + q^a) / (1+q).
    s = a - 1
    large = s * e + np.log1p(np.exp(-(2 * a - 1) * e)) - np.log1p(np.exp(-e))
    # For small exponents the logarithm of nearly 1 is taken from the excess over 1, a sum of two terms:
    # [expm1(s e) + q expm1(-s e)] / (1+q) = expm1(s e) (1 - q e^{-s e}) / (1+q).
    t = np.minimum(s * e, 1.0)
    small = np.log1p(np.expm1(t) * -np.expm1(-e - t) / (1 + np.exp(-e)))
    # Pure DP itself bounds every order; clip, so that rounding cannot leave the valid range.
    value = np.where(s * e < 1, small, large) / s
    return np.clip(value, 0.0, e)


def rdp_of_bounded_range(orders: FloatArray, epsilon: float) -> FloatArray:
    """Return the largest Rényi divergence at each order (> 1) of two laws whose log-ratio varies by at most `epsilon`.

    `ln u + ln(A / a) / (a - 1)` with `A = (1 - e^{-a epsilon}) / (1 - e^{-epsilon})` and
    `u = (a - 1) (1 - e^{-a epsilon}) / (a (e^{-epsilon} - e^{-a epsilon}))`, never above `a epsilon^2 / 8`.

    Proof: write x = P/Q. Its mean under Q is 1, and bounded range puts it into [v e^{-epsilon}, v] for some v
    between 1 and e^epsilon. `x^a` is convex, so with mean and interval given, its mean is largest when x takes the
    two ends only; there it is `A v^{a-1} - (e^{-epsilon} - e^{-a epsilon}) / (1 - e^{-epsilon}) v^a`, which is
    largest at v = u, with the value `u^{a-1} A / a`. Rounding is charged upward.
    Errors: `InvalidInput` where epsilon is not a finite number above 0, or an order is not finite and above 1.
    Source: Dong, Durfee and Rogers 2020, Lemma 2.4 (the two-point law); docs/mathematics.md B for `a epsilon^2 / 8`.

    >>> rdp_of_bounded_range(np.array([3.0]), 2.0).round(4), 3 * 2.0**2 / 8
    (array([1.1327]), 1.5)
    """
    e = positive("epsilon", epsilon)
    a = finite_orders(orders)
    log_top = np.log(-np.expm1(-a * e))
    log_u = e + np.log1p(-1 / a) + log_top - np.log(-np.expm1(-(a - 1) * e))
    log_a = log_top - np.log(-np.expm1(-e)) - np.log(a)
    slack = 1e-14 * (1 + e + np.abs(log_a) / (a - 1) + 1 / (a - 1))
    return np.minimum(np.minimum(log_u + log_a / (a - 1) + slack, a * (e * e) / 8), e)
