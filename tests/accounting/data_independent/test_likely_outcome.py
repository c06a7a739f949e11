"""Label costs: no outcome law may cost more, and the bound is reached."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr, ndtri

from ostrakon.accounting.data_independent.likely_outcome import gaussian_likely_outcome_rdp, pure_likely_outcome_rdp
from ostrakon.mechanisms import GNMax
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

ORDERS = [1.2, 2.0, 5.0, 14.0, 60.0, 400.0]


def divergence(p: np.ndarray, q: np.ndarray, a: float) -> float:
    return float(logsumexp(a * np.log(p) + (1 - a) * np.log(q)) / (a - 1))


def interval_cost(q: float, split: float, mu: float, a: float) -> float:
    """The cost of one interval with both tails revealed in 4,000 slices: a lower bound from a real post-processing."""
    low, high = ndtri(q * split), -ndtri(q * (1 - split))
    lower = np.linspace(min(low - 12, -(a - 1) * mu - 8), low, 2001) if q * split > 0 else np.array([-np.inf])
    upper = np.linspace(high, max(high + 12, a * mu + 8), 2001) if q * (1 - split) > 0 else np.array([np.inf])
    edges = np.concatenate([lower, upper])
    with np.errstate(all="ignore"):
        p, r = np.diff(ndtr(edges)), np.diff(ndtr(edges - mu))
        upper_half = edges[:-1] > 0
        p = np.where(upper_half, -np.diff(ndtr(-edges)), p)
        r = np.where(upper_half, -np.diff(ndtr(mu - edges)), r)
    keep = (p > 0) & (r > 0)
    return max(divergence(p[keep], r[keep], a), divergence(r[keep], p[keep], a))


@pytest.mark.parametrize("mu", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("a", [1.5, 6.0, 20.0])
def test_no_interval_costs_more_and_one_costs_as_much(mu: float, a: float) -> None:
    q = np.array([1e-6, 1e-3, 0.05, 0.4])
    bound = gaussian_likely_outcome_rdp(q, mu=mu, orders=[a])[0]
    for mass, most in zip(q, bound, strict=True):
        splits = np.concatenate([[0.0, 1.0], 1 / (1 + np.exp(-np.linspace(-12, 12, 97)))])
        reached = max(interval_cost(mass, float(split), mu, a) for split in splits)
        assert reached <= most * (1 + 1e-9) + 1e-13
        assert reached >= most * 0.98  # slices and grid are coarse


@pytest.mark.slow
def test_random_kernels_never_cost_more() -> None:
    rng = np.random.default_rng(1)
    x = np.linspace(-9, 10, 1200)
    for mu in (0.1, 1.0):
        p, r = np.exp(-(x**2) / 2), np.exp(-((x - mu) ** 2) / 2)
        p, r = p / p.sum(), r / r.sum()
        for _ in range(200):
            centre, steep = rng.normal(size=3) * 2, rng.exponential(2, size=3)
            kernel = np.exp(-steep * np.abs(x[:, None] - centre))
            kernel /= kernel.sum(axis=1, keepdims=True)
            laws = p @ kernel, r @ kernel
            q = np.array([1 - laws[0].max()])
            bounds = gaussian_likely_outcome_rdp(q, mu=mu, orders=ORDERS)[:, 0]
            for a, bound in zip(ORDERS, bounds, strict=True):
                assert max(divergence(*laws, a), divergence(*laws[::-1], a)) <= bound * (1 + 1e-6)


def test_true_laws_of_gnmax_never_cost_more() -> None:
    rng = np.random.default_rng(2)
    sigma = 3.0
    counts = rng.multinomial(30, [0.6, 0.25, 0.1, 0.05], size=60)
    counts = counts[(counts[:, 0] > 0)]
    moved = counts.copy()
    moved[:, 0] -= 1
    moved[:, 1] += 1
    mechanism = GNMax(sigma2=sigma)
    here = np.exp(mechanism.log_probabilities(Votes(counts))[:, :-1])
    there = np.exp(mechanism.log_probabilities(Votes(moved))[:, :-1])
    bound = gaussian_likely_outcome_rdp(1 - here.max(axis=1), mu=math.sqrt(2) / sigma, orders=ORDERS)
    for k, a in enumerate(ORDERS):
        for row in range(len(counts)):
            cost = max(divergence(here[row], there[row], a), divergence(there[row], here[row], a))
            assert cost <= bound[k, row] * (1 + 1e-9)


def test_grows_with_q_up_to_the_whole_pair() -> None:
    q = np.concatenate([[0.0], np.geomspace(1e-300, 1, 500)])
    cost = gaussian_likely_outcome_rdp(q, mu=0.2, orders=ORDERS)
    assert (np.diff(cost, axis=1) >= 0).all()
    assert (cost[:, 0] == 0).all()
    assert cost[:, -1] == pytest.approx(np.array(ORDERS) * 0.02)
    assert np.isfinite(gaussian_likely_outcome_rdp(q, mu=40.0, orders=[1000.0])).all()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_pure_bound_is_never_exceeded_and_reached(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        p = rng.dirichlet([8.0, 0.3, 0.2, 0.5])
        ratio = np.exp(rng.uniform(-epsilon, epsilon, size=4))
        ratio[1:] = np.exp(epsilon * rng.choice([-1, 1], size=3))
        r = p * ratio
        r[0] = 1 - r[1:].sum()
        if not (r[0] > 0 and abs(math.log(r[0] / p[0])) <= epsilon):
            continue
        q = np.array([1 - p[0]])
        bounds = pure_likely_outcome_rdp(q, epsilon=epsilon, orders=ORDERS)[:, 0]
        for a, bound in zip(ORDERS, bounds, strict=True):
            assert max(divergence(p, r, a), divergence(r, p, a)) <= bound * (1 + 1e-12)
    q, a = 0.02, 6.0
    p = np.array([1 - q, q])
    reached = 0.0
    for z in (math.exp(epsilon), math.exp(-epsilon)):
        r = np.array([1 - q * z, q * z])
        reached = max(reached, divergence(p, r, a), divergence(r, p, a))
    assert pure_likely_outcome_rdp([q], epsilon=epsilon, orders=[a])[0, 0] == pytest.approx(reached, rel=1e-9)


def test_pure_bound_is_the_worst_case_above_its_range() -> None:
    cost = pure_likely_outcome_rdp([0.0, 0.5, 1.0], epsilon=0.7, orders=ORDERS)
    assert (cost[:, 0] == 0).all()
    assert cost[:, 1] == pytest.approx(rdp_of_pure_dp(ORDERS, 0.7))
    assert cost[:, 2] == pytest.approx(rdp_of_pure_dp(ORDERS, 0.7))


@pytest.mark.parametrize("bad", [[-0.1], [1.1], [math.nan], 0.5])
def test_bad_probabilities_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput):
        gaussian_likely_outcome_rdp(bad, mu=0.1, orders=[2.0])
    with pytest.raises(InvalidInput):
        pure_likely_outcome_rdp(bad, epsilon=0.1, orders=[2.0])
