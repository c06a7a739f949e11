"""All one-vote moves of a query whose mechanism is an argmax of counts plus independent noise; compiled.

Classes with equal counts are interchangeable, so moves go between distinct counts (and "abstain"). For a move a -> b
and a class i that is neither, up_a >= 0 and down_b <= 0 at every node, so

    1 + mean(down_b)  <=  P'_i / P_i = mean((1 + up_a)(1 + down_b))  <=  1 + mean(up_a),

the means under g_i. The ratios of a and b themselves are computed for every move. From these bounds on all |ln P'/P|
follows a bound on the move's cost (`label_bound`), and with the check's own cost, which is exact, a bound on the
joint cost. A move is skipped only where that bound is at most (1 + 1e-12) times the largest cost already computed;
that factor is charged at the end. All others are computed outcome by outcome.
"""

from __future__ import annotations

import math

import numpy as np

from quorate.accounting.argmax_weights import gaussian_step, gaussian_weights, laplace_weights
from quorate.accounting.move_cost import both_excesses, label_bound, raise_to_move
from quorate.mechanisms.base import FloatArray
from quorate.mechanisms.compiled import compiled
from quorate.mechanisms.laplace_nodes import laplace_nodes
from quorate.mechanisms.normal import log_ndtr
from quorate.votes import IntArray

NO_CHECK, GAUSSIAN, LAPLACE, GUMBEL = 0, 1, 2, 3
# Relative error bounds: of quadrature and rounding in every log ratio, and its absolute part.
_RELATIVE = 1e-12
_ABSOLUTE = 2e-15
_SKIP = 1e-12
_VARIANTS = 24
# Stands in for smaller probabilities in bounds, where they would underflow.
_TINY = 1e-300


@compiled
def _check_logs(u: float, threshold: float, scale: float, noise: int) -> tuple[float, float]:
    """(ln of the probability to answer, ln of that to refuse) at the check score u."""
    t = (u - threshold) / scale
    if noise == GAUSSIAN:
        return log_ndtr(t), log_ndtr(-t)
    half = math.log(0.5)
    if t >= 0:
        return math.log1p(-0.5 * math.exp(-t)), half - t
    return half + t, math.log1p(-0.5 * math.exp(t))


@compiled
def _dot(a: FloatArray, b: FloatArray, low: int, high: int) -> float:
    # Four sums at once: the order of additions is fixed, and the loop fills the vector units.
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    k = low
    while k + 3 < high:
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
        k += 4
    while k < high:
        s0 += a[k] * b[k]
        k += 1
    return (s0 + s1) + (s2 + s3)


@compiled
def _check_range(
    u: FloatArray, group: FloatArray, counts: FloatArray, grouped: bool, d: int, low: FloatArray, high: FloatArray
) -> None:
    """The smallest and largest check score after a move between groups (index d: abstain), shape (d + 1, d + 1)."""
    for i in range(d + 1):
        for j in range(d + 1):
            low[i, j], high[i, j] = np.inf, -np.inf
    m = len(u)
    # The three largest scores: whatever two classes move, the largest of the others is among them.
    best = np.full(3, -1)
    for j in range(m):
        for r in range(3):
            if best[r] < 0 or u[j] > u[best[r]]:
                for q in range(2, r, -1):
                    best[q] = best[q - 1]
                best[r] = j
                break
    for a in range(m + 1):
        # Where scores depend on the counts alone, one class of each count stands for all (two for moves inside).
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
def _moving_ratio(direct: float, p: float, flow: float) -> tuple[float, float]:
    """(ln, error bound) of a moving class's ratio: from its mean or, near 1, from the probability that flows.

    The flow is a sum of terms of one sign and keeps its relative accuracy where the ratio is 1 up to 1e-30.
    """
    if abs(direct - 1.0) < 1e-3 and p > 1e-6:
        x = math.log1p(flow)
        return x, _RELATIVE * abs(x)
    x = math.log(direct)
    return x, _RELATIVE * abs(x) + _ABSOLUTE


@compiled
def _outward(x: float, error: float) -> float:
    """x made larger by its error bound: the cost grows with |x|."""
    return x + math.copysign(error, x)


@compiled
def _check_cost(x1: float, x0: float, log_p1: float, log_p0: float, s: float) -> tuple[float, float, float, float]:
    """(excess, weight of the label's excess) of the check alone, forward then reverse."""
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


