"""Offers are the plans of runs, and nothing else."""

import json
import re
from dataclasses import replace

import pytest

from ostrakon.accounting.data_independent.adaptive_bound import adaptive_profile
from ostrakon.forecast import offers
from ostrakon.forecast.offers import Offer, default_mechanisms, make_offers
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.validation import InvalidInput

SIZES = {"records": 3000, "pool": 400, "classes": 3}


@pytest.mark.slow
def test_an_offer_is_the_plan_of_a_run():
    asked = Options(queries=30, teachers=150, delta=1e-6)
    names = ["bounded-gnmax", "gnmax"]
    refused, first, far, second = make_offers(asked, epsilons=[0.005, 5.0], mechanisms=names, **SIZES)
    sizes = {"units": 3000, "pool": 400, "classes": 3}
    alone = Options(queries=30, delta=1e-6, mechanism="bounded-gnmax", epsilon=5.0)
    assert (first.mechanism, first.epsilon, first.plan) == ("bounded-gnmax", 5.0, make_plan(alone, **sizes))
    trained = replace(asked, mechanism="gnmax", epsilon=5.0)
    assert (second.mechanism, second.epsilon, second.plan) == ("gnmax", 5.0, make_plan(trained, **sizes))
    for one, options in ((refused, replace(alone, epsilon=0.005)), (far, replace(trained, epsilon=0.005))):
        with pytest.raises(InvalidInput) as found:
            make_plan(options, **sizes)
        assert (one.plan, one.refusal) == (None, str(found.value))
        assert one.refusal is not None
        assert one.refusal.endswith(".")
        assert re.search("nearest reachable settings are|must be at least", one.refusal)


def test_any_number_of_threads_gives_the_same_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, sizes = Options(queries=20, teachers=30), {"records": 300, "pool": 40, "classes": 2}
    found: list[tuple[Offer, ...]] = []
    for threads in (1, 5):
        adaptive_profile.cache_clear()
        monkeypatch.setattr(offers, "effective_n_jobs", lambda _, threads=threads: threads)
        found.append(make_offers(asked, epsilons=[0.1, 1.0, 3.0], mechanisms=["gnmax", "confident-gnmax"], **sizes))
    assert found[0] == found[1]
    assert [one.epsilon for one in found[0]] == [0.1, 1.0, 3.0, 0.1, 1.0, 3.0]


def test_what_is_said_of_a_plan_follows_from_it():
    first, second = make_offers(
        Options(queries=30), epsilons=[0.5, 2.0], mechanisms=default_mechanisms(Options(), classes=2)[:1], **SIZES
    )
    assert first.plan is not None
    assert second.plan is not None
    sigma = first.plan.mechanism.parameters()["sigma2"]
    assert first.signal_to_noise == pytest.approx(3000 / 30 / sigma)
    assert first.answers == (30, True)
    assert first.odds == first.plan.membership_guess()
    assert first.odds is not None
    assert second.odds is not None
    assert 0.5 < first.odds < second.odds < 1
    told = first.as_dict()
    assert (told["queries"], told["noise"]["sigma2"], told["refused"]) == (30, sigma, None)
    assert 0.5 >= told["worst_case"] >= first.plan.bound.epsilon
    json.dumps(told, allow_nan=False)


def test_an_answer_is_promised_where_a_mechanism_always_answers():
    def of(mechanism: str, **options: object) -> Offer:
        noise = {"sigma2": 20.0} if mechanism == "gnmax" else {"threshold": 30.0, "sigma1": 20.0, "sigma2": 20.0}
        asked = Options(mechanism=mechanism, parameters=noise, queries=4, teachers=50, **options)
        return Offer(epsilon=9.0, mechanism=mechanism, plan=make_plan(asked, units=3000, pool=400, classes=3))

    assert of("confident-gnmax", max_answers=3).answers == (3, False)
    assert of("confident-gnmax").answers is None
    always = of("gnmax")
    assert (always.answers, always.signal_to_noise, always.noise) == ((4, True), 2.5, {"sigma2": 20.0})


@pytest.mark.parametrize("mechanism", ["lnmax", "exponential", "permute-and-flip"])
def test_it_is_the_law_that_says_who_answers_all(mechanism: str) -> None:
    plan = make_plan(Options(mechanism=mechanism, queries=4, teachers=600), units=60_000, pool=400, classes=3)
    assert Offer(epsilon=2.0, mechanism=mechanism, plan=plan).answers == (4, True)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["screened-exponential", "interactive-gnmax"])
