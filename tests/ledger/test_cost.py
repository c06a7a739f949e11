"""What a run spends: never below the truth, in every currency, and never a number that is none."""

import json
import math
import warnings

import mpmath
import numpy as np
import pytest

from ostrakon.accounting import worst_case
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.epsilons import Gated
from ostrakon.accounting.rdp import Curve
from ostrakon.ledger.cost import ORDERS, Cost, cost_of, gaussian_of_pure
from ostrakon.ledger.filter import Filter
from ostrakon.mechanisms import (
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    LNMax,
)
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("epsilon", [1e-12, 1e-7, 1e-3, 0.5, 1.0, 8.0, 60.0, 600.0])
def test_the_mu_of_a_pure_epsilon_against_fifty_digits(epsilon):
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        p = 1 / (1 + mpmath.exp(e))
        mu = mpmath.mpf(gaussian_of_pure(epsilon))
        # At the exact mu the Gaussian's trade-off meets (p, p): Phi(-mu/2) = p.
        tail = mpmath.erfc(mu / 2 / mpmath.sqrt(2)) / 2
        assert tail <= p
        lower = mpmath.erfc(mu * (1 - mpmath.mpf("1e-9")) / 2 / mpmath.sqrt(2)) / 2
        assert lower > p


def test_the_curve_of_pure_runs_is_not_below_the_truth():
    for epsilon in (1e-9, 1e-4, 0.3, 5.0):
        cost = Cost.of(pure=epsilon, checks=7)
        truth = 7 * rdp_of_pure_dp(np.array(ORDERS), epsilon)
        assert (np.array(cost.rdp) >= truth * (1 - 1e-9)).all()
        assert (np.array(cost.rdp) <= 7 * np.minimum(np.array(ORDERS) * epsilon**2 / 2, epsilon) * (1 + 1e-9)).all()
        assert cost.pure >= 7 * epsilon


def test_the_cost_of_two_runs_is_not_below_the_sum_in_any_currency():
    one, two = cost_of(GNMax(sigma2=40), queries=7), Cost.of(pure=0.3, failure=1e-6)
    both = one + two
    assert both.mu is not None
    assert both.mu >= math.hypot(one.mu or 0, two.mu or 0)
    assert both.mu == pytest.approx(math.hypot(one.mu or 0, two.mu or 0), rel=1e-13)
    assert both.pure is None  # Gaussian noise has none
    assert (two + two).pure == 0.6
    assert all(x >= y + z for x, y, z in zip(both.rdp, one.rdp, two.rdp, strict=True))
    assert both.failure == 1e-6


@pytest.mark.parametrize(
    "wrong",
    [3, "x", [1.0, 2.0], [[1.0], [1.0, 2.0]], np.ones((len(ORDERS), 2)), [None] * len(ORDERS), [True] * len(ORDERS)],
)
def test_what_is_no_curve_is_refused_in_words(wrong):
    with pytest.raises(InvalidInput, match="rdp must be one number for each of 59 orders, got "):
        Cost.of(rdp=wrong)


RUNS = [
    (BoundedGNMax(sigma2=100.0, max_contributions=2), {}),
    (GNMax(sigma2=40.0), {}),
    (ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0), {"max_answers": 20}),
    (LNMax(gamma=0.05), {}),
    (ExponentialMechanism(epsilon_per_query=0.1), {}),
    (PermuteAndFlip(epsilon_per_query=0.1), {}),
    (SparseVector(threshold=200.0, refusals=2, epsilon1=0.3, epsilon2=0.3), {}),
    (ProposeTestRelease(threshold=80.0, epsilon_per_query=0.3), {}),
    (ProposeTestRelease(threshold=80.0, sigma1=10.0), {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "more"), RUNS, ids=lambda value: getattr(value, "name", ""))
