"""Floats that are never below, or never above, exact numbers."""

import math
from collections.abc import Iterable
from fractions import Fraction


def above(value: Fraction) -> float:
    """Return the smallest float that is not below `value`; inf beyond the largest.

    >>> above(Fraction(1, 3)) >= Fraction(1, 3) > math.nextafter(above(Fraction(1, 3)), 0)
    True
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def below(value: Fraction) -> float:
    """Return the largest float that is not above `value`."""
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def product_above(count: int, value: float) -> float:
    """Return `count * value`, rounded upward; inf and NaN as in floats."""
    return above(count * Fraction(value)) if math.isfinite(value) else count * value


def sum_above(values: Iterable[float]) -> float:
    """Return the sum, rounded upward; inf and NaN as in floats."""
    numbers = list(values)
    if not all(math.isfinite(number) for number in numbers):
        return math.fsum(numbers)
    return above(sum(map(Fraction, numbers), Fraction(0)))