def test_who_checks_first_promises_no_answers(mechanism: str) -> None:
    plan = make_plan(Options(mechanism=mechanism, queries=4, teachers=600), units=60_000, pool=400, classes=3)
    assert Offer(epsilon=2.0, mechanism=mechanism, plan=plan).answers is None


@pytest.mark.slow
def test_each_mechanism_is_asked_what_it_has():
    asked = Options(queries=30, parameters={"max_contributions": 2, "threshold": 15.0})
    names = ["bounded-gnmax", "confident-gnmax"]
    per_record, trained = make_offers(asked, epsilons=[1.0], mechanisms=names, unit="user", **SIZES)
    sizes = {"units": 3000, "pool": 400, "classes": 3, "unit": "user"}
    for offer, own in ((per_record, {"max_contributions": 2}), (trained, {"threshold": 15.0})):
        alone = replace(asked, parameters=own, mechanism=offer.mechanism, epsilon=1.0)
        assert (offer.plan, offer.unit) == (make_plan(alone, **sizes), "user")
    with pytest.raises(InvalidInput, match="threshold is not a parameter of bounded-gnmax, gnmax"):
        make_offers(asked, epsilons=[1.0], mechanisms=["bounded-gnmax", "gnmax"], **SIZES)


def test_parameters_may_be_written_behind_the_mechanism_as_for_a_run():
    written, shared = "bounded-gnmax(errors=0)", Options(parameters={"max_contributions": 1})
    first, second = make_offers(shared, epsilons=[1.0], mechanisms=[written, "bounded-gnmax"], **SIZES)
    (alone,) = make_offers(shared, epsilons=[1.0], mechanisms=[written], **SIZES)
    sizes = {"units": 3000, "pool": 400, "classes": 3}
    plan = make_plan(Options.of({"mechanism": written, "max_contributions": 1, "epsilon": 1.0}), **sizes)
    assert (first.mechanism, first.plan, first.per_record, alone.plan) == (written, plan, True, plan)
    assert second.plan != plan
    for mechanism, why in (
        ("bounded-gnmax(gamma=1)", "'gamma' is not a parameter of bounded-gnmax"),
        ("bounded-gnmax(max_contributions=2)", "max_contributions must be given once"),
    ):
        with pytest.raises(InvalidInput, match=why):
            make_offers(shared, epsilons=[1.0], mechanisms=[mechanism], **SIZES)


def test_a_mechanism_that_nobody_knows_is_refused():
    with pytest.raises(InvalidInput, match="mechanism must be one of"):
        make_offers(Options(), epsilons=[1.0], mechanisms=["gnmux"], **SIZES)


def test_options_of_trained_teachers_are_offered_no_other_plan():
    for target, classes in (("classes", 4), ("labels", 3)):
        assert default_mechanisms(Options(teachers=5), classes=classes, target=target) == ("confident-gnmax",)
    assert default_mechanisms(Options(), classes=4) == ("moment-gnmax", "confident-gnmax")


def test_a_number_of_teachers_that_nobody_gave_is_called_a_default():
    for options, said in ((Options(), True), (Options(teachers=5), False)):
        (offer,) = make_offers(options, epsilons=[0.1], mechanisms=["gnmax"], records=300, pool=100, classes=2)
        assert ("teachers is 5 by default, from the number of records." in offer.refusal) is said


@pytest.mark.parametrize(
    ("target", "classes", "names"),
    [
        ("quantity", 2, ("quantity-gnmax",)),
        ("labels", 3, ("labels-gnmax", "confident-gnmax")),
        ("labels", 17, ("labels-gnmax",)),
    ],
)
def test_other_targets_are_offered_what_a_run_would_settle(target, classes, names):
    assert default_mechanisms(Options(), classes=classes, target=target) == names
    sizes = {"records": 20_000, "pool": 500, "classes": classes}
    for offer in make_offers(Options(), epsilons=[1.0], mechanisms=names, target=target, **sizes):
        options = Options(epsilon=1.0, mechanism=offer.mechanism)
        assert offer.plan == make_plan(options, units=20_000, pool=500, classes=classes, target=target)
        assert offer.plan.target == target
        assert 0.9 < offer.as_dict()["worst_case"] <= 1
        assert offer.answers is not None
