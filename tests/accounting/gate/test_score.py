"""The score moves by at most 1 with a teacher and prices the data-dependent cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from histograms import Histogram, data_dependent_cost, histograms, neighbours

from ostrakon.accounting.gate.envelope import envelope, highest_cost
from ostrakon.accounting.gate.score import CostCurve, score
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes


def curve_for(mechanism: Mechanism, queries: int, teachers: int, classes: int, a: float) -> CostCurve:
    highest = highest_cost(mechanism, queries=queries, teachers=teachers, classes=classes, order=a)
    return CostCurve(order=a, B=highest / 20, kappa=0.3, highest=highest)


@pytest.mark.parametrize(
    "mechanism",
    [
        ConfidentGNMax(threshold=5, sigma1=2.0, sigma2=1.2),
        GNMax(sigma2=1.2),
        LNMax(gamma=0.9),
        ExponentialMechanism(epsilon_per_query=1.5),
    ],
    ids=lambda m: m.name,
)
@pytest.mark.parametrize(
    ("teachers", "classes"),
    [(8, 2), (7, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in [(6, 4), (5, 5), (9, 3)])],
)
def test_one_lipschitz_over_every_pair_of_neighbours(mechanism: Mechanism, teachers: int, classes: int) -> None:
    a = 5.0
    curve = curve_for(mechanism, 2, teachers, classes, a)
    exact = data_dependent_cost(mechanism, teachers, classes, a)
    sorted_ = [n for n in histograms(teachers, classes) if list(n) == sorted(n, reverse=True)]
    phi: dict[tuple[Histogram, ...], float] = {}
    for pair in itertools.combinations_with_replacement(sorted_, 2):
        phi[pair] = score(Votes(pair), mechanism, curve)
        # The data-dependent cost of the two queries together is at most r(phi).
        assert sum(exact[n] for n in pair) <= curve(phi[pair]) * (1 + 1e-9)
    reach = {n: {tuple(sorted(after, reverse=True)) for after in neighbours(n)} | {n} for n in sorted_}
    for (first, second), here in phi.items():
        for after in itertools.product(reach[first], reach[second]):
            there = phi[min(after, after[::-1], key=lambda p: sorted_.index(p[0]))]
            assert abs(here - there) <= 1 + 1e-9


def test_the_largest_of_all_distances_is_found_with_few() -> None:
    # 700 teachers: distances are searched, not enumerated.
    rng = np.random.default_rng(3)
    mechanism = ConfidentGNMax(threshold=500, sigma1=300, sigma2=80)
    votes = Votes(rng.multinomial(700, [0.9, 0.06, 0.04], size=15))
    a = 8.0
    highest = highest_cost(mechanism, queries=15, teachers=700, classes=3, order=a)
    for kappa in (0.002, 0.01, 0.05):
        curve = CostCurve(order=a, B=highest / 10, kappa=kappa, highest=highest)
        full = curve.needed(envelope(votes, mechanism, orders=[a])[0]) - np.arange(701)
        assert score(votes, mechanism, curve) == pytest.approx(full.max(), abs=1e-9)


def test_curve_saturates_and_inverts() -> None:
    curve = CostCurve(order=8.0, B=0.5, kappa=0.1, highest=2.0)
    assert curve(np.array([-10.0, 0.0, 1e6])) == pytest.approx([0.5 * math.exp(-1), 0.5, 2.0])
    assert curve.needed(curve(-3.0)) == pytest.approx(-3.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
@pytest.mark.parametrize("name", ["order", "B", "kappa", "highest"])
def test_bad_curves_are_refused(name: str, bad: object) -> None:
    good = {"order": 8.0, "B": 0.5, "kappa": 0.1, "highest": 2.0}
    with pytest.raises(InvalidInput, match=name):
        CostCurve(**{**good, name: bad})
