"""All one-vote moves of a query whose mechanism is an argmax of counts plus independent noise; compiled.

Classes with equal counts are interchangeable, so moves go between distinct counts (and "abstain"). For a move a -> b
and a class i that is neither, up_a >= 0 and down_b <= 0 at every node, so

    1 + mean(down_b)  <=  P'_i / P_i = mean((1 + up_a)(1 + down_b))  <=  1 + mean(up_a),

the means under g_i. The ratios of a and b themselves are computed for every move. From these bounds on all |ln P'/P|
follows a bound on the move's cost (`label_bound`; closer, with what a and b add by themselves, `own_terms`), and with
the check's own cost, which is exact, a bound on the joint cost. A move is skipped only where that bound is at most
(1 + 1e-12) times the largest cost already computed; that factor is charged at the end. All others are computed outcome
by outcome.
"""

from __future__ import annotations

import math

import numpy as np

from ostrakon.accounting.data_dependent._pruning import RELATIVE, ROOM, TINY, move_bounds, one_sided_changes
from ostrakon.accounting.data_dependent._quadrature import outcome_weights
from ostrakon.accounting.data_dependent._threshold_test import GUMBEL, NO_CHECK, check_cost, check_logs, check_range
from ostrakon.accounting.data_dependent.renyi_divergence import label_bound, own_terms, raise_to_move
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray

_SKIP = 1e-12
_VARIANTS = 24


@compiled
def _outward(x: float, error: float) -> float:
    """Return x made larger by its error bound: the cost grows with |x|."""
    return x + math.copysign(error, x)


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
    chances: FloatArray,
) -> None:
    """Fill `costs` (queries, orders) with the data-dependent cost of every row; nan where no proven step was found.

    chances (queries, 2) is filled with the log probabilities to answer, and that an answer is the first class.

    rows: counts as floats, decreasing, (queries, classes). scores: what the check takes the maximum of, in the order
    of `rows`, or shape (queries, 0) where that is the counts. abstained: teachers that abstain, (queries,).
    noise, check: GAUSSIAN, LAPLACE, GUMBEL, NO_CHECK.
    """
    for q in range(len(rows)):
        grouped = scores.shape[1] == 0
        u = rows[q] if grouped else scores[q]
        done = _one_query(
            rows[q], u, grouped, abstained[q], abstentions, noise, scale, check, threshold, check_scale, units, table,
            gl_x, gl_w, tail_u, tail_w, orders, costs[q], chances[q],
        )  # fmt: skip
        if not done:
            for k in range(len(orders)):
                costs[q, k] = np.nan


