"""All histograms, all neighbours, all divergences: the slow and independent way."""

from itertools import combinations, pairwise

import mpmath as mp
import numpy as np
from scipy.special import logsumexp

from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.mechanisms.base import Mechanism
from ostrakon.votes import Votes

Histogram = tuple[int, ...]
DIGITS = 50


def histograms(teachers: int, classes: int, *, abstentions: bool = False) -> list[Histogram]:
    """Every histogram of `teachers` votes (of at most that many with abstentions), each once."""
    places = classes + abstentions
    found = []
    for bars in combinations(range(teachers + places - 1), places - 1):
        edges = (-1, *bars, teachers + places - 1)
        found.append(tuple(after - before - 1 for before, after in pairwise(edges))[:classes])
    return found


def all_votes(*, teachers: int, classes: int, abstentions: bool = False) -> Votes:
    """Every histogram, as votes."""
    return Votes(histograms(teachers, classes, abstentions=abstentions), teachers=teachers, abstentions=abstentions)


def neighbours(n: Histogram, *, teachers: int | None = None) -> list[Histogram]:
    """Every histogram that one changed vote makes of n. teachers: how many there are, where they may abstain."""
    full = [*n, *([] if teachers is None else [teachers - sum(n)])]
    found = []
    for source in range(len(full)):
        for target in range(len(full)):
            if source != target and full[source]:
                after = list(full)
                after[source] -= 1
                after[target] += 1
                found.append(tuple(after[: len(n)]))
    return found


def distance(n: Histogram, other: Histogram, *, teachers: int | None = None) -> int:
    """How many votes must change to turn one histogram into the other."""
    a, b = list(n), list(other)
    if teachers is not None:
        a.append(teachers - sum(n))
        b.append(teachers - sum(other))
    return sum(max(0, x - y) for x, y in zip(a, b, strict=True))


def neighbouring_rows(votes: Votes) -> tuple[np.ndarray, np.ndarray]:
    """Indices (i, j), both orders, of all pairs of rows that differ by one teacher's vote."""
    full = np.column_stack([votes.counts, votes.abstained])
    return np.nonzero(np.abs(full[:, None, :] - full[None, :, :]).sum(axis=2) == 2)


def divergence(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
    """D_order(P||Q) of one pair of laws, in logarithms."""
    keep = log_p > -np.inf
    return float(logsumexp(order * log_p[keep] + (1 - order) * log_q[keep]) / (order - 1))


def divergences(log_p: np.ndarray, log_q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Rényi divergence of each pair of rows at each order, shape (pairs, orders)."""
    result = np.empty((len(log_p), len(orders)))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        ratio = np.where(np.isneginf(log_p), -np.inf, log_p - log_q)
        for k, a in enumerate(orders):
            terms = np.where(np.isneginf(log_p), -np.inf, log_p + (a - 1) * ratio)
            peak = terms.max(axis=1, keepdims=True)
            shifted = np.where(np.isposinf(terms), 0.0, np.exp(terms - peak))
            result[:, k] = (peak[:, 0] + np.log(shifted.sum(axis=1))) / (a - 1)
            result[np.isposinf(terms).any(axis=1), k] = np.inf
    return result


def precise_divergence(p: list[mp.mpf], q: list[mp.mpf], order: float) -> mp.mpf:
    """D_order(P||Q) of one pair of laws, in 100 digits."""
    with mp.workdps(2 * DIGITS):
        a = mp.mpf(order)
        return mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True) if x)) / (a - 1)


def hockey_stick(log_p: np.ndarray, log_q: np.ndarray, epsilon: float) -> np.ndarray:
    """The delta of each pair of rows at `epsilon`: sum of (P - e^epsilon Q)+, shape (pairs,)."""
    return np.maximum(np.exp(log_p) - np.exp(np.minimum(epsilon + log_q, 700)), 0).sum(axis=1)


def data_dependent_cost(
    mechanism: Mechanism, teachers: int, classes: int, order: float, *, abstentions: bool = False
) -> dict[Histogram, float]:
    """The exact cost of every histogram: the largest divergence, both directions, to any neighbour."""
    rows = histograms(teachers, classes, abstentions=abstentions)
    votes = Votes(rows, teachers=teachers, abstentions=abstentions)
    law, at = mechanism.log_probabilities(votes), {n: row for row, n in enumerate(rows)}
    moves = [(at[n], at[after]) for n in rows for after in neighbours(n, teachers=teachers if abstentions else None)]
    here, there = np.array(moves).T
    costs = np.full(len(rows), -np.inf)
    for p, q in ((here, there), (there, here)):
        np.maximum.at(costs, here, divergences(law[p], law[q], np.array([order]))[:, 0])
    return dict(zip(rows, costs.tolist(), strict=True))


def precise_cost(law: list[mp.mpf], neighbouring: list[list[mp.mpf]], order: float) -> mp.mpf:
    """The largest divergence to or from any neighbour, in 100 digits."""
    return max(max(precise_divergence(law, q, order), precise_divergence(q, law, order)) for q in neighbouring)


def query_envelopes(votes, mechanism, *, orders, distances=None, report=None):
    """U(n, d) of every query, before the sum of `envelope`: shape (orders, queries, distances)."""
    steps = np.arange(votes.teachers + 1) if distances is None else np.array(distances)
    return Envelope.of(votes, mechanism, orders=orders).by_query(steps, report)
