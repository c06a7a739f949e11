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
    """Fill `cost` and `chance` of one row; False where no proven step was found."""
    group = np.empty(len(row))
    values, counts = _distinct(row, group)
    d = len(values)
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

    log_p1, log_p0 = 0.0, -math.inf
    low, high = np.zeros((d + 1, d + 1)), np.zeros((d + 1, d + 1))
    if check != NO_CHECK:
        log_p1, log_p0 = check_logs(float(u.max()), threshold, check_scale, check)
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
            # Classes of equal counts may have different scores, so that a move changes the check in two ways.
            for side in range(2 if check != NO_CHECK and low[a, b] != high[a, b] else 1):
                move[n, 0], move[n, 1] = a, b
                bound[n, 0], bound[n, 1], bound[n, 2], bound[n, 3] = bounds
                at_u[n] = low[a, b] if side == 0 else high[a, b]
                if side == 1:
                    own[n] = own[n - 1]
                n += 1

    best = np.zeros((2, len(orders)))
    variants = 0
    variant_u, skipped = np.empty(_VARIANTS), np.full(_VARIANTS, -1.0)
    variant_x, variant_cost = np.empty((_VARIANTS, 4)), np.empty((_VARIANTS, 4, len(orders)))
    outcome_log, outcome_p, outcome_x = np.empty(d + 3), np.empty(d + 3), np.empty(d + 3)
    scratch = np.empty((3, d + 3))
    for index in _by_size(bound, n):
        a, b, v = move[index, 0], move[index, 1], 0
        if check != NO_CHECK:
            while v < variants and variant_u[v] != at_u[index]:
                v += 1
        if v in (variants, _VARIANTS):
            # Beyond the last slot, costs of the check are recomputed every time.
            v = min(v, _VARIANTS - 1)
            variants = v + 1
            skipped[v], variant_u[v] = -1.0, at_u[index]
            _price_check(
                check, float(at_u[index]), threshold, check_scale, log_p1, log_p0, orders, variant_x[v], variant_cost[v]
            )
        # A move that was skipped had the larger sum of squares; if its ratio was larger too, so was its bound.
        if bound[index, 1] <= skipped[v]:
            continue
        needed, closer = _may_cost_more(a, b, p, own[index], bound[index], variant_cost[v], best[0], orders)
        if needed:
            size = _outcomes(
                a, b, noise, counts, log_p, log_p1, log_p0, check, change, windows, arrays, own[index], variant_x[v],
                outcome_log, outcome_x,
            )  # fmt: skip
            for i in range(size):
                outcome_p[i] = math.exp(outcome_log[i])
            raise_to_move(outcome_log, outcome_p, outcome_x, size, orders, best, scratch)
        elif not closer:
            skipped[v] = bound[index, 1]
    for k in range(len(orders)):
        # The skipped moves' factor, and the error of the probabilities themselves.
        cost[k] = best[1, k] * (1 + _SKIP + 4 * RELATIVE) / (orders[k] - 1)
    return True


