"""The normal distribution in log space, compiled: what numba code may call."""

from __future__ import annotations

import math

from ostrakon.numerics.compiled import compiled

_SQRT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@compiled
def log_ndtr(t: float) -> float:
    """ln Phi(t), to about 1e-15 relative for every finite t.

    Below -12 the asymptotic series of Mills' ratio is cut at 14 terms; the first one left out, 27!!/t^28, bounds
    the error by 2e-16 there.
    """
    if t > 0.0:
        return math.log1p(-0.5 * math.erfc(t * _SQRT_HALF))
    if t > -12.0:
        return math.log(0.5 * math.erfc(-t * _SQRT_HALF))
    return -0.5 * t * t - _HALF_LOG_2PI - math.log(-t) + math.log(_mills_series(t))


@compiled
def inverse_mills(t: float) -> float:
    """phi(t) / Phi(t), to about 1e-15 relative."""
    if t > -12.0:
        return math.exp(-0.5 * t * t - _HALF_LOG_2PI) / (0.5 * math.erfc(-t * _SQRT_HALF))
    return -t / _mills_series(t)


@compiled
def _mills_series(t: float) -> float:
    """-t Phi(t) / phi(t) for t <= -12."""
    inverse = 1.0 / (t * t)
    total, term = 1.0, 1.0
    for k in range(1, 14):
        term *= -(2 * k - 1) * inverse
        total += term
    return total
