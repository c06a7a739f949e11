"""What an outcome law costs on two neighbours, all queries composed; and the neighbours on which it costs most."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ostrakon.audit.events import kinds_of
from ostrakon.audit.neighbours import Pair, candidate_neighbours, pair_for, patterns, single_neighbours
from ostrakon.audit.runs import for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism

_GRID = 2**17
_ROUNDING = 1e-13
"""Rounding of one Fourier transform of probabilities, with a margin; it counts in favour of the law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LossLaw:
    """The privacy loss of a run, from below: `mass` (sub-)probabilities at losses `start + step * i`; rest infinite.

    infinite: probability of an outcome that the other side cannot have.
    """

    start: float
    step: float
    mass: FloatArray
    infinite: float

    def epsilons(self, deltas: Sequence[float]) -> list[float]:
        """The smallest epsilon at which these laws can be (epsilon, delta)-close, or a little less, for each delta."""
        loss: FloatArray = self.start + self.step * np.arange(len(self.mass), dtype=np.float64)
        # delta(e) = infinite + sum over loss > e of mass * (1 - exp(e - loss)); tails summed from the top.
        tail = np.cumsum(self.mass[::-1])[::-1]
        weighted = np.cumsum((self.mass * np.exp(-np.clip(loss, -700, 700)))[::-1])[::-1]
        at = self.infinite + tail - np.exp(np.clip(loss, -700, 700)) * weighted
        return [self._epsilon(delta, at, loss) for delta in deltas]

    def _epsilon(self, delta: float, at: FloatArray, loss: FloatArray) -> float:
        if self.infinite >= delta:
            return math.inf
        above = np.flatnonzero(at > delta)
        return max(0.0, float(loss[above[-1]])) if len(above) else 0.0


def loss_law(law: Mechanism, pair: Pair, *, here: int, grid: int = _GRID) -> LossLaw:
    """The loss of `pair[here]` against the other side, over all queries, which must be independent under the law.

    Losses are rounded down to a grid and summed by fast Fourier transform, query kinds to the power of how often they
    occur: no loss, hence no epsilon, is overstated but by the law's own numerical error.
    """
    logs = [for_rows(law, votes.queries).log_probabilities(votes) for votes in (pair[here], pair[1 - here])]
    kinds = kinds_of(*pair)
    _, first, often = np.unique(kinds, return_index=True, return_counts=True)
    log_p, log_q = logs[0][first], logs[1][first]
    possible = log_p > -np.inf
    endless = possible & (log_q == -np.inf)
    finite = possible & ~endless
    ratio = np.where(finite, log_p, 0.0) - np.where(finite, log_q, 0.0)
    p = np.where(possible, np.exp(log_p), 0.0)
    longest = max(float(np.abs(ratio).max()), 1e-12)
    queries = int(often.sum())
    # A sum of grid steps, at most `half` of them per side; a step down for each query besides.
    half = max(1, (grid // 2 - queries) // queries)
    step = longest / half
    places = np.floor(ratio / step).astype(np.int64)
    transformed = np.ones(grid // 2 + 1, dtype=np.complex128)
    for row, times in enumerate(often):
        mass = np.zeros(grid)
        np.add.at(mass, places[row][finite[row]] % grid, p[row][finite[row]])
        transformed *= np.fft.rfft(mass) ** int(times)
    mass = np.fft.irfft(transformed, grid)
    mass = np.roll(np.maximum(mass - _ROUNDING, 0.0), grid // 2)
    missing = (often * np.log1p(-np.minimum((p * endless).sum(axis=1), 1.0 - 1e-300))).sum()
    return LossLaw(start=-step * (grid // 2), step=step, mass=mass, infinite=float(-np.expm1(missing)))


def law_epsilons(law: Mechanism, pair: Pair, deltas: Sequence[float], *, grid: int = _GRID) -> list[float]:
    """At each delta the epsilon that the law cannot stay below on this pair, in the worse direction."""
    both = [loss_law(law, pair, here=side, grid=grid).epsilons(deltas) for side in (0, 1)]
    return [max(values) for values in zip(*both, strict=True)]


_COARSE = 2**13
_MOST = 60
_FREQUENT = 0.01
"""A delta at which events are common enough to be sampled."""


def worst_neighbours(
    mechanism: Mechanism | None, *, teachers: int, classes: int, queries: int, delta: float
) -> list[Pair]:
    """Pairs to try on a mechanism: those of the largest exact epsilon by its law first, then the general candidates.

    Searched among all histograms of two shapes: all other votes in one class, and spread evenly over all of them; for
    the largest epsilon at `delta`, and at a delta large enough for samples to show it. A mechanism whose queries are
    tied, and a function without a law, get the general candidates alone.
    """
    threshold = getattr(mechanism, "threshold", None)
    general = candidate_neighbours(teachers=teachers, classes=classes, queries=queries, threshold=threshold)
    if mechanism is None or isinstance(mechanism, StatefulMechanism):
        return [pair_for(mechanism, pair) for pair in general]
    lowest = math.ceil(teachers / classes)
    tops = np.unique(np.linspace(lowest, teachers, min(teachers - lowest + 1, _MOST)).astype(np.int64))
    single = single_neighbours(tops, teachers=teachers, classes=classes)
    repeated = [pattern for pair in single for pattern in patterns([pair], queries=queries)[:1]]
    levels = sorted({delta, max(delta, _FREQUENT)})
    costs = np.array([law_epsilons(mechanism, pair, levels, grid=max(_COARSE, 64 * queries)) for pair in repeated])
    worst = np.argsort(-costs, axis=0)[:2].T.ravel().tolist()
    return patterns([single[index] for index in dict.fromkeys(worst)], queries=queries) + general
