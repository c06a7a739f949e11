"""The effect of one vote on every outcome, and a bound on the cost of every move before any is computed; compiled.

See `_neighbours` for the inequality.
"""

from __future__ import annotations

import math

from ostrakon.accounting.data_dependent._threshold_test import GUMBEL
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

# Bounds on quadrature and rounding errors in every log ratio: relative, and absolute where it is a plain logarithm.
RELATIVE = 1e-12
_ABSOLUTE = 2e-15
ROOM = 1 + 1e-8
# Stands in for smaller probabilities in bounds, where they would underflow.
TINY = 1e-300


@compiled
def _dot(arrays: FloatArray, first: int, i: int, second: int, a: int, low: int, high: int) -> float:
    """Return the sum of arrays[first, i] times arrays[second, a] from low to high, without slow views of rows."""
    # Four sums: the order of additions is fixed, and the loop is vectorised.
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    k = low
    while k + 3 < high:
        s0 += arrays[first, i, k] * arrays[second, a, k]
        s1 += arrays[first, i, k + 1] * arrays[second, a, k + 1]
        s2 += arrays[first, i, k + 2] * arrays[second, a, k + 2]
        s3 += arrays[first, i, k + 3] * arrays[second, a, k + 3]
        k += 4
    while k < high:
        s0 += arrays[first, i, k] * arrays[second, a, k]
        k += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def _moving_ratio(direct: float, p: float, flow: float) -> tuple[float, float]:
    """Return (ln, error bound) of a moving class's ratio: from its mean or, near 1, from the probability that flows.

    The flow is a sum of terms of one sign and keeps its relative accuracy where the ratio is 1 up to 1e-30.
    """
    if abs(direct - 1.0) < 1e-3 and p > 1e-6:
        x = math.log1p(flow)
        return x, RELATIVE * abs(x)
    x = math.log(direct)
    return x, RELATIVE * abs(x) + _ABSOLUTE


@compiled
def _gumbel_ratios(
    shift: float, pa: float, pb: float, from_class: bool, to_class: bool, others_a: float, others_b: float
) -> tuple[float, float, float, float]:
    """Return (x of all others, its error, x of a, of b) for softmax(n shift), in sums of one sign where it counts.

    others_a = 1 - P_a and others_b = 1 - P_b, summed from the other classes.
    """
    down, up = math.expm1(-shift), math.expm1(shift)
    change = (pa * down if from_class else 0.0) + (pb * up if to_class else 0.0)
    magnitude = (-pa * down if from_class else 0.0) + (pb * up if to_class else 0.0)
    rest = -math.log1p(change)
    error = RELATIVE * abs(rest) + _ABSOLUTE * magnitude
    xa, xb = 0.0, 0.0
    if from_class:
        xa = -math.log1p(others_a * up + (pb * math.exp(shift) * up if to_class else 0.0))
    if to_class:
        xb = -math.log1p(others_b * down + (pa * math.exp(-shift) * down if from_class else 0.0))
    return rest, error, xa, xb


@compiled
def one_sided_changes(
    noise: int,
    counts: FloatArray,
    p: FloatArray,
    arrays: FloatArray,
    windows: FloatArray,
    change: FloatArray,
    moving: FloatArray,
    flow: FloatArray,
) -> None:
    """Fill what one vote taken from or given to a class does to every outcome, as means under g_i.

    change (4, d, d): mean(up_a) and mean(down_b) for outcome i at [., a, i], then ln(1 + .) of both in size.
    moving (2, d, d + 1): for a class that loses (gains) a vote itself, the mean of its own quotient times down_b (up_a)
    at [., i, b], the mean of its quotient alone at [., i, d]. flow (3, d): the share of a class's probability that it
    loses with one vote, gains with one vote, and the probability of all others.
    """
    d = len(counts)
    for i in range(d):
        if noise == GUMBEL:
            break
        lo, hi = int(windows[i, 0]), int(windows[i, 1])
        for k in range(lo, hi):
            moving[0, i, d] += arrays[3, i, k]
            moving[1, i, d] += arrays[4, i, k]
        for a in range(d):
            change[0, a, i] = _dot(arrays, 0, i, 1, a, lo, hi)
            change[1, a, i] = _dot(arrays, 0, i, 2, a, lo, hi)
            change[2, a, i] = math.log1p(change[0, a, i])
            change[3, a, i] = -math.log1p(change[1, a, i])
            moving[0, i, a] = _dot(arrays, 3, i, 2, a, lo, hi)
            moving[1, i, a] = _dot(arrays, 4, i, 1, a, lo, hi)
    for a in range(d):
        for i in range(d):
            c = counts[i] - (1.0 if i == a else 0.0)
            if c > 0:
                flow[2, a] += c * p[i]
                if p[a] > 1e-6:
                    flow[0, a] += c * p[i] * change[0, a, i] / p[a]
                    flow[1, a] -= c * p[i] * change[1, a, i] / p[a]


@compiled
def move_bounds(
    noise: int,
    scale: float,
    counts: FloatArray,
    p: FloatArray,
    change: FloatArray,
    moving: FloatArray,
    flow: FloatArray,
    a: int,
    b: int,
    own: FloatArray,
) -> tuple[float, float, float, float]:
    """Return bounds on (sum of P_i x_i^2, largest |x_i|) of the label's move a -> b, and on both of all classes but a
    and b.

    Index d means "abstain". Fills own (2, 3): the log ratios of all others (Gumbel noise only), of a and of b, and
    their errors.
    """
    d = len(counts)
    for j in range(3):
        own[0, j], own[1, j] = 0.0, 0.0
    if noise == GUMBEL:
        own[0, 0], own[1, 0], own[0, 1], own[0, 2] = _gumbel_ratios(
            1 / scale,
            p[a] if a < d else 0.0,
            p[b] if b < d else 0.0,
            a < d,
            b < d,
            flow[2, a] if a < d else 0.0,
            flow[2, b] if b < d else 0.0,
        )
        own[1, 1], own[1, 2] = RELATIVE * abs(own[0, 1]), RELATIVE * abs(own[0, 2])
    else:
        if a < d:
            more = moving[0, a, b] if b < d else 0.0
            own[0, 1], own[1, 1] = _moving_ratio(moving[0, a, d] + more, p[a], more - flow[0, a])
        if b < d:
            more = moving[1, b, a] if a < d else 0.0
            own[0, 2], own[1, 2] = _moving_ratio(moving[1, b, d] + more, p[b], more + flow[1, b])
    rest, rest_largest = 0.0, 0.0
    for i in range(d):
        c = counts[i] - (1.0 if i == a else 0.0) - (1.0 if i == b else 0.0)
        if c > 0:
            if noise == GUMBEL:
                y = abs(own[0, 0])
            else:
                y = max(change[2, a, i] if a < d else 0.0, change[3, b, i] if b < d else 0.0)
            rest += c * max(p[i], TINY) * y * y
            rest_largest = max(rest_largest, y)
    second, largest = rest, rest_largest
    if a < d:
        second += max(p[a], TINY) * own[0, 1] ** 2
        largest = max(largest, abs(own[0, 1]))
    if b < d:
        second += max(p[b], TINY) * own[0, 2] ** 2
        largest = max(largest, abs(own[0, 2]))
    # Room for the errors of the ratios themselves.
    return second * ROOM, largest * ROOM, rest * ROOM, rest_largest * ROOM
