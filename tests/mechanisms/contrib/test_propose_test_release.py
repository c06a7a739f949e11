import math

import numpy as np
import pytest
from histograms import all_votes, hockey_stick, neighbouring_rows

from ostrakon.accounting.calibration.noise import propose_test_release_within
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

FORMS = [
    ProposeTestRelease(threshold=2.0, epsilon_per_query=1.0),
    ProposeTestRelease(threshold=3.0, sigma1=1.5),
    ProposeTestRelease(threshold=1.0, sigma1=0.5),
]


@pytest.mark.parametrize("mechanism", FORMS)
def test_two_queries_together_keep_the_claim(mechanism: ProposeTestRelease):
    """All pairs of neighbours on each of two queries: the product law against the worst case of two queries."""
    votes = all_votes(teachers=8, classes=2)
    law = np.exp(mechanism.log_probabilities(votes))
    before, after = neighbouring_rows(votes)
    i, j = np.meshgrid(np.arange(len(before)), np.arange(len(before)))
    joint_p = np.einsum("ka,kb->kab", law[before[i.ravel()]], law[before[j.ravel()]]).reshape(i.size, -1)
    joint_q = np.einsum("ka,kb->kab", law[after[i.ravel()]], law[after[j.ravel()]]).reshape(i.size, -1)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(joint_p), np.log(joint_q)
    close = 0.0
    for delta in (0.02, 0.05, 0.15, 0.4):
        epsilon = worst_case(mechanism, queries=2, delta=delta).epsilon
        if math.isfinite(epsilon):
            worst = hockey_stick(log_p, log_q, epsilon).max()
            assert worst <= delta
            close = max(close, worst / delta)
    assert close > 0.3


def test_one_laplace_query_is_tight():
    mechanism = ProposeTestRelease.for_delta(epsilon_per_query=1.0, delta_per_query=0.01)
    votes = all_votes(teachers=40, classes=2)
    before, after = neighbouring_rows(votes)
    law = mechanism.log_probabilities(votes)
    assert worst_case(mechanism, queries=1, delta=0.01).epsilon == 1.0
    assert hockey_stick(law[before], law[after], 1.0).max() == pytest.approx(0.01, rel=1e-9)
    assert hockey_stick(law[before], law[after], 0.95).max() > 0.02
    assert worst_case(mechanism, queries=1, delta=0.0099).epsilon == math.inf
    assert worst_case(mechanism, queries=2, delta=0.01).epsilon == math.inf


@pytest.mark.parametrize("queries", [1, 15, 221])
def test_a_budget_is_kept_and_used(queries: int):
    mechanism = propose_test_release_within(epsilon=1.0, delta=1e-5, queries=queries)
    assert 0.999 < worst_case(mechanism, queries=queries, delta=1e-5).epsilon <= 1
    assert worst_case(mechanism, queries=queries + 1, delta=1e-5).epsilon > 1


def test_the_adaptive_price_lowers_the_threshold():
    run = {"epsilon": 1.0, "delta": 1e-5, "queries": 20}
    votes = {"teachers": 40, "classes": 3}
    plain, priced = propose_test_release_within(**run), propose_test_release_within(**run, **votes)
    assert priced.threshold < 0.85 * plain.threshold
    size = {**votes, "queries": 20, "delta": 1e-5, "adaptive": True}
    assert 0.99 < worst_case(priced, **size).epsilon <= 1
    less = ProposeTestRelease(threshold=priced.threshold * 0.98, sigma1=priced.sigma1 * 0.98)
    assert worst_case(less, **size).epsilon > 1


@pytest.mark.slow
def test_published_votes_allow_few_answers(data_dir):
    """docs/mathematics.md D6: 9.5 answers at (1, 1e-5), at the best number of queries."""
    votes = Votes(np.load(data_dir / "votes" / "mnist_250_teachers.npy"))[:221]
    answers = []
    for queries in range(10, 22):
        law = propose_test_release_within(epsilon=1.0, delta=1e-5, queries=queries).log_probabilities(votes)
        answers.append(queries * (1 - np.exp(law[:, -1]).mean()))
    assert max(answers) == pytest.approx(9.5, abs=0.1)


def test_exactly_one_noise():
    for wrong in ({}, {"epsilon_per_query": 1.0, "sigma1": 1.0}):
        with pytest.raises(InvalidInput, match="epsilon_per_query or sigma1"):
            ProposeTestRelease(threshold=1.0, **wrong)
    with pytest.raises(InvalidInput, match="delta_per_query must be below 1/2"):
        ProposeTestRelease.for_delta(epsilon_per_query=1.0, delta_per_query=0.5)


def test_no_curve_is_claimed():
    assert np.isinf(FORMS[0].worst_case(np.array([2.0, 10.0]))).all()
    assert FORMS[0].pure_dp() is None
