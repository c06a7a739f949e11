"""Bounded GNMax: the sensitivity by enumeration, the cost of whole runs by brute force, and refusals."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chi2, norm

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import GNMax
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, Votes


def columns(queries, classes, max_contributions):
    """All that one teacher may say: a class or silence per query, speaking at most `max_contributions` times."""
    for said in itertools.product(range(-1, classes), repeat=queries):
        if sum(value >= 0 for value in said) <= max_contributions:
            yield np.array(said)


def histograms(column, classes):
    return (column[:, None] == np.arange(classes)).astype(float).ravel()


@pytest.mark.parametrize(("queries", "classes", "max_contributions"), [(3, 2, 1), (3, 3, 2), (4, 2, 3), (2, 2, 5)])
def test_one_teacher_moves_histograms_by_the_root_of_twice_max_contributions(queries, classes, max_contributions):
    spoken = [histograms(column, classes) for column in columns(queries, classes, max_contributions)]
    farthest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(spoken, 2))
    assert farthest == pytest.approx(math.sqrt(2 * min(max_contributions, queries)))


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_whole_runs_of_two_queries_never_cost_more_than_claimed(sigma):
    """The joint law of both answers, for every pair of neighbours of three two-class teachers that vote once."""
    mechanism = BoundedGNMax(sigma2=sigma, max_contributions=1)
    said = list(columns(2, 2, 1))
    tallest = {}
    for others in itertools.combinations_with_replacement(said, 2):
        base = sum(histograms(other, 2) for other in others)
        laws = []
        for mine in said:
            counts = (base + histograms(mine, 2)).reshape(2, 2)
            first = norm.cdf((counts[:, 0] - counts[:, 1]) / (sigma * math.sqrt(2)))
            laws.append(np.outer([first[0], 1 - first[0]], [first[1], 1 - first[1]]).ravel())
        for p, q in itertools.permutations(laws, 2):
            for delta in (1e-6, 1e-3, 0.05):
                epsilon = worst_case(mechanism, queries=2, delta=delta).epsilon
                assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta
                tallest[delta] = max(
                    tallest.get(delta, 0), np.maximum(p - math.exp(epsilon / 2.5) * q, 0).sum() / delta
                )
    # The check can fail: less than half the epsilon would be a false claim.
    assert max(tallest.values()) > 1


def test_the_epsilon_is_that_of_gaussian_dp_and_does_not_grow_with_the_queries():
    mechanism = BoundedGNMax(sigma2=50, max_contributions=3)
    expected = gaussian_dp_epsilon(math.sqrt(6) / 50, 1e-5)
    for queries in (3, 40, 100_000):
        assert worst_case(mechanism, queries=queries, delta=1e-5).epsilon == pytest.approx(expected, rel=1e-6)
        assert worst_case(mechanism, queries=queries, delta=1e-5).epsilon >= expected * (1 - 1e-9)
    assert worst_case(mechanism, queries=1, delta=1e-5).epsilon == pytest.approx(
        worst_case(GNMax(sigma2=50), queries=1, delta=1e-5).epsilon, rel=1e-6
    )
    assert worst_case(mechanism, queries=0, delta=1e-5).epsilon == 0
    assert np.isinf(mechanism.worst_case(np.array([2.0, 10.0]))).all()


def test_samples_follow_the_law_and_two_percent_more_noise_does_not():
    runs = 400_000
    votes = BoundedVotes(np.tile([60, 30, 10], (runs, 1)), teachers=runs * 100, max_contributions=1)
    law = np.exp(BoundedGNMax(sigma2=20).log_probabilities(votes[:1])[0, :3]) * runs
    for sigma, fits in ((20, True), (20.6, False)):
        seen = np.bincount(BoundedGNMax(sigma2=sigma).sample(votes, np.random.default_rng(1)), minlength=3)
        assert (chi2.sf(((seen - law) ** 2 / law).sum(), 2) > 1e-3) == fits


def test_noisy_counts_are_what_the_answers_are_the_largest_of():
    votes = BoundedVotes([[5, 3], [2, 6]], teachers=16, max_contributions=1)
    mechanism = BoundedGNMax(sigma2=4)
    noisy = mechanism.noisy_counts(votes, np.random.default_rng(3))
    assert np.array_equal(noisy.argmax(axis=1), mechanism.sample(votes, np.random.default_rng(3)))
    many = np.array([mechanism.noisy_counts(votes, rng) for rng in map(np.random.default_rng, range(4000))])
    np.testing.assert_allclose(many.mean(axis=0), votes.counts, atol=0.3)
    np.testing.assert_allclose(many.std(axis=0), 4, rtol=0.05)


def test_max_contributions_are_verified_teacher_by_teacher():
    good = np.array([[0, -1, 1], [-1, 2, -1]])
    votes = BoundedVotes.from_predictions(good, classes=3, max_contributions=1)
    assert votes.counts.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert votes.teachers == 3
    twice = np.array([[0, -1], [1, 1]])
    with pytest.raises(InvalidInput, match="0 voted 2 times"):
        BoundedVotes.from_predictions(twice, classes=2, max_contributions=1)
    assert BoundedVotes.from_predictions(twice, classes=2, max_contributions=2).max_contributions == 2
    with pytest.raises(InvalidInput, match="at most 3"):
        BoundedVotes([[2, 2]], teachers=3, max_contributions=1)


def test_votes_that_are_not_bounded_are_refused():
    mechanism, rng = BoundedGNMax(sigma2=5, max_contributions=1), np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="BoundedVotes"):
        mechanism.sample(Votes([[2, 1]]), rng)
    with pytest.raises(InvalidInput, match="max_contributions 2"):
        mechanism.sample(BoundedVotes([[2, 1]], teachers=3, max_contributions=2), rng)
    votes = BoundedVotes([[2, 1], [0, 3]], teachers=6, max_contributions=1)
    assert isinstance(votes[:1], BoundedVotes)
    assert mechanism.sample(votes[:1], rng).shape == (1,)
    with pytest.raises(InvalidInput):
        mechanism.sample(votes, None)


@pytest.mark.parametrize(
    "wrong",
    [{"sigma2": 0}, {"sigma2": math.nan}, {"sigma2": math.inf}, {"sigma2": -1}, {"sigma2": True}, {"sigma2": "5"}]
    + [{"sigma2": 5, "max_contributions": value} for value in (0, -1, 1.5, True, math.nan, None)],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        BoundedGNMax(**wrong)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, True])
def test_wrong_delta_is_refused(delta):
    with pytest.raises(InvalidInput):
        worst_case(BoundedGNMax(sigma2=5), queries=3, delta=delta)


def test_it_is_frozen_and_picklable():
    mechanism = BoundedGNMax(sigma2=5, max_contributions=2)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert mechanism.parameters() == {"sigma2": 5.0, "max_contributions": 2, "neighbours": "replaced"}