def test_every_mechanism_has_a_cost_that_gives_no_smaller_epsilon(mechanism, more):
    delta, shape = 1e-5, {"queries": 30, "teachers": 250, "classes": 5, **more}
    cost = cost_of(mechanism, **shape)
    known = worst_case(mechanism, delta=delta, **shape, adaptive=True).epsilon
    remaining = delta - cost.failure
    found = [gaussian_dp_epsilon(cost.mu, remaining)] if cost.mu is not None else []
    found += [cost.pure] if cost.pure is not None else []
    rdp = [(order, value) for order, value in zip(ORDERS, cost.rdp, strict=True) if value is not None]
    found += [Curve(*map(np.array, zip(*rdp, strict=True))).epsilon(delta=remaining)[0]]
    assert math.isfinite(known)
    # Optimal composition of pure steps and a finer grid may be better; nothing may be worse for privacy.
    assert known * (1 - 1e-9) <= min(found) < known * 1.45
    assert Filter.create(epsilon=min(found) * 3, delta=3e-5, kind="mixed").admits([cost])


@pytest.mark.parametrize(
    ("mechanism", "queries", "teachers"),
    [(ConfidentGNMax(threshold=30.0, sigma1=20.0, sigma2=8.0), 1, 7), (LNMax(gamma=0.05), 20, 1)],
)
def test_teachers_that_may_abstain_cost_what_they_do(mechanism, queries, teachers):
    sizes = {"queries": queries, "teachers": teachers, "classes": 2, "abstentions": True}
    cost = cost_of(mechanism, **sizes)
    curve = Curve(np.array(ORDERS), np.array([np.inf if each is None else each for each in cost.rdp]))
    least = min(
        curve.epsilon(delta=1e-9)[0],
        np.inf if cost.mu is None else gaussian_dp_epsilon(cost.mu, 1e-9),
        np.inf if cost.pure is None else cost.pure,
    )
    assert least >= worst_case(mechanism, delta=1e-9, **sizes, adaptive=True).epsilon * (1 - 1e-9)


def test_a_gate_costs_its_certificate():
    gated = Gated(epsilon=0.7, delta=1e-6, levels=((0.9, 8.0, 0.5),))
    cost = cost_of(GNMax(sigma2=40.0), queries=10, gated=gated)
    assert (cost.pure, cost.failure) == (0.7, 1e-6)


def test_a_cost_comes_back_to_the_last_bit():
    cost = Cost.of(mu=1 / 3, pure=0.1, checks=3, failure=1e-7)
    assert Cost.of_dict(json.loads(json.dumps(cost.as_dict()))) == cost
    assert cost.at(8.0) == cost.rdp[ORDERS.index(8.0)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-300, True, "1", None, 10**400])
@pytest.mark.parametrize("name", ["mu", "pure", "failure", "rdp"])
def test_what_is_no_cost_is_refused(name, bad):
    good = {"mu": 1.0, "pure": 1.0, "failure": 0.0, "rdp": (1.0,) * len(ORDERS)}
    if bad is None and name != "failure":
        return  # not bounded in that currency
    with pytest.raises(InvalidInput):
        Cost(**{**good, name: (bad,) * len(ORDERS) if name == "rdp" else bad})


def test_a_run_without_any_bound_is_refused():
    for nothing in ({}, {"failure": 0.5}):
        with pytest.raises(InvalidInput, match="must have a worst case"):
            Cost(**nothing)
    with pytest.raises(InvalidInput, match="below 1"):
        Cost(mu=1.0, failure=1.0)
    with pytest.raises(InvalidInput, match="one number for each"):
        Cost(rdp=(1.0,))
    with pytest.raises(InvalidInput, match="NaN"):
        Cost.of(rdp=np.full(len(ORDERS), np.nan))


@pytest.mark.parametrize("given", [{"pure": 1e308}, {"mu": 1e200}, {"pure": 1.0, "checks": 10**400}])
def test_numbers_that_cannot_be_squared_are_refused(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match=r"(pure|mu|checks) must be .*at most"):
            Cost.of(**given)
        assert Cost.of(pure=1e100, checks=2**53).pure == pytest.approx(2**53 * 1e100)
