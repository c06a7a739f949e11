"""The normal distribution and sums in log space, for compiled loops.

SciPy's `log_ndtr` is the same function for arrays; compiled loops cannot call it.
"""

from __future__ import annotations

import math

from ostrakon.numerics.compiled import compiled

LOG_HALF = math.log(0.5)
_SQRT_HALF = math.sqrt(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@compiled
def log_ndtr(t: float) -> float:
    """Return ln Phi(t), to about 1e-15 relative for every finite t.

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
    """Return phi(t) / Phi(t), to about 1e-15 relative."""
    if t > -12.0:
        return math.exp(-0.5 * t * t - _HALF_LOG_2PI) / (0.5 * math.erfc(-t * _SQRT_HALF))
    return -t / _mills_series(t)


@compiled
def _mills_series(t: float) -> float:
    """Return -t Phi(t) / phi(t) for t <= -12."""
    inverse = 1.0 / (t * t)
    total, term = 1.0, 1.0
    for k in range(1, 14):
        term *= -(2 * k - 1) * inverse
        total += term
    return total


@compiled
def log1mexp(x: float) -> float:
    """Return ln(1 - e^x) for x <= 0, without cancellation at either end; -inf at 0.

    Source: Mächler 2012, "Accurately computing log(1 - exp(-|a|))".
    """
    if x >= 0:
        return -math.inf
    if x > LOG_HALF:
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


@compiled
def logaddexp(x: float, y: float) -> float:
    """Return ln(e^x + e^y)."""
    high, low = (x, y) if x > y else (y, x)
    if low == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@compiled
def log1p_sum(x: float, y: float) -> float:
    """Return ln(e^x + e^y) if e^x is nearly 1 and e^y small: the excess over 1 keeps its digits."""
    if abs(x) < 0.5 and y < 0:
        return math.log1p(math.expm1(x) + math.exp(y))
    return logaddexp(x, y)
