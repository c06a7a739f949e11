"""Scores: how many teachers of consensus the votes can lose; one teacher moves them by at most 1."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.composition.adaptive import Grid
from ostrakon.accounting.gate.certificate import Level, Points, require_levels
from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.accounting.gate.profile_envelope import ProfileEnvelope
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.numerics.inverse import most
from ostrakon.validation import positive
from ostrakon.votes import IntArray, Votes


def level(votes: Votes, mechanism: Mechanism, levels: Sequence[Level], grid: Points | None = None) -> int:
    """Return phi(D): the smallest t >= 0 such that for all t' >= t and d >= 0 the level t' + d allows U(D, d). Private.

    A level (p, a, r) allows costs up to r at order a; with a grid, a level (p, j, g) allows profiles of at most g at
    its point j. Levels beyond the table allow everything.

    Guarantee: |phi(D) - phi(D')| <= 1 for neighbours, to the last bit, and the exact data-dependent cost of D at the
    order of level phi(D) is at most its r, if phi(D) is in the table.
    Errors: as `envelope`.
    Source: docs/mathematics.md D4.
    """
    if grid is not None:
        return _level_by_profiles(votes, mechanism, require_levels(levels, grid), grid)
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


def _level_by_profiles(votes: Votes, mechanism: Mechanism, table: Sequence[Level], grid: Points) -> int:
    envelope = ProfileEnvelope.of(votes, mechanism, Grid(step=grid[0], count=grid[1]))

    def forbidden(score: int) -> bool:
        # From the largest distance on: it often allows smaller ones, which then need no profile.
        rows = reversed(list(enumerate(table[score:])))
        return any(envelope.exceeds(distance, int(point), delta) for distance, (_, point, delta) in rows)

    # Envelopes never fall with d, so a score above one that fits fits.
    return most(forbidden, at_least=0, below=len(table)) + 1 if forbidden(0) else 0


def consensus(votes: Votes, mechanism: Mechanism, *, order: float, kappa: float) -> float:
    """Return the smallest t with `U(D, d) <= e^{kappa (t + d)}` for every distance d. Private; below 0 with much
    consensus.

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


_ALL = 512
_SPREAD = 32


def largest_over_distances(
    cost: Callable[[IntArray], FloatArray], number: Callable[[FloatArray, IntArray], FloatArray], *, teachers: int
) -> float:
    """Return the largest `number(cost(d), d)` over the distances d = 0..teachers.

    cost: of distances, shape (distances,), the same shape; never decreases. number: never decreases in its cost and
    never increases in its distance. Up to 512 teachers every distance is computed.

    Guarantee: exact. Between two known distances a < b no number exceeds `number(cost(b), a + 1)`; only intervals
    that could still hold the maximum are split.
    """
    known: dict[int, float] = {}

    def compute(steps: IntArray) -> None:
        known.update(zip(steps.tolist(), cost(steps).tolist(), strict=True))

    if teachers <= _ALL:
        compute(np.arange(teachers + 1))
    else:
        compute(np.unique(np.round(np.linspace(0, teachers, _SPREAD)).astype(np.int64)))
    while True:
        at = np.array(sorted(known))
        costs = np.array([known[d] for d in at.tolist()])
        best = float(np.max(number(costs, at)))
        ceiling = number(costs[1:], at[:-1] + 1)
        open_ = [
            (a + b) // 2
            for (a, b), most in zip(pairwise(at.tolist()), ceiling, strict=True)
            if b - a > 1 and most > best
        ]
        if not open_:
            return best
        compute(np.array(open_))
