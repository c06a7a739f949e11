"""The forecast against simulated runs."""

import math

import numpy as np
import pytest

from ostrakon.accounting.account import account
from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.votes import Votes

MECHANISM = ConfidentGNMax(threshold=180, sigma1=60, sigma2=40)


@pytest.fixture(scope="module")
def votes() -> Votes:
    rng = np.random.default_rng(0)
    return Votes([rng.multinomial(250, rng.dirichlet([4, 1, 0.5])) for _ in range(40)])


@pytest.fixture(scope="module")
def forecast(votes):
    return account(votes, MECHANISM, delta=1e-5).forecast


@pytest.mark.slow
def test_expectations_are_those_of_simulated_runs(votes, forecast):
    rng, runs = np.random.default_rng(1), 20_000
    answers = np.array([MECHANISM.sample(votes, rng) for _ in range(runs)])
    known = forecast.reveal()
    given = answers >= 0
    p = given.mean(axis=0)
    error = math.sqrt((p * (1 - p)).sum() / runs)
    assert given.sum() / runs == pytest.approx(known["expected_answers"], abs=4.5 * error)
    agree = ((answers == votes.plurality) & given).sum() / given.sum()
    spread = math.sqrt(agree * (1 - agree) / given.sum())
    assert agree == pytest.approx(known["expected_agreement"], abs=4.5 * spread)
    # A wrong threshold noise is seen.
    wrong = account(votes, ConfidentGNMax(threshold=180, sigma1=70, sigma2=40), delta=1e-5).forecast.reveal()
    assert abs(wrong["expected_answers"] - given.sum() / runs) > 10 * error


def test_totals_are_sums_over_queries(votes, forecast):
    known = forecast.reveal()
    each = [account(votes[[row]], MECHANISM, delta=1e-5).forecast.reveal() for row in range(votes.queries)]
    answers = np.array([one["expected_answers"] for one in each])
    cost = data_dependent_costs(votes, MECHANISM, [known["order"]]).sum()
    assert known["data_dependent_cost"] == pytest.approx(cost, rel=1e-14)
    assert known["queries"] == 40
    assert known["expected_answers"] == pytest.approx(answers.sum())
    weighted = (np.array([one["expected_agreement"] for one in each]) * answers).sum() / answers.sum()
    assert weighted == pytest.approx(known["expected_agreement"], rel=1e-13)


def test_consensus_agrees_more():
    sure, torn = (account(Votes([n]), GNMax(sigma2=40), delta=1e-5).forecast.reveal() for n in ([250, 0], [130, 120]))
    assert sure["expected_agreement"] > 0.99
    assert 0.5 < torn["expected_agreement"] < 0.6


def test_where_nothing_is_answered_agreement_is_unknown():
    never = ConfidentGNMax(threshold=1e9, sigma1=1, sigma2=40)
    known = account(Votes([[250, 0]]), never, delta=1e-5).forecast.reveal()
    assert known["expected_answers"] == 0
    assert math.isnan(known["expected_agreement"])