@compiled
def _gumbel_ratios(
    shift: float, pa: float, pb: float, from_class: bool, to_class: bool, others_a: float, others_b: float
) -> tuple[float, float, float, float]:
    """(x of all others, its error, x of a, of b) for softmax(n shift), in sums of one sign where it counts.

    others_a = 1 - P_a and others_b = 1 - P_b, summed from the other classes.
    """
    down, up = math.expm1(-shift), math.expm1(shift)
    change = (pa * down if from_class else 0.0) + (pb * up if to_class else 0.0)
    magnitude = (-pa * down if from_class else 0.0) + (pb * up if to_class else 0.0)
    rest = -math.log1p(change)
    error = _RELATIVE * abs(rest) + _ABSOLUTE * magnitude
    xa, xb = 0.0, 0.0
    if from_class:
        xa = -math.log1p(others_a * up + (pb * math.exp(shift) * up if to_class else 0.0))
    if to_class:
        xb = -math.log1p(others_b * down + (pa * math.exp(-shift) * down if from_class else 0.0))
    return rest, error, xa, xb


@compiled
def argmax_costs(
    rows: FloatArray,
    scores: FloatArray,
    abstained: FloatArray,
    abstentions: bool,
    noise: int,
    scale: float,
    check: int,
    threshold: float,
    check_scale: float,
    units: int,
    table: FloatArray,
    gl_x: FloatArray,
    gl_w: FloatArray,
    tail_u: FloatArray,
    tail_w: FloatArray,
    orders: FloatArray,
    costs: FloatArray,
) -> None:
    """Fill `costs` (queries, orders) with the local cost of every row of `rows`; nan where no proven step was found.

    rows: counts as floats, decreasing, (queries, classes). scores: what the check takes the maximum of, in the order
    of `rows`, or shape (queries, 0) where that is the counts. abstained: teachers that abstain, (queries,).
    noise, check: GAUSSIAN, LAPLACE, GUMBEL, NO_CHECK.
    """
    for q in range(len(rows)):
        grouped = scores.shape[1] == 0
        u = rows[q] if grouped else scores[q]
        done = _one_query(
            rows[q], u, grouped, abstained[q], abstentions, noise, scale, check, threshold, check_scale, units, table,
            gl_x, gl_w, tail_u, tail_w, orders, costs[q],
        )  # fmt: skip
        if not done:
            for k in range(len(orders)):
                costs[q, k] = np.nan


@compiled
def _by_size(bound: FloatArray, n: int) -> IntArray:
    """The first n rows of `bound`, largest first column first (Shell's sort; NumPy's takes seconds to compile)."""
    order = np.arange(n)
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, n):
            index = order[i]
            j = i
            while j >= gap and bound[order[j - gap], 0] < bound[index, 0]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = index
        gap //= 3
    return order


