"""Rationed GNMax: the sensitivity by enumeration, the cost of whole runs by brute force, and refusals."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chi2, norm

from quorate.accounting.gaussian_dp import gaussian_dp_epsilon
from quorate.accounting.worst_case import worst_case
from quorate.checks import InvalidInput
from quorate.mechanisms import GNMax
from quorate.mechanisms.rationed_gnmax import RationedGNMax, RationedVotes
from quorate.votes import Votes


def columns(queries, classes, ration):
    """All that one teacher may say: a class or silence per query, speaking at most `ration` times."""
    for said in itertools.product(range(-1, classes), repeat=queries):
        if sum(value >= 0 for value in said) <= ration:
            yield np.array(said)


def histograms(column, classes):
    return (column[:, None] == np.arange(classes)).astype(float).ravel()


@pytest.mark.parametrize(("queries", "classes", "ration"), [(3, 2, 1), (3, 3, 2), (4, 2, 3), (2, 2, 5)])
def test_one_teacher_moves_the_histograms_by_exactly_the_root_of_twice_the_ration(queries, classes, ration):
    spoken = [histograms(column, classes) for column in columns(queries, classes, ration)]
    farthest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(spoken, 2))
    assert farthest == pytest.approx(math.sqrt(2 * min(ration, queries)))


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_whole_runs_of_two_queries_never_cost_more_than_claimed(sigma):
    """The joint law of both answers, for every pair of neighbours of three two-class teachers with ration 1."""
    mechanism = RationedGNMax(sigma2=sigma, ration=1)
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
    mechanism = RationedGNMax(sigma2=50, ration=3)
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
    votes = RationedVotes(np.tile([60, 30, 10], (runs, 1)), teachers=runs * 100, ration=1)
    law = np.exp(RationedGNMax(sigma2=20).log_probabilities(votes[:1])[0, :3]) * runs
    for sigma, fits in ((20, True), (20.6, False)):
        seen = np.bincount(RationedGNMax(sigma2=sigma).sample(votes, np.random.default_rng(1)), minlength=3)
        assert (chi2.sf(((seen - law) ** 2 / law).sum(), 2) > 1e-3) == fits


def test_noisy_counts_are_what_the_answers_are_the_largest_of():
    votes = RationedVotes([[5, 3], [2, 6]], teachers=16, ration=1)
    mechanism = RationedGNMax(sigma2=4)
    noisy = mechanism.noisy_counts(votes, np.random.default_rng(3))
    assert np.array_equal(noisy.argmax(axis=1), mechanism.sample(votes, np.random.default_rng(3)))
    many = np.array([mechanism.noisy_counts(votes, rng) for rng in map(np.random.default_rng, range(4000))])
    np.testing.assert_allclose(many.mean(axis=0), votes.counts, atol=0.3)
    np.testing.assert_allclose(many.std(axis=0), 4, rtol=0.05)


def test_the_ration_is_verified_teacher_by_teacher():
    good = np.array([[0, -1, 1], [-1, 2, -1]])
    votes = RationedVotes.from_predictions(good, classes=3, ration=1)
    assert votes.counts.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert votes.teachers == 3
    loud = np.array([[0, -1], [1, 1]])
    with pytest.raises(InvalidInput, match="0 spoke 2 times"):
        RationedVotes.from_predictions(loud, classes=2, ration=1)
    assert RationedVotes.from_predictions(loud, classes=2, ration=2).ration == 2
    with pytest.raises(InvalidInput, match="at most 3"):
        RationedVotes([[2, 2]], teachers=3, ration=1)


def test_votes_that_are_not_rationed_are_refused():
    mechanism, rng = RationedGNMax(sigma2=5, ration=1), np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="RationedVotes"):
        mechanism.sample(Votes([[2, 1]]), rng)
    with pytest.raises(InvalidInput, match="ration 2"):
        mechanism.sample(RationedVotes([[2, 1]], teachers=3, ration=2), rng)
    votes = RationedVotes([[2, 1], [0, 3]], teachers=6, ration=1)
    assert isinstance(votes[:1], RationedVotes)
    assert mechanism.sample(votes[:1], rng).shape == (1,)
    with pytest.raises(InvalidInput):
        mechanism.sample(votes, None)


@pytest.mark.parametrize(
    "wrong",
    [{"sigma2": 0}, {"sigma2": math.nan}, {"sigma2": math.inf}, {"sigma2": -1}, {"sigma2": True}, {"sigma2": "5"}]
    + [{"sigma2": 5, "ration": value} for value in (0, -1, 1.5, True, math.nan, None)],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        RationedGNMax(**wrong)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, True])
def test_wrong_delta_is_refused(delta):
    with pytest.raises(InvalidInput):
        worst_case(RationedGNMax(sigma2=5), queries=3, delta=delta)


def test_it_is_frozen_and_picklable():
    mechanism = RationedGNMax(sigma2=5, ration=2)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert mechanism.parameters() == {"sigma2": 5.0, "ration": 2}
