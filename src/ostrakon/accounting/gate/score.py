"""Scores: how many teachers of consensus the votes can lose; one teacher moves them by at most 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.gate.certificate import Level, require_levels
from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.accounting.gate.largest import largest_over_distances
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import positive
from ostrakon.votes import IntArray, Votes


def level(votes: Votes, mechanism: Mechanism, levels: Sequence[Level]) -> int:
    """phi(D): the smallest t >= 0 such that for all t' >= t and d >= 0 the level t' + d allows U(D, d). Private.

    A level (p, a, r) allows costs up to r at order a; levels beyond the table allow everything.

    Guarantee: |phi(D) - phi(D')| <= 1 for neighbours, to the last bit, and the exact data-dependent cost of D at the
    order of level phi(D) is at most its r, if phi(D) is in the table.
    Proof. By the nesting of envelopes U(D', d) <= U(D, d + 1), so if D passes t, then for t' >= t and d the level
    (t' + 1) + d = t' + (d + 1) allows U(D', d), and D' passes t + 1. d = 0 gives the second claim. Computed envelopes
    nest to the last bit (`Envelope.summed`).
    Errors: as `envelope`.
    Source: docs/mathematics.md D4.
    """
    table = require_levels(levels)
    _, orders, costs = np.array(table).T
    distinct, row = np.unique(orders, return_inverse=True)
    envelope = Envelope.of(votes, mechanism, orders=distinct)
    # Of equal limits in a row the last one decides.
    last = np.append((np.diff(orders) != 0) | (np.diff(costs) != 0), True)
    at = np.flatnonzero(last)

    def forbidden(levels: IntArray, distances: IntArray) -> NDArray[np.bool_]:
        steps, column = np.unique(np.minimum(distances, votes.teachers), return_inverse=True)
        return envelope.summed(steps)[row[levels], column] > costs[levels]

    # Envelopes never fall with d: the first distance that a level forbids needs the highest score.
    at = at[forbidden(at, at)]
    low, high = np.full(len(at), -1), at.copy()
    while (open_ := np.flatnonzero((high - low > 1) & (at - low > (at - high).max(initial=0) + 1))).size:
        middle = (low[open_] + high[open_]) // 2
        no = forbidden(at[open_], middle)
        high[open_[no]], low[open_[~no]] = middle[no], middle[~no]
    return int((at - high + 1).max(initial=0))


def consensus(votes: Votes, mechanism: Mechanism, *, order: float, kappa: float) -> float:
    """The smallest t with `U(D, d) <= e^{kappa (t + d)}` for every distance d. Private; below 0 with much consensus.

    order: Rényi order above 1. kappa: per teacher, above 0.

    Guarantee: 1-Lipschitz up to the rounding of logarithms, and the exact data-dependent cost of D at `order` is at
    most
    e^{kappa t}. Proof as for `level`; beyond d = N the envelope stays the same.
    Errors: as `envelope`.
    Source: docs/mathematics.md D4.
    """
    growth, envelope = positive("kappa", kappa), Envelope.of(votes, mechanism, orders=[order])

    def needed(cost: FloatArray, steps: IntArray) -> FloatArray:
        return np.log(cost) / growth - steps

    return largest_over_distances(lambda steps: envelope.summed(steps)[0], needed, teachers=votes.teachers)
