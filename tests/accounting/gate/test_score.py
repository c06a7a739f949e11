"""The score moves by at most 1 with a teacher and prices the data-dependent cost."""

import itertools

import numpy as np
import pytest
from histograms import Histogram, data_dependent_cost, histograms, neighbours

from ostrakon.accounting.gate.envelope import envelope
from ostrakon.accounting.gate.score import consensus, largest_over_distances, level
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.votes import Votes


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        ConfidentGNMax(threshold=5, sigma1=2.0, sigma2=1.2),
        GNMax(sigma2=1.2),
        GNMax(sigma2=3.0),
        LNMax(gamma=0.9),
        ExponentialMechanism(epsilon_per_query=1.5),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    ("teachers", "classes"),
    [(8, 2), (7, 3), *(pytest.param(*shape, marks=pytest.mark.slow) for shape in [(6, 4), (5, 5)])],
)
def test_one_lipschitz_over_every_pair_of_neighbours(mechanism: Mechanism, teachers: int, classes: int) -> None:
    a = 5.0
    sorted_ = [n for n in histograms(teachers, classes) if list(n) == sorted(n, reverse=True)]
    pairs = list(itertools.combinations_with_replacement(sorted_, 2))
    # Limits that are costs of data sets, to the last bit: there rounding would show.
    together = {pair: envelope(Votes(pair), mechanism, orders=[a])[0] for pair in pairs}
    limits = np.unique([cost for costs in together.values() for cost in costs])
    chosen = limits[np.linspace(0, len(limits) - 1, 6).round().astype(int)]
    levels = [(0.9 * 0.5**t, a, float(limit)) for t, limit in enumerate(chosen)]
    exact = data_dependent_cost(mechanism, teachers, classes, a)
    phi: dict[tuple[Histogram, ...], int] = {}
    for pair in pairs:
        phi[pair] = level(Votes(pair), mechanism, levels)
        # The data-dependent cost of the two queries together is at most the level's.
        if phi[pair] < len(levels):
            assert sum(exact[n] for n in pair) <= levels[phi[pair]][2] * (1 + 1e-9)
    assert len(set(phi.values())) > 2
    reach = {n: {tuple(sorted(after, reverse=True)) for after in neighbours(n)} | {n} for n in sorted_}
    for (first, second), here in phi.items():
        for after in itertools.product(reach[first], reach[second]):
            there = phi[min(after, after[::-1], key=lambda p: sorted_.index(p[0]))]
            assert abs(here - there) <= 1


@pytest.mark.slow
def test_the_score_is_the_least_that_every_level_allows() -> None:
    rng = np.random.default_rng(4)
    mechanism = ConfidentGNMax(threshold=50, sigma1=30, sigma2=10)
    votes = Votes(rng.multinomial(60, [0.9, 0.06, 0.04], size=15))
    orders = [6.0, 9.0]
    cost = envelope(votes, mechanism, orders=orders)
    found = set()
    for scale in np.geomspace(0.5, 3, 12):
        levels = [(0.8**t, orders[t % 2], scale * cost[t % 2, 3] * 1.05**t) for t in range(90)]

        def allowed(t: int, levels: list[tuple[float, float, float]] = levels) -> bool:
            return all(cost[s % 2, min(s - t, 60)] <= levels[s][2] for s in range(t, len(levels)))

        least = next(t for t in range(len(levels) + 1) if all(allowed(u) for u in range(t, len(levels))))
        assert level(votes, mechanism, levels) == least
        found.add(least)
    assert len(found) > 3
    assert min(found) == 0


@pytest.mark.slow
def test_the_largest_of_all_distances_is_found_with_few() -> None:
    # 700 teachers: distances are searched, not enumerated.
    rng = np.random.default_rng(3)
    mechanism = ConfidentGNMax(threshold=500, sigma1=300, sigma2=80)
    votes = Votes(rng.multinomial(700, [0.9, 0.06, 0.04], size=15))
    a = 8.0
    for kappa in (0.002, 0.01, 0.05):
        full = np.log(envelope(votes, mechanism, orders=[a])[0]) / kappa - np.arange(701)
        assert consensus(votes, mechanism, order=a, kappa=kappa) == pytest.approx(full.max(), abs=1e-9)


def test_envelopes_end_at_the_data_independent_cost() -> None:
    mechanism = GNMax(sigma2=9.0)
    votes = Votes([[20, 5, 5], [28, 1, 1]])
    other = Votes([[10, 10, 10], [30, 0, 0]])
    ends = [envelope(one, mechanism, orders=[8.0])[0, -1] for one in (votes, other)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


@pytest.mark.parametrize("kappa", [0.0005, 0.004, 0.03])
def test_the_largest_over_distances_is_exact(kappa: float) -> None:
    rng = np.random.default_rng(int(1e4 * kappa))
    cost = np.cumsum(rng.exponential(size=2001) * rng.integers(0, 2, size=2001)) + 1e-3
    asked: list[int] = []

    def at(steps: np.ndarray) -> np.ndarray:
        asked.extend(steps.tolist())
        return cost[steps]

    found = largest_over_distances(at, lambda value, d: np.log(value) / kappa - d, teachers=2000)
    assert found == np.max(np.log(cost) / kappa - np.arange(2001))
    assert len(asked) == len(set(asked)) < 2001
