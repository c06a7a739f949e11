"""Exact cost of an outcome law on two neighbours, all queries composed, and the neighbours with the largest cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ostrakon.audit.events import kinds_of
from ostrakon.audit.neighbours import Pair, candidate_neighbours, pair_for, repeat_pairs, single_neighbours
from ostrakon.audit.runs import for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism

_GRID = 2**17
_ROUNDING = 1e-13
"""Rounding of one Fourier transform of probabilities, with a margin; it can only lower the cost."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LossLaw:
    """A lower bound of the privacy loss of a run: probabilities `mass` at the losses `start + step * i`.

    infinite: probability of an outcome that the other side cannot have.
    """

    start: float
    step: float
    mass: FloatArray
    infinite: float

    def epsilons(self, deltas: Sequence[float]) -> list[float]:
        """Return for each delta the smallest epsilon of these laws, or a slightly smaller number."""
        loss: FloatArray = self.start + self.step * np.arange(len(self.mass), dtype=np.float64)
        # delta(e) = infinite + sum over loss > e of mass * (1 - exp(e - loss)).
        tail = np.cumsum(self.mass[::-1])[::-1]
        weighted = np.cumsum((self.mass * np.exp(-np.clip(loss, -700, 700)))[::-1])[::-1]
        deltas_at_loss = self.infinite + tail - np.exp(np.clip(loss, -700, 700)) * weighted

        def epsilon(delta: float) -> float:
            above = np.flatnonzero(deltas_at_loss > delta)
            return max(0.0, float(loss[above[-1]])) if len(above) else 0.0

        return [math.inf if self.infinite >= delta else epsilon(delta) for delta in deltas]


def loss_law(law: Mechanism, pair: Pair, *, side: int, grid: int = _GRID) -> LossLaw:
    """Return the loss of `pair[side]` against the other side, over all queries, which the law must draw independently.

    Losses are rounded down to a grid and summed by fast Fourier transforms, so no epsilon is overstated except by the
    law's own numerical error.
    """
    logs = [for_rows(law, votes.queries).log_probabilities(votes) for votes in (pair[side], pair[1 - side])]
    kinds = kinds_of(*pair)
    _, first, multiplicity = np.unique(kinds, return_index=True, return_counts=True)
    log_p, log_q = logs[0][first], logs[1][first]
    possible = log_p > -np.inf
    unbounded = possible & (log_q == -np.inf)
    finite = possible & ~unbounded
    ratio = np.where(finite, log_p, 0.0) - np.where(finite, log_q, 0.0)
    p = np.where(possible, np.exp(log_p), 0.0)
    largest = max(float(np.abs(ratio).max()), 1e-12)
    queries = int(multiplicity.sum())
    # Rounding down moves a sum by at most one step per query.
    steps_per_side = max(1, (grid // 2 - queries) // queries)
    step = largest / steps_per_side
    positions = np.floor(ratio / step).astype(np.int64)
    transformed = np.ones(grid // 2 + 1, dtype=np.complex128)
    for row, times in enumerate(multiplicity):
        mass = np.zeros(grid)
        np.add.at(mass, positions[row][finite[row]] % grid, p[row][finite[row]])
        transformed *= np.fft.rfft(mass) ** int(times)
    mass = np.fft.irfft(transformed, grid)
    mass = np.roll(np.maximum(mass - _ROUNDING, 0.0), grid // 2)
    missing = (multiplicity * np.log1p(-np.minimum((p * unbounded).sum(axis=1), 1.0 - 1e-300))).sum()
    return LossLaw(start=-step * (grid // 2), step=step, mass=mass, infinite=float(-np.expm1(missing)))


def law_epsilons(law: Mechanism, pair: Pair, deltas: Sequence[float], *, grid: int = _GRID) -> list[float]:
    """Return at each delta a lower bound of the law's epsilon on this pair, in the worse direction."""
    directions = [loss_law(law, pair, side=side, grid=grid).epsilons(deltas) for side in (0, 1)]
    return [max(values) for values in zip(*directions, strict=True)]


_COARSE_GRID = 2**13
_MAX_HISTOGRAMS = 60
_LARGE_DELTA = 0.01
"""Samples can show events that exceed this delta."""


def worst_neighbours(
    mechanism: Mechanism | None, *, teachers: int, classes: int, queries: int, delta: float
) -> list[Pair]:
    """Return pairs to audit a mechanism on: those of the largest exact epsilon first, then `candidate_neighbours`.

    The search covers histograms with all other votes in one class, or spread evenly over all other classes, for the
    largest epsilon at `delta` and at a delta large enough for samples to show it.

    Parameters
    ----------
    mechanism : Mechanism or None
        For None, and for a mechanism whose queries depend on each other, only the candidates are returned.
    teachers, classes : int
        At least 2.
    queries : int
        Of each pair.
    delta : float
        In (0, 1).

    Returns
    -------
    list of pairs of Votes
    """
    threshold = getattr(mechanism, "threshold", None)
    general = candidate_neighbours(teachers=teachers, classes=classes, queries=queries, threshold=threshold)
    if mechanism is None or isinstance(mechanism, StatefulMechanism):
        return [pair_for(mechanism, pair) for pair in general]
    lowest = math.ceil(teachers / classes)
    tops = np.unique(np.linspace(lowest, teachers, min(teachers - lowest + 1, _MAX_HISTOGRAMS)).astype(np.int64))
    pairs = single_neighbours(tops, teachers=teachers, classes=classes)
    repeated = [repeat_pairs([pair], queries=queries)[0] for pair in pairs]
    levels = sorted({delta, max(delta, _LARGE_DELTA)})
    costs = np.array([law_epsilons(mechanism, pair, levels, grid=max(_COARSE_GRID, 64 * queries)) for pair in repeated])
    worst = np.argsort(-costs, axis=0)[:2].T.ravel().tolist()
    return repeat_pairs([pairs[index] for index in dict.fromkeys(worst)], queries=queries) + general
