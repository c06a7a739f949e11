"""Whole numbers with a sum of discrete Gaussians as noise: priced as one continuous Gaussian, rounded at random."""

import math

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.mechanisms.base import DiscreteShares, FloatArray, finite_orders
from ostrakon.validation import fraction, positive, whole

_UP = 1 + 1e-13
"""More than the rounding errors of one formula."""

_ROUNDINGS = (0.6, 0.8, 1.0, 1.5, 2.0, 3.0)
"""Deviations, in steps, of the rounding that makes a Gaussian discrete; the largest is free at all but narrow noise."""


def sum_of_discrete_gaussians_oscillation(count: int, scale: float) -> float:
    """Return how far ln(P/W) may differ between two whole numbers: P of the sum of `count` N_Z(0, scale^2), W of N_Z(0,
    count scale^2); rounded upward, inf where the bound is lost.

    It is 0 of one share, and below 1e-8 from a scale of 1.5 on.
    Source: Kairouz, Liu and Steinke 2021, Theorem 12 and Proposition 13, with constants of
    our own (docs/mathematics.md M).
    """
    count, scale = whole("count", count, at_least=1), positive("scale", scale)
    return math.fsum(_oscillation(scale**2 * k / (k + 1)) for k in range(1, count)) * _UP


def _oscillation(variance: float) -> float:
    """Return how far ln of the sum over whole x of exp(-(x - m)^2 / (2 variance)) may differ between two m."""
    q = math.exp(-2 * math.pi**2 * variance) * (1 + 1e-9)
    tail = 2 * q / (1 - q**3) if q < 1 else 1.0
    # The smallest float replaces a q that underflows.
    return (math.log1p(tail) - math.log1p(-tail)) * _UP + math.ulp(0.0) if tail < 1 else math.inf


def sum_of_discrete_gaussians_rdp(shares: DiscreteShares, orders: FloatArray) -> FloatArray:
    """Return the Rényi divergences at `orders` (above 1) of whole numbers released under summed noise, rounded upward.

    Guarantee: both ways, whatever the data are: a D^2 / (2 n s^2) + K a / (a - 1) at order a, for n = `shares.count`,
    s = `shares.scale`, D = `shares.shift`, and K the oscillation of all `shares.cells` that one unit moves.
    Errors: `InvalidInput` for orders that are none.
    Source: Canonne, Kamath and Steinke 2020, Proposition 5; Kairouz, Liu and Steinke 2021, Proposition 14;
    docs/mathematics.md M.

    >>> import numpy as np
    >>> shares = DiscreteShares(count=4, scale=2.0, shift=1.0, cells=1)
    >>> bool(0.0625 <= sum_of_discrete_gaussians_rdp(shares, np.array([2.0]))[0] < 0.0625001)
    True
    """
    orders = finite_orders(orders)
    oscillation = shares.cells * sum_of_discrete_gaussians_oscillation(shares.count, shares.scale)
    rho = (shares.shift / shares.scale) ** 2 / (2 * shares.count)
    return (rho * orders + oscillation * (orders / (orders - 1))) * _UP


def sum_of_discrete_gaussians_epsilon(shares: DiscreteShares, *, delta: float) -> float:
    """Return the least epsilon at `delta`, rounded upward; inf where the shares are too narrow for the delta.

    Guarantee: (epsilon, delta)-DP of all numbers together. Above the exact value by less than 1e-6 of its size where
    the noise is 3,000 steps wide.
    Errors: `InvalidInput` for a delta outside (0, 1).
    Source: docs/mathematics.md M.

    >>> one = DiscreteShares(count=1, scale=4.0, shift=1.0, cells=1)
    >>> round(sum_of_discrete_gaussians_epsilon(one, delta=1e-5), 3)
    0.96
    """
    delta = fraction("delta", delta)
    variance = shares.count * shares.scale**2 / _UP
    of_shares = sum_of_discrete_gaussians_oscillation(shares.count, shares.scale)
    best = math.inf
    for u in _ROUNDINGS:
        left = delta - shares.cells * (of_shares + _oscillation(u * u)) * _UP - math.ulp(delta)
        if left > 0 and u * u < variance / _UP:
            mu = shares.shift / math.sqrt(variance - u * u * _UP) * _UP
            best = min(best, gaussian_dp_epsilon(mu, left))
    return best
