import math
from dataclasses import replace

import pytest
from scipy.stats import norm

from ostrakon.accounting import membership_guess
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.certificate import gate_delta
from ostrakon.accounting.gate.gate import Gate
from ostrakon.data.consent import Consent
from ostrakon.mechanisms import ConfidentGNMax
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import plan_from
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.validation import InvalidInput

SIZES = {"units": 30_000, "pool": 2000, "classes": 10}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["confident-gnmax", "gnmax", "lnmax", "exponential", "interactive-gnmax"])
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_the_bound_stays_within_epsilon_and_close_to_it(mechanism, epsilon):
    plan = make_plan(Options(mechanism=mechanism, epsilon=epsilon), **SIZES)
    assert 0.97 * epsilon < plan.bound.epsilon <= epsilon
    assert plan.bound.delta == plan.delta == 1e-5


def test_without_epsilon_and_noise_the_epsilon_is_two():
    assert 1.95 < make_plan(Options(), **SIZES).bound.epsilon <= 2


def test_embeddings_pay_more_for_sums_at_the_same_price():
    asked = Options(mechanism="moment-gnmax", epsilon=1.0, parameters={"errors": 0, "corrections": 0})
    kinds = (RowKind(), RowKind(embedded=True), RowKind(wide=True))
    table, embeddings, wide = (make_plan(asked, **SIZES, kind=kind) for kind in kinds)
    assert wide.mechanism == embeddings.mechanism
    assert (table.mechanism.moments, embeddings.mechanism.moments) == (0.5, 0.8)
    # Of mu squared 0.8 instead of 0.5 pays for the sums, at the same epsilon.
    assert embeddings.mechanism.moment_noise == pytest.approx(
        table.mechanism.moment_noise * (0.5 / 0.8) ** 0.5, rel=5e-4
    )
    assert embeddings.mechanism.sigma2 == pytest.approx(table.mechanism.sigma2 * (0.5 / 0.2) ** 0.5, rel=5e-4)
    assert 0.99 < embeddings.bound.epsilon <= 1
    chosen = make_plan(replace(asked, parameters={"moments": 0.3}), **SIZES, kind=RowKind(embedded=True))
    assert chosen.mechanism.moments == 0.3
    with_corrections = make_plan(replace(asked, parameters={}), **SIZES).mechanism
    assert (with_corrections.moments, with_corrections.corrections) == (0.25, 0.5)
    bounded = Options(mechanism="bounded-gnmax", epsilon=1.0)
    assert make_plan(bounded, **SIZES, kind=RowKind(embedded=True)).mechanism.moment_noise is None


def test_given_corrections_leave_a_share_for_counts_of_errors():
    """Of 0.9 nothing was left for them, and a run said that there were too few records."""
    for share, errors in ((0.4, 0.05), (0.9, 0.016)):
        asked = Options(epsilon=4.0, parameters={"corrections": share})
        mechanism = make_plan(asked, **{**SIZES, "units": 1500}).mechanism
        assert mechanism.corrections == share
        assert mechanism.errors == pytest.approx(errors, abs=0.002)


def test_linear_features_have_more_of_the_length_of_labels_and_of_many_columns():
    for target, many in (("labels", 0.8), ("quantity", 0.6)):
        asked, sizes = Options(epsilon=1.0, delta=1e-6), {"units": 9000, "pool": 500, "classes": 2, "target": target}
        plans = [make_plan(asked, **sizes, kind=kind) for kind in (TABLE, RowKind(wide=True), RowKind(embedded=True))]
        assert [plan.mechanism.linear for plan in plans] == [0.4, many, many]
        assert all(0.9999 < plan.bound.epsilon <= 1 for plan in plans)
        for plan in plans:
            assert plan_from(plan.as_dict(), classes=2) == plan
        stored = plans[0].as_dict()
        stored["parameters"].pop("linear", None)
        assert plan_from(stored, classes=2).mechanism.linear == 0.2  # of earlier versions


