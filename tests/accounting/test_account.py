"""One call that prices a run."""

import numpy as np
import pytest

import ostrakon
from ostrakon.accounting.account import EFFORT, account
from ostrakon.accounting.data_dependent.adaptive import adaptive_epsilon
from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS
from ostrakon.mechanisms import ConfidentGNMax, GNMax, LNMax
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

VOTES = Votes([[200, 30, 20], [130, 110, 10], [250, 0, 0]])
CONFIDENT = ConfidentGNMax(threshold=150, sigma1=100, sigma2=40)


@pytest.mark.parametrize("conversion", ["cks", "mironov"])
@pytest.mark.parametrize("mechanism", [CONFIDENT, LNMax(gamma=0.05), GNMax(sigma2=40)], ids=lambda m: m.name)
def test_the_parts_are_those_of_their_own_functions(mechanism, conversion):
    cost = account(VOTES, mechanism, delta=1e-5, conversion=conversion)
    sizes = {"queries": 3, "delta": 1e-5, "teachers": 250, "classes": 3}
    assert cost.worst_case == worst_case(mechanism, **sizes, adaptive=True, effort=EFFORT)
    for part, curve in [(cost.data_dependent, exact_curve), (cost.published, published_curve)]:
        epsilon, order = curve(VOTES, mechanism, DEFAULT_ORDERS).epsilon(delta=1e-5, conversion=conversion)
        expected = {"epsilon": epsilon, "delta": 1e-5, "order": order}
        if curve is exact_curve and conversion == "cks":
            adaptive = adaptive_epsilon(VOTES, mechanism, epsilon=epsilon, delta=1e-5)
            expected = {"epsilon": adaptive, "delta": 1e-5} if adaptive < epsilon else expected
        assert part.reveal() == expected
    assert cost.data_dependent.reveal()["epsilon"] <= cost.published.reveal()["epsilon"]


def test_other_types_are_refused_by_name():
    with pytest.raises(InvalidInput, match=r"votes must be ostrakon\.Votes, got ndarray"):
        account(VOTES.counts, CONFIDENT, delta=1e-5)
    with pytest.raises(InvalidInput, match=r"mechanism must be one of .*, got 'gnmax'"):
        account(VOTES, "gnmax", delta=1e-5)


def test_what_has_no_published_bound_has_none():
    cost = account(VOTES, PermuteAndFlip(epsilon_per_query=0.1), delta=1e-5)
    assert cost.published is None
    assert cost.data_dependent is not None


def test_tied_queries_have_a_worst_case_only():
    cost = account(VOTES, SparseVector(threshold=30, refusals=2, epsilon1=0.5, epsilon2=0.5), delta=1e-5)
    assert cost.data_dependent is None
    assert cost.published is None
    assert cost.forecast is None
    assert cost.worst_case.epsilon > 0


def test_a_cap_on_answers_lowers_the_worst_case_alone():
    many = Votes(np.tile(VOTES.counts, (100, 1)))
    free, capped = (account(many, CONFIDENT, delta=1e-5, max_answers=cap) for cap in (None, 5))
    assert capped.worst_case.epsilon < free.worst_case.epsilon
    assert capped.data_dependent.reveal() == free.data_dependent.reveal()


def test_the_data_dependent_epsilon_falls_with_delta():
    found = [
        account(VOTES, CONFIDENT, delta=d).data_dependent.reveal()["epsilon"] for d in (1e-9, 1e-7, 1e-5, 1e-3, 0.1)
    ]
    assert (np.diff(found) < 0).all()


def test_abstentions_do_not_borrow_the_bound_of_a_full_committee():
    votes = Votes(VOTES.counts, teachers=260, abstentions=True)
    cost = account(votes, CONFIDENT, delta=1e-5)
    assert cost.worst_case == worst_case(CONFIDENT, queries=3, delta=1e-5, teachers=260, classes=3, abstentions=True)


@pytest.mark.slow
def test_classes_read_off_predictions_are_no_public_number():
    # Another teacher may name a class that nobody named here: with two classes alone LNMax costs half as much.
    seen = np.random.default_rng(0).integers(0, 2, (40, 50))
    told, unseen = (Votes.from_predictions(seen, classes=classes) for classes in (2, None))
    assert (told.classes_are_public, unseen.classes_are_public) == (True, False)
    assert not unseen[:5].classes_are_public
    for mechanism in (LNMax(gamma=0.05), ConfidentGNMax(threshold=35, sigma1=40, sigma2=10), GNMax(sigma2=10)):
        bounds = [
            account(votes, mechanism, delta=1e-5).worst_case.epsilon
            for votes in (
                told,
                unseen,
                Votes.from_predictions(seen, classes=10),
                Votes.from_predictions(seen, classes=3),
            )
        ]
        assert bounds[0] < bounds[1]
        assert bounds[1] >= max(bounds[2:])
    public = PublicVotes(told.counts)
    with pytest.raises(InvalidInput, match="classes must be given where a gate is planned"):
        account(unseen, GNMax(sigma2=10), delta=1e-5, public_votes=public)


@pytest.mark.parametrize("delta", [0, 1, np.nan, -1e-5, "1e-5", True])
def test_delta_is_checked(delta):
    with pytest.raises(InvalidInput, match="delta"):
        account(VOTES, CONFIDENT, delta=delta)


def test_orders_and_conversions_are_checked():
    with pytest.raises(InvalidInput, match="orders"):
        account(VOTES, CONFIDENT, delta=1e-5, orders=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="conversion"):
        account(VOTES, CONFIDENT, delta=1e-5, conversion="best")


def test_the_package_exports_the_function():
    assert ostrakon.account is account


def test_no_queries_cost_next_to_nothing():
    cost = account(Votes(np.zeros((0, 3), int), teachers=10), CONFIDENT, delta=1e-5)
    assert cost.worst_case.epsilon == 0
    assert cost.data_dependent.reveal()["epsilon"] >= 0
    assert cost.forecast.reveal()["expected_answers"] == 0
