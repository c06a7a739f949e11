import math

import numpy as np
import pytest
from histograms import all_votes, neighbouring_rows

from ostrakon.accounting.calibration.noise import sparse_vector_within
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.mechanisms.laws.stability import distance_to_instability
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def run_law(mechanism: SparseVector, distances: np.ndarray, answered: tuple[bool, ...]) -> np.ndarray:
    """Probability of each pattern of answers and refusals of a whole run, by a fine Riemann sum over rho.

    distances: shape (runs, queries).
    """
    rho = np.linspace(-60, 60, 24001) / mechanism.epsilon1 / 2
    weight = np.exp(-np.abs(rho) * mechanism.epsilon1)
    weight /= weight.sum()
    probability = np.ones(len(distances))
    segment, refused = np.ones((len(distances), len(rho))), 0
    for query, answer in enumerate(answered):
        if refused == mechanism.refusals:
            return probability if not any(answered[query:]) else np.zeros(len(distances))
        margin = distances[:, query, None] - mechanism.threshold - rho
        tail = np.exp(-np.abs(margin) * mechanism.epsilon2 / 2) / 2
        passes = np.where(margin > 0, 1 - tail, tail)
        segment = segment * (passes if answer else 1 - passes)
        if not answer:
            probability, segment, refused = probability * (segment @ weight), np.ones_like(segment), refused + 1
    return probability * (segment @ weight)


def patterns(queries: int) -> list[tuple[bool, ...]]:
    return [tuple(bool(code >> i & 1) for i in range(queries)) for code in range(2**queries)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        SparseVector(threshold=1.5, refusals=1, epsilon1=1.0, epsilon2=1.0),
        SparseVector(threshold=2.0, refusals=2, epsilon1=1.0, epsilon2=2.0),
    ],
)
def test_whole_runs_of_two_queries_keep_the_claim(mechanism: SparseVector):
    """Every pair of neighbours on each query; outcomes are (answer or refusal, and which class) for the whole run."""
    votes = all_votes(teachers=7, classes=2)
    before, after = neighbouring_rows(votes)
    d, winner = distance_to_instability(votes), votes.plurality
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(len(before)), np.arange(len(before))))
    pairs = [np.column_stack([side[i], side[j]]) for side in (before, after)]
    laws = [{pattern: run_law(mechanism, d[rows], pattern) for pattern in patterns(2)} for rows in pairs]
    np.testing.assert_allclose(sum(laws[0].values()), 1, atol=1e-4)
    same = winner[pairs[0]] == winner[pairs[1]]
    epsilon = mechanism.refusals * (mechanism.epsilon1 + mechanism.epsilon2)
    for target, delta in [(epsilon, mechanism.failure(queries=2))] + [
        (worst_case(mechanism, queries=2, delta=delta).epsilon, delta) for delta in (0.3, 0.5, 0.9)
    ]:
        if not math.isfinite(target):
            continue
        total = np.zeros(len(i))
        for pattern in patterns(2):
            # Where an answered query has another plurality, the outcome is impossible on the other side.
            possible = np.logical_or(same, ~np.array(pattern)).all(axis=1)
            p, q = laws[0][pattern], np.where(possible, laws[1][pattern], 0.0)
            total += np.maximum(p - np.exp(target) * q, 0)
        assert total.max() <= delta * (1 + 1e-3)
        assert total.max() > 0.02 * delta


def test_marginals_are_those_of_whole_runs():
    mechanism = SparseVector(threshold=3.0, refusals=2, epsilon1=0.7, epsilon2=1.3)
    votes = Votes([[12, 8], [20, 0], [9, 11], [15, 5]])
    d = distance_to_instability(votes)[None, :]
    law = np.exp(mechanism.log_probabilities(votes))
    for query in range(4):
        answered = sum(float(run_law(mechanism, d, p)[0]) for p in patterns(4) if p[query])
        assert law[query, votes.plurality[query]] == pytest.approx(answered, abs=1e-4)


def test_it_stops_after_its_refusals():
    mechanism = SparseVector(threshold=5.0, refusals=3, epsilon1=50.0, epsilon2=50.0)
    votes = Votes([[20, 0], [10, 10], [20, 0], [10, 10], [10, 10], [20, 0], [20, 0]])
    answers = mechanism.sample(votes, np.random.default_rng(0))
    assert answers.tolist() == [0, -1, 0, -1, -1, -1, -1]


def test_failure_bounds_answers_to_unstable_queries():
    """With every query unstable, an answer is a failure: simulated, it happens at most as often as delta_w says."""
    mechanism = SparseVector(threshold=6.0, refusals=1, epsilon1=1.0, epsilon2=1.0)
    votes = Votes(np.full((3, 2), 5))
    rng = np.random.default_rng(4)
    failed = np.mean([(mechanism.sample(votes, rng) >= 0).any() for _ in range(20_000)])
    assert 0.02 < failed < mechanism.failure(queries=3)


def test_the_epsilon_of_a_run():
    mechanism = SparseVector(threshold=60.0, refusals=2, epsilon1=0.5, epsilon2=0.5)
    failure = mechanism.failure(queries=100)
    assert worst_case(mechanism, queries=100, delta=failure).epsilon == pytest.approx(2.0, rel=1e-9)
    assert worst_case(mechanism, queries=100, delta=failure * 0.999).epsilon == math.inf
    assert worst_case(mechanism, queries=100, delta=0.5).epsilon < 2.0
    assert worst_case(mechanism, queries=0, delta=1e-9).epsilon == 0.0


@pytest.mark.parametrize("refusals", [1, 4])
def test_a_budget_is_kept_and_used(refusals: int):
    mechanism = sparse_vector_within(epsilon=1.0, delta=1e-5, queries=221, refusals=refusals)
    assert 0.99 < worst_case(mechanism, queries=221, delta=1e-5).epsilon <= 1
    assert 0.999e-5 < mechanism.failure(queries=221) <= 1e-5


def test_refusals_are_whole():
    with pytest.raises(InvalidInput, match="refusals must be an integer of at least 1"):
        SparseVector(threshold=5.0, refusals=0, epsilon1=1.0, epsilon2=1.0)
