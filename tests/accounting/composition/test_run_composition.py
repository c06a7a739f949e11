"""Whole runs: checks that compose as the accountant composes them, and failures that delta pays for."""

import math

import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.mechanisms import RunCost
from ostrakon.validation import InvalidInput


def test_what_the_failures_leave_of_delta_is_for_the_checks():
    assert run_epsilon(RunCost(mu=0.3, failure=4e-6), delta=1e-5) == gaussian_dp_epsilon(0.3, 1e-5 - 4e-6)
    pure = RunCost(epsilon=0.2, checks=40, failure=4e-6)
    assert run_epsilon(pure, delta=1e-5) == pure_dp_epsilon(0.2, queries=40, delta=1e-5 - 4e-6)


def test_without_delta_pure_checks_add_and_gaussian_ones_have_no_bound():
    assert run_epsilon(RunCost(epsilon=0.3, checks=4, failure=1e-6), delta=1e-6) == pytest.approx(1.2)
    assert run_epsilon(RunCost(mu=0.3, failure=1e-6), delta=1e-6) == math.inf


@pytest.mark.parametrize("failure", [1.01e-6, 0.5, math.inf, math.nan])
def test_failures_beyond_delta_have_no_bound(failure):
    for checks in ({"mu": 0.1}, {"epsilon": 0.1, "checks": 1}):
        assert run_epsilon(RunCost(**checks, failure=failure), delta=1e-6) == math.inf


def test_a_cost_that_says_nothing_is_no_bound():
    assert run_epsilon(RunCost(), delta=1e-6) == math.inf


@pytest.mark.parametrize(
    "wrong", [{"mu": math.nan}, {"mu": -1.0}, {"epsilon": math.nan, "checks": 3}, {"epsilon": 0.1}]
)
def test_a_failed_computation_is_never_an_epsilon(wrong):
    with pytest.raises(InvalidInput):
        run_epsilon(RunCost(**wrong), delta=1e-6)


@pytest.mark.parametrize("delta", [0, 1, math.nan, True])
def test_delta_is_checked(delta):
    with pytest.raises(InvalidInput, match=r"^delta must"):
        run_epsilon(RunCost(mu=1.0), delta=delta)


def test_two_checks_by_hand():
    """Two randomized responses: losses 2e, 0, -2e."""
    e, target = 0.5, 0.4
    p = math.exp(e) / (1 + math.exp(e))
    delta = p**2 * (1 - math.exp(target - 2 * e))
    assert run_epsilon(RunCost(epsilon=e, checks=2), delta=delta) == pytest.approx(target, rel=1e-6)
