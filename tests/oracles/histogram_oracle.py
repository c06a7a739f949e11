"""Oracles by enumeration: every histogram, every move, every outcome."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from ostrakon.mechanisms.base import Mechanism
from ostrakon.votes import Votes

Histogram = tuple[int, ...]


def histograms(teachers: int, classes: int, *, abstentions: bool = False) -> list[Histogram]:
    """Every histogram of `teachers` votes (of at most that many with abstentions)."""
    places = classes + abstentions
    found = []
    for bars in itertools.combinations(range(teachers + places - 1), places - 1):
        edges = (-1, *bars, teachers + places - 1)
        found.append(tuple(b - a - 1 for a, b in itertools.pairwise(edges))[:classes])
    return found


def moves(n: Histogram, teachers: int, *, abstentions: bool = False) -> Iterator[Histogram]:
    """Every histogram that one moved vote makes of n."""
    full = [*n, *([teachers - sum(n)] if abstentions else [])]
    for source, target in itertools.permutations(range(len(full)), 2):
        if full[source]:
            after = list(full)
            after[source] -= 1
            after[target] += 1
            yield tuple(after[: len(n)])


def within(n: Histogram, other: Histogram, teachers: int, *, abstentions: bool = False) -> int:
    """How many votes must move to turn one histogram into the other."""
    a, b = list(n), list(other)
    if abstentions:
        a.append(teachers - sum(n))
        b.append(teachers - sum(other))
    return sum(max(0, x - y) for x, y in zip(a, b, strict=True))


def laws(mechanism: Mechanism, all_: list[Histogram], teachers: int, *, abstentions: bool = False) -> np.ndarray:
    """Log outcome probabilities of every histogram."""
    return mechanism.log_probabilities(Votes(all_, teachers=teachers, abstentions=abstentions))


def divergence(log_p: np.ndarray, log_q: np.ndarray, a: float) -> float:
    """D_a(P||Q) of one pair of laws."""
    keep = log_p > -np.inf
    return float(logsumexp(a * log_p[keep] + (1 - a) * log_q[keep]) / (a - 1))


def data_dependent_cost(
    mechanism: Mechanism, teachers: int, classes: int, a: float, *, abstentions: bool = False
) -> dict[Histogram, float]:
    """The exact cost of every histogram: the largest divergence, both directions, to any neighbour."""
    all_ = histograms(teachers, classes, abstentions=abstentions)
    law = dict(zip(all_, laws(mechanism, all_, teachers, abstentions=abstentions), strict=True))
    return {
        n: max(
            max(divergence(law[n], law[after], a), divergence(law[after], law[n], a))
            for after in moves(n, teachers, abstentions=abstentions)
        )
        for n in all_
    }
