"""Planning a gate on public votes, and running it."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from ostrakon.accounting.epsilons import Gated
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


def agreeing(queries: int = 40, teachers: int = 100, classes: int = 4, seed: int = 0) -> PublicVotes:
    rng = np.random.default_rng(seed)
    share = rng.beta(20, 1.5, size=queries)
    rest = (1 - share) / (classes - 1)
    p = np.column_stack([share, *[rest] * (classes - 1)])
    return PublicVotes(rng.multinomial(teachers, p / p.sum(axis=1, keepdims=True)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism", "queries", "epsilon", "passes"),
    [
        ("mnist", ConfidentGNMax(threshold=200, sigma1=150, sigma2=40), 640, 1.543, 0.99),
        ("adult", ConfidentGNMax(threshold=300, sigma1=200, sigma2=40), 1500, 1.299, 0.99),
    ],
)
def test_published_votes_at_least_as_good_as_the_specification(
    data_dir: Path, name: str, mechanism: Mechanism, queries: int, epsilon: float, passes: float
) -> None:
    votes = PublicVotes(np.load(data_dir / "votes" / f"{name}_250_teachers.npy")[:queries])
    gate = Gate.plan(votes, mechanism, delta=1e-5, pass_probability=passes)
    certificate = gate.certificate()
    assert certificate.epsilon <= epsilon
    assert gate.delta_at(certificate.epsilon) <= 1e-5
    assert gate.pass_probability(votes) == pytest.approx(passes, abs=5e-4)


@pytest.mark.slow
def test_the_longest_run_within_a_budget(data_dir: Path) -> None:
    votes = PublicVotes(np.load(data_dir / "votes" / "mnist_250_teachers.npy")[:400])
    mechanism = ConfidentGNMax(threshold=200, sigma1=150, sigma2=40)
    gate = Gate.plan(votes, mechanism, delta=1e-5, epsilon=1.0)
    assert gate.certificate().epsilon <= 1.0
    assert gate.queries >= 221
    assert ndtr((votes[: gate.queries].top - 200) / 150).sum() >= 99


@pytest.mark.parametrize(
    "mechanism",
    [
        CONFIDENT,
        GNMax(sigma2=14),
        LNMax(gamma=0.15),
        ExponentialMechanism(epsilon_per_query=0.3),
        ScreenedExponential(threshold=70, sigma1=20, epsilon_per_query=0.3),
    ],
    ids=lambda m: m.name,
)
def test_every_noisy_argmax_can_be_gated_and_gains(mechanism: Mechanism) -> None:
    votes = agreeing()
    gate = Gate.plan(votes, mechanism, delta=1e-5)
    assert gate.pass_probability(votes) >= 0.99
    # Consensus is worth something: votes without it would cost more at this order.
    assert gate.curve(gate.score(votes)) < 0.9 * gate.curve.highest


def test_plain_votes_are_refused_by_type() -> None:
    with pytest.raises(InvalidInput, match="PublicVotes"):
        Gate.plan(Votes(agreeing().counts), CONFIDENT, delta=1e-5)


def test_mechanisms_that_cannot_be_gated_are_refused() -> None:
    with pytest.raises(InvalidInput, match="propose-test-release"):
        Gate.plan(agreeing(), ProposeTestRelease(threshold=3, sigma1=1.0), delta=1e-5)


def test_an_epsilon_below_one_query_is_refused() -> None:
    with pytest.raises(InvalidInput, match="epsilon must allow"):
        Gate.plan(agreeing(), GNMax(sigma2=1.0), delta=1e-5, epsilon=0.01)


def test_votes_of_another_shape_are_refused() -> None:
    gate = Gate.plan(agreeing(), CONFIDENT, delta=1e-5)
    for other in (agreeing(queries=39), agreeing(teachers=99), agreeing(classes=5)):
        with pytest.raises(InvalidInput, match="votes must have"):
            gate.decide(other, np.random.default_rng(0))


def test_decisions_follow_their_law_and_a_wrong_noise_would_not() -> None:
    votes = agreeing(queries=5, teachers=60, classes=2)
    gate = Gate.plan(votes, GNMax(sigma2=8), delta=1e-5)
    gate = dataclasses.replace(gate, B=0.4 * gate.B)
    phi = gate.score(votes)
    gate = dataclasses.replace(gate, s=abs(phi) / 0.5)
    rng = np.random.default_rng(11)
    draws = 400
    passed = sum(gate.decide(votes, rng) for _ in range(draws))
    expected = gate.pass_probability(votes)
    assert expected == pytest.approx(float(ndtr(-phi / gate.s)))
    sd = math.sqrt(expected * (1 - expected) * draws)
    assert abs(passed - expected * draws) < 3 * sd
    # Half the noise would decide differently by more than that.
    assert abs(float(ndtr(-2 * phi / gate.s)) * draws - passed) > 3 * sd


@pytest.mark.slow
def test_release_gives_all_answers_or_the_prefix() -> None:
    votes = agreeing()
    gate = Gate.plan(votes, CONFIDENT, delta=1e-5, prefix_price=0.02)
    free = Gate.plan(votes, CONFIDENT, delta=1e-5)
    assert 0 < gate.prefix < votes.queries
    assert gate.certificate().epsilon <= free.certificate().epsilon * 1.02
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
    batch = Gated(epsilon=0.5, delta=1e-6, order=8, B=0.1, kappa=0.02, s=6)
    assert compose(batch, batch, batch) == pytest.approx((1.5, 3e-6))


@pytest.mark.parametrize("name", ["delta", "order", "B", "kappa", "s"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_parameters_are_refused(name: str, bad: object) -> None:
    good = {"delta": 1e-5, "order": 8.0, "B": 0.05, "kappa": 0.02, "s": 6.0}
    with pytest.raises(InvalidInput, match=name):
        Gate(mechanism=CONFIDENT, queries=40, teachers=100, classes=4, **{**good, name: bad})
