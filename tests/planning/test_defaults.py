import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import BoundedGNMax
from ostrakon.mechanisms.registry import build_with_defaults
from ostrakon.planning.defaults import (
    default_delta,
    default_per_record_queries,
    default_size,
    default_teachers,
    require_delta,
)
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("units", [1, 9, 10, 99, 100, 32_561, 99_999, 100_000, 10**9])
def test_the_default_delta_is_below_one_over_the_units(units):
    assert default_delta(units) < 1 / units
    assert require_delta(default_delta(units), units) == default_delta(units)


@pytest.mark.parametrize("units", [10, 1000, 32_561])
def test_a_delta_of_one_over_the_units_is_refused(units):
    with pytest.raises(InvalidInput, match=r"delta must be below 1 divided by the number of records"):
        require_delta(1 / units, units)
    with pytest.raises(InvalidInput, match=r"number of users"):
        require_delta(0.5, units, "user")


@pytest.mark.parametrize("delta", [0, 1, -1e-5, float("nan"), float("inf"), True, "1e-5", None])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(InvalidInput, match="delta"):
        require_delta(delta, 10)


def test_teachers_get_about_a_hundred_records_and_the_grid_is_coarse():
    assert [default_teachers(n) for n in (1, 3, 700, 10_000, 32_561, 60_000, 10**7)] == [1, 3, 5, 100, 250, 500, 5000]
    # One record more or less does not show, but at the grid's points.
    assert default_teachers(32_561) == default_teachers(32_560) == default_teachers(30_000)


@pytest.mark.parametrize(("epsilon", "teachers"), [(0.3, 1000), (1.0, 250), (4.0, 1000)])
def test_the_default_size_costs_about_the_epsilon_before_noise_is_fitted_to_it(epsilon, teachers):
    mechanism = build_with_defaults("confident-gnmax", teachers, {})
    asked = {"pool": 5000, "epsilon": epsilon, "delta": 1e-6, "classes": 2, "max_answers": None}
    queries, cap = default_size(mechanism, **asked)
    assert queries == 2 * cap
    run = {"queries": queries, "delta": 1e-6, "max_answers": cap}
    cost = worst_case(mechanism, **run, teachers=teachers, classes=2, adaptive=True).epsilon
    assert cost < 1.05 * epsilon
    # Not the price of the histograms, which allows fewer.
    assert cap == 1000 or (cost > 0.9 * epsilon and worst_case(mechanism, **run).epsilon > 1.05 * epsilon)


def test_the_default_size_never_exceeds_the_pool():
    mechanism = build_with_defaults("gnmax", 5000, {})
    assert default_size(mechanism, pool=37, epsilon=2.0, delta=1e-6, classes=10, max_answers=None)[0] == 37


def test_many_classes_are_asked_about_more_often_where_records_are_many():
    quiet = BoundedGNMax(sigma2=6.6)
    asked = {k: default_per_record_queries(quiet, units=10**6, pool=100_000, classes=k) for k in (2, 20, 21, 150)}
    assert asked == {2: 1280, 20: 1280, 21: 1344, 150: 9600}
    # Votes twelve times their noise come first, then ten queries a class; and the pool has no more rows than it has.
    assert default_per_record_queries(quiet, units=3 * 10**5, pool=100_000, classes=150) == 3787
    assert default_per_record_queries(quiet, units=10**5, pool=100_000, classes=150) == 1500
    assert default_per_record_queries(quiet, units=10**5, pool=100_000, classes=20) == 1280
    assert default_per_record_queries(quiet, units=10**6, pool=5000, classes=150) == 5000
