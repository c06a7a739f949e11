"""The neighbouring votes on which a mechanism's own law costs most."""

from __future__ import annotations

import math

import numpy as np

from ostrakon.audit.law_profile import law_epsilons
from ostrakon.audit.neighbours import Pair, candidate_neighbours, pair_for, patterns, single_neighbours
from ostrakon.mechanisms.base import Mechanism, StatefulMechanism

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
