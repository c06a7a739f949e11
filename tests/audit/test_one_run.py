import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.audit.one_run import audit_one_run, best_number_of_guesses, certified_mu, refutes_mu
from ostrakon.validation import InvalidInput


def ideal(rng: np.random.Generator, *, mu: float, canaries: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the best adversary, each canary behind its own mu-Gaussian noise, and the coins."""
    coins = rng.integers(0, 2, canaries)
    return np.where(coins == 0, mu / 2, -mu / 2) + rng.normal(size=canaries), coins


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("canaries", "guesses"), [(40, 40), (40, 10), (400, 100)])
def test_the_bound_covers_independent_canaries_exactly(mu: float, canaries: int, guesses: int):
    """Guesses fixed beforehand are right independently of each other, with probability Phi(mu / 2)."""
    for correct in range(guesses + 1):
        tail = binom.sf(correct - 1, guesses, norm.cdf(mu / 2))
        for error in (0.3, 0.05, 0.001):
            if refutes_mu(mu, correct=correct, guesses=guesses, canaries=canaries, error=error):
                assert tail < error


def test_the_recursion_is_the_best_that_its_inequalities_give():
    """Against a linear program over all laws of the number of right guesses, the curve by its tangents."""
    mu, canaries, guesses, correct = 0.7, 9, 7, 6
    counts = np.arange(guesses + 1)
    rows, limits = [], []
    for t in range(1, guesses + 1):
        right = np.where(counts >= t, counts, 0) / canaries
        wrong = np.where(counts >= t - 1, guesses - counts, 0) / canaries
        for x in np.concatenate([np.geomspace(1e-6, 0.5, 150), 1 - np.geomspace(1e-6, 0.5, 150)]):
            # right <= g(x) + g'(x) (wrong - x), g(x) = Phi(Phi^-1(x) + mu)
            z = norm.ppf(x)
            slope = norm.pdf(z + mu) / norm.pdf(z)
            rows.append(right - slope * wrong)
            limits.append(norm.cdf(z + mu) - slope * x)
    objective = -(counts >= correct).astype(float)
    best = -linprog(objective, np.array(rows), limits, np.ones((1, guesses + 1)), [1.0]).fun
    settings = {"correct": correct, "guesses": guesses, "canaries": canaries}
    assert 0.05 < best < 0.9
    assert refutes_mu(mu, error=best * 1.001, **settings)
    assert not refutes_mu(mu, error=best * 0.999, **settings)


@pytest.mark.parametrize(("mu", "canaries"), [(0.5, 1280), (1.5, 200)])
def test_two_hundred_sound_runs_are_hardly_ever_given_more_than_the_truth(mu: float, canaries: int):
    rng = np.random.default_rng(20261122)
    guesses = best_number_of_guesses(canaries, mu)
    bounds = []
    for _ in range(200):
        scores, coins = ideal(rng, mu=mu, canaries=canaries)
        surest = np.argsort(-np.abs(scores))[:guesses]
        correct = int(((scores[surest] < 0) == coins[surest]).sum())
        bounds.append(certified_mu(correct=correct, guesses=guesses, canaries=canaries, confidence=0.95))
    # 5% would be 10 of 200, and 20 a thousandth's bad luck; and the bound is no idle one.
    assert (np.array(bounds) > mu).sum() <= 10
    assert np.median(bounds) > 0.45 * mu


@pytest.mark.parametrize("canaries", [150, 1280])
def test_a_tenth_of_the_noise_is_caught(canaries: int):
    claimed_mu = 0.5
    claimed = gaussian_dp_epsilon(claimed_mu, 1e-5)
    scores, coins = ideal(np.random.default_rng(1), mu=10 * claimed_mu, canaries=canaries)
    settings = {"mechanism": "m", "claimed": claimed, "delta": 1e-5, "mu": claimed_mu}
    found = audit_one_run(scores, coins, **settings)
    assert found.refuted
    assert found.lower_bound > 3 * claimed
    assert "refuted" in found.verdict
    assert set(found.as_json()) >= {"mechanism", "claimed", "lower_bound", "confidence"}
    scores, coins = ideal(np.random.default_rng(1), mu=claimed_mu, canaries=canaries)
    assert not audit_one_run(scores, coins, **settings).refuted


def test_more_right_guesses_never_certify_less():
    bounds = [certified_mu(correct=c, guesses=60, canaries=90, confidence=0.95) for c in range(61)]
    assert bounds == sorted(bounds)
    assert bounds[30] == 0 < bounds[45] < bounds[60] < math.inf


def test_bad_input_is_refused():
    settings = {"mechanism": "m", "claimed": 1.0, "delta": 1e-5, "mu": 0.5}
    for scores, coins, word in [
        ([math.nan], [0], "scores"),
        ([], [], "scores"),
        ([1.0], [2], "coins"),
        ([1.0, 2.0], [1], "coins"),
    ]:
        with pytest.raises(InvalidInput, match=word):
            audit_one_run(scores, coins, **settings)
    with pytest.raises(InvalidInput, match="correct"):
        certified_mu(correct=5, guesses=4, canaries=9, confidence=0.9)
    with pytest.raises(InvalidInput, match="guesses"):
        certified_mu(correct=5, guesses=14, canaries=9, confidence=0.9)
