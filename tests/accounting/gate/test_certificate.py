"""The whole gate enumerated: 40 teachers, two classes, two queries, every pair of neighbouring datasets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from ostrakon.accounting.gate import certificate
from ostrakon.accounting.gate.certificate import LEAST, gate_delta, gate_epsilon
from ostrakon.accounting.gate.envelope import highest_cost, query_envelopes
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.score import CostCurve
from ostrakon.mechanisms import ConfidentGNMax, GNMax
from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

N = 40


class Enumerated:
    """Every dataset of two queries, its score and the exact law of what the gate publishes."""

    def __init__(self, mechanism: Mechanism, curve: CostCurve, s: float, *, prefix: int = 0) -> None:
        votes = Votes([[n, N - n] for n in range(N + 1)])
        law = np.exp(mechanism.log_probabilities(votes))
        cost = query_envelopes(votes, mechanism, orders=[curve.order])[0]
        together = cost[:, None] + cost[None, :]
        self.phi = (curve.needed(together) - np.arange(N + 1)).max(axis=2)
        released = ndtr(-self.phi / s)
        both = law[:, None, :, None] * law[None, :, None, :]
        passed = released[:, :, None, None] * both
        refused = (1 - released)[:, :, None] * (law[:, None, :] if prefix else np.ones((1, 1, 1)))
        flat = (N + 1, N + 1, -1)
        self.law = np.concatenate([passed.reshape(flat), np.broadcast_to(refused, (N + 1, N + 1, refused.shape[2]))], 2)

    def delta(self, epsilon: float) -> float:
        """The exact delta of the gate at epsilon: the largest over all ordered pairs of neighbours."""
        worst = 0.0
        for i, j in itertools.product((-1, 0, 1), repeat=2):
            rows, columns = slice(max(0, -i), N + 1 - max(0, i)), slice(max(0, -j), N + 1 - max(0, j))
            moved = slice(max(0, i), N + 1 + min(0, i)), slice(max(0, j), N + 1 + min(0, j))
            loss = self.law[rows, columns] - math.exp(epsilon) * self.law[moved]
            worst = max(worst, float(np.maximum(loss, 0).sum(axis=2).max()))
        return worst


def curve(mechanism: Mechanism, *, order: float, B: float, kappa: float) -> CostCurve:
    highest = highest_cost(mechanism, queries=2, teachers=N, classes=2, order=order)
    return CostCurve(order=order, B=B, kappa=kappa, highest=highest)


# Found by search: here the certificate is within 1% of the truth.
TIGHT = GNMax(sigma2=4), {"order": 4.118, "B": 0.00419, "kappa": 0.48}, 0.9763, 0.25


def test_exact_delta_stays_below_the_certificate_and_within_two_percent() -> None:
    mechanism, parameters, s, epsilon = TIGHT
    r = curve(mechanism, **parameters)
    exact, certified = Enumerated(mechanism, r, s).delta(epsilon), gate_delta(r, s=s, epsilon=epsilon)
    assert exact <= certified
    # A certificate made 2% too small is found out.
    assert exact > 0.98 * certified


def test_enumerated_scores_are_the_gates_own() -> None:
    mechanism, parameters, s, _ = TIGHT
    world = Enumerated(mechanism, curve(mechanism, **parameters), s)
    gate = Gate(mechanism=mechanism, queries=2, teachers=N, classes=2, delta=0.3, s=s, **parameters)
    for i, j in ((0, 40), (20, 20), (33, 38), (7, 21)):
        assert gate.score(Votes([[i, N - i], [j, N - j]])) == pytest.approx(world.phi[i, j], abs=1e-9)
    for i, j in itertools.product((-1, 0, 1), repeat=2):
        here = world.phi[1:-1, 1:-1]
        there = world.phi[1 + i : N + i, 1 + j : N + j]
        assert np.abs(here - there).max() <= 1 + 1e-9


@pytest.mark.parametrize(
    ("mechanism", "parameters", "s"),
    [
        TIGHT[:3],
        (ConfidentGNMax(threshold=25, sigma1=1.0, sigma2=2.0), {"order": 1.844, "B": 0.96, "kappa": 1.07}, 3.0),
        (GNMax(sigma2=8.0), {"order": 3.0, "B": 0.045, "kappa": 0.12}, 1.05),
        (GNMax(sigma2=2.0), {"order": 8.8, "B": 0.0148, "kappa": 1.24}, 0.65),
        (ConfidentGNMax(threshold=33, sigma1=20.0, sigma2=12.0), {"order": 12.0, "B": 0.05, "kappa": 0.03}, 5.0),
    ],
)
@pytest.mark.parametrize("prefix", [0, 1])
def test_exact_delta_never_above_the_certificate(
    mechanism: Mechanism, parameters: dict[str, float], s: float, prefix: int
) -> None:
    r = curve(mechanism, **parameters)
    world = Enumerated(mechanism, r, s, prefix=prefix)
    check, answer = mechanism.gaussian_dp() or (0.0, 0.0)
    mu = math.sqrt(prefix * (check**2 + answer**2))
    for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0):
        assert world.delta(epsilon) <= gate_delta(r, s=s, epsilon=epsilon, prefix_mu=mu)


def test_refusals_with_a_prefix_cost_something() -> None:
    mechanism, parameters, s, _ = TIGHT
    r = curve(mechanism, **parameters)
    assert gate_delta(r, s=s, epsilon=1.0, prefix_mu=0.5) > gate_delta(r, s=s, epsilon=1.0)
    # A prefix that were free would be caught: nearly always refused, the gate is the prefix.
    never = curve(mechanism, order=4.0, B=1e-9, kappa=0.48)
    world = Enumerated(mechanism, never, 20.0, prefix=1)
    assert world.delta(0.1) > 2 * gate_delta(never, s=20.0, epsilon=0.1)
    assert world.delta(0.1) <= gate_delta(never, s=20.0, epsilon=0.1, prefix_mu=math.sqrt(2) / 4)


def test_epsilon_inverts_delta_from_above() -> None:
    r = CostCurve(order=10.0, B=0.5, kappa=0.02, highest=1.5)
    for delta in (1e-3, 1e-5, 1e-9):
        epsilon = gate_epsilon(r, s=6.5, delta=delta)
        assert gate_delta(r, s=6.5, epsilon=epsilon) <= delta
        assert gate_delta(r, s=6.5, epsilon=epsilon * (1 - 1e-5)) > delta


def test_a_large_delta_is_certified_at_the_least_epsilon_after_one_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    r = CostCurve(order=10.0, B=0.5, kappa=0.02, highest=1.5)
    asked = []

    def counted(*given: object, **options: float) -> float:
        asked.append(options["epsilon"])
        return gate_delta(*given, **options)

    monkeypatch.setattr(certificate, "gate_delta", counted)
    assert gate_epsilon(r, s=6.5, delta=0.999) == LEAST
    assert asked == [LEAST]
    assert gate_delta(r, s=6.5, epsilon=LEAST) <= 0.999
    # Just too little: then it is searched for, in so many steps as digits need.
    most = gate_delta(r, s=6.5, epsilon=LEAST)
    epsilon = gate_epsilon(r, s=6.5, delta=most * (1 - 1e-6))
    assert epsilon > LEAST
    assert gate_delta(r, s=6.5, epsilon=epsilon) <= most * (1 - 1e-6)
    assert len(asked) < 70


def test_finer_cells_only_tighten() -> None:
    r = CostCurve(order=10.0, B=0.5, kappa=0.02, highest=1.5)
    found = [gate_epsilon(r, s=6.5, delta=1e-5, cells=cells) for cells in (200, 500, 1500, 20000)]
    assert found == sorted(found, reverse=True)
    assert found[2] < found[3] * 1.0002


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_bad_noise_is_refused(bad: object) -> None:
    r = CostCurve(order=10.0, B=0.5, kappa=0.02, highest=1.5)
    with pytest.raises(InvalidInput, match="s must"):
        gate_delta(r, s=bad, epsilon=1.0)
