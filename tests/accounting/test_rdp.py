"""Curves add, multiply and turn into epsilon; nothing wrong gets in."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostrakon.accounting.rdp import DEFAULT_ORDERS, Curve, require_orders
from ostrakon.validation import InvalidInput

ORDERS = np.array([1.05, 2.0, 8.0, 64.0])
values = st.lists(st.floats(0, 1e6), min_size=4, max_size=4)


@given(values, values)
def test_composition_adds_in_any_order(a, b):
    one, two = Curve(ORDERS, np.array(a)), Curve(ORDERS, np.array(b))
    np.testing.assert_array_equal((one + two).values, (two + one).values)
    np.testing.assert_array_equal((one + two).values, np.array(a) + b)


@given(values, st.integers(0, 40))
def test_a_multiple_is_repeated_addition(a, count):
    curve = Curve(ORDERS, np.array(a))
    total = Curve(ORDERS, np.zeros(4))
    for _ in range(count):
        total = total + curve
    np.testing.assert_allclose((count * curve).values, total.values, rtol=1e-14)
    np.testing.assert_array_equal((curve * count).values, (count * curve).values)


def test_no_repetition_of_an_unknown_cost_is_free():
    assert (0 * Curve(ORDERS, np.full(4, np.inf))).values.tolist() == [0] * 4
    assert (2 * Curve(ORDERS, np.full(4, np.inf))).epsilon(delta=1e-5)[0] == math.inf


@pytest.mark.parametrize("conversion", ["cks", "mironov"])
def test_epsilon_is_the_smallest_over_the_orders(conversion):
    curve = Curve(DEFAULT_ORDERS, 0.01 * DEFAULT_ORDERS)
    epsilon, order = curve.epsilon(delta=1e-5, conversion=conversion)
    with mp.workdps(30):
        by_order = {}
        for value in DEFAULT_ORDERS:
            a = mp.mpf(value)
            if conversion == "cks":
                by_order[value] = a / 100 + mp.log(1 - 1 / a) - (mp.log(mp.mpf("1e-5")) + mp.log(a)) / (a - 1)
            else:
                by_order[value] = a / 100 + mp.log(mp.mpf("1e5")) / (a - 1)
        best = min(by_order, key=by_order.__getitem__)
        assert order == best
        assert epsilon == pytest.approx(float(by_order[best]), rel=1e-13)


@given(values, st.floats(1e-12, 0.4), st.floats(1.01, 2.4))
def test_epsilon_falls_with_delta_and_cks_is_never_worse(a, delta, factor):
    curve = Curve(ORDERS, np.array(a))
    for conversion in ("cks", "mironov"):
        assert curve.epsilon(delta=delta * factor, conversion=conversion)[0] <= curve.epsilon(
            delta=delta, conversion=conversion
        )[0] * (1 + 1e-15)
    assert curve.epsilon(delta=delta)[0] <= curve.epsilon(delta=delta, conversion="mironov")[0] + 1e-12


@given(values, values, st.floats(1e-9, 0.5))
def test_more_queries_never_cost_less(a, b, delta):
    one, two = Curve(ORDERS, np.array(a)), Curve(ORDERS, np.array(b))
    assert (one + two).epsilon(delta=delta)[0] >= one.epsilon(delta=delta)[0]


def test_epsilon_is_not_negative():
    assert Curve(ORDERS, np.zeros(4)).epsilon(delta=0.9)[0] == 0


@pytest.mark.parametrize("bad", [np.nan, -1.0, -1e-300])
def test_values_that_are_no_cost_are_refused(bad):
    with pytest.raises(InvalidInput, match="values"):
        Curve(ORDERS, np.array([0, 0, bad, 0]))


@pytest.mark.parametrize("orders", [[], [1.0], [0.5, 2], [2, 2], [3, 2], [np.nan], [2, np.inf], [[2.0]], [-2.0], 2.0])
def test_orders_that_are_none_are_refused(orders):
    with pytest.raises(InvalidInput, match="orders"):
        require_orders(orders)


def test_shapes_and_orders_must_agree():
    with pytest.raises(InvalidInput, match="shape"):
        Curve(ORDERS, np.zeros(3))
    with pytest.raises(InvalidInput, match="same orders"):
        Curve(ORDERS, np.zeros(4)) + Curve(ORDERS + 1, np.zeros(4))
    with pytest.raises(TypeError):
        Curve(ORDERS, np.zeros(4)) + 1


@pytest.mark.parametrize("count", [1.5, -1, True, "2", None, np.nan])
def test_only_whole_repetitions(count):
    with pytest.raises(InvalidInput):
        Curve(ORDERS, np.zeros(4)) * count


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, np.nan, np.inf, True, "1e-5", None])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidInput, match="delta"):
        Curve(ORDERS, np.zeros(4)).epsilon(delta=delta)


def test_conversions_are_two():
    with pytest.raises(InvalidInput, match="conversion"):
        Curve(ORDERS, np.zeros(4)).epsilon(delta=1e-5, conversion="best")  # pyright: ignore[reportArgumentType]


def test_arrays_are_copied_and_locked():
    source = np.ones(4)
    curve = Curve(ORDERS, source)
    source[0] = -1
    assert curve.values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 2
    assert (np.diff(DEFAULT_ORDERS) > 0).all()
    assert DEFAULT_ORDERS[0] > 1
