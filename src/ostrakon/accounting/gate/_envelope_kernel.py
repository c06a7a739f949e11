"""The compiled loops of the envelope, and the table of likely-outcome costs that they look up millions of times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

LOWEST = -28.0
STEP = 0.001
_COARSE = 20
_INTERPOLATION = 1e-6

# Below this share the union bound is as good as the quadrature, whose error is absolute.
_UNION_IS_ENOUGH = 1e-5


@dataclass(frozen=True, kw_only=True)
class LikelyOutcomeTable:
    """log_grown[i] = (a-1) cost at `ln q = LOWEST + i STEP`, shape (I,), non-decreasing; the last entry is q = 1.

    Guarantee: (a-1) times the cost at q is at most `log_grown[ceil((ln q - LOWEST) / STEP)]`, first entry below. The
    true cost grows by far more over one step than the interpolation error, and where it is flat that error is added.
    """

    order: float
    log_grown: FloatArray


def likely_outcome_table(law: AnswerLaw, order: float) -> LikelyOutcomeTable:
    """The table of one mechanism at one order."""
    count = round(-LOWEST / STEP)
    fine = np.arange(count + 1) * STEP + LOWEST
    fine[-1] = 0.0
    orders = np.array([order])
    if law.form.noise != "gaussian":
        cost = law.likely_outcome_rdp(np.exp(fine), orders)[0]
    else:
        # Each beta* is an optimum over splits: found on every twentieth point, smooth in between.
        coarse = np.append(fine[:-1:_COARSE], 0.0)
        known = law.likely_outcome_rdp(np.exp(coarse), orders)[0]
        cost = np.exp(PchipInterpolator(coarse, np.log(known))(fine)) * (1 + _INTERPOLATION)
    return LikelyOutcomeTable(order=order, log_grown=(order - 1) * np.maximum.accumulate(cost))


@compiled
def _losing(
    gap: int, rest: float, shares: Any, weights: Any, product: Any, above: Any, error: float, odds: bool
) -> float:
    """An upper bound on the probability that the top class loses to a runner-up `gap` behind or to the rest."""
    share = rest + shares[gap]
    if odds:
        return share / (1.0 + share)
    if len(weights) == 0 or share < _UNION_IS_ENOUGH:
        return share
    wins = 0.0
    for i in range(len(weights)):
        wins += product[i] * above[gap, i]
    # Not below the switch to the union bound: the bound must grow with the share, or U would not nest.
    return min(share, max(1.0 - wins + error, _UNION_IS_ENOUGH))


@compiled
def _rest(
    top: int, counts: Any, repeats: Any, kinds: int, shares: Any, log_above: Any, weights: Any, out: Any
) -> float:
    """Fill `out` with weight times prod_{j >= 3} Phi(z + (top - n_j) / sigma) and return the sum of their shares."""
    share = 0.0
    nodes = len(weights)
    for i in range(nodes):
        out[i] = 0.0
    for kind in range(kinds):
        gap = top - counts[kind]
        share += repeats[kind] * shares[gap]
        for i in range(nodes):
            out[i] += repeats[kind] * log_above[gap, i]
    for i in range(nodes):
        out[i] = weights[i] * math.exp(out[i])
    return share


@compiled
def _grown_at(losing: float, grown: Any) -> float:
    """e^{(a-1) cost} of a label whose top class loses with at most this probability, rounded upward."""
    if not losing < 1.0:
        return grown[len(grown) - 1]
    if losing <= 0.0:
        return grown[0]
    place = math.ceil((math.log(losing) - LOWEST) / STEP)
    return grown[min(max(place, 0), len(grown) - 1)]


@compiled
def _joint(top: int, label: float, cap: Any, alpha: Any, beta: Any) -> float:
    label = min(label, cap[top])
    best = 1.0
    for variant in range(alpha.shape[0]):
        best = max(best, alpha[variant, top] + beta[variant, top] * label)
    return best


@compiled
def query_envelopes_of(
    sorted_: Any,
    steps: Any,
    lowest: int,
    stride: int,
    odds: bool,
    error: float,
    shares: Any,
    weights: Any,
    log_above: Any,
    grown: Any,
    cap: Any,
    alpha: Any,
    beta: Any,
    peak: Any,
) -> Any:
    """(a - 1) U(n, d) of every distinct query, shape (queries, distances).

    The maximum over top counts is exact, by branch and bound over cells of `stride` of them: within a cell the
    probability to lose is largest at the lowest top count.
    """
    queries, classes = sorted_.shape
    teachers = len(peak) - 1
    above = np.exp(log_above)
    nodes = len(weights)
    result = np.empty((queries, len(steps)))
    product = np.empty((teachers + 1, nodes))
    rest: Any = np.empty(teachers + 1)
    seen = np.empty(teachers + 1, np.bool_)
    counts = np.empty(classes, np.int64)
    repeats = np.empty(classes, np.float64)
    for query in range(queries):
        n = sorted_[query]
        lead = n[0] - n[1]
        seen[:] = False
        kinds = 0
        for j in range(2, classes):
            if kinds > 0 and counts[kinds - 1] == n[j]:
                repeats[kinds - 1] += 1.0
            else:
                counts[kinds], repeats[kinds] = n[j], 1.0
                kinds += 1
        for column in range(len(steps)):
            d = steps[column]
            high = min(n[0] + d, teachers)
            best = 1.0
            if lead < 2 * d:
                for top in range(max(n[0] - d, lowest), high + 1):
                    best = max(best, peak[top])
                result[query, column] = math.log(best)
                continue
            low = n[0] - d
            start = low - low % stride
            # The ends first, and where nobody moved: the maximum is nearly always there.
            for hint in (low, n[0], high):
                if not seen[hint]:
                    rest[hint] = _rest(hint, counts, repeats, kinds, shares, log_above, weights, product[hint])
                    seen[hint] = True
                gap = lead + (hint - n[0]) - (d - max(hint - n[0], 0))
                losing = _losing(gap, rest[hint], shares, weights, product[hint], above, error, odds)
                best = max(best, _joint(hint, _grown_at(losing, grown), cap, alpha, beta))
            for cell in range(start, high + 1, stride):
                first, last = max(cell, low), min(cell + stride - 1, high)
                if not seen[first]:
                    rest[first] = _rest(first, counts, repeats, kinds, shares, log_above, weights, product[first])
                    seen[first] = True
                gap = lead + (first - n[0]) - (d - max(first - n[0], 0))
                losing = _losing(gap, rest[first], shares, weights, product[first], above, error, odds)
                label = _grown_at(losing, grown)
                bound = 1.0
                for top in range(first, last + 1):
                    bound = max(bound, _joint(top, label, cap, alpha, beta))
                if bound <= best:
                    continue
                best = max(best, _joint(first, label, cap, alpha, beta))
                for top in range(first + 1, last + 1):
                    if not seen[top]:
                        rest[top] = _rest(top, counts, repeats, kinds, shares, log_above, weights, product[top])
                        seen[top] = True
                    gap = lead + (top - n[0]) - (d - max(top - n[0], 0))
                    losing = _losing(gap, rest[top], shares, weights, product[top], above, error, odds)
                    best = max(best, _joint(top, _grown_at(losing, grown), cap, alpha, beta))
            result[query, column] = math.log(best)
    return result
