"""Sums and products that are the smallest float not below the exact number."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ostrakon.numerics.rounding import above, product_above, sum_above


def is_least(result, exact):
    return Fraction(result) >= exact > Fraction(math.nextafter(result, -math.inf))


@pytest.mark.parametrize("seed", range(50))
def test_against_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=7) * 10.0 ** rng.integers(-30, 30, size=7)).tolist()
    assert is_least(sum_above(values), sum(map(Fraction, values)))
    count, value = int(rng.integers(1, 10**9)), float(rng.exponential())
    assert is_least(product_above(count, value), count * Fraction(value))


def test_exact_results_stay():
    assert product_above(2, 0.5) == 1.0
    assert sum_above([0.25, 0.5]) == 0.75
    assert sum_above([]) == 0.0
    assert product_above(17, 0.3) > 17 * 0.3


def test_beyond_all_floats():
    assert above(Fraction(10**400)) == math.inf
    assert above(Fraction(-(10**400))) == -math.inf
    assert above(Fraction(1, 10**400)) == math.ulp(0.0)
    assert product_above(3, math.inf) == math.inf
    assert math.isnan(product_above(3, math.nan))
    assert sum_above([1.0, math.inf]) == math.inf
    assert math.isnan(sum_above([1.0, math.nan]))
