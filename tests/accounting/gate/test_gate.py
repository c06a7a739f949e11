"""Planning a gate on public votes, and running it."""

import dataclasses
import functools
import math
from pathlib import Path

import numpy as np
import pytest

from ostrakon.accounting.epsilons import Gated
from ostrakon.accounting.gate.envelope import envelope
from ostrakon.accounting.gate.gate import Gate, compose
from ostrakon.mechanisms import (
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    LNMax,
)
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.noise import secure_rng
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

CONFIDENT = ConfidentGNMax(threshold=70, sigma1=40, sigma2=14)
pytestmark = pytest.mark.usefixtures("few_orders")


def agreeing(queries: int = 40, teachers: int = 100, classes: int = 4, seed: int = 0) -> PublicVotes:
    rng = np.random.default_rng(seed)
    share = rng.beta(20, 1.5, size=queries)
    rest = (1 - share) / (classes - 1)
    p = np.column_stack([share, *[rest] * (classes - 1)])
    return PublicVotes(rng.multinomial(teachers, p / p.sum(axis=1, keepdims=True)))


@functools.cache
def planned(mechanism: Mechanism) -> Gate:
    """The plan on these votes, which takes seconds, once for all tests."""
    return Gate.plan(agreeing(), mechanism, delta=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism", "queries", "epsilon"),
    [
        # The goldens hold the epsilons of all 640 and 1,500 queries. By Rényi costs 300 queries of Adult have 0.530.
        ("mnist", ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), 200, 0.68),
        ("adult", ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), 300, 0.474),
    ],
)
def test_published_votes_and_six_teachers_fewer(
    data_dir: Path, name: str, mechanism: Mechanism, queries: int, epsilon: float
) -> None:
    votes = PublicVotes(np.load(data_dir / "votes" / f"{name}_250_teachers.npy")[:queries])
    gate = Gate.plan(votes, mechanism, delta=1e-5)
    certificate = gate.certificate()
    assert certificate.epsilon <= epsilon
    assert gate.delta_at(certificate.epsilon) <= 1e-5
    assert gate.pass_probability(votes) > 1 - 0.05 * math.exp(-5 * certificate.epsilon)
    # On every query six teachers vote for the runner-up instead of the winner.
    fewer, rows = votes.counts.copy(), np.arange(queries)
    first, second = np.argsort(-fewer, axis=1, kind="stable")[:, :2].T
    moved = np.minimum(fewer[rows, first], 6)
    fewer[rows, first] -= moved
    fewer[rows, second] += moved
    assert 0.95 <= gate.pass_probability(Votes(fewer)) < 0.99


@pytest.mark.slow
def test_profiles_answer_more_queries_of_two_classes_within_a_budget() -> None:
    votes, mechanism = agreeing(queries=30, teachers=60, classes=2), GNMax(sigma2=12)
    longer = Gate.plan(votes, mechanism, delta=1e-5, epsilon=1.5, prefix_price=0.05)
    plain = Gate.plan(votes, mechanism, delta=1e-5, epsilon=1.5, prefix_price=0.05, adaptive=False)
    assert plain.grid is None
    assert longer.grid is not None
    assert longer.certificate().epsilon <= 1.5
    assert longer.queries > 1.1 * plain.queries
    again = Gate(mechanism=mechanism, queries=longer.queries, teachers=60, classes=2, delta=1e-5, **longer.as_dict())
    assert again == longer
    assert again.pass_probability(votes[: longer.queries]) >= 0.95


@pytest.mark.slow
def test_the_longest_run_within_a_budget() -> None:
    votes = agreeing()
    gate = Gate.plan(votes, CONFIDENT, delta=1e-5, epsilon=0.8)
    assert gate.certificate().epsilon <= 0.8
    assert 20 <= gate.queries < 40
    longer = Gate.plan(votes[: gate.queries + 1], CONFIDENT, delta=1e-5)
    assert longer.certificate().epsilon > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        *(pytest.param(mechanism, marks=pytest.mark.slow) for mechanism in (CONFIDENT, GNMax(sigma2=14))),
        LNMax(gamma=0.15),
        ExponentialMechanism(epsilon_per_query=0.3),
        ScreenedExponential(threshold=70, sigma1=20, epsilon_per_query=0.3),
    ],
    ids=lambda m: m.name,
)
def test_every_noisy_argmax_can_be_gated_and_gains(mechanism: Mechanism) -> None:
    votes, gate = agreeing(), planned(mechanism)
    assert gate.pass_probability(votes) >= 0.95
    # Consensus is worth something: votes without it would cost more at this order.
    _, order, cost = gate.levels[gate.score(votes)]
    assert cost < 0.9 * envelope(votes, mechanism, orders=[order])[0, -1]


