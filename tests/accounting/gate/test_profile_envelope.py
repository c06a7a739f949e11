"""The envelope by adaptive composition against every data set of the ball and every adaptive strategy."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.composition.adaptive import Grid
from ostrakon.accounting.gate import profile_envelope
from ostrakon.accounting.gate.profile_envelope import ProfileEnvelope, has_profiles
from ostrakon.mechanisms import ConfidentGNMax, ExponentialMechanism, GNMax, LNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.votes import Votes

N = 7
GRID = Grid(step=0.02, count=120)
SMALL: list[Mechanism] = [
    GNMax(sigma2=3.0),
    ConfidentGNMax(threshold=5, sigma1=3.0, sigma2=2.0),
    LNMax(gamma=0.3),
    ExponentialMechanism(epsilon_per_query=0.5),
]


def laws(mechanism: Mechanism) -> np.ndarray:
    return np.exp(mechanism.log_probabilities(Votes([[n, N - n] for n in range(N + 1)])))


def best_strategy(law: np.ndarray, balls: list[range], y: np.ndarray, *, forward: bool) -> np.ndarray:
    """The largest P(S) - y Q(S) of an adversary that picks every query's pair after the answers before it."""
    if not balls:
        return np.maximum(1 - y, 0.0)
    best = np.zeros_like(y)
    for n in balls[0]:
        for m in (n - 1, n + 1):
            if 0 <= m <= N:
                p, q = (law[n], law[m]) if forward else (law[m], law[n])
                ratio = np.divide(q, p, out=np.zeros_like(p), where=p > 0)
                value = sum(
                    x * best_strategy(law, balls[1:], y * r, forward=forward)
                    for x, r in zip(p, ratio, strict=True)
                    if x > 0
                )
                best = np.maximum(best, value)
    return best


def ball(n: int, d: int) -> range:
    return range(max(0, n - d), min(N, n + d) + 1)


def envelope(mechanism: Mechanism, *counts: int, grid: Grid = GRID) -> ProfileEnvelope:
    return ProfileEnvelope.of(Votes([[n, N - n] for n in counts]), mechanism, grid)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_every_adaptive_strategy_within_the_ball_and_two_percent_less_is_refuted(mechanism: Mechanism) -> None:
    law, epsilons = laws(mechanism), np.array([0, 10, 25])
    y, tightest = np.exp(epsilons * GRID.step), 0.0
    for counts in ((7, 7), (4, 6), (6, 4), (5, 7)):
        bound = envelope(mechanism, *counts)
        for d in (0, 1, 2, N):
            balls = [ball(n, d) for n in counts]
            exact = np.maximum(best_strategy(law, balls, y, forward=True), best_strategy(law, balls, y, forward=False))
            assert (exact <= bound.at(d)[epsilons]).all()
            far = exact > 1e-3
            tightest = max(tightest, float((exact[far] / bound.at(d)[epsilons][far]).min(initial=1.0)))
            assert (exact[far] > 0.98 * bound.at(d)[epsilons][far]).all()
    assert tightest > 0.98


@pytest.mark.parametrize("mechanism", SMALL[:2], ids=repr)
def test_no_data_set_of_the_ball_and_no_neighbour_of_it_costs_more(mechanism: Mechanism) -> None:
    law, y = laws(mechanism), np.exp(np.arange(0, GRID.count, 12) * GRID.step)
    both = (law[:, None, :, None] * law[None, :, None, :]).reshape(N + 1, N + 1, -1)
    cost = np.zeros((N + 1, N + 1, len(y)))
    for i, j in itertools.product(range(N + 1), repeat=2):
        for k, m in itertools.product(ball(i, 1), ball(j, 1)):
            for p, q in ((both[i, j], both[k, m]), (both[k, m], both[i, j])):
                cost[i, j] = np.maximum(cost[i, j], np.maximum(p - y[:, None] * q, 0).sum(axis=1))
    for i, j in itertools.product(range(4, N + 1), repeat=2):
        bound = envelope(mechanism, i, j)
        for d in range(N + 1):
            reach = cost[np.ix_(ball(i, d), ball(j, d))].max(axis=(0, 1))
            assert (reach <= bound.at(d)[:-1:12]).all()


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_envelopes_nest_to_the_last_bit(mechanism: Mechanism) -> None:
    known = {pair: envelope(mechanism, *pair) for pair in itertools.product(range(N + 1), repeat=2)}
    for (i, j), here in known.items():
        for d in range(N):
            assert (here.at(d) <= here.at(d + 1)).all()
            for there in itertools.product(ball(i, 1), ball(j, 1)):
                assert (known[there].at(d) <= here.at(d + 1)).all()


def test_profiles_of_other_distances_decide_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, lazy = envelope(SMALL[1], 7, 5), envelope(SMALL[1], 7, 5)
    asked = [(d, j, g) for d in (7, 3, 5, 0, 1) for j in (1, 20, 60) for g in (1e-6, 0.01, 0.05, 0.2, 0.9)]
    for d, j, g in asked:
        assert lazy.exceeds(d, j, g) == bool(plain.at(d)[j] > g)
    known = dict(lazy.known)
    # Above what the largest distance allows, and below what the smallest forbids, nothing is computed.
    monkeypatch.setattr(profile_envelope, "_composed", None)
    assert not lazy.exceeds(2, 20, float(known[7][20]))
    assert lazy.exceeds(6, 20, math.nextafter(float(known[max(d for d in known if d <= 6)][20]), 0))


def test_what_has_profiles() -> None:
    shape = {"teachers": 9, "classes": 2, "abstentions": False}
    assert all(has_profiles(mechanism, **shape) for mechanism in SMALL)
    assert not has_profiles(SMALL[0], **{**shape, "classes": 3})
    assert not has_profiles(SMALL[0], **{**shape, "abstentions": True})
    assert not has_profiles(SparseVector(threshold=2, epsilon1=1.0, epsilon2=1.0, refusals=1), **shape)
