"""The whole gate enumerated: 40 teachers, two classes, two queries, every pair of neighbouring datasets."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from histograms import query_envelopes

from ostrakon.accounting.composition.adaptive import Grid
from ostrakon.accounting.gate import certificate
from ostrakon.accounting.gate.certificate import LEAST, Level, Points, gate_delta, gate_epsilon
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.profile_envelope import ProfileEnvelope
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

N = 40
GRID = (0.01, 250)


class Enumerated:
    """Every dataset of two queries, its score and the exact law of what the gate publishes."""

    def __init__(
        self, mechanism: Mechanism, levels: Sequence[Level], *, prefix: int = 0, grid: Points | None = None
    ) -> None:
        votes = Votes([[n, N - n] for n in range(N + 1)])
        law = np.exp(mechanism.log_probabilities(votes))
        if grid is None:
            orders, row = np.unique([level[1] for level in levels], return_inverse=True)
            one = query_envelopes(votes, mechanism, orders=orders)[row]
            cost = one[:, :, None] + one[:, None]
        else:
            cost = self.profiles(mechanism, levels, Grid(step=grid[0], count=grid[1]))
        self.score = np.array([[self.of(cost[:, i, j], levels) for j in range(N + 1)] for i in range(N + 1)])
        released = np.append([level[0] for level in levels], 0.0)[self.score]
        both = law[:, None, :, None] * law[None, :, None, :]
        passed = released[:, :, None, None] * both
        refused = (1 - released)[:, :, None] * (law[:, None, :] if prefix else np.ones((1, 1, 1)))
        flat = (N + 1, N + 1, -1)
        self.law = np.concatenate([passed.reshape(flat), np.broadcast_to(refused, (N + 1, N + 1, refused.shape[2]))], 2)

    @staticmethod
    def profiles(mechanism: Mechanism, levels: Sequence[Level], grid: Grid) -> np.ndarray:
        """The profiles of both queries together at every level's point, (levels, i, j, distances)."""
        points = [int(level[1]) for level in levels]
        result = np.ones((len(levels), N + 1, N + 1, N + 1))
        for i, j in itertools.product(range(N // 2, N + 1), repeat=2):
            known = ProfileEnvelope.of(Votes([[i, N - i], [j, N - j]]), mechanism, grid)
            for d in range(len(levels)):
                for first, second in itertools.product({i, N - i}, {j, N - j}):
                    result[:, first, second, d] = known.at(d)[points]
        return result

    @staticmethod
    def of(cost: np.ndarray, levels: Sequence[Level]) -> int:
        """The score as its definition reads; cost: by level (its order) and distance."""

        def allowed(t: int) -> bool:
            return all(cost[s, min(s - t, N)] <= levels[s][2] for s in range(t, len(levels)))

        score = len(levels)
        while score and allowed(score - 1):
            score -= 1
        return score

    def delta(self, epsilon: float) -> float:
        """The exact delta of the gate at epsilon: the largest over all ordered pairs of neighbours."""
        worst = 0.0
        for i, j in itertools.product((-1, 0, 1), repeat=2):
            rows, columns = slice(max(0, -i), N + 1 - max(0, i)), slice(max(0, -j), N + 1 - max(0, j))
            moved = slice(max(0, i), N + 1 + min(0, i)), slice(max(0, j), N + 1 + min(0, j))
            loss = self.law[rows, columns] - math.exp(epsilon) * self.law[moved]
            worst = max(worst, float(np.maximum(loss, 0).sum(axis=2).max()))
        return worst


def steps(order: float, start: float, growth: float, passes: Sequence[float]) -> list[Level]:
    """Levels whose costs grow from `start` by a factor each."""
    return [(p, order, start * growth**t) for t, p in enumerate(passes)]


def planned(mechanism: Mechanism, epsilon: float, passes: Sequence[float], *, most: int = N) -> list[Level]:
    """Levels at the points that the decision leaves of an epsilon, with the deltas of these votes and distances."""
    best = ProfileEnvelope.of(Votes([[most, N - most]] * 2), mechanism, Grid(step=GRID[0], count=GRID[1]))
    levels: list[Level] = []
    for t, (p, after) in enumerate(itertools.pairwise([*passes, passes[-1]])):
        point = math.floor((epsilon - math.log(p / after)) / GRID[0] - 1e-9)
        levels.append((p, float(point), float(best.at(t)[point])))
    return levels


def falling(first: float, ratio: float, least: float) -> list[float]:
    """Probabilities that fall by a ratio each, down to `least`."""
    count = math.ceil(math.log(least / first) / math.log(ratio)) + 1
    return [first * ratio**t for t in range(count)]


# Steep steps on cheap votes: the certificate is close to the truth.
TIGHT = GNMax(sigma2=4.0), steps(4.0, 0.006, 1.6, [0.9, 0.3, 0.1, 0.05])

CASES = [
    TIGHT,
    (GNMax(sigma2=4.0), steps(6.0, 0.002, 1.5, falling(0.99, 0.7, 1e-3))),
    (ConfidentGNMax(threshold=25, sigma1=1.0, sigma2=2.0), steps(1.844, 0.003, 2.2, falling(0.9, 0.6, 1e-3))),
    (GNMax(sigma2=8.0), steps(3.0, 0.045, 1.12, falling(0.999, 0.5, 1e-5))),
    (GNMax(sigma2=2.0), [*steps(8.8, 0.015, 2.0, [0.95, 0.9, 0.8]), *steps(3.0, 0.2, 2.0, [0.5, 0.3, 0.1, 0.01])]),
    (ConfidentGNMax(threshold=33, sigma1=20.0, sigma2=12.0), steps(12.0, 0.05, 1.03, falling(1.0, 0.8, 1e-4))),
]


CHECKED = ConfidentGNMax(threshold=33, sigma1=20.0, sigma2=12.0)
BY_PROFILES = [
    (GNMax(sigma2=12.0), planned(GNMax(sigma2=12.0), 0.6, [0.9, 0.8, 0.7, 0.55, 0.4, 0.25])),
    (GNMax(sigma2=4.0), planned(GNMax(sigma2=4.0), 1.2, falling(0.5, 0.5, 1e-5), most=21)),
    (GNMax(sigma2=4.0), planned(GNMax(sigma2=4.0), 1.0, falling(0.5, 0.5, 1e-5), most=28)),
    (CHECKED, planned(CHECKED, 0.5, [0.95, 0.9, 0.8, 0.6, 0.4])),
]


@pytest.mark.parametrize(("mechanism", "levels"), BY_PROFILES)
@pytest.mark.parametrize("prefix", [0, 1])
def test_exact_delta_of_profiles_never_above_the_certificate(
    mechanism: Mechanism, levels: list[Level], prefix: int
) -> None:
    world = Enumerated(mechanism, levels, prefix=prefix, grid=GRID)
    assert len(np.unique(world.score)) > 1
    check, answer = mechanism.gaussian_dp() or (0.0, 0.0)
    mu = math.sqrt(prefix * (check**2 + answer**2))
    for epsilon in (0.0, 0.1, 0.3, 0.5, 0.6, 1.0, 1.2, 2.0, 4.0):
        assert world.delta(epsilon) <= gate_delta(levels, epsilon=epsilon, prefix_mu=mu, grid=GRID)
    gate = Gate(mechanism=mechanism, queries=2, teachers=N, classes=2, delta=0.3, levels=levels, grid=GRID)
    for i, j in ((0, 40), (20, 20), (33, 38), (7, 21), (40, 40), (30, 31), (40, 38), (39, 39)):
        assert gate.score(Votes([[i, N - i], [j, N - j]])) == world.score[i, j]
    for i, j in itertools.product((-1, 0, 1), repeat=2):
        assert np.abs(world.score[1:-1, 1:-1] - world.score[1 + i : N + i, 1 + j : N + j]).max() <= 1


def test_a_profile_certificate_two_percent_too_small_is_found_out() -> None:
    mechanism, levels = BY_PROFILES[1]
    certified = gate_delta(levels, epsilon=1.2, grid=GRID)
    assert 0.98 * certified < Enumerated(mechanism, levels, grid=GRID).delta(1.2) <= certified
    # Before a level's point nothing is known of its profile.
    assert gate_delta(levels, epsilon=1.19, grid=GRID) == pytest.approx(0.5)


@pytest.mark.parametrize(("mechanism", "levels"), CASES)
@pytest.mark.parametrize("prefix", [0, 1])
def test_exact_delta_never_above_the_certificate(mechanism: Mechanism, levels: list[Level], prefix: int) -> None:
    world = Enumerated(mechanism, levels, prefix=prefix)
    assert len(np.unique(world.score)) > 2
    check, answer = mechanism.gaussian_dp() or (0.0, 0.0)
    mu = math.sqrt(prefix * (check**2 + answer**2))
    for epsilon in (0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 4.0):
        assert world.delta(epsilon) <= gate_delta(levels, epsilon=epsilon, prefix_mu=mu)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 1.4])
