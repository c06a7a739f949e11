"""A few pairs of laws in place of many, for adaptive composition.

Pair A is left out where H_A(y) <= (1 - k) H_B(y) + k H_R(y) for all y: H is the hockey-stick divergence, B a kept pair,
R randomized response at an epsilon that bounds the log-ratios of all pairs, and k a small share. Every kept pair is
then mixed with R. It suffices to compare at the kinks of B. Proof: docs/adaptive.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.composition.adaptive import Family
from ostrakon.accounting.data_independent.three_outcomes import hockey_stick
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

_MARGIN = 1e-15
"""More than the rounding of a hockey-stick divergence of a few outcomes."""

_WIDER = 1e-5
"""R's epsilon is larger by this share than the bound on the ratios, so that rounding cannot place one outside."""


def cover(
    chunks: Callable[[], Iterable[tuple[FloatArray, FloatArray]]],
    *,
    epsilon: float,
    shares: Sequence[float],
    most: int,
    error: float,
) -> Family:
    """Return a family whose value is at least that of every given pair.

    Parameters
    ----------
    chunks : callable
        Gives (p, q), arrays of the shape (pairs, outcomes), one after another: probabilities under both data sets. Rows
        add up to 1, and all have the same number of outcomes.
    epsilon : float
        A bound on |ln(q/p)| of every outcome; above 0.
    shares : sequence of floats in (0, 1), increasing
        k, one after another until few enough pairs are kept.
    error : float
        The relative error of the probabilities, charged to those that are kept.
    most : int
        The most pairs that are kept, before those below others are taken out.

    Returns
    -------
    Family
        The kept pairs and randomized response; where all shares keep too many pairs, randomized response alone, which
        covers them all.
    """
    level = epsilon * (1 + _WIDER)
    likely = 1 / (1 + math.exp(-level))
    p = q = np.zeros((0, 2))
    used = 1.0
    for share in shares:
        kept = _choose_pairs(chunks(), share, likely, most)
        if kept is not None:
            (p, q), used = kept, share
            break
    common = used * np.array([likely, 1 - likely])
    return charged(Family(p=(1 - used) * p, q=(1 - used) * q, common_p=common, common_q=common[::-1].copy()), error)


def _choose_pairs(
    chunks: Iterable[tuple[FloatArray, FloatArray]], share: float, likely: float, most: int
) -> tuple[FloatArray, FloatArray] | None:
    kept_p = kept_q = np.empty((0, 0))
    count = last = 0
    for p, q in chunks:
        if not kept_p.size:
            kept_p, kept_q = np.empty((most, p.shape[1])), np.empty((most, p.shape[1]))
        count, last = _add(np.ascontiguousarray(p), np.ascontiguousarray(q), kept_p, kept_q, count, last, share, likely)
        if count < 0:
            return None
    useful = _useful(kept_p[:count], kept_q[:count])
    return kept_p[:count][useful], kept_q[:count][useful]


def charged(family: Family, error: float) -> Family:
    """Return the family with larger probabilities under P and smaller ones under Q, by the relative error.

    The exchanged pairs are listed, too, since this is not symmetric.
    """
    up, down = 1 + error, 1 - error
    p, q = np.vstack([family.p, family.q]), np.vstack([family.q, family.p])
    common_p = None if family.common_p is None else family.common_p * up
    common_q = None if family.common_q is None else family.common_q * down
    return Family(p=p * up, q=q * down, common_p=common_p, common_q=common_q, symmetric=True)


@compiled
def _covers(p: FloatArray, q: FloatArray, by_p: FloatArray, by_q: FloatArray, share: float, likely: float) -> bool:
    for o in range(len(by_p)):
        if by_p[o] <= 0.0 or by_q[o] <= 0.0:
            continue
        y = by_p[o] / by_q[o]
        response = max(likely - y * (1 - likely), 0.0) + max((1 - likely) - y * likely, 0.0)
        bound = (1 - share) * hockey_stick(by_p, by_q, y) + share * response
        if hockey_stick(p, q, y) + _MARGIN * (1 + y) > bound:
            return False
    return True


@compiled
def _add(
    p: FloatArray,
    q: FloatArray,
    kept_p: FloatArray,
    kept_q: FloatArray,
    count: int,
    last: int,
    share: float,
    likely: float,
) -> tuple[int, int]:
    """Keep every pair that no kept one covers; -1 for the count if there are too many."""
    for r in range(len(p)):
        if count and _covers(p[r], q[r], kept_p[last], kept_q[last], share, likely):
            continue
        covered = False
        for t in range(count - 1, -1, -1):
            if _covers(p[r], q[r], kept_p[t], kept_q[t], share, likely):
                last, covered = t, True
                break
        if covered:
            continue
        if count == len(kept_p):
            return -1, 0
        kept_p[count], kept_q[count] = p[r], q[r]
        last, count = count, count + 1
    return count, last


@compiled
def _useful(p: FloatArray, q: FloatArray) -> NDArray[np.bool_]:
    """Return the pairs that are not below another one that is left, at every y, without randomized response."""
    left = np.ones(len(p), dtype=np.bool_)
    for r in range(len(p)):
        for t in range(len(p)):
            if t != r and left[t] and _below(p[r], q[r], p[t], q[t]):
                left[r] = False
                break
    return left


@compiled
def _below(p: FloatArray, q: FloatArray, by_p: FloatArray, by_q: FloatArray) -> bool:
    low, high = np.inf, 0.0
    for o in range(len(by_p)):
        if by_p[o] <= 0.0 or by_q[o] <= 0.0:
            continue
        y = by_p[o] / by_q[o]
        low, high = min(low, y), max(high, y)
        if hockey_stick(p, q, y) + _MARGIN * (1 + y) > hockey_stick(by_p, by_q, y):
            return False
    # Beyond the outermost kinks of the other pair its divergence is the least possible one.
    inside = True
    for o in range(len(p)):
        if (p[o] > 0.0 or q[o] > 0.0) and not (low * q[o] <= p[o] <= high * q[o]):
            inside = False
    return inside
