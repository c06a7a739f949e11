"""Noise for a target epsilon under a gate, and the choice between gate and worst case."""

import numpy as np
import pytest

from ostrakon.accounting.calibration.gated import calibrate_gate, choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.gate.gate import Gate, Unbounded
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

SHAPE = ConfidentGNMax(threshold=27, sigma1=13, sigma2=4)
pytestmark = pytest.mark.usefixtures("few_orders")


def agreeing(queries: int, teachers: int) -> PublicVotes:
    rng = np.random.default_rng(3)
    return simulate_votes(rng, queries=queries, teachers=teachers, classes=2, plurality=0.85, dispersion=0.05)


@pytest.mark.slow
def test_within_epsilon_and_quieter_than_the_worst_case() -> None:
    votes = agreeing(queries=12, teachers=40)
    gate = choose_guarantee(votes, SHAPE, epsilon=3.0, delta=1e-5)
    assert isinstance(gate, Gate)
    assert gate.certificate().epsilon <= 3
    assert gate.certificate().epsilon > 3 * 0.995
    assert gate.pass_probability(votes) >= 0.95
    plain = calibrate(SHAPE, epsilon=3.0, delta=1e-5, queries=12, teachers=40, classes=2)
    assert isinstance(plain, ConfidentGNMax)
    assert isinstance(gate.mechanism, ConfidentGNMax)
    assert gate.mechanism.sigma2 < 0.85 * plain.sigma2


@pytest.mark.slow
def test_the_worst_case_where_votes_disagree() -> None:
    votes = simulate_votes(np.random.default_rng(3), queries=8, teachers=30, classes=2, plurality=0.6, dispersion=0.05)
    chosen = choose_guarantee(votes, GNMax(sigma2=5), epsilon=2.0, delta=1e-5)
    assert chosen == calibrate(GNMax(sigma2=5), epsilon=2.0, delta=1e-5, queries=8, teachers=30, classes=2)


@pytest.mark.slow
def test_absurd_noise_and_private_votes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="noise below the votes"):
        calibrate_gate(agreeing(queries=3, teachers=8), GNMax(sigma2=3), epsilon=0.01, delta=1e-5)
    with pytest.raises(InvalidInput, match="PublicVotes"):
        calibrate_gate(Votes([[19, 1]]), SHAPE, epsilon=1.5, delta=1e-5)


def test_no_guarantee_is_chosen_on_private_votes() -> None:
    with pytest.raises(InvalidInput, match="public_votes must be PublicVotes"):
        choose_guarantee(Votes([[19, 1]]), SHAPE, epsilon=1.5, delta=1e-5)


@pytest.mark.slow
def test_noise_too_small_for_any_bound_is_noise_too_small() -> None:
    votes = simulate_votes(np.random.default_rng(0), queries=4, teachers=40, classes=3, plurality=0.99, dispersion=0.01)
    with pytest.raises(Unbounded, match="no gate bounds"):
        Gate.plan(votes, GNMax(sigma2=0.03), delta=1e-3)
    gate = calibrate_gate(votes, GNMax(sigma2=0.03), epsilon=2.0, delta=1e-3)
    assert gate.mechanism.parameters()["sigma2"] > 0.03
    assert gate.certificate().epsilon <= 2.0