def test_plain_votes_are_refused_by_type() -> None:
    with pytest.raises(InvalidInput, match="PublicVotes"):
        Gate.plan(Votes(agreeing().counts), CONFIDENT, delta=1e-5)


def test_mechanisms_that_cannot_be_gated_are_refused() -> None:
    with pytest.raises(InvalidInput, match="propose-test-release"):
        Gate.plan(agreeing(), ProposeTestRelease(threshold=3, sigma1=1.0), delta=1e-5)


@pytest.mark.slow
def test_an_epsilon_below_one_query_is_refused() -> None:
    with pytest.raises(InvalidInput, match="epsilon must allow"):
        Gate.plan(agreeing(queries=2, teachers=8), GNMax(sigma2=1.0), delta=1e-5, epsilon=0.01)


@pytest.mark.slow
def test_votes_of_another_shape_are_refused() -> None:
    gate = planned(CONFIDENT)
    for other in (agreeing(queries=39), agreeing(teachers=99), agreeing(classes=5)):
        with pytest.raises(InvalidInput, match="votes must have"):
            gate.decide(other, np.random.default_rng(0))


@pytest.mark.slow
def test_decisions_follow_their_law_and_a_wrong_probability_would_not() -> None:
    votes = agreeing(queries=5, teachers=60, classes=2)
    gate = Gate.plan(votes, GNMax(sigma2=8), delta=1e-5)
    gate = dataclasses.replace(gate, levels=[(0.6 * p, *rest) for p, *rest in gate.levels])
    rng = np.random.default_rng(11)
    draws = 400
    passed = sum(gate.decide(votes, rng) for _ in range(draws))
    expected = gate.pass_probability(votes)
    assert expected == gate.levels[0][0] < 0.6
    sd = math.sqrt(expected * (1 - expected) * draws)
    assert abs(passed - expected * draws) < 3 * sd
    # The complement, or the plan's own probability, would decide differently by more than that.
    assert abs((1 - expected) * draws - passed) > 3 * sd
    assert abs(expected / 0.6 * draws - passed) > 3 * sd


@pytest.mark.slow
def test_every_vote_within_the_teachers_in_hand_passes() -> None:
    votes = agreeing(queries=6, teachers=40, classes=3)
    free, gate, many = (
        Gate.plan(votes, GNMax(sigma2=6), delta=1e-5, in_hand=hand, pass_probability=0.9) for hand in (0, 4, 10)
    )
    assert gate.score(votes) == 0
    rng = np.random.default_rng(5)
    lowest = 1.0
    for _ in range(10):
        counts = votes.counts.copy()
        for row in counts:
            for _ in range(4):
                row[rng.choice(np.flatnonzero(row))] -= 1
                row[rng.integers(3)] += 1
        lowest = min(lowest, gate.pass_probability(Votes(counts)))
    winner = np.argmax(votes.counts, axis=1)
    worst = votes.counts.copy()
    worst[np.arange(6), winner] -= 4
    worst[np.arange(6), (winner + 1) % 3] += 4
    lowest = min(lowest, gate.pass_probability(Votes(worst)))
    assert 0.9 <= lowest < 0.99
    # More teachers in hand cost epsilon; none in hand is cheapest.
    epsilons = [each.certificate().epsilon for each in (free, gate, many)]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] < 0.98 * epsilons[2]


@pytest.mark.slow
def test_release_gives_all_answers_or_the_prefix() -> None:
    votes = agreeing()
    gate = Gate.plan(votes, CONFIDENT, delta=1e-5, prefix_price=0.1)
    assert 0 < gate.prefix < votes.queries
    assert gate.certificate().epsilon <= planned(CONFIDENT).certificate().epsilon * 1.1
    passed, answers = gate.release(votes, secure_rng())
    while not passed:
        passed, answers = gate.release(votes, secure_rng())
    assert (answers >= 0).sum() > gate.prefix
    # Votes without any consensus are refused, and answered up to the prefix only.
    split = Votes(np.tile([25, 25, 25, 25], (40, 1)))
    assert gate.pass_probability(split) < 0.05
    passed, answers = gate.release(split, np.random.default_rng(0))
    assert not passed
    assert (answers[gate.prefix :] == -1).all()


def test_batches_compose() -> None:
    batch = Gated(epsilon=0.5, delta=1e-6, levels=((0.9, 8.0, 0.5),))
    assert compose(batch, batch, batch) == pytest.approx((1.5, 3e-6))


@pytest.mark.parametrize("name", ["delta", "levels"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_parameters_are_refused(name: str, bad: object) -> None:
    good = {"delta": 1e-5, "levels": [(0.9, 8.0, 0.05)]}
    with pytest.raises(InvalidInput, match=name):
        Gate(mechanism=CONFIDENT, queries=40, teachers=100, classes=4, **{**good, name: bad})
