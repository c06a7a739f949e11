"""The effect of a moved vote on the check before an answer; compiled.

For a given move of the label's counts the check's score may end anywhere between two values, depending on which classes
of equal counts move. With e^{s D} of the label fixed, the joint e^{s D} is, in both directions, a convex function of
the probability to answer after the move, and that rises with the score: the largest cost is at an end.
"""

from __future__ import annotations

import math

import numpy as np

from ostrakon.accounting.data_dependent.renyi_divergence import both_excesses
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.numerics.normal import log_ndtr

NO_CHECK, GAUSSIAN, LAPLACE, GUMBEL = 0, 1, 2, 3


@compiled
def check_logs(u: float, threshold: float, scale: float, noise: int) -> tuple[float, float]:
    """Return (ln of the probability to answer, ln of that to refuse) at the check score u."""
    t = (u - threshold) / scale
    if noise == GAUSSIAN:
        return log_ndtr(t), log_ndtr(-t)
    half = math.log(0.5)
    if t >= 0:
        return math.log1p(-0.5 * math.exp(-t)), half - t
    return half + t, math.log1p(-0.5 * math.exp(t))


@compiled
def check_range(
    u: FloatArray, group: FloatArray, counts: FloatArray, grouped: bool, d: int, low: FloatArray, high: FloatArray
) -> None:
    """Fill in the smallest and largest check score after a move between groups (index d: abstain), shape (d + 1, d +
    1).
    """
    for i in range(d + 1):
        for j in range(d + 1):
            low[i, j], high[i, j] = np.inf, -np.inf
    m = len(u)
    # The three largest scores: for any two classes that move, they contain the largest of the others.
    best = np.full(3, -1)
    for j in range(m):
        for r in range(3):
            if best[r] < 0 or u[j] > u[best[r]]:
                for q in range(2, r, -1):
                    best[q] = best[q - 1]
                best[r] = j
                break
    for a in range(m + 1):
        # If scores depend on the counts alone, one class represents all of equal counts (two for moves inside).
        if grouped and a < m and a >= 2 and group[a] == group[a - 2]:
            continue
        for b in range(m + 1):
            if a == b or (grouped and b < m and b >= 2 and group[b] == group[b - 2]):
                continue
            top = -np.inf
            for r in range(3):
                if best[r] >= 0 and best[r] != a and best[r] != b:
                    top = u[best[r]]
                    break
            if a < m:
                top = max(top, u[a] - 1)
            if b < m:
                top = max(top, u[b] + 1)
            ga = int(group[a]) if a < m else d
            gb = int(group[b]) if b < m else d
            low[ga, gb] = min(low[ga, gb], top)
            high[ga, gb] = max(high[ga, gb], top)


@compiled
def check_cost(x1: float, x0: float, log_p1: float, log_p0: float, s: float) -> tuple[float, float, float, float]:
    """Return (excess, weight of the label's excess) of the check alone, forward then reverse."""
    p1, p0 = math.exp(log_p1), math.exp(log_p0)
    f, r = 0.0, 0.0
    for y, p in ((x1, p1), (x0, p0)):
        if abs(s * y) > 500:
            f = math.inf
            r = math.inf
            continue
        up, down = both_excesses(s * y)
        near_up, near_down = both_excesses(y)
        f += p * (down + s * near_up)
        r += p * math.exp(y) * (up + s * near_down)
    if abs(s * x1) > 500:
        return f, math.inf, r, math.inf
    return f, p1 * math.exp(-s * x1), r, p1 * math.exp((s + 1) * x1)