def of_a_quantity(units, **options):
    return make_plan(Options(epsilon=1.0, delta=1e-6, **options), units=units, pool=500, classes=2, target="quantity")


@pytest.mark.parametrize(("units", "share"), [(200, 0), (1999, 0.08), (2000, 0.05), (100_000, 0.05)])
def test_errors_of_a_quantity_are_counted_where_records_are_enough(units, share):
    for student in ("auto", "soft-vote"):
        plan = of_a_quantity(units, student=student)
        assert plan.mechanism.errors == share
        assert 0.99 < plan.bound.epsilon <= 1
        assert plan_from(plan.as_dict(), classes=2) == plan


def test_the_share_of_the_errors_may_be_given():
    assert of_a_quantity(200, parameters={"errors": 0.1}).mechanism.errors == 0.1
    assert of_a_quantity(9000, parameters={"errors": 0}).mechanism.error_noise is None
    assert of_a_quantity(9000, parameters={"moments": 0.96}).mechanism.errors == pytest.approx(0.02)
    with pytest.raises(
        InvalidInput, match=r"errors must be below 0\.3 beside moments=0\.7, so that the votes get a share"
    ):
        of_a_quantity(9000, parameters={"moments": 0.7, "errors": 0.3})
    with pytest.raises(InvalidInput, match="moments must be a number strictly between 0 and 1, got 1"):
        of_a_quantity(9000, parameters={"moments": 1})


@pytest.mark.parametrize("mechanism", ["bounded-gnmax", "moment-gnmax"])
def test_removed_neighbours_need_less_noise_and_change_the_meaning_of_epsilon(mechanism):
    parameters = {"errors": 0, "corrections": 0} if mechanism == "moment-gnmax" else {"errors": 0}
    asked = Options(mechanism=mechanism, epsilon=1.0, parameters=parameters)
    replaced, removed = (make_plan(replace(asked, neighbours=one), **SIZES) for one in (None, "removed"))
    assert 0.9999 < removed.bound.epsilon <= 1
    # Sums that are centred over ten classes move by 0.9, where one record replaced moves them by 2.
    part = 0.5 if mechanism == "bounded-gnmax" else (1 + 0.9) / 4
    assert removed.mechanism.sigma2 == pytest.approx(replaced.mechanism.sigma2 * part**0.5, rel=1e-4)
    # Each epsilon is priced for the other definition, too: the same release never has the smaller number for both.
    assert removed.guarantee_under("take-out") == (removed.bound.epsilon, removed.delta)
    assert removed.guarantee_under("replace")[0] > 1.4
    assert replaced.guarantee_under("take-out")[0] < 0.75
    known = (("replace", "one"), ("take-out", "other"))
    assert replaced.sorted_adjacencies(known) == known
    assert removed.sorted_adjacencies(known) == known[::-1]
    # A resumed run keeps them.
    assert plan_from(removed.as_dict(), classes=10) == replace(
        removed, bound=plan_from(removed.as_dict(), classes=10).bound
    )
    assert plan_from(removed.as_dict(), classes=10).bound.epsilon == pytest.approx(removed.bound.epsilon, rel=1e-9)


def test_only_sums_that_are_certainly_centred_cost_less_and_a_run_planned_before_keeps_its_price():
    asked = Options(mechanism="moment-gnmax", epsilon=1.0, neighbours="removed")

    def classes_of(**given):
        return make_plan(asked, **{**SIZES, "classes": 2, **given}).mechanism.centred_classes

    assert (classes_of(), classes_of(classes=20), classes_of(classes=21)) == (2, 20, None)
    # With this number of records more features could be summed than are centred; levels of consent.
    assert classes_of(units=10**12) is None
    with_levels = Options(mechanism="moment-gnmax", neighbours="removed")
    levels = Consent(epsilons={"1": 0.5, "2": 1.0})
    assert make_plan(with_levels, **SIZES, consent=levels).mechanism.centred_classes is None
    # What is given by hand does not decide it.
    wrong = replace(asked, parameters={"centred_classes": 2})
    assert make_plan(wrong, **SIZES).mechanism.centred_classes == 10
    plan = make_plan(asked, **SIZES)
    before = plan.as_dict()
    assert before["parameters"].pop("centred_classes") == 10
    old = plan_from(before, classes=10)
    assert old.mechanism.centred_classes is None
    # The sums have a quarter of the cost, half of it without corrections.
    assert old.bound.epsilon > 1.01 * plan.bound.epsilon


