"""The score: how many teachers of consensus the votes can lose; one teacher moves it by at most 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.accounting.gate.largest import largest_over_distances
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput, positive, settle
from ostrakon.votes import Votes

LIPSCHITZ = 1 + 1e-6
"""The assumed distance between scores of neighbours: 1, plus the rounding of computed envelopes."""


@dataclass(frozen=True, kw_only=True)
class CostCurve:
    """A public increasing curve `r(t) = min(B e^{kappa t}, highest)`: Rényi cost against the score, at `order`.

    order: Rényi order above 1. B: nats, above 0. kappa: per teacher, above 0. highest: the data-independent cost of
    the whole batch of queries at this order.
    Errors: `InvalidInput` where a number is not finite and above 0.
    Source: docs/mathematics.md D4.
    """

    order: float
    B: float
    kappa: float
    highest: float

    def __post_init__(self) -> None:
        settle(self, order=positive, B=positive, kappa=positive, highest=positive)
        if not self.order > 1:
            raise InvalidInput(f"order must be above 1, got {self.order!r}.")

    def __call__(self, t: ArrayLike) -> FloatArray:
        """r(t), nats, shape of t."""
        exponent = np.minimum(self.kappa * np.asarray(t, dtype=np.float64), math.log(self.highest / self.B))
        return self.B * np.exp(exponent)

    def needed(self, cost: ArrayLike) -> FloatArray:
        """The t at which `B e^{kappa t}` reaches a cost."""
        return np.log(np.asarray(cost, dtype=np.float64) / self.B) / self.kappa


def score(votes: Votes, mechanism: Mechanism, curve: CostCurve) -> float:
    """phi(D): the smallest t with `U(D, d) <= r(t + d)` for every distance d. Private; below 0 with much consensus.

    Guarantee: 1-Lipschitz, |phi(D) - phi(D')| <= 1 for neighbours (`LIPSCHITZ` after rounding), and the exact
    data-dependent cost of D at the curve's order is at most r(phi(D)).
    Proof. phi = max_d [r^-1(U(D, d)) - d]. By the nesting of envelopes U(D', d) <= U(D, d + 1), so
    phi(D') <= max_d [r^-1(U(D, d + 1)) - (d + 1)] + 1 <= phi(D) + 1; beyond d = N the envelope stays the same.
    d = 0 gives U(D, 0) <= r(phi). U never exceeds the curve's highest value, so cutting r off there changes nothing.
    Errors: as `envelope`.
    Source: docs/mathematics.md D4.
    """
    envelope = Envelope.of(votes, mechanism, orders=[curve.order])
    return largest_over_distances(
        lambda steps: envelope.summed(steps)[0],
        lambda cost, steps: curve.needed(cost) - steps,
        teachers=votes.teachers,
    )