def test_a_certificate_two_percent_too_small_is_found_out(epsilon: float) -> None:
    mechanism, levels = TIGHT
    world, certified = Enumerated(mechanism, levels), gate_delta(levels, epsilon=epsilon)
    assert 0.98 * certified < world.delta(epsilon) <= certified
    # At the delta of this epsilon, an epsilon that is 2% smaller does not hold.
    assert world.delta(0.98 * gate_epsilon(levels, delta=certified)) > certified


@pytest.mark.parametrize(("mechanism", "levels"), CASES[:5:2])
def test_enumerated_scores_are_the_gates_own_and_move_by_one(mechanism: Mechanism, levels: list[Level]) -> None:
    world = Enumerated(mechanism, levels)
    gate = Gate(mechanism=mechanism, queries=2, teachers=N, classes=2, delta=0.3, levels=levels)
    for i, j in ((0, 40), (20, 20), (33, 38), (7, 21), (40, 40), (30, 31)):
        votes = Votes([[i, N - i], [j, N - j]])
        assert gate.score(votes) == world.score[i, j]
        released = 1 - world.law[i, j, -1]
        assert gate.pass_probability(votes) == pytest.approx(released, abs=1e-12)
    for i, j in itertools.product((-1, 0, 1), repeat=2):
        here = world.score[1:-1, 1:-1]
        there = world.score[1 + i : N + i, 1 + j : N + j]
        assert np.abs(here - there).max() <= 1


