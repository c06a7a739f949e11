"""The Rényi cost of one vote moved, from outcome probabilities and log ratios, without cancellation; compiled.

With x_i = ln(P'_i / P_i) and h(y) = e^y - 1 - y >= 0, and because the P_i e^{x_i} sum to 1,

    e^{s D_{s+1}(P || P')} - 1 = sum_i P_i  [h(-s x_i) + s h(x_i)],
    e^{s D_{s+1}(P' || P)} - 1 = sum_i P'_i [h(s x_i)  + s h(-x_i)],      s = order - 1.

Every term is at least 0 and grows with |x_i|. So relative accuracy of the x_i gives relative accuracy of the cost,
also where it is 1e-30; and an error of x_i is charged upward by making |x_i| larger by its bound.
"""

from __future__ import annotations

import math

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

# Above this exponent a term is computed through its logarithm.
_LARGE = 500.0
# Probabilities below e^-700 lose digits or vanish; what they could add below _LARGE is less than this.
_FLOOR = 1e-80
_LAW_ERROR = 1e-12


@compiled
def excess(y: float) -> float:
    """Return h(y) = e^y - 1 - y to about 2e-14 relative: its Taylor series (error below 1e-15) near 0."""
    if abs(y) < 0.4:
        y2 = y * y
        even = 0.5 * y2 * (1 + y2 / 12 * (1 + y2 / 30 * (1 + y2 / 56 * (1 + y2 / 90 * (1 + y2 / 132)))))
        odd = y * y2 / 6 * (1 + y2 / 20 * (1 + y2 / 42 * (1 + y2 / 72 * (1 + y2 / 110 * (1 + y2 / 156)))))
        return even + odd
    return math.exp(y) - 1 - y


@compiled
def both_excesses(y: float) -> tuple[float, float]:
    """Return (h(y), h(-y)) for the price of one exponential."""
    if abs(y) < 0.4:
        y2 = y * y
        even = 0.5 * y2 * (1 + y2 / 12 * (1 + y2 / 30 * (1 + y2 / 56 * (1 + y2 / 90 * (1 + y2 / 132)))))
        odd = y * y2 / 6 * (1 + y2 / 20 * (1 + y2 / 42 * (1 + y2 / 72 * (1 + y2 / 110 * (1 + y2 / 156)))))
        return even + odd, even - odd
    e = math.exp(y)
    return e - 1 - y, 1 / e - 1 + y


@compiled
def both_divergences(log_p: FloatArray, log_q: FloatArray, orders: FloatArray) -> FloatArray:
    """Return max(D_a(P||Q), D_a(Q||P)) row by row from log probabilities (rows, outcomes); shape (rows, orders).

    An upper bound if the error of a log probability is at most 1e-12 (or that relative error, below -1000). inf if an
    outcome is possible under one law only.
    """
    rows, outcomes = log_p.shape
    costs = np.empty((rows, len(orders)))
    kept, p, x = np.empty(outcomes), np.empty(outcomes), np.empty(outcomes)
    best, scratch = np.empty((2, len(orders))), np.empty((3, outcomes))
    for r in range(rows):
        n = 0
        impossible = False
        for i in range(outcomes):
            a, b = log_p[r, i], log_q[r, i]
            if a == -math.inf and b == -math.inf:
                continue
            # Also if both are equal: two laws that differ by less than a rounding may differ.
            error = _LAW_ERROR * (max(1.0, -1e-3 * a) + max(1.0, -1e-3 * b))
            kept[n], p[n], x[n] = a, math.exp(a), b - a + math.copysign(error, b - a)
            # Also refuses NaN.
            if not abs(x[n]) < math.inf:
                impossible = True
            n += 1
        for k in range(len(orders)):
            best[0, k], best[1, k] = 0.0, 0.0
            costs[r, k] = math.inf
        if impossible:
            continue
        raise_to_move(kept, p, x, n, orders, best, scratch)
        for k in range(len(orders)):
            costs[r, k] = best[1, k] * (1 + 4 * _LAW_ERROR) / (orders[k] - 1)
    return costs


