"""All histograms, all neighbours, all divergences: the slow and independent way."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

from ostrakon.votes import Votes


def histograms(*, teachers: int, classes: int, abstentions: bool = False) -> Votes:
    """Every histogram of so many teachers, each once."""
    bins = classes + abstentions
    rows = []
    for bars in combinations(range(teachers + bins - 1), bins - 1):
        edges = (-1, *bars, teachers + bins - 1)
        rows.append([after - before - 1 for before, after in pairwise(edges)])
    counts = np.array(rows)[:, :classes]
    return Votes(counts, teachers=teachers, abstentions=abstentions)


def neighbours(votes: Votes) -> tuple[np.ndarray, np.ndarray]:
    """Indices (i, j), both orders, of all pairs of rows that differ by one teacher's vote."""
    full = np.column_stack([votes.counts, votes.abstained])
    distance = np.abs(full[:, None, :] - full[None, :, :]).sum(axis=2)
    return np.nonzero(distance == 2)


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


def hockey_stick(log_p: np.ndarray, log_q: np.ndarray, epsilon: float) -> np.ndarray:
    """The delta of each pair of rows at `epsilon`: sum of (P - e^epsilon Q)+, shape (pairs,)."""
    return np.maximum(np.exp(log_p) - np.exp(np.minimum(epsilon + log_q, 700)), 0).sum(axis=1)
