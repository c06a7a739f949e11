"""Rényi cost of pure differential privacy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.mechanisms.base import FloatArray, finite_orders
from ostrakon.validation import non_negative


def rdp_of_pure_dp(orders: ArrayLike, epsilon: float) -> FloatArray:
    """The largest Rényi divergence at each order (> 1) that epsilon-DP allows; same shape as `orders`.

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