@compiled
def _by_size(bound: FloatArray, n: int) -> IntArray:
    """Return the order of the first n rows by falling first column (Shell's sort; NumPy's compiles slowly)."""
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
    chance: FloatArray,
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
    windows, log_p, p = np.zeros((d, 2)), np.empty(d), np.empty(d)
    proven, arrays = outcome_weights(
        noise, scale, values, counts, units, table, gl_x, gl_w, tail_u, tail_w, windows, log_p
    )
    if not proven:
        return False
    for i in range(d):
        p[i] = math.exp(log_p[i])
    change, moving, flow = np.zeros((4, d, d)), np.zeros((2, d, d + 1)), np.zeros((3, d))
    one_sided_changes(noise, counts, p, arrays, windows, change, moving, flow)

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
        log_p1, log_p0 = check_logs(top, threshold, check_scale, check)
        check_range(u, group, counts, grouped, d, low, high)

    chance[0], chance[1] = log_p1, log_p[0]
    most = 2 * (d + 1) * (d + 1)
    move, bound, at_u = np.empty((most, 2), np.int64), np.empty((most, 4)), np.empty(most)
    own = np.empty((most, 2, 3))
    n = 0
    for a in range(d + 1):
        if (a == d and not (abstentions and abstained > 0)) or (a < d and values[a] < 1):
            continue
        for b in range(d + 1):
            if (b == d and (not abstentions or a == d)) or (a == b and (a == d or counts[a] < 2)):
                continue
            bounds = move_bounds(noise, scale, counts, p, change, moving, flow, a, b, own[n])
            for side in range(2 if check != NO_CHECK and low[a, b] != high[a, b] else 1):
                move[n, 0], move[n, 1] = a, b
                bound[n, 0], bound[n, 1], bound[n, 2], bound[n, 3] = bounds
                at_u[n] = low[a, b] if side == 0 else high[a, b]
                if side == 1:
                    for j in range(3):
                        own[n, 0, j], own[n, 1, j] = own[n - 1, 0, j], own[n - 1, 1, j]
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
            # Beyond the last slot, costs of the check are recomputed every time.
            v = min(v, _VARIANTS - 1)
            variants = v + 1
            skipped[v] = -1.0
            variant_u[v] = at_u[index]
            if check != NO_CHECK:
                moved1, moved0 = check_logs(float(at_u[index]), threshold, check_scale, check)
                x1, x0 = moved1 - log_p1, moved0 - log_p0
                # The logarithms are good to 4e-15 relative.
                e1 = 4e-15 * (abs(moved1) + abs(log_p1)) if x1 != 0 else 0.0
                e0 = 4e-15 * (abs(moved0) + abs(log_p0)) if x0 != 0 else 0.0
            variant_x[v, 0], variant_x[v, 1], variant_x[v, 2], variant_x[v, 3] = x1, e1, x0, e0
            for k in range(len(orders)):
                if check == NO_CHECK:
                    f, wf, r, wr = 0.0, 1.0, 0.0, 1.0
                else:
                    f, wf, r, wr = check_cost(_outward(x1, e1), _outward(x0, e0), log_p1, log_p0, orders[k] - 1)
                variant_cost[v, 0, k], variant_cost[v, 1, k] = f, wf
                variant_cost[v, 2, k], variant_cost[v, 3, k] = r, wr
        x1, e1, x0, e0 = variant_x[v, 0], variant_x[v, 1], variant_x[v, 2], variant_x[v, 3]
        # A move that was skipped had the larger sum of squares; if its ratio was larger too, so was its bound.
        if bound[index, 1] <= skipped[v]:
            continue
        pa, xa, pb, xb = 0.0, 0.0, 0.0, 0.0
        if a < d:
            pa, xa = max(float(p[a]), TINY), _outward(own[index, 0, 1], own[index, 1, 1])
        if b < d:
            pb, xb = max(float(p[b]), TINY), _outward(own[index, 0, 2], own[index, 1, 2])
        needed, closer = False, False
        for k in range(len(orders) - 1, -1, -1):
            s, enough = orders[k] - 1, best[0, k] * (1 + _SKIP)
            forward_label = label_bound(bound[index, 0], bound[index, 1], s)
            reverse_label = forward_label
            for attempt in range(2):
                forward = variant_cost[v, 0, k] + (variant_cost[v, 1, k] * forward_label if forward_label > 0 else 0.0)
                reverse = variant_cost[v, 2, k] + (variant_cost[v, 3, k] * reverse_label if reverse_label > 0 else 0.0)
                needed = not max(forward, reverse) <= enough or enough == math.inf
                if not needed or attempt == 1:
                    break
                # Compute again, with the exact terms of the two moved classes instead of a bound.
                closer = True
                rest = label_bound(bound[index, 2], bound[index, 3], s)
                forward_a, reverse_a = own_terms(pa, xa, s)
                forward_b, reverse_b = own_terms(pb, xb, s)
                forward_label = (forward_a + forward_b + rest) * ROOM
                reverse_label = (reverse_a + reverse_b + rest) * ROOM
            if needed:
                break
        if not needed:
            if not closer:
                skipped[v] = bound[index, 1]
            continue
        size = 0
        for i in range(d):
            c = counts[i] - (1.0 if i == a else 0.0) - (1.0 if i == b else 0.0)
            if c > 0:
                if noise == GUMBEL:
                    x, error = own[index, 0, 0], own[index, 1, 0]
                else:
                    mean = (change[0, a, i] if a < d else 0.0) + (change[1, b, i] if b < d else 0.0)
                    if a < d and b < d:
                        for k in range(int(windows[i, 0]), int(windows[i, 1])):
                            mean += arrays[0, i, k] * arrays[1, a, k] * arrays[2, b, k]
                    x = math.log1p(mean)
                    error = RELATIVE * ((change[2, a, i] if a < d else 0.0) + (change[3, b, i] if b < d else 0.0))
                outcome_log[size] = log_p[i] + math.log(c) + log_p1
                outcome_x[size] = _outward(x + x1, error + e1)
                size += 1
        if a < d:
            outcome_log[size] = log_p[a] + log_p1
            outcome_x[size] = _outward(own[index, 0, 1] + x1, own[index, 1, 1] + e1)
            size += 1
        if b < d:
            outcome_log[size] = log_p[b] + log_p1
            outcome_x[size] = _outward(own[index, 0, 2] + x1, own[index, 1, 2] + e1)
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
        cost[k] = best[1, k] * (1 + _SKIP + 4 * RELATIVE) / (orders[k] - 1)
    return True
