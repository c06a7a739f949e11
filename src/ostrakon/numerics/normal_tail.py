"""Scalar log arithmetic and the log tail of the normal law, compiled, for kernels that need millions of them.

SciPy's `log_ndtr` is the same function for arrays; compiled loops cannot call it.
"""

from __future__ import annotations

import math

from ostrakon.numerics.compiled import compiled

LOG_HALF = math.log(0.5)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


@compiled
def log1mexp(x: float) -> float:
    """ln(1 - e^x) for x <= 0, without cancellation at either end; -inf at 0.

    Source: Mächler 2012, "Accurately computing log(1 - exp(-|a|))".
    """
    if x >= 0:
        return -math.inf
    if x > LOG_HALF:
        return math.log(-math.expm1(x))
    return math.log1p(-math.exp(x))


@compiled
def logaddexp(x: float, y: float) -> float:
    """ln(e^x + e^y)."""
    high, low = (x, y) if x > y else (y, x)
    if low == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@compiled
def log1p_sum(x: float, y: float) -> float:
    """ln(e^x + e^y) where e^x is nearly 1 and e^y small: the excess over 1 keeps its digits."""
    if abs(x) < 0.5 and y < 0:
        return math.log1p(math.expm1(x) + math.exp(y))
    return logaddexp(x, y)


@compiled
def log_ndtr(x: float) -> float:
    """ln Phi(x), relative error below 1e-14.

    Below -30 the asymptotic series of Mills' ratio: its first omitted term is 2027025 / x^16 < 1e-17.
    """
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT_HALF))
    if x > -30:
        return math.log(0.5 * math.erfc(-x * _ROOT_HALF))
    s = 1 / (x * x)
    series = 1 - s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s * (1 - 9 * s * (1 - 11 * s * (1 - 13 * s))))))
    return -0.5 * x * x - math.log(-x) - _HALF_LOG_2PI + math.log(series)
