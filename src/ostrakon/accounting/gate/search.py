"""Search for the gate (order, curve and noise) with the smallest epsilon on public votes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import log_ndtr, ndtri

from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, PublicVotes

_ORDERS = np.array([2.0, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 21, 25, 30, 38, 50, 70, 100, 150, 250])
_DISTANCES = 128
_PHI = np.linspace(-8, 8, 321)
_BOX = 3.0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A gate's curve and noise: order, kappa (per teacher), s (teachers); `epsilon` estimates its certificate."""

    epsilon: float
    order: float
    kappa: float
    s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class GateSearch:
    """The envelopes of public votes at several orders, for searches with any number of first queries.

    The search may be heuristic: the certificate is computed from its result.
    queries: of the votes. orders: shape (K,). cost: of the first queries together, by their number, shape (K, queries,
    distances), or of all of them alone, (K, 1, distances). highest: of one query, shape (K,).
    """

    queries: int
    teachers: int
    orders: FloatArray
    steps: IntArray
    cost: FloatArray
    highest: FloatArray

    @classmethod
    def of(
        cls, votes: PublicVotes, mechanism: Mechanism, *, every_number: bool = True, report: Report | None = None
    ) -> Self:
        """The envelopes of these votes.

        every_number: whether any number of first queries may be searched; False: only all, in less memory. report:
        called with (done, total) distinct histograms.
        """
        require_public(votes)
        n = votes.teachers
        steps = np.unique(np.round(np.linspace(0, n, min(n, _DISTANCES) + 1)).astype(np.int64))
        envelope = Envelope.of(votes, mechanism, orders=_ORDERS)
        if every_number:
            cost = envelope.by_query(steps, report)
            np.cumsum(cost, axis=1, out=cost)
        else:
            cost = envelope.summed(steps, report)[:, None]
        highest = envelope.tables.highest
        return cls(queries=votes.queries, teachers=n, orders=_ORDERS, steps=steps, cost=cost, highest=highest)

    def best(self, *, queries: int, delta: float, probability: float) -> Shape:
        """The best order, kappa and s for the first `queries` queries."""
        if self.cost.shape[1] < self.queries != queries:
            raise InvalidInput(f"queries must be all {self.queries}, whose envelopes alone were kept, got {queries!r}.")
        start = (math.log(5 / self.teachers), math.log(0.025 * self.teachers))
        best = Shape(epsilon=math.inf, order=float(self.orders[0]), kappa=1.0, s=1.0)
        for row, order in enumerate(self.orders):
            cost = self.cost[row, min(queries, self.cost.shape[1]) - 1]
            if not np.isfinite(cost).all():
                continue
            candidate = self._at(float(order), cost, queries * self.highest[row], delta, probability, start)
            start = (math.log(candidate.kappa), math.log(candidate.s))
            best = min(best, candidate, key=lambda shape: shape.epsilon)
        return best

    def _at(
        self, a: float, cost: FloatArray, highest: float, delta: float, probability: float, start: tuple[float, float]
    ) -> Shape:
        middle = np.array([math.log(5 / self.teachers), math.log(0.025 * self.teachers)])
        log_factor = a * math.log1p(-1 / a) - math.log(a - 1) - math.log(delta)

        def epsilon(logs: FloatArray) -> float:
            """The certificate's supremum by Canonne, Kamath and Steinke's conversion alone, solved for epsilon."""
            # If votes disagree, the curve is flat and the search would drift: keep it in a wide box.
            away = float(np.maximum(np.abs(logs - middle) - _BOX, 0).sum())
            logs = np.clip(logs, middle - _BOX, middle + _BOX)
            kappa, s = _within_reach(logs)
            b = curve_scale(cost, self.steps, kappa=kappa, s=s, probability=probability)
            log_pi = log_ndtr(-_PHI)
            apart = log_pi - log_ndtr(-_PHI - 1 / s)
            r = np.minimum(b * np.exp(np.minimum(kappa * s * _PHI, 100.0)), highest)
            return float(np.max(r + apart + (log_pi + log_factor) / (a - 1))) + away

        from scipy.optimize import minimize

        result = minimize(epsilon, np.array(start), method="Nelder-Mead", options={"xatol": 3e-3, "fatol": 1e-5})
        kappa, s = _within_reach(result.x)
        return Shape(epsilon=float(result.fun), order=a, kappa=kappa, s=s)


def _within_reach(logs: FloatArray) -> tuple[float, float]:
    """(kappa, s) from their logarithms, clipped: if votes cost almost nothing, the search drifts and would overflow."""
    kappa, s = np.exp(np.clip(logs, -20.0, 20.0))
    return float(kappa), float(s)


def require_public(votes: PublicVotes) -> None:
    """Refuse votes that are not public, or empty."""
    if not isinstance(votes, PublicVotes):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise InvalidInput(
            "public_votes must be PublicVotes (simulated, published, or cast on public data): what is planned on the "
            f"private votes would leak them, got {type(votes).__name__}."
        )
    if not votes.queries:
        raise InvalidInput("public_votes must hold at least one query, got 0.")


def curve_scale(cost: FloatArray, steps: IntArray, *, kappa: float, s: float, probability: float) -> float:
    """The smallest B with which the noise passes at this probability: phi = -z s with Phi(z) = probability."""
    return float(np.max(scales(cost, steps, kappa=kappa, s=s, probability=probability)))


def scales(cost: FloatArray, steps: IntArray, *, kappa: float, s: float, probability: float) -> FloatArray:
    """The B that every distance alone needs, shape (distances,); `curve_scale` is the largest."""
    exponent = kappa * (float(ndtri(probability)) * s - steps)
    return cost * np.exp(np.minimum(exponent, 500.0))
