import numpy as np
import pytest

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.audit import audit, worst_neighbours
from ostrakon.audit.neighbours import candidate_neighbours, diverse_votes, require_neighbours
from ostrakon.mechanisms import BoundedGNMax, ConfidentGNMax, LNMax
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_candidates_are_neighbours(classes: int):
    pairs = candidate_neighbours(teachers=50, classes=classes, queries=3, threshold=40)
    assert len(pairs) >= 5
    for pair in pairs:
        require_neighbours(pair)
        assert pair[0].counts.shape == (3, classes)
        assert (pair[0].counts.sum(axis=1) == 50).all()
    assert {40, 39} <= {int(votes.top[0]) for pair in pairs for votes in pair}


def test_what_is_no_neighbour_is_refused():
    votes = Votes([[8, 2], [5, 5]])
    with pytest.raises(InvalidInput, match="one vote moved on every query"):
        require_neighbours((votes, Votes([[8, 2], [3, 7]])))
    with pytest.raises(InvalidInput, match="equal shape"):
        require_neighbours((votes, Votes([[8, 2]])))
    abstaining = [Votes(rows, teachers=10, abstentions=True) for rows in ([[8, 2]], [[8, 1]], [[7, 1]])]
    require_neighbours((abstaining[0], abstaining[1]))
    with pytest.raises(InvalidInput, match="one vote moved"):
        require_neighbours((abstaining[0], abstaining[2]))


def test_the_law_points_to_where_it_shows():
    """One query of LNMax: the exact epsilon is largest off the tie, as an exhaustive search says."""
    mechanism = LNMax(gamma=0.5)
    first, second = worst_neighbours(mechanism, teachers=40, classes=2, queries=1, delta=1e-6)[0]
    law = mechanism.log_probabilities(Votes([[a, 40 - a] for a in range(41)]))[:, :2]
    # delta(eps) of a binary answer is where one outcome is likelier: the largest ln((p - delta) / q) is the epsilon.
    pairs = [(law[i], law[j]) for i in range(41) for j in (i - 1, i + 1) if 0 <= j <= 40]
    with np.errstate(divide="ignore"):
        exact = [np.log(np.maximum(np.exp(p) - 1e-6, 0)) - q for p, q in pairs]
    best = max(float(each.max()) for each in exact)
    chosen = [mechanism.log_probabilities(votes)[0, :2] for votes in (first, second)]
    with np.errstate(divide="ignore"):
        ours = max(float((np.log(np.maximum(np.exp(p) - 1e-6, 0)) - q).max()) for p, q in (chosen, chosen[::-1]))
    assert ours == pytest.approx(best, rel=1e-3)
    assert int(first.counts[0].max()) > 22


def test_half_of_the_queries_move_and_mixtures_move_to_and_fro():
    pairs = candidate_neighbours(teachers=20, classes=3, queries=8)
    moved = [(pair[0].counts != pair[1].counts).any(axis=1).tolist() for pair in pairs]
    assert [True] * 8 in moved
    assert [True, False] * 4 in moved
    mixed = [pair for pair in pairs if len(np.unique(pair[0].counts, axis=0)) > 1]
    assert len(mixed) == 2
    many = candidate_neighbours(teachers=20, classes=3, queries=64)[-2]
    towards = many[1].counts[:, 0] - many[0].counts[:, 0]
    assert set(towards.tolist()) == {-1, 1}
    # Equal queries stand side by side, so that their agreement shows.
    for pair in pairs:
        np.testing.assert_array_equal(pair[0].counts[::2], pair[0].counts[1::2])


def test_diverse_votes_run_from_unanimous_to_undecided():
    votes = diverse_votes(teachers=90, classes=3, queries=32)
    assert votes.counts.shape == (32, 3)
    assert votes.top.max() == 90
    assert votes.top.min() == 30
    np.testing.assert_array_equal(votes.counts[::2], votes.counts[1::2])


def test_checks_and_tied_mechanisms_have_candidates():
    settings = {"queries": 2, "delta": 1e-5}
    for mechanism in (
        ConfidentGNMax(threshold=33, sigma1=5, sigma2=5),
        SparseVector(threshold=5, refusals=1, epsilon1=1.0, epsilon2=1.0),
    ):
        for pair in worst_neighbours(mechanism, teachers=40, classes=3, **settings):
            require_neighbours(pair)


def test_bounded_neighbours_differ_on_max_contributions_queries_alone():
    mechanism = BoundedGNMax(sigma2=5.0, max_contributions=2)
    pairs = worst_neighbours(mechanism, teachers=20, classes=3, queries=5, delta=1e-5)
    moved = {tuple(np.abs(before.counts - after.counts).sum(axis=1).tolist()) for before, after in pairs}
    assert moved == {(2, 2, 0, 0, 0), (2, 0, 0, 0, 0)}
    for before, after in pairs:
        mechanism.require_votes(before)
        mechanism.require_votes(after)


@pytest.mark.slow
def test_an_audit_finds_a_bounded_mechanism_with_less_noise_than_claimed():
    claim = BoundedGNMax(sigma2=1.0)
    options = {"delta": 1e-5, "queries": 2, "samples": 20_000, "rng": np.random.default_rng(0)}
    assert not audit(claim, **options).refuted
    claimed = worst_case(claim, queries=2, delta=1e-5).epsilon
    assert audit(BoundedGNMax(sigma2=0.1), claimed=claimed, **options).refuted
