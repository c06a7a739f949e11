"""The envelope against every dataset in the ball."""

import numpy as np
import pytest
from histograms import data_dependent_cost, distance, neighbours, query_envelopes
from scipy.special import log_ndtr

from ostrakon.accounting.data_dependent.exact import data_dependent_costs
from ostrakon.accounting.data_independent.noisy_max import NODES, answer_law, quadrature_error
from ostrakon.accounting.gate.envelope import envelope
from ostrakon.mechanisms import (
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    LNMax,
)
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.laws.gaussian import gaussian_argmax_log_probabilities
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

SMALL: list[Mechanism] = [
    ConfidentGNMax(threshold=6, sigma1=2.0, sigma2=1.2),
    GNMax(sigma2=1.2),
    GNMax(sigma2=3.5),
    ConfidentGNMax(threshold=6, sigma1=2.0, sigma2=2.5),
    LNMax(gamma=0.9),
    ExponentialMechanism(epsilon_per_query=1.5),
    ScreenedExponential(threshold=6, sigma1=2.0, epsilon_per_query=1.5),
]
# Of many classes there are many histograms.
SHAPES = [(12, 2), (10, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in [(8, 4), (7, 5), (6, 6)])]


def single(mechanism: Mechanism, n: tuple[int, ...], teachers: int, a: float) -> np.ndarray:
    return envelope(Votes([n], teachers=teachers), mechanism, orders=[a])[0]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
@pytest.mark.parametrize(("teachers", "classes"), SHAPES)
@pytest.mark.parametrize("abstentions", [False, True])
def test_no_histogram_in_the_ball_costs_more_and_envelopes_nest(
    mechanism: Mechanism, teachers: int, classes: int, abstentions: bool
) -> None:
    a = 6.0
    if abstentions:
        teachers -= 1
    exact = data_dependent_cost(mechanism, teachers, classes, a, abstentions=abstentions)
    # Classes are interchangeable: sorted histograms stand for all.
    sorted_ = [n for n in exact if list(n) == sorted(n, reverse=True)]
    votes = Votes(sorted_, teachers=teachers, abstentions=abstentions)
    bound = dict(zip(sorted_, query_envelopes(votes, mechanism, orders=[a])[0], strict=True))
    counts, costs = np.array(list(exact)), np.array(list(exact.values()))
    for n in sorted_:
        # Votes that move from one class to another, or between a class and none.
        distances = np.maximum(np.maximum(n - counts, 0).sum(axis=1), np.maximum(counts - n, 0).sum(axis=1))
        reach = np.zeros(teachers + 1)
        np.maximum.at(reach, distances, costs)
        assert (np.maximum.accumulate(reach) <= bound[n] * (1 + 1e-9)).all()
        assert (np.diff(bound[n]) >= 0).all()
        for after in neighbours(n, teachers=teachers if abstentions else None):
            nested = bound[tuple(sorted(after, reverse=True))]
            assert (nested[:-1] <= bound[n][1:]).all()  # to the last bit


def test_the_likely_shortcut_is_wrong_and_would_be_caught() -> None:
    # The worst histogram within d is not sort(n) + (-d, +d, 0, ...): with a check, taking fewer votes from the
    # winner may cost more.
    mechanism, teachers, a = ConfidentGNMax(threshold=11, sigma1=0.7, sigma2=2.0), 12, 3.0
    exact = data_dependent_cost(mechanism, teachers, 3, a)
    n, d = (10, 1, 1), 4
    shortcut = exact[6, 5, 1]
    worst = max(cost for other, cost in exact.items() if distance(n, other) <= d)
    assert worst > 1.5 * shortcut
    assert single(mechanism, n, teachers, a)[d] >= worst


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_two_classes_are_exact(mechanism: Mechanism) -> None:
    exact = data_dependent_cost(mechanism, 12, 2, 6.0)
    for n in exact:
        reach = [max(cost for o, cost in exact.items() if distance(n, o) <= d) for d in range(13)]
        assert single(mechanism, n, 12, 6.0) == pytest.approx(reach, rel=1e-8)


def test_sums_over_queries_and_any_distances() -> None:
    rng = np.random.default_rng(7)
    votes = Votes(rng.multinomial(60, [0.8, 0.1, 0.05, 0.05], size=30))
    mechanism = ConfidentGNMax(threshold=40, sigma1=20, sigma2=6)
    together = envelope(votes, mechanism, orders=[3.0, 9.0])
    apart = query_envelopes(votes, mechanism, orders=[3.0, 9.0])
    assert apart.sum(axis=1) == pytest.approx(together, abs=2e-12)
    assert apart[:, 7] == pytest.approx(envelope(votes[[7]], mechanism, orders=[3.0, 9.0]), abs=1e-12)
    some = envelope(votes, mechanism, orders=[9.0], distances=[40, 3, 0])[0]
    assert some == pytest.approx(together[1, [40, 3, 0]], rel=1e-12)
    assert (data_dependent_costs(votes, mechanism, [3.0, 9.0]).sum(axis=0) <= together[:, 0]).all()
    # At the last distance the votes are of no consequence.
    even = envelope(Votes(np.full((30, 4), 15)), mechanism, orders=[3.0, 9.0], distances=[60])
    assert together[:, -1] == pytest.approx(even[:, 0], rel=1e-9)


def test_order_of_classes_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    votes = rng.multinomial(40, [0.7, 0.2, 0.1], size=12)
    mechanism = GNMax(sigma2=5)
    first = envelope(Votes(votes), mechanism, orders=[5.0])
    assert envelope(Votes(votes[:, [2, 0, 1]]), mechanism, orders=[5.0]) == pytest.approx(first)


def test_probability_to_lose_is_bounded_from_above() -> None:
    # The summed law of the winner against the mechanism's own, for many classes and close to the switch of bounds.
    sigma = 4.0
    for counts in ([30, 20, 10, 10, 5, 0], [25] + [9] * 40, [30] + [20] * 999, [40, 12, 11, 10], [33, 10, 10, 10]):
        n = np.sort(np.array(counts))[::-1]
        labels = np.exp(gaussian_argmax_log_probabilities(n[None, :].astype(float), sigma))[0]
        law = answer_law(GNMax(sigma2=sigma), teachers=int(n.sum()), classes=len(n))
        assert law is not None
        gaps = (n[0] - n[1:]) / sigma
        weights = np.exp(-(NODES**2) / 2) * (NODES[1] - NODES[0]) / np.sqrt(2 * np.pi)
        wins = float(weights @ np.exp(log_ndtr(NODES[:, None] + gaps).sum(axis=1)))
        assert 1 - wins == pytest.approx(labels[1:].sum(), abs=quadrature_error(len(n)) / 4)
        assert labels[1:].sum() <= law.behind()[n[0] - n[1:]].sum() * (1 + 1e-12)


def test_mechanisms_without_an_envelope_are_refused() -> None:
    votes = Votes([[5, 3, 2]])
    with pytest.raises(InvalidInput, match="propose-test-release"):
        envelope(votes, ProposeTestRelease(threshold=3, sigma1=1.0), orders=[3.0])
    with pytest.raises(InvalidInput, match="distances"):
        envelope(votes, GNMax(sigma2=1), orders=[3.0], distances=[-1])
