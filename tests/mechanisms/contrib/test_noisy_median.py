"""The noisy median: its law in many digits, its sensitivity and price over all neighbouring histograms."""

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from histograms import Histogram, all_votes, divergences, histograms, neighbouring_rows, neighbours, precise_divergence

from ostrakon.accounting.data_independent.bisection import bisection_costs, sizes_of_parts
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.data_independent.worst_case import worst_case, worst_case_curve
from ostrakon.mechanisms import GNMax
from ostrakon.mechanisms.contrib.noisy_median import NoisyMedian
from ostrakon.votes import Votes

ORDERS = np.array([1.25, 2.0, 4.0, 16.0])


def plain_law(counts: Histogram, sigma2: float) -> list[mp.mpf]:
    """The probability of every class, by bisection of the list of classes, in 50 digits."""
    comparisons = math.ceil(math.log2(len(counts)))
    deviation = mp.sqrt(2 * comparisons) * mp.mpf(sigma2)

    def of(classes: list[int]) -> list[mp.mpf]:
        if len(classes) == 1:
            return [mp.mpf(1)]
        cut = -(-len(classes) // 2)
        below = sum(counts[: classes[cut - 1] + 1])
        lower = mp.ncdf((below - (sum(counts) - below)) / deviation)
        return [lower * x for x in of(classes[:cut])] + [(1 - lower) * x for x in of(classes[cut:])]

    return of(list(range(len(counts))))


@pytest.mark.parametrize("counts", [(3, 1), (2, 0, 5), (1, 4, 2, 2), (0, 7, 1, 1, 3), (9, 0, 0, 0, 0, 0, 9), (1,) * 12])
@pytest.mark.parametrize("sigma2", [0.3, 4.0])
def test_the_law_in_many_digits(counts: Histogram, sigma2: float) -> None:
    with mp.workdps(50):
        exact = [float(mp.log(x)) for x in plain_law(counts, sigma2)]
    found = NoisyMedian(sigma2=sigma2).log_probabilities(Votes([counts]))[0]
    np.testing.assert_allclose(found[:-1], exact, rtol=1e-12)
    assert found[-1] == -math.inf


def test_without_noise_it_is_the_median() -> None:
    votes = all_votes(teachers=7, classes=5)
    law = np.exp(NoisyMedian(sigma2=1e-3).log_probabilities(votes))
    cast = [np.repeat(np.arange(5), row) for row in votes.counts]
    assert (law.argmax(axis=1) == [int(np.median(row)) for row in cast]).all()
    assert (law.max(axis=1) > 1 - 1e-12).all()


@pytest.mark.parametrize("classes", [3, 4, 5])
@pytest.mark.parametrize("abstentions", [False, True])
def test_one_vote_is_one_vote_for_one_of_two_classes_in_every_comparison(classes: int, abstentions: bool) -> None:
    for n in histograms(5, classes, abstentions=abstentions):
        for after in neighbours(n, teachers=5 if abstentions else None):
            removed = sum(n) != sum(after)
            for cut in range(1, classes):
                change = abs(sum(n[:cut]) - sum(after[:cut])), abs(sum(n[cut:]) - sum(after[cut:]))
                assert change in ({(1, 0), (0, 1)} if removed else {(0, 0), (1, 1)})


@pytest.mark.parametrize(("teachers", "classes"), [(12, 3), (10, 4), (8, 5), (6, 8)])
def test_no_pair_of_histograms_exceeds_the_price_and_two_percent_less_is_refuted(teachers: int, classes: int) -> None:
    mechanism = NoisyMedian(sigma2=6.0)
    votes = all_votes(teachers=teachers, classes=classes)
    before, after = neighbouring_rows(votes)
    law = mechanism.log_probabilities(votes)
    found = divergences(law[before], law[after], ORDERS)
    price = bisection_costs(mechanism.comparison(classes), ORDERS, teachers=teachers, classes=classes)
    assert (found <= price).all()
    assert (found.max(axis=0) > 0.98 * price).all()
    # The worst pair again in 100 digits: rounding hides nothing.
    worst = int(found[:, 1].argmax())
    with mp.workdps(100):
        p, q = (plain_law(tuple(votes.counts[rows[worst]].tolist()), 6.0) for rows in (before, after))
        exact = precise_divergence(p, q, 2.0)
    assert 0.98 * price[1] < float(exact) <= price[1]
    # Where some classes take fewer comparisons, it is less than the price of the most of them.
    one = bisection_costs(mechanism.comparison(classes), ORDERS, teachers=teachers, classes=2)
    every = math.ceil(math.log2(classes)) * one
    assert (price <= every * (1 + 1e-9)).all()
    assert (price[:3] < 0.9 * every[:3]).all() == (classes not in (4, 8))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forgetful(NoisyMedian):
    """Every comparison has the noise of one alone."""

    def _deviation(self, classes: int) -> float:
        return math.sqrt(2) * self.sigma2


def test_noise_of_one_comparison_is_refuted() -> None:
    votes = all_votes(teachers=6, classes=8)
    before, after = neighbouring_rows(votes)
    for kind, above in ((NoisyMedian, False), (Forgetful, True)):
        mechanism = kind(sigma2=6.0)
        law = mechanism.log_probabilities(votes)
        found = divergences(law[before], law[after], ORDERS).max(axis=0)
        assert (found > mechanism.worst_case(ORDERS)).all() == above


def test_sizes_that_bisection_leaves() -> None:
    assert sizes_of_parts(2) == [2]
    assert sizes_of_parts(12) == [2, 3, 6, 12]
    assert sizes_of_parts(23) == [2, 3, 5, 6, 11, 12, 23]


@pytest.mark.parametrize("classes", [2, 4])
def test_two_and_four_classes_cost_what_their_comparisons_cost(classes: int) -> None:
    mechanism, sizes = NoisyMedian(sigma2=12.0), {"delta": 1e-5, "teachers": 60, "adaptive": True}
    found = worst_case(mechanism, queries=30, classes=classes, **sizes)
    comparisons = (classes - 1).bit_length()
    same = worst_case(GNMax(sigma2=12.0 * math.sqrt(comparisons)), queries=30 * comparisons, classes=2, **sizes)
    assert found.basis == same.basis
    assert found.epsilon == pytest.approx(same.epsilon, rel=1e-3)


def test_the_cap_the_stages_and_unknown_teachers() -> None:
    mechanism, sizes = NoisyMedian(sigma2=12.0), {"delta": 1e-5, "classes": 5}
    thirty = worst_case(mechanism, queries=30, teachers=60, adaptive=True, **sizes).epsilon
    assert worst_case(mechanism, queries=50, max_answers=30, teachers=60, adaptive=True, **sizes).epsilon == thirty
    without = worst_case(mechanism, queries=30, adaptive=True, **sizes).epsilon
    abstaining = worst_case(mechanism, queries=30, teachers=60, adaptive=True, abstentions=True, **sizes).epsilon
    gaussian = worst_case(GNMax(sigma2=12.0), queries=30, delta=1e-5).epsilon
    assert thirty < min(without, abstaining) <= max(without, abstaining) < gaussian
    stages = [Stage(mechanism=mechanism, queries=15), Stage(mechanism=mechanism, queries=15)]
    assert worst_case_of_stages(stages, teachers=60, **sizes).epsilon == pytest.approx(thirty, rel=2e-3)
    curve = worst_case_curve(mechanism, ORDERS, queries=30, teachers=60, classes=5).values
    exact = 30 * bisection_costs(mechanism.comparison(5), ORDERS, teachers=60, classes=5)
    np.testing.assert_allclose(curve, exact, rtol=1e-12)
