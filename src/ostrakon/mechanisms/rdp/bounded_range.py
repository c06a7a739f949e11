"""Rényi cost of a mechanism of bounded range, exact."""

from __future__ import annotations

import numpy as np

from ostrakon.mechanisms.base import FloatArray, finite_orders
from ostrakon.validation import positive


def rdp_of_bounded_range(orders: FloatArray, epsilon: float) -> FloatArray:
    """The largest Rényi divergence at each order (> 1) of two laws whose log-ratio varies by at most `epsilon`.

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