@compiled
def _distinct(row: FloatArray, group: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (the distinct counts, falling; the number of classes with each); `group` is filled with their indices."""
    values, counts = np.empty(len(row)), np.zeros(len(row))
    d = 0
    for j in range(len(row)):
        if d == 0 or values[d - 1] != row[j]:
            values[d] = row[j]
            d += 1
        counts[d - 1] += 1
        group[j] = d - 1
    return values[:d], counts[:d]


@compiled
def _price_check(
    check: int,
    top: float,
    threshold: float,
    check_scale: float,
    log_p1: float,
    log_p0: float,
    orders: FloatArray,
    x: FloatArray,
    price: FloatArray,
) -> None:
    """Fill what a move that makes the largest score `top` changes of the check.

    x: the changes of the logarithms of "answered" and "refused", each followed by its error. price: for each order, the
    cost of the check itself and the weight of the label's cost, forward and reverse, (4, orders).
    """
    x[:] = 0.0
    if check != NO_CHECK:
        moved1, moved0 = check_logs(top, threshold, check_scale, check)
        x[0], x[2] = moved1 - log_p1, moved0 - log_p0
        # The logarithms are good to 4e-15 relative.
        x[1] = 4e-15 * (abs(moved1) + abs(log_p1)) if x[0] != 0 else 0.0
        x[3] = 4e-15 * (abs(moved0) + abs(log_p0)) if x[2] != 0 else 0.0
    for k in range(len(orders)):
        if check == NO_CHECK:
            price[0, k], price[1, k], price[2, k], price[3, k] = 0.0, 1.0, 0.0, 1.0
        else:
            price[0, k], price[1, k], price[2, k], price[3, k] = check_cost(
                _outward(float(x[0]), float(x[1])), _outward(float(x[2]), float(x[3])), log_p1, log_p0, orders[k] - 1
            )


@compiled
def _may_cost_more(
    a: int, b: int, p: FloatArray, own: FloatArray, bound: FloatArray, price: FloatArray, best: FloatArray,
    orders: FloatArray,
) -> tuple[bool, bool]:  # fmt: skip
    """Return (whether the move's cost may exceed `best` at some order, whether closer bounds were computed)."""
    pa, xa, pb, xb = 0.0, 0.0, 0.0, 0.0
    if a < len(p):
        pa, xa = max(float(p[a]), TINY), _outward(own[0, 1], own[1, 1])
    if b < len(p):
        pb, xb = max(float(p[b]), TINY), _outward(own[0, 2], own[1, 2])
    closer = False
    for k in range(len(orders) - 1, -1, -1):
        s, enough = orders[k] - 1, best[k] * (1 + _SKIP)
        forward_label = label_bound(bound[0], bound[1], s)
        reverse_label = forward_label
        for attempt in range(2):
            forward = price[0, k] + (price[1, k] * forward_label if forward_label > 0 else 0.0)
            reverse = price[2, k] + (price[3, k] * reverse_label if reverse_label > 0 else 0.0)
            if max(forward, reverse) <= enough and enough != math.inf:
                break
            if attempt == 1:
                return True, closer
            # Compute again, with the exact terms of the two moved classes instead of a bound.
            closer = True
            rest = label_bound(bound[2], bound[3], s)
            forward_a, reverse_a = own_terms(pa, xa, s)
            forward_b, reverse_b = own_terms(pb, xb, s)
            forward_label = (forward_a + forward_b + rest) * ROOM
            reverse_label = (reverse_a + reverse_b + rest) * ROOM
    return False, closer


@compiled
def _outcomes(
    a: int,
    b: int,
    noise: int,
    counts: FloatArray,
    log_p: FloatArray,
    log_p1: float,
    log_p0: float,
    check: int,
    change: FloatArray,
    windows: FloatArray,
    arrays: FloatArray,
    own: FloatArray,
    x_of_check: FloatArray,
    outcome_log: FloatArray,
    outcome_x: FloatArray,
) -> int:
    """Fill the log probability of each outcome of the move and the change of it, made larger by its error.

    Returns the number of outcomes.
    """
    d, size = len(counts), 0
    x1, e1 = x_of_check[0], x_of_check[1]
    for i in range(d):
        c = counts[i] - (1.0 if i == a else 0.0) - (1.0 if i == b else 0.0)
        if c > 0:
            if noise == GUMBEL:
                x, error = own[0, 0], own[1, 0]
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
        outcome_x[size] = _outward(own[0, 1] + x1, own[1, 1] + e1)
        size += 1
    if b < d:
        outcome_log[size] = log_p[b] + log_p1
        outcome_x[size] = _outward(own[0, 2] + x1, own[1, 2] + e1)
        size += 1
    if check != NO_CHECK:
        outcome_log[size] = log_p0
        outcome_x[size] = _outward(x_of_check[2], x_of_check[3])
        size += 1
    return size