@pytest.mark.slow
def test_trained_teachers_are_for_one_record_added_or_removed():
    asked = Options(mechanism="gnmax", epsilon=2.0)
    assert make_plan(replace(asked, neighbours="removed"), **SIZES) == make_plan(asked, **SIZES)
    with pytest.raises(InvalidInput, match="neighbours cannot be replaced with trained teachers"):
        make_plan(replace(asked, neighbours="replaced"), **SIZES)


def test_given_noise_is_kept_where_no_epsilon_is_asked():
    request = Options(parameters={"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}, queries=640, teachers=250)
    plan = make_plan(request, **SIZES)
    assert plan.mechanism == ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    sizes = {"queries": 640, "delta": 1e-5, "teachers": 250, "classes": 10}
    assert plan.bound == worst_case(plan.mechanism, **sizes, adaptive=True)
    assert plan.bound.epsilon < worst_case(plan.mechanism, **sizes).epsilon


@pytest.mark.slow
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


@pytest.mark.slow
def test_it_is_said_what_was_given_and_what_was_not():
    sources = make_plan(Options(parameters={"threshold": 60.0, "sigma1": 300.0}, queries=50), **SIZES).tuned
    scaled = "then the noise was made as small as epsilon 2 allows, from public numbers alone"
    assert sources["threshold"] == "given by the operator"
    assert sources["sigma1"] == f"given by the operator as 300; {scaled}"
    assert sources["sigma2"] == f"a default in proportion to the number of teachers; {scaled}"
    sources = make_plan(
        Options(parameters={"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}, queries=50), **SIZES
    ).tuned
    assert sources["threshold, sigma1, sigma2"] == "given by the operator"
    assert "epsilon" not in sources
    sources = make_plan(Options(mechanism="bounded-gnmax"), **SIZES).tuned
    assert sources["sigma2"] == "noise of the votes, as small as epsilon 2 allows, from public numbers alone"
    sources = make_plan(Options(mechanism="bounded-gnmax", parameters={"sigma2": 10.0}), **SIZES).tuned
    assert (sources["sigma2"], sources["max_contributions, neighbours"]) == (
        "given by the operator",
        "defaults, from public facts alone",
    )


@pytest.mark.slow
def test_an_epsilon_out_of_reach_is_refused_with_what_is_in_reach():
    limits = r"at least .* with noise of at most 50 votes, got 0\.01.*; fewer queries or more teachers need less"
    with pytest.raises(InvalidInput, match=limits):
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
        ({"mechanism": "interactive-gnmax", "parameters": {"gamma": 1.0}}, "gamma is not a parameter"),
        ({"mechanism": "immutable", "epsilon": 1.0}, "gives no guarantee"),
        ({"parameters": {"sigma2": -1.0}}, "sigma2 must be"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(asked, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(Options(**asked), **SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["confident-gnmax", "interactive-gnmax", "immutable", "lnmax"])
def test_a_plan_survives_the_disk(mechanism):
    plan = make_plan(Options(mechanism=mechanism, max_answers=50), **SIZES)
    assert plan_from(plan.as_dict(), classes=10) == plan


@pytest.mark.slow
def test_a_gate_that_costs_more_than_the_worst_case_at_this_noise_is_left_out():
    few = Options(mechanism="gnmax", parameters={"sigma2": 15.0}, teachers=20, queries=20, delta=1e-4)
    plan = make_plan(replace(few, guarantee="gate"), units=400, pool=100, classes=2)
    assert plan == make_plan(few, units=400, pool=100, classes=2)


def test_an_attackers_odds_are_those_of_the_gaussian_curve():
    plan = make_plan(Options(mechanism="bounded-gnmax", epsilon=1.0, parameters={"errors": 0}), **SIZES)
    mu = math.sqrt(2) / plan.mechanism.sigma2
    exact = norm.cdf(mu / 2)
    assert exact <= plan.membership_guess() < exact + 1e-9
    # The published pair alone would allow far more.
    assert plan.membership_guess() < membership_guess([(plan.bound.epsilon, plan.delta)]) - 0.15
    # Of a large prior nothing is taken away.
    assert plan.membership_guess(prior=0.97) >= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["bounded-gnmax", "gnmax"])
def test_the_pairs_behind_the_odds_all_hold(mechanism):
    plan = make_plan(Options(mechanism=mechanism, epsilon=2.0, queries=50), **SIZES)
    pairs = plan.curve().points
    assert (plan.bound.epsilon, plan.delta) in pairs
    epsilons, deltas = zip(*pairs, strict=True)
    assert list(deltas) == sorted(deltas)
    assert list(epsilons) == sorted(epsilons, reverse=True)
    assert deltas[0] == 1e-7
    known: dict[str, object] = {} if plan.per_record else {"teachers": plan.teachers, "classes": plan.classes}
    for epsilon, delta in [pair for pair in pairs if pair[1] in (2e-5, 0.001, 0.1)]:
        bound = worst_case(
            plan.mechanism, queries=50, delta=delta, max_answers=plan.max_answers, adaptive=True, **known
        )
        # Both are upper bounds; the grid of each suits its own delta.
        assert 0.9 * bound.epsilon < epsilon <= 1.001 * bound.epsilon
    smaller = make_plan(Options(mechanism=mechanism, epsilon=0.5, queries=50), **SIZES)
    assert 0.5 < smaller.membership_guess() < plan.membership_guess() < 0.85


def test_the_odds_behind_a_gate_rest_on_its_certificate():
    sizes = {"units": 10_000, "pool": 200, "classes": 2}
    plan = make_plan(Options(mechanism="gnmax", parameters={"sigma2": 30.0}, queries=2, teachers=20), **sizes)
    shape = {"queries": 2, "teachers": 20, "classes": 2, "delta": 1e-5}
    gate = Gate(mechanism=plan.mechanism, levels=[(0.9 * 0.75**t, 8.0, 0.02 + 0.001 * t) for t in range(50)], **shape)
    gated = replace(plan, gate=gate)
    curve = gated.curve()
    assert (gate.certificate().epsilon, 1e-5) in curve.points
    assert len(curve.points) > 8
    assert curve.mu is None
    for epsilon, delta in curve.points:
        assert gate_delta(gate.levels, epsilon=epsilon) <= delta
    assert gated.membership_guess() < membership_guess([(gate.certificate().epsilon, 1e-5)])


def test_where_no_epsilon_holds_every_guess_may_be_right(monkeypatch):
    plan = make_plan(Options(mechanism="bounded-gnmax", parameters={"sigma2": 1e-3}), **SIZES)
    assert plan.membership_guess() == 1.0
    nothing = replace(plan.bound, epsilon=math.inf)
    monkeypatch.setattr("ostrakon.planning.plan.worst_case_at", lambda *_, **__: lambda delta: nothing)
    unbounded = replace(plan, bound=nothing)
    assert unbounded.curve() is None
    assert unbounded.membership_guess(0.2) == 1.0


@pytest.mark.parametrize("prior", [0.0, 1.0, math.nan, True])
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(InvalidInput, match="prior"):
        make_plan(Options(epsilon=1.0), **SIZES).membership_guess(prior)
