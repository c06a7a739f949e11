"""Compiled scalar functions against arbitrary precision."""

import math

import mpmath as mp
import numpy as np
import pytest

from ostrakon.numerics.normal import log1mexp, log1p_sum, log_ndtr, logaddexp


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(400):
        yield


@pytest.mark.parametrize("x", [*np.linspace(-60, 12, 241), -30.000001, -29.999999, -1e3, 0.0])
def test_log_ndtr(x):
    expected = mp.log(mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2) if x > -500 else mp.log(mp.ncdf(x))
    assert log_ndtr(x) == pytest.approx(float(expected), rel=2e-14)


def test_log_ndtr_far_out_neither_overflows_nor_stops():
    assert log_ndtr(-1e150) == pytest.approx(-5e299, rel=1e-12)
    assert log_ndtr(40.0) == 0.0


@pytest.mark.parametrize("x", [-1e-300, -1e-17, -1e-3, -0.693, -0.694, -5.0, -700.0])
def test_log1mexp(x):
    # Below -700 the true value is -e^x: the smallest doubles.
    assert log1mexp(x) == pytest.approx(float(mp.log(1 - mp.exp(mp.mpf(x)))), rel=1e-14)


def test_log1mexp_at_and_above_0_is_minus_infinity():
    assert log1mexp(0.0) == -math.inf
    assert log1mexp(1.0) == -math.inf


@pytest.mark.parametrize(
    ("x", "y"), [(0.0, 0.0), (-1e-20, -46.0), (1e-20, -600.0), (-0.4, -1.0), (3.0, -800.0), (-800.0, 900.0)]
)
def test_sums(x, y):
    expected = float(mp.log(mp.exp(mp.mpf(x)) + mp.exp(mp.mpf(y))))
    assert log1p_sum(x, y) == pytest.approx(expected, rel=1e-13)
    assert logaddexp(x, y) == pytest.approx(expected, rel=1e-13, abs=2e-16)
    assert logaddexp(x, -math.inf) == x
