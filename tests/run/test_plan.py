import math
from dataclasses import replace

import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.run.settings.options import Options
from ostrakon.run.settings.plan import plan_from
from ostrakon.run.settings.planning import make_plan
from ostrakon.validation import InvalidInput

SIZES = {"units": 30_000, "pool": 2000, "classes": 10}


@pytest.mark.parametrize("mechanism", ["confident-gnmax", "gnmax", "lnmax", "exponential", "interactive-gnmax"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_bound_stays_within_epsilon_and_close_to_it(mechanism, epsilon):
    plan = make_plan(Options(mechanism=mechanism, epsilon=epsilon), **SIZES)
    assert 0.97 * epsilon < plan.bound.epsilon <= epsilon
    assert plan.bound.delta == plan.delta == 1e-5


def test_without_epsilon_and_noise_the_epsilon_is_two():
    assert 1.95 < make_plan(Options(), **SIZES).bound.epsilon <= 2


def test_given_noise_is_kept_where_no_epsilon_is_asked():
    request = Options(parameters={"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}, queries=640, teachers=250)
    plan = make_plan(request, **SIZES)
    assert plan.mechanism == ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    bound = worst_case(plan.mechanism, queries=640, delta=1e-5, teachers=250, classes=10)
    assert plan.bound.epsilon == bound.epsilon


@pytest.mark.parametrize(
    ("mechanism", "given"),
    [
        ("confident-gnmax", {"threshold": 60.0}),
        ("confident-gnmax", {"sigma1": 300.0}),
        ("confident-gnmax", {"threshold": 200.0, "sigma2": 40.0}),
        ("interactive-gnmax", {"threshold": 60.0, "sigma1": 100.0}),
        ("screened-exponential", {"threshold": 150.0, "sigma1": 20.0}),
        ("bounded-gnmax", {"max_contributions": 2}),
    ],
)
def test_the_default_epsilon_stays_unless_all_noise_is_given(mechanism, given):
    plan = make_plan(Options(mechanism=mechanism, parameters=given, queries=50), **SIZES)
    assert 1.9 < plan.bound.epsilon <= 2
    assert plan.tuned["epsilon"] == "the default, 2"
    # What is no noise is kept as it was given.
    kept = plan.mechanism.parameters()
    assert {name: kept[name] for name in given if name in ("threshold", "max_contributions")} == {
        name: value for name, value in given.items() if name in ("threshold", "max_contributions")
    }


def test_it_is_said_what_was_given_and_what_was_not():
    told = make_plan(Options(parameters={"threshold": 60.0, "sigma1": 300.0}, queries=50), **SIZES).tuned
    scaled = "all noise then scaled to the least that keeps epsilon 2, from public numbers alone"
    assert told["threshold"] == "given by the operator"
    assert told["sigma1"] == f"given by the operator as 300; {scaled}"
    assert told["sigma2"] == f"a default in proportion to the number of teachers; {scaled}"
    told = make_plan(
        Options(parameters={"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}, queries=50), **SIZES
    ).tuned
    assert told["threshold, sigma1, sigma2"] == "given by the operator"
    assert "epsilon" not in told
    told = make_plan(Options(mechanism="bounded-gnmax", parameters={"sigma2": 10.0}), **SIZES).tuned
    assert (told["sigma2"], told["max_contributions"]) == ("given by the operator", "a default")


def test_an_epsilon_out_of_reach_is_refused_with_what_is_in_reach():
    with pytest.raises(InvalidInput, match=r"nearest reachable settings are .* or more teachers"):
        make_plan(Options(epsilon=0.01, queries=1000, teachers=50), **SIZES)


def test_both_interactive_rounds_are_paid_for():
    plan = make_plan(Options(mechanism="interactive-gnmax", epsilon=1.0, queries=400), **SIZES)
    confident = ConfidentGNMax(**plan.mechanism.parameters())
    assert plan.interactive
    assert plan.bound.epsilon >= worst_case(confident, queries=400, delta=1e-5).epsilon - 1e-12
    half = worst_case(confident, queries=200, delta=1e-5).epsilon
    assert plan.bound.epsilon > 1.3 * half


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"teachers": 40_000}, r"^teachers must be at most 30000, the number of private records"),
        ({"teachers": 0}, "teachers must be an integer of at least 1"),
        ({"queries": 2001}, r"^queries must be at most 2000, the number of public rows"),
        ({"queries": 0}, "queries must be"),
        ({"max_answers": 0}, "max_answers must be"),
        ({"delta": 1e-3}, "delta must be below"),
        ({"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"mechanism": "none"}, "mechanism must be one of"),
        ({"mechanism": "interactive-gnmax", "parameters": {"gamma": 1.0}}, "gamma is no parameter"),
        ({"mechanism": "immutable", "epsilon": 1.0}, "gives no guarantee"),
        ({"parameters": {"sigma2": -1.0}}, "sigma2 must be"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(asked, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(Options(**asked), **SIZES)


@pytest.mark.parametrize("mechanism", ["confident-gnmax", "interactive-gnmax", "immutable", "lnmax"])
def test_a_plan_survives_the_disk(mechanism):
    plan = make_plan(Options(mechanism=mechanism, max_answers=50), **SIZES)
    assert plan_from(plan.as_dict(), classes=10) == plan


def test_a_gate_that_costs_more_than_the_worst_case_at_this_noise_is_left_out():
    few = Options(mechanism="gnmax", parameters={"sigma2": 5.0}, teachers=20, queries=20, delta=1e-4)
    plan = make_plan(replace(few, guarantee="gate"), units=400, pool=100, classes=2)
    assert plan == make_plan(few, units=400, pool=100, classes=2)
