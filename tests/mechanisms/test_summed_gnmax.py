"""The noise of summed tables: what persons move, what owners' shares do, and what colluders take away."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.ledger.cost import cost_of
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.noise import secure_rng
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, BoundedVotes

QUERIES, CLASSES = 2, 2


def tables_of_a_person(contributions):
    """Every table that one person may make at one owner."""
    for said in itertools.product([None, *range(CLASSES)], repeat=QUERIES):
        if sum(each is not None for each in said) <= contributions:
            table = np.zeros((QUERIES, CLASSES), np.int64)
            for query, label in enumerate(said):
                if label is not None:
                    table[query, label] = 1
            yield table


@pytest.mark.parametrize("contributions", [1, 2])
@pytest.mark.parametrize("owners", [1, 2])
def test_nobody_moves_the_tables_further_than_is_charged(contributions, owners):
    """Over all pairs of what a person may say at so many owners: of the sum, and of the tables side by side."""
    each = list(itertools.product(tables_of_a_person(contributions), repeat=owners))
    of_sum = max(np.linalg.norm(np.sum(a, axis=0) - np.sum(b, axis=0)) for a in each for b in each)
    beside = max(np.linalg.norm(np.subtract(a, b)) for a in each for b in each)
    bounds = {"sigma2": 10.0, "max_contributions": contributions, "owners_per_person": owners}
    trusted = SummedGNMax(**bounds).run_cost(queries=QUERIES)
    assert trusted.mu == pytest.approx(of_sum / 10, rel=1e-12)
    shared = {released: SharedGNMax(owners=3, released=released, **bounds) for released in ("sum", "each")}
    charged = {name: one.run_cost(queries=QUERIES).shares for name, one in shared.items()}
    assert charged["sum"].shift == pytest.approx(STEPS * of_sum, rel=1e-12)
    assert charged["each"].shift == pytest.approx(STEPS * beside, rel=1e-12)
    assert (charged["sum"].count, charged["each"].count) == (3, 1)


@pytest.mark.parametrize("owners", [1, 2])
def test_a_trained_teacher_moves_a_vote_on_every_query(owners):
    """Over all pairs of what a person's teachers may say: one of them at each owner, on all queries or on none.

    Where another person comes in this one's place, two teachers change, which may cost twice as much: that is another
    adjacency.
    """
    said = [np.eye(3, dtype=int)[list(each)] for each in itertools.product(range(3), repeat=QUERIES)]
    silent = [*said, np.zeros((QUERIES, 3), int)]
    of_one = [a - b for a in silent for b in silent]
    of_sum = max(np.linalg.norm(np.sum(each, axis=0)) for each in itertools.product(of_one, repeat=owners))
    bounds = {"sigma2": 10.0, "max_contributions": QUERIES, "owners_per_person": owners}
    assert SummedGNMax(**bounds).run_cost(queries=QUERIES).mu == pytest.approx(of_sum / 10, rel=1e-12)
    shared = SharedGNMax(owners=3, **bounds).run_cost(queries=QUERIES).shares
    assert shared.shift == pytest.approx(STEPS * of_sum, rel=1e-12)
    # No query is free, and none beyond those that are asked is paid for.
    assert SummedGNMax(**{**bounds, "max_contributions": 50}).run_cost(queries=QUERIES).mu == of_sum / 10
    exchanged = max(np.linalg.norm(a + b) for a in of_one for b in of_one)
    assert exchanged == pytest.approx(2 * math.sqrt(2 * QUERIES), rel=1e-12)


def test_one_person_at_one_owner_costs_what_a_run_costs():
    for contributions in (1, 3):
        bound = {"sigma2": 7.0, "max_contributions": contributions}
        plain, summed = BoundedGNMax(**bound), SummedGNMax(**bound)
        assert summed.run_cost(queries=50) == plain.run_cost(queries=50)
        assert summed.under("take-out").run_cost(queries=50) == plain.under("take-out").run_cost(queries=50)


def test_colluders_raise_the_noise_as_told():
    """By sqrt(n / (n - t)) at the same epsilon, but for the five digits of a calibration."""
    asked = {"epsilon": 1.0, "delta": 1e-6, "queries": 100}
    alone = calibrate(SharedGNMax(sigma2=10, owners=5), **asked).sigma2
    for colluders in (1, 2, 4):
        noise = calibrate(SharedGNMax(sigma2=10, owners=5, colluders=colluders), **asked).sigma2
        assert noise / alone == pytest.approx(math.sqrt(5 / (5 - colluders)), rel=1e-3)


def test_shares_that_may_be_missing_count_for_nothing():
    """They cost what colluders cost, of a sum; of tables that leave one by one, nothing."""
    asked = {"sigma2": 10.0, "owners": 5}
    for released in ("sum", "each"):
        lost = SharedGNMax(colluders=1, dropouts=2, released=released, **asked).run_cost(queries=100)
        assert lost == SharedGNMax(colluders=3, released=released, **asked).run_cost(queries=100)
    assert SharedGNMax(dropouts=2, **asked).run_cost(queries=100).shares.count == 3
    assert SharedGNMax(dropouts=2, released="each", **asked).run_cost(queries=100).shares.count == 1


def test_tables_that_leave_one_by_one_need_the_whole_noise_each():
    asked = {"epsilon": 1.0, "delta": 1e-6, "queries": 100}
    alone = calibrate(SharedGNMax(sigma2=10, owners=1), **asked)
    for owners in (3, 11):
        each = calibrate(SharedGNMax(sigma2=10, owners=owners, released="each"), **asked)
        assert each.share_sigma == pytest.approx(alone.share_sigma, rel=1e-3)
        assert each.sigma2 / alone.sigma2 == pytest.approx(math.sqrt(owners), rel=1e-3)
        assert worst_case(each, queries=100, delta=1e-6).epsilon <= 1


def test_a_ledger_charges_shares_by_their_curve():
    cost = cost_of(SharedGNMax(sigma2=10, owners=3), queries=100)
    assert cost.mu is None
    assert cost.at(2.0) == pytest.approx(2 * 2 / (2 * 100), rel=1e-9)


def test_shares_are_whole_steps_of_the_noise_that_is_told():
    """4,000 draws: their deviation is within five standard errors of what was asked for, and not of 10% less."""
    mechanism = SharedGNMax(sigma2=5.0, owners=4)
    votes = BoundedVotes(np.zeros((1000, 4), np.int64), teachers=9, max_contributions=1)
    share = mechanism.share(votes)
    assert share.dtype == np.int64
    error = 5 / math.sqrt(2 * share.size)
    assert abs(share.std() / (2.5 * STEPS) - 1) < error
    assert abs(share.std() / (0.9 * 2.5 * STEPS) - 1) > error
    whole = mechanism.noisy_counts(votes, secure_rng())
    assert abs(whole.std() / 5 - 1) < error
    assert np.array_equal(whole * STEPS, np.rint(whole * STEPS))


def test_a_share_is_the_table_plus_noise():
    counts = np.full((1000, 4), 10**6)
    votes = BoundedVotes(counts, teachers=4 * 10**9, max_contributions=1)
    share = SharedGNMax(sigma2=5.0, owners=4).share(votes) / STEPS - counts
    assert abs(share.mean()) < 6 * 2.5 / math.sqrt(share.size)
    assert abs(share).max() < 10 * 2.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"owners": 0},
        {"owners": 3, "colluders": 3},
        {"owners": 3, "colluders": -1},
        {"owners": 3, "colluders": 2, "dropouts": 1},
        {"owners": 3, "dropouts": -1},
        {"owners": 3, "released": "all"},
        {"owners": 3, "owners_per_person": 0},
        {"owners": 3, "owners_per_person": True},
        {"owners": 3, "sigma2": math.nan},
    ],
)
def test_what_is_no_mechanism_is_refused(wrong):
    with pytest.raises(InvalidInput):
        SharedGNMax(**{"sigma2": 5.0, **wrong})


def test_votes_without_a_bound_are_refused():
    votes = BoundedVotes([[1, 1]], teachers=2, max_contributions=2)
    with pytest.raises(InvalidInput, match="max_contributions of at most 1"):
        SharedGNMax(sigma2=5.0, owners=2).share(votes)