@compiled
def raise_to_move(
    log_p: FloatArray,
    p: FloatArray,
    x: FloatArray,
    n: int,
    orders: FloatArray,
    best: FloatArray,
    scratch: FloatArray,
) -> None:
    """Raise `best`, the largest `e^{s D} - 1` and `s D` so far (shape (2, orders)), by the move given.

    log_p, p: outcome probabilities under the true votes (p may underflow); x: log ratios; the first n entries.
    scratch: shape (3, at least n).
    """
    largest = 0.0
    smallest = 0.0
    for i in range(n):
        scratch[0, i], scratch[1, i] = both_excesses(x[i])
        scratch[2, i] = p[i] * math.exp(x[i])
        largest = max(largest, abs(x[i]))
        smallest = min(smallest, log_p[i])
    floor = _FLOOR if smallest < -700 else 0.0
    for k in range(len(orders)):
        s = orders[k] - 1
        if max(s, 1.0) * largest <= _LARGE:
            forward, reverse = floor, floor
            for i in range(n):
                up, down = both_excesses(s * x[i])
                forward += p[i] * (down + s * scratch[0, i])
                reverse += scratch[2, i] * (up + s * scratch[1, i])
            e = max(forward, reverse)
            if not e <= best[0, k]:
                best[0, k] = e
                best[1, k] = math.log1p(e)
        else:
            log_e = max(_log_excess(log_p, x, n, s, 1.0), _log_excess(log_p, x, n, s, -1.0))
            total = math.log1p(math.exp(log_e)) if log_e < 600 else log_e + math.exp(-log_e)
            if not total <= best[1, k]:
                best[1, k] = total
                best[0, k] = math.exp(log_e) if log_e < 600 else math.inf


@compiled
def _log_excess(log_p: FloatArray, x: FloatArray, n: int, s: float, direction: float) -> float:
    """Return ln(e^{s D} - 1), forward (direction 1) or reverse (-1), where exponentials may overflow."""
    peak, total = -math.inf, 0.0
    for i in range(n):
        y = x[i] * direction
        weight = log_p[i] if direction > 0 else log_p[i] + x[i]
        if x[i] == 0:
            continue
        if -s * y > 50:
            # h(-s y) + s h(y) <= e^{-s y} + s h(y)
            log_term = -s * y + math.log1p(s * excess(y) * math.exp(s * y))
        elif y > _LARGE:
            # h(-s y) <= s y is nothing beside s h(y) <= s e^y.
            log_term = math.log(s) + y + 1e-12
        else:
            log_term = math.log(excess(-s * y) + s * excess(y))
        e = weight + log_term
        if e == -math.inf:
            continue
        if e > peak:
            total = total * math.exp(peak - e) + 1.0
            peak = e
        else:
            total += math.exp(e - peak)
    # A NaN stays NaN, and the caller turns it into infinity; it must not become "no cost".
    return -1e300 if total == 0 else peak + math.log(total)


@compiled
def label_bound(second: float, largest: float, s: float) -> float:
    """Return a bound on both directions of `e^{s D} - 1` from `second` >= sum P_i x_i^2 and `largest` >= |x_i|.

    h(y)/y^2 increases in y, so P_i h(+-s x_i) <= P_i x_i^2 s^2 (h(s X) / (s X)^2), likewise for h(x_i), and P'_i is
    at most P_i e^X. inf where it would overflow.
    """
    if second == 0.0:
        return 0.0
    if s * largest > _LARGE:
        return math.inf
    near, far = _curvature(largest), _curvature(s * largest)
    return second * math.exp(largest) * (s * near + s * s * far)


@compiled
def own_terms(p: float, x: float, s: float) -> tuple[float, float]:
    """Return what one outcome adds to `e^{s D} - 1`, forward and reverse; inf where it would overflow."""
    if max(s, 1.0) * abs(x) > _LARGE:
        return math.inf, math.inf
    up, down = both_excesses(s * x)
    one_up, one_down = both_excesses(x)
    return p * (down + s * one_up), p * math.exp(x) * (up + s * one_down)


@compiled
def _curvature(y: float) -> float:
    return 0.5 if y == 0 else excess(y) / (y * y)