@compiled
def _one_query(
    row: FloatArray,
    u: FloatArray,
    grouped: bool,
    abstained: float,
    abstentions: bool,
    noise: int,
    scale: float,
    check: int,
    threshold: float,
    check_scale: float,
    units: int,
    table: FloatArray,
    gl_x: FloatArray,
    gl_w: FloatArray,
    tail_u: FloatArray,
    tail_w: FloatArray,
    orders: FloatArray,
    cost: FloatArray,
) -> bool:
    m = len(row)
    values, counts, group = np.empty(m), np.zeros(m), np.empty(m)
    d = 0
    for j in range(m):
        if d == 0 or values[d - 1] != row[j]:
            values[d] = row[j]
            d += 1
        counts[d - 1] += 1
        group[j] = d - 1
    values, counts = values[:d], counts[:d]
    log_p, p = np.empty(d), np.empty(d)

    # The weights of all outcomes (none are needed for the closed form of Gumbel noise).
    arrays = np.empty((5, 0, 0))
    windows = np.zeros((d, 2))
    if noise == GAUSSIAN:
        span = np.zeros(2)
        step = gaussian_step(values, counts, scale, units, table, span, windows, log_p)
        if step == 0:
            return False
        arrays = np.empty((5, d, int(span[1])))
        gaussian_weights(values, counts, scale, units, table, step, span, windows, arrays)
    elif noise == LAPLACE:
        scaled = np.empty(d)
        for i in range(d):
            scaled[i] = (values[i] - values[0]) / scale
        z, up, down = laplace_nodes(scaled, counts, 1 / scale, gl_x, gl_w, tail_u, tail_w)
        arrays = np.empty((5, d, len(z)))
        laplace_weights(scaled, counts, 1 / scale, z, up, down, arrays, log_p)
        for i in range(d):
            windows[i, 1] = len(z)
    else:
        total = 0.0
        for i in range(d):
            total += counts[i] * math.exp((values[i] - values[0]) / scale)
        for i in range(d):
            log_p[i] = (values[i] - values[0]) / scale - math.log(total)
    others = 0.0
    for i in range(1, d):
        others += counts[i] * math.exp(log_p[i])
    if counts[0] == 1 and others < 0.5:
        log_p[0] = math.log1p(-others)
    for i in range(d):
        p[i] = math.exp(log_p[i])

    # The check before and after each kind of move.
    log_p1, log_p0 = 0.0, -math.inf
    variants = 0
    variant_u = np.empty(_VARIANTS)
    variant_x = np.empty((_VARIANTS, 4))
    variant_cost = np.empty((_VARIANTS, 4, len(orders)))
    low, high = np.zeros((d + 1, d + 1)), np.zeros((d + 1, d + 1))
    if check != NO_CHECK:
        top = -math.inf
        for j in range(m):
            top = max(top, u[j])
        log_p1, log_p0 = _check_logs(top, threshold, check_scale, check)
        _check_range(u, group, counts, grouped, d, low, high)

    # One-sided changes: mean(up_a) and mean(down_b) under every g_i.
    ups, downs = np.zeros((d, d)), np.zeros((d, d))
    self_down, self_up = np.zeros((d, d)), np.zeros((d, d))
    own_down, own_up = np.ones(d), np.ones(d)
    if noise != GUMBEL:
        for i in range(d):
            lo, hi = int(windows[i, 0]), int(windows[i, 1])
            g = arrays[0, i]
            own_down[i], own_up[i] = 0.0, 0.0
            for k in range(lo, hi):
                own_down[i] += arrays[3, i, k]
                own_up[i] += arrays[4, i, k]
            for a in range(d):
                ups[a, i] = _dot(g, arrays[1, a], lo, hi)
                downs[a, i] = _dot(g, arrays[2, a], lo, hi)
                self_down[i, a] = _dot(arrays[3, i], arrays[2, a], lo, hi)
                self_up[i, a] = _dot(arrays[4, i], arrays[1, a], lo, hi)
    log_ups, log_downs = np.empty((d, d)), np.empty((d, d))
    for a in range(d):
        for i in range(d):
            log_ups[a, i], log_downs[a, i] = math.log1p(ups[a, i]), -math.log1p(downs[a, i])
    lost, gained, rest = np.zeros(d), np.zeros(d), np.zeros(d)
    for a in range(d):
        for i in range(d):
            c = counts[i] - (1.0 if i == a else 0.0)
            if c > 0:
                rest[a] += c * p[i]
                if p[a] > 1e-6:
                    lost[a] += c * p[i] * ups[a, i] / p[a]
                    gained[a] -= c * p[i] * downs[a, i] / p[a]

    # Every move with its bounds.
    most = 2 * (d + 1) * (d + 1)
    move = np.empty((most, 2), np.int64)
    bound = np.empty((most, 2))
    at_u = np.empty(most)
    x_own, x_error = np.empty((most, 3)), np.empty((most, 3))
    n = 0
    for a in range(d + 1):
        if (a == d and not (abstentions and abstained > 0)) or (a < d and values[a] < 1):
            continue
        for b in range(d + 1):
            if (b == d and (not abstentions or a == d)) or (a == b and (a == d or counts[a] < 2)):
                continue
            xr, xa, xb, er, ea, eb = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            if noise == GUMBEL:
                xr, er, xa, xb = _gumbel_ratios(
                    1 / scale,
                    p[a] if a < d else 0.0,
                    p[b] if b < d else 0.0,
                    a < d,
                    b < d,
                    rest[a] if a < d else 0.0,
                    rest[b] if b < d else 0.0,
                )
                ea, eb = _RELATIVE * abs(xa), _RELATIVE * abs(xb)
            else:
                if a < d:
                    direct = own_down[a] + (self_down[a, b] if b < d else 0.0)
                    flow = -lost[a] + (self_down[a, b] if b < d else 0.0)
                    xa, ea = _moving_ratio(direct, p[a], flow)
                if b < d:
                    direct = own_up[b] + (self_up[b, a] if a < d else 0.0)
                    flow = gained[b] + (self_up[b, a] if a < d else 0.0)
                    xb, eb = _moving_ratio(direct, p[b], flow)
            second, largest = 0.0, 0.0
            if a < d:
                second += max(p[a], _TINY) * xa * xa
                largest = abs(xa)
            if b < d:
                second += max(p[b], _TINY) * xb * xb
                largest = max(largest, abs(xb))
            for i in range(d):
                c = counts[i] - (1.0 if i == a else 0.0) - (1.0 if i == b else 0.0)
                if c > 0:
                    if noise == GUMBEL:
                        y = abs(xr)
                    else:
                        y = max(log_ups[a, i] if a < d else 0.0, log_downs[b, i] if b < d else 0.0)
                    second += c * max(p[i], _TINY) * y * y
                    largest = max(largest, y)
            for side in range(2 if check != NO_CHECK and low[a, b] != high[a, b] else 1):
                move[n, 0], move[n, 1] = a, b
                bound[n, 0], bound[n, 1] = second * (1 + 1e-9), largest * (1 + 1e-9)
                at_u[n] = low[a, b] if side == 0 else high[a, b]
                x_own[n, 0], x_own[n, 1], x_own[n, 2] = xr, xa, xb
                x_error[n, 0], x_error[n, 1], x_error[n, 2] = er, ea, eb
                n += 1

    best = np.zeros((2, len(orders)))
    skipped = np.full(_VARIANTS, -1.0)
    outcome_log, outcome_p, outcome_x = np.empty(d + 3), np.empty(d + 3), np.empty(d + 3)
    scratch = np.empty((3, d + 3))
    for index in _by_size(bound, n):
        a, b = move[index, 0], move[index, 1]
        x1, x0, e1, e0 = 0.0, 0.0, 0.0, 0.0
        v = 0
        if check != NO_CHECK:
            while v < variants and variant_u[v] != at_u[index]:
                v += 1
        if v in (variants, _VARIANTS):
            # Past the last place, costs of the check are computed anew each time.
            v = min(v, _VARIANTS - 1)
            variants = v + 1
            skipped[v] = -1.0
            variant_u[v] = at_u[index]
            if check != NO_CHECK:
                moved1, moved0 = _check_logs(float(at_u[index]), threshold, check_scale, check)
                x1, x0 = moved1 - log_p1, moved0 - log_p0
                # The logarithms are good to 4e-15 relative.
                e1 = 4e-15 * (abs(moved1) + abs(log_p1)) if x1 != 0 else 0.0
                e0 = 4e-15 * (abs(moved0) + abs(log_p0)) if x0 != 0 else 0.0
            variant_x[v, 0], variant_x[v, 1], variant_x[v, 2], variant_x[v, 3] = x1, e1, x0, e0
            for k in range(len(orders)):
                if check == NO_CHECK:
                    f, wf, r, wr = 0.0, 1.0, 0.0, 1.0
                else:
                    f, wf, r, wr = _check_cost(_outward(x1, e1), _outward(x0, e0), log_p1, log_p0, orders[k] - 1)
                variant_cost[v, 0, k], variant_cost[v, 1, k] = f, wf
                variant_cost[v, 2, k], variant_cost[v, 3, k] = r, wr
        x1, e1, x0, e0 = variant_x[v, 0], variant_x[v, 1], variant_x[v, 2], variant_x[v, 3]
        # A move skipped before had the larger sum of squares; with the larger ratio too, its bound was the larger one.
        if bound[index, 1] <= skipped[v]:
            continue
        needed = False
        for k in range(len(orders) - 1, -1, -1):
            label = label_bound(bound[index, 0], bound[index, 1], orders[k] - 1)
            forward = variant_cost[v, 0, k] + (variant_cost[v, 1, k] * label if label > 0 else 0.0)
            reverse = variant_cost[v, 2, k] + (variant_cost[v, 3, k] * label if label > 0 else 0.0)
            if not max(forward, reverse) <= best[0, k] * (1 + _SKIP) or best[0, k] == math.inf:
                needed = True
                break
        if not needed:
            skipped[v] = bound[index, 1]
            continue
        size = 0
        for i in range(d):
            c = counts[i] - (1.0 if i == a else 0.0) - (1.0 if i == b else 0.0)
            if c > 0:
                if noise == GUMBEL:
                    x, error = x_own[index, 0], x_error[index, 0]
                else:
                    mean = (ups[a, i] if a < d else 0.0) + (downs[b, i] if b < d else 0.0)
                    if a < d and b < d:
                        for k in range(int(windows[i, 0]), int(windows[i, 1])):
                            mean += arrays[0, i, k] * arrays[1, a, k] * arrays[2, b, k]
                    x = math.log1p(mean)
                    error = _RELATIVE * ((log_ups[a, i] if a < d else 0.0) + (log_downs[b, i] if b < d else 0.0))
                outcome_log[size] = log_p[i] + math.log(c) + log_p1
                outcome_x[size] = _outward(x + x1, error + e1)
                size += 1
        if a < d:
            outcome_log[size] = log_p[a] + log_p1
            outcome_x[size] = _outward(x_own[index, 1] + x1, x_error[index, 1] + e1)
            size += 1
        if b < d:
            outcome_log[size] = log_p[b] + log_p1
            outcome_x[size] = _outward(x_own[index, 2] + x1, x_error[index, 2] + e1)
            size += 1
        if check != NO_CHECK:
            outcome_log[size] = log_p0
            outcome_x[size] = _outward(x0, e0)
            size += 1
        for i in range(size):
            outcome_p[i] = math.exp(outcome_log[i])
        raise_to_move(outcome_log, outcome_p, outcome_x, size, orders, best, scratch)
    for k in range(len(orders)):
        # The skipped moves' factor, and the error of the probabilities themselves.
        cost[k] = best[1, k] * (1 + _SKIP + 4 * _RELATIVE) / (orders[k] - 1)
    return True
