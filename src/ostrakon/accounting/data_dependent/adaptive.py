"""The data-dependent cost by the recursion of adaptive composition, with the votes at hand; private, like the votes."""

import math

import numpy as np

from ostrakon.accounting.composition.adaptive import (
    Family,
    Grid,
    Profile,
    Stencils,
    best_of,
    extend,
    left_of,
    stencils_of,
)
from ostrakon.accounting.data_dependent.exact import moves
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.validation import fraction, positive
from ostrakon.votes import IntArray, Votes

_MOST_LAWS = 1e6
"""The most probabilities that are computed: outcomes times moves of all different histograms."""

_MOST_WORK = 4e9
_SECONDS = 4e-7
"""What Python needs for one outcome at one point of the grid."""

_SHARE = 0.004
"""The chords add at most this share of the run's variance, divided by six."""

_COARSEST = 2.0
"""The largest factor by which the grid may be coarser."""

_FEWEST_POINTS = 400
_BLOCK = 256


def adaptive_epsilon(votes: Votes, mechanism: Mechanism, *, epsilon: float, delta: float) -> float:
    """Return the least epsilon of these votes against every other data set that differs in one teacher; private.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
    epsilon, delta : float
        The cost of the same votes by Rényi composition, around which the grid is laid.

    Returns
    -------
    float
        Inf if it would take too long, or if the law differs by query.

    Notes
    -----
    With D the data at hand, V(y) is the supremum of P_D(S) - y P_D'(S), and W(y) that of P_D'(S) - y P_D(S), both kept
    for y >= 1. Guarantee: none; never below the true cost at these votes.

    References
    ----------
    docs/adaptive.md.
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    same_law = not isinstance(mechanism, StatefulMechanism) and mechanism.fixed_queries is None
    if not same_law or not votes.queries or epsilon > 100:
        return math.inf
    named = mechanism.noisy_argmax(votes) is None
    counts = votes.counts if named else -np.sort(-votes.counts, axis=1)
    rows, back = np.unique(counts, axis=0, return_inverse=True)
    if _laws(rows, named=named, abstentions=votes.abstentions) * (votes.classes + 1) > _MOST_LAWS:
        return math.inf
    families = _families(Votes(rows, teachers=votes.teachers, abstentions=votes.abstentions), mechanism, named=named)
    deviation = epsilon / math.sqrt(2 * max(math.log(1 / delta), 0.5))
    length = 1.15 * epsilon + 0.5 * deviation
    step = min(deviation * math.sqrt(_SHARE / votes.queries), length / _FEWEST_POINTS)
    order = back.ravel()
    work = length / step * float(sum(families[i].p.size for i in order.tolist()))
    coarser = max(1.0, work / _MOST_WORK)
    if coarser > _COARSEST:
        return math.inf
    grid = Grid(step=step * coarser, count=math.ceil(length / step / coarser))
    values = _compose([stencils_of(family, grid) for family in families], order, grid, seconds=2 * _SECONDS * work)
    return Profile(grid=grid, values=np.where(values >= 0, values, np.inf)).epsilon(delta)


def _laws(rows: IntArray, *, named: bool, abstentions: bool) -> int:
    """Estimate the number of neighbours of the histograms."""
    different = (np.diff(rows, axis=1) != 0).sum(axis=1) + 1 if not named else np.full(len(rows), rows.shape[1])
    return int(((different + abstentions) ** 2).sum())


def _families(votes: Votes, mechanism: Mechanism, *, named: bool) -> list[Family]:
    before = np.exp(mechanism.log_probabilities(votes))
    after: list[list[FloatArray]] = [[] for _ in range(votes.queries)]
    for moved, index in moves(votes, named=named):
        laws = np.exp(mechanism.log_probabilities(moved))
        for row, law in zip(index.tolist(), laws, strict=True):
            after[row].append(law)
    return [
        Family(p=np.repeat(p[None], len(q), axis=0), q=np.array(q).reshape(-1, len(p)))
        for p, q in zip(before, after, strict=True)
    ]


def _compose(stencils: list[Stencils], order: IntArray, grid: Grid, *, seconds: float) -> FloatArray:
    """Return the larger of V and W at every point of the grid."""
    forward, backward = np.zeros(grid.count + 1), np.zeros(grid.count + 1)
    widen, raise_ = extend.worth(seconds), best_of.worth(seconds)
    sums = np.empty(_BLOCK)
    for row in order[::-1].tolist():
        parts = stencils[row]
        pairs = (len(parts.constant) - 1) // 2
        middle = grid.count + parts.reach
        wide, left = np.empty(2 * middle + 1), left_of.worth(seconds)(grid.step, middle + 1)
        stepped: list[FloatArray] = []
        for own, other, first in ((forward, backward, 0), (backward, forward, pairs)):
            widen(own, other, left, wide)
            best = np.zeros(grid.count + 1)
            raise_(
                wide, middle, parts.near, parts.far, parts.near_weight, parts.far_weight, parts.constant,
                first, first + pairs, best, sums,
            )  # fmt: skip
            stepped.append(np.minimum(1.0, best * (1 + 1e-13) + 1e-290) if pairs else own)
        forward, backward = stepped
    return np.maximum(forward, backward)
