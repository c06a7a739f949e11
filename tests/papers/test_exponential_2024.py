"""The 2024 screening paper: Figure 6's order at equal answers, its equations, the facts of docs/mathematics.md F."""

import numpy as np
import pytest

from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.published.exponential_2024 import (
    delta_of_local_noise,
    log_q_exponential,
    q_sensitivity,
    rdp_exponential,
)
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms import ExponentialMechanism, LNMax
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.papers import exponential_2024, published_votes
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def mnist(data_dir):
    return published_votes.mnist(data_dir)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [100, 400])
def test_figure_6_screening_costs_less_at_equal_answers(mnist, answers: int):
    found = {}
    for name, run in exponential_2024.runs_of(mnist[:600]).items():
        queries = run.queries_for(answers)
        assert queries is not None
        found[name] = (queries, *run.epsilons(queries))
    published = {name: cost[1] for name, cost in found.items()}
    assert published["screening"] < published["exponential"] < published["Laplace"]
    exact = {name: cost[2] for name, cost in found.items()}
    assert exact["screening"] < min(exact["exponential"], exact["Laplace"])
    assert all(exact[name] < published[name] for name in ("exponential", "Laplace"))
    # In the worst case, too: where most votes are refused unless a majority agrees, other labels seldom win.
    assert found["screening"][3] < min(found["exponential"][3], found["Laplace"][3])


def test_equations_13_to_16():
    counts, epsilon, order = np.array([[180, 50, 20]]), 0.3, 9.0
    weights = np.exp(epsilon / 2 * (counts[0] - 180.0))
    q = weights[1:].sum() / weights.sum()
    assert np.exp(log_q_exponential(counts, epsilon=epsilon))[0] == pytest.approx(q, rel=1e-12)
    moment = order - 1
    eq_14 = (1 - q) * ((1 - q) / (1 - np.exp(epsilon) * q)) ** moment + q * np.exp(epsilon * moment)
    eq_15 = epsilon**2 * moment * (moment + 1) / 2
    eq_16 = min(np.log(eq_14), eq_15)
    got = rdp_exponential(counts, epsilon=epsilon, orders=[order])[0, 0]
    assert got == pytest.approx(eq_16 / moment, rel=1e-9)


def test_eq_15_is_four_times_the_bounded_range_curve():
    even = rdp_exponential([[10, 10]], epsilon=0.01, orders=[2.0])[0, 0]
    true = ExponentialMechanism(epsilon_per_query=0.01).worst_case(np.array([2.0]))[0]
    assert even / true == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "plurality"),
    [
        (LNMax(gamma=0.05), 1.50, 0.964),
        (ExponentialMechanism(epsilon_per_query=0.1), 1.54, 0.966),
        (PermuteAndFlip(epsilon_per_query=0.1), 1.81, 0.976),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_equal_worst_case_of_a_tenth_on_640_labels(mnist, mechanism, epsilon: float, plurality: float):
    """docs/mathematics.md F: data-dependent epsilon and mean probability of the plurality."""
    votes, orders = mnist[:640], np.arange(2.0, 40.0, 0.5)
    got, _ = Curve(orders, data_dependent_costs(votes, mechanism, orders).sum(axis=0)).epsilon(delta=1e-5)
    assert got == pytest.approx(epsilon, abs=0.005)
    right = np.exp(mechanism.log_probabilities(votes)[np.arange(640), votes.plurality]).mean()
    assert right == pytest.approx(plurality, abs=5e-4)


def test_eq_10_weights_are_not_one_sensitive():
    """The true sensitivity of eq. 10's score, by enumeration over 80 teachers: docs/mathematics.md F."""

    def score(votes: np.ndarray, *, a: float, b: float, c: float, low: float, high: float) -> np.ndarray:
        return np.where(votes >= high, a * votes, np.where(votes <= low, b * votes, c * votes))

    count = np.arange(81)
    for a, b, c, least in ((2, 1, 1.5, 33), (10, 1, 5, 320)):
        jumps = np.abs(np.diff(score(count, a=a, b=b, c=c, low=20, high=65)))
        assert jumps.max() > least
    assert np.abs(np.diff(count)).max() == 1


def test_section_4_6_is_not_private():
    """Laplace noise scaled to the local sensitivity of q: the scale itself tells neighbours apart."""
    epsilon, teachers = 1.0, 80

    def q(leader: int) -> float:
        return float(np.exp(log_q_exponential([[leader, teachers - leader]], epsilon=0.3))[0])

    def scale(leader: int) -> float:
        return max(abs(q(n) - q(leader)) for n in (leader - 1, leader + 1)) / epsilon

    worst = 0.0
    for leader in range(41, 79):
        first, second = (q(leader), scale(leader)), (q(leader + 1), scale(leader + 1))
        for p, r in ((first, second), (second, first)):
            width = 40 * max(p[1], r[1])
            x = np.linspace(p[0] - width, p[0] + width, 400_001)
            density = [np.exp(-np.abs(x - middle) / b) / (2 * b) for middle, b in (p, r)]
            excess = np.maximum(density[0] - np.exp(epsilon) * density[1], 0)
            worst = max(worst, float(excess.sum() * (x[1] - x[0])))
    assert worst > 0.01


def test_what_is_no_number_is_refused_by_the_figures_own_formulas():
    def log_q(counts):
        return log_q_exponential(counts, epsilon=0.3)

    assert q_sensitivity([[60, 20]], log_q).shape == (1,)
    for counts in ([[np.nan, 20]], [60, 20]):
        with pytest.raises(InvalidInput, match="counts"):
            q_sensitivity(counts, log_q)
    for bad in (0, -1.0, np.nan, np.inf, True, "1"):
        with pytest.raises(InvalidInput, match="epsilon"):
            delta_of_local_noise(10, log_q, epsilon=bad)
        with pytest.raises(InvalidInput, match="teachers"):
            delta_of_local_noise(bad, log_q, epsilon=1.0)