def test_refusals_with_a_prefix_cost_something() -> None:
    mechanism, levels = TIGHT
    assert gate_delta(levels, epsilon=1.0, prefix_mu=0.5) > gate_delta(levels, epsilon=1.0)
    # A prefix that were free would be caught: nearly always refused, the gate is the prefix.
    never = [(1e-9, 4.0, 1e-9)]
    world = Enumerated(mechanism, never, prefix=1)
    assert world.delta(0.1) > 2 * gate_delta(never, epsilon=0.1)
    assert world.delta(0.1) <= gate_delta(never, epsilon=0.1, prefix_mu=math.sqrt(2) / 4)


def test_too_steep_a_table_is_found_out() -> None:
    # From 0.9 to 0.001 in one step: the decision itself reveals ln 900.
    steep = [(0.9, 8.0, 1e-4), (0.001, 8.0, 1e-4)]
    assert gate_delta(steep, epsilon=2.0) > 0.8
    assert gate_delta(steep, epsilon=6.81) < 0.01
    # Refusals, too, must not grow faster than e^epsilon.
    refusals = [(1 - 1e-9, 8.0, 1e-4), (0.5, 8.0, 1e-4)]
    assert gate_delta(refusals, epsilon=1.0) == pytest.approx(0.5, rel=1e-6)
    assert gate_delta([(1.0, 8.0, 1e-4)], epsilon=3.0) == 1.0


def test_epsilon_inverts_delta_from_above() -> None:
    levels = steps(10.0, 0.3, 1.02, falling(0.9, 0.8, 1e-11))
    for delta in (1e-3, 1e-5, 1e-9):
        epsilon = gate_epsilon(levels, delta=delta)
        assert gate_delta(levels, epsilon=epsilon) <= delta
        assert gate_delta(levels, epsilon=epsilon * (1 - 1e-5)) > delta


def test_a_large_delta_is_certified_at_the_least_epsilon_after_one_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = steps(10.0, 0.3, 1.02, falling(0.9, 0.8, 1e-3))
    asked = []

    def counted(*given: object, **options: float) -> float:
        asked.append(options["epsilon"])
        return gate_delta(*given, **options)

    monkeypatch.setattr(certificate, "gate_delta", counted)
    assert gate_epsilon(levels, delta=1 - 1e-9) == LEAST
    assert asked == [LEAST]


GOOD = [(0.9, 8.0, 0.5), (0.1, 8.0, 0.6)]


@pytest.mark.parametrize(
    "bad", [[(0.9, 1.5, 0.1)], [(0.9, 0.0, 0.1)], [(0.9, 251.0, 0.1)], [(0.9, 8.0, 1.1)], [(0.9, 8.0, 0.0)]]
)
def test_levels_off_the_grid_are_refused(bad: list[Level]) -> None:
    assert gate_delta([(0.9, 250.0, 1.0)], epsilon=1.0, grid=GRID) < 1
    with pytest.raises(InvalidInput, match="levels must"):
        gate_delta(bad, epsilon=1.0, grid=GRID)


@pytest.mark.parametrize("bad", ["ab", 3, (0.01,), (0.0, 250), (0.01, 1), (0.01, 2.5), (math.nan, 250)])
def test_bad_grids_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="grid must"):
        gate_delta([(0.9, 1.0, 0.1)], epsilon=1.0, grid=bad)
    with pytest.raises(InvalidInput, match="grid must be None but for two classes"):
        Gate(mechanism=CHECKED, queries=2, teachers=N, classes=3, delta=0.3, levels=[(0.9, 1.0, 0.1)], grid=GRID)


@pytest.mark.parametrize(
    "bad",
    [
        [],
        "abc",
        3,
        [(0.9, 8.0)],
        [(0.9, 8.0, 0.5, 1.0)],
        [(1.1, 8.0, 0.5)],
        [(0.0, 8.0, 0.5)],
        [(0.9, 1.0, 0.5)],
        [(0.9, 8.0, 0.0)],
        [(0.9, 8.0, math.nan)],
        [(0.9, math.inf, 0.5)],
        [(True, 8.0, 0.5)],
        [(0.1, 8.0, 0.5), (0.2, 8.0, 0.5)],
    ],
)
def test_bad_levels_are_refused(bad: object) -> None:
    assert gate_delta(GOOD, epsilon=1.0) < 1
    with pytest.raises(InvalidInput, match="levels must"):
        gate_delta(bad, epsilon=1.0)
