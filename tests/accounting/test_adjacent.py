"""One release under several adjacencies: held against exact costs of two moved votes."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from ostrakon.accounting.adjacent import Adjacent, replaced_record
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import Gated, WorstCase
from ostrakon.mechanisms import ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.report.table import neighbours_in_words
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

TEACHERS, QUERIES, DELTA = 12, 25, 1e-5


def exact_delta(p: float, q: float, epsilon: float) -> float:
    """Of `QUERIES` independent two-class answers with these probabilities of class 1."""
    ones = np.arange(QUERIES + 1)
    return float(np.maximum(binom.pmf(ones, QUERIES, p) - np.exp(epsilon) * binom.pmf(ones, QUERIES, q), 0).sum())


def worst_of_two_moves(mechanism, epsilon: float) -> float:
    law = np.exp(mechanism.log_probabilities(Votes([[n, TEACHERS - n] for n in range(TEACHERS + 1)])))[:, 0]
    pairs = product(range(TEACHERS + 1), repeat=2)
    return max(exact_delta(law[a], law[b], epsilon) for a, b in pairs if abs(a - b) <= 2)


@pytest.mark.parametrize(
    "mechanism", [GNMax(sigma2=12), LNMax(gamma=0.05), ExponentialMechanism(epsilon_per_query=0.15)]
)
def test_two_teachers_cost_no_more_than_is_said_and_more_than_one(mechanism):
    sizes = {"queries": QUERIES, "teachers": TEACHERS, "classes": 2}
    one = worst_case(mechanism, delta=DELTA, **sizes)
    two, delta = replaced_record(one, mechanism, **sizes)
    assert delta == DELTA
    assert worst_of_two_moves(mechanism, two) <= DELTA
    # Were it a claim for one teacher, it would be false: the test would see that.
    assert worst_of_two_moves(mechanism, one.epsilon) > DELTA
    assert one.epsilon < two < 3 * one.epsilon


def test_the_smaller_of_both_theorems_is_reported():
    mechanism = GNMax(sigma2=40)
    one = worst_case(mechanism, queries=100, delta=DELTA)
    two, _ = replaced_record(one, mechanism, queries=100)
    gaussian = gaussian_dp_epsilon(2 * math.sqrt(100 * 2) / 40, DELTA)
    assert two <= gaussian
    # A cap on answers counts: none given would cost more.
    capped, _ = replaced_record(one, mechanism, queries=100, max_answers=10)
    assert capped < two


@pytest.mark.parametrize(
    "mechanism",
    [SummedGNMax(sigma2=60, max_contributions=100), SharedGNMax(sigma2=60, owners=3, max_contributions=100)],
)
def test_two_teachers_of_owners_move_two_votes_on_every_query(mechanism):
    """At least what Gaussian noise costs where both move; of one aggregator's noise, just that."""
    truth = gaussian_dp_epsilon(2 * math.sqrt(2 * 100) / 60, DELTA)
    one = worst_case(mechanism, queries=100, delta=DELTA)
    two, delta = replaced_record(one, mechanism, queries=100)
    assert delta == DELTA
    assert truth <= two * (1 + 1e-9)
    if not isinstance(mechanism, SharedGNMax):
        assert two == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("max_contributions", [1, 3])
def test_a_missing_record_costs_less_than_a_replaced_one(max_contributions):
    mechanism = BoundedGNMax(sigma2=20, max_contributions=max_contributions)
    one = worst_case(mechanism, queries=500, delta=DELTA)
    assert one.epsilon == gaussian_dp_epsilon(math.sqrt(2 * max_contributions) / 20, DELTA)
    removed = mechanism.under("take-out")
    assert removed == BoundedGNMax(sigma2=20, max_contributions=max_contributions, neighbours="removed")
    assert removed.relation == "take-out"
    assert removed.under("replace") == mechanism
    missing = worst_case(removed, queries=500, delta=DELTA).epsilon
    assert missing == gaussian_dp_epsilon(math.sqrt(max_contributions) / 20, DELTA)
    # Nobody speaks on more queries than there are.
    assert removed.run_cost(queries=1).mu == 1 / 20


def test_a_mechanism_has_no_price_for_neighbours_that_it_does_not_know():
    with pytest.raises(InvalidInput, match="gnmax has a price for add-remove alone, got take-out"):
        GNMax(sigma2=5).under("take-out")
    with pytest.raises(InvalidInput, match="price for replace and take-out, got labels"):
        BoundedGNMax(sigma2=5).under("labels")
    with pytest.raises(InvalidInput, match="neighbours must be one of replaced, removed, got 'added'"):
        BoundedGNMax(sigma2=5, neighbours="added")


def test_a_gate_is_charged_twice_at_its_larger_delta():
    gate = Gated(epsilon=1.5, delta=1e-5, levels=((0.9, 8.0, 0.5),))
    assert replaced_record(gate, GNMax(sigma2=40), queries=10) == (3.0, (1 + math.exp(1.5)) * 1e-5)
    wide = Gated(epsilon=15.0, delta=1e-5, levels=((0.9, 8.0, 0.5),))
    assert replaced_record(wide, GNMax(sigma2=40), queries=10)[0] == math.inf


@pytest.mark.parametrize(("delta", "at"), [(1e-5, ""), (5.5e-5, " at delta 5.5e-05")])
def test_the_table_names_a_delta_that_differs(delta, at):
    own = Adjacent(relation="add-remove", neighbours="", epsilon=1.5, delta=1e-5)
    other = Adjacent(relation="replace", neighbours="", epsilon=3.0, delta=delta)
    words = neighbours_in_words((own, other), "record")
    assert words.endswith(f"; for one record replaced by another one, it is 3{at}")


def test_no_guarantee_for_one_is_none_for_two():
    none = WorstCase(epsilon=math.inf, delta=DELTA, basis="none")
    assert replaced_record(none, LNMax(gamma=0.05), queries=10) == (math.inf, DELTA)
