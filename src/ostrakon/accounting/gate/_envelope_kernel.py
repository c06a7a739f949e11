"""The compiled loops of the envelope.

Their results nest to the last bit: U(n', d) <= U(n, d + 1) for neighbours n, n'. Every table is monotone, probabilities
to lose are sums of whole numbers from tables that are convex in the gap (so that they grow in the order in which balls
nest), and every later operation is monotone in floats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ostrakon.numerics.compiled import compiled

LOWEST = -28.0
STEP = 0.001
"""The table of label costs starts at ln q = `LOWEST` and goes on in steps of `STEP`."""

# Below this share the union bound is as accurate as the quadrature, whose error is absolute.
_UNION_IS_ENOUGH = 1e-5
LOG_BITS = 40
_UNIT = 2.0**-LOG_BITS
# More than the rounding errors of one cost and of its bound.
_ROUNDING = 1 + 4e-15


@compiled
def _losing(share: float, weights: Any, logs: Any, above: Any, gap: int, error: float) -> float:
    """Return an upper bound on the probability that the top class loses to a runner-up or to the rest.

    share: of the runner-up and the rest by the union bound. logs: -ln prod_{j >= 3} Phi at every node, in units of
    2^-`LOG_BITS`. above: -ln Phi by gap and node, in the same units. gap: of the runner-up.
    """
    if len(weights) == 0 or share < _UNION_IS_ENOUGH:
        return share
    wins = 0.0
    for i in range(len(weights)):
        # One unit changes an exponential by far more than its rounding error, so the sum is monotone.
        wins += weights[i] * math.exp(-_UNIT * (logs[i] + above[gap, i]))
    # Not below the switch to the union bound: the bound must grow with the share, or U would not nest.
    return min(share, max(1.0 - wins + error, _UNION_IS_ENOUGH))


@compiled
def _share(top: int, counts: Any, repeats: Any, shares: Any) -> int:
    """Return the sum of the shares of all classes from the third on."""
    share = 0
    for kind in range(len(counts)):
        share += repeats[kind] * shares[top - counts[kind]]
    return share


@compiled
def _fill(top: int, counts: Any, repeats: Any, above: Any, logs: Any) -> None:
    """Fill `logs` with -ln prod_{j >= 3} Phi(z + (top - n_j) / sigma), node by node."""
    logs[:] = 0
    for kind in range(len(counts)):
        gap, times = top - counts[kind], repeats[kind]
        for i in range(len(logs)):
            logs[i] += times * above[gap, i]


@compiled
def _index(losing: float, grid: Any) -> int:
    """Return the first point of the increasing `grid` that is at least `losing`; the last one if none is."""
    last = len(grid) - 1
    if not losing <= grid[last]:
        return last
    if losing <= grid[0]:
        return 0
    index = min(max(math.ceil((math.log(losing) - LOWEST) / STEP), 0), last)
    while index > 0 and losing <= grid[index - 1]:
        index -= 1
    while losing > grid[index]:
        index += 1
    return index


@compiled
def _joint(k: int, near: bool, grown: Any, more: Any, fewer: Any, third: Any, cap: Any, base: Any, beta: Any,
           less: float) -> float:  # fmt: skip
    """Return the largest of base + beta (label - less) over the variants of the top count (`joint_step`), at one order.

    A label's moment is the smallest of what is known of a likely class, of its lead, and of the top count. more, fewer:
    of labels where the likely class takes part, with one vote more under P, or one fewer. near: where it leads by at
    most one vote, it may take part though the top count stays. cap: (3, orders), in the order of `MoveCosts.at`.
    """
    x, y, stays = more[k], fewer[k], third[k]
    if near:
        stays = max(stays, max(x, y))
    x = min(min(grown[k], x), cap[1, k]) - less
    y = min(min(grown[k], y), cap[2, k]) - less
    stays = min(min(grown[k], stays), cap[0, k]) - less
    most = base[0, k] + beta[0, k] * stays
    most = max(most, max(base[1, k] + beta[1, k] * y, base[4, k] + beta[4, k] * y))
    return max(most, max(base[2, k] + beta[2, k] * x, base[3, k] + beta[3, k] * x))


@compiled
def _rounded_up(value: float) -> float:
    """Return the value rounded up to 44 bits, so that logarithms of different ones differ by more than their errors."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 44)), exponent - 44)


@compiled
def _raise_to(best: Any, raised: Any, label: Any, index: int, gap: int, by_top: Any, top: int) -> None:
    """Raise `best` (orders,) to e^{(a-1) J} of one top count, and mark the raised orders in `raised` (orders,)."""
    grown, pair, row, third, coarse = label
    cap, alpha, beta, _, _ = by_top
    at, near = coarse[index], gap <= 1
    of_row, more, fewer, other = grown[index], pair[0, row[gap], at], pair[1, row[gap], at], third[at]
    for k in range(len(best)):
        value = _joint(k, near, of_row, more, fewer, other, cap[top], alpha[top], beta[top], 0.0)
        if value > best[k]:
            best[k] = value
            raised[k] = top


@compiled
def _exceeds(
    best: Any, label: Any, index: int, gap: int, cap: Any, base: Any, beta: Any, less: float, factor: float
) -> bool:
    """Return whether a top count with at most these labels might cost more than `best` at some order.

    Of a whole cell: from its largest cap, alpha + beta and beta, with less = 1 and room for rounding in `factor`.
    alpha + beta c = (alpha + beta) + beta (c - 1): the sum hardly changes with the top count, but its parts do.
    """
    grown, pair, row, third, coarse = label
    at, near = coarse[index], gap <= 1
    of_row, more, fewer, other = grown[index], pair[0, row[gap], at], pair[1, row[gap], at], third[at]
    for k in range(len(best)):
        value = _joint(k, near, of_row, more, fewer, other, cap, base, beta, less)
        if value * factor > best[k]:
            return True
    return False


@compiled
def query_envelopes_of(
    sorted_: Any,
    steps: Any,
    lowest: int,
    sizes: Any,
    offsets: Any,
    noise: Any,
    label: Any,
    by_top: Any,
    by_cell: Any,
) -> Any:
    """Return (a - 1) U(n, d) of every distinct query, shape (queries, distances, orders).

    sizes, offsets: cells of `sizes[0]` top counts; from row `offsets[1]` of `by_cell` on, of `sizes[1]`, and so on.
    noise: (unit of shares, error of the quadrature, shares by gap in whole units, weights of the nodes, -ln Phi by gap
    and node, probabilities to lose, as shares, increasing: the grid).
    label: (moments by point of the grid, pair, row and third of the move lemma, the place of every point of the grid in
    their tables).
    by_top: (cap, alpha, beta, peak, the largest peak from each top count on); alpha and beta (teachers + 1, 5, orders),
    the others (teachers + 1, orders).
    by_cell: the largest (cap, alpha + beta, beta, peak) of each cell.
    The maximum over top counts is exact, by branch and bound: among neighbouring top counts the probability to lose is
    largest at the lowest. That probability is the same at all orders, so one walk over the top counts serves them all.
    """
    queries, classes = sorted_.shape
    teachers, nodes, orders = len(by_top[3]) - 1, len(noise[3]), label[0].shape[1]
    result = np.empty((queries, len(steps), orders))
    logs = np.empty((teachers + 1, nodes), np.int64)
    rest = np.empty(teachers + 1, np.int64)
    seen = np.empty(teachers + 1, np.int8)
    counts = np.empty(classes, np.int64)
    repeats = np.empty(classes, np.int64)
    best = np.empty(orders)
    raised, parts = np.zeros(orders, np.int64), np.empty((orders + 4 + teachers // sizes[-1], 3), np.int64)
    stack = np.empty((256, 3), np.int64)
    for query in range(queries):
        n = sorted_[query]
        seen[:] = 0
        kinds = _distinct(n, counts, repeats)
        others, known = (counts[:kinds], repeats[:kinds]), (rest, seen, logs)
        for column in range(len(steps)):
            d = steps[column]
            best[:] = 1.0
            low, high = _raise_to_peaks(best, n, d, lowest, sizes[0], by_top, by_cell[3])
            if low <= high:
                for part in range(_parts(low, n[0], high, raised, sizes[-1], len(sizes) - 1, parts)):
                    stack[0] = parts[part]
                    _search(stack, best, raised, n, d, sizes, offsets, noise, label, by_top, by_cell, others, known)
            for k in range(orders):
                result[query, column, k] = math.log(_rounded_up(best[k]))
    return result


@compiled
def _distinct(n: Any, counts: Any, repeats: Any) -> int:
    """Fill the distinct counts from the third class on, and how often each occurs; return their number."""
    kinds = 0
    for j in range(2, len(n)):
        if kinds > 0 and counts[kinds - 1] == n[j]:
            repeats[kinds - 1] += 1
        else:
            counts[kinds], repeats[kinds] = n[j], 1
            kinds += 1
    return kinds


@compiled
def _raise_to_peaks(best: Any, n: Any, d: int, lowest: int, stride: int, by_top: Any, cell_peak: Any) -> Any:
    """Raise `best` to the peaks of the top counts that a runner-up may reach, which any class may have.

    Return (the first top count that only the top class may have, its last one).
    """
    peak, peak_from = by_top[3], by_top[4]
    teachers = len(peak) - 1
    high = min(n[0] + d, teachers)
    top, reached = max(n[0] - d, lowest), min(n[1] + d, high)
    low = max(top, n[1] + d + 1)
    if top <= reached == teachers:
        for k in range(len(best)):
            best[k] = max(best[k], peak_from[top, k])
        top = reached + 1
    while top <= reached:
        whole = top % stride == 0 and top + stride - 1 <= reached
        worst = cell_peak[top // stride] if whole else peak[top]
        for k in range(len(best)):
            best[k] = max(best[k], worst[k])
        top += stride if whole else 1
    return low, high


@compiled
def _parts(low: int, top: int, high: int, raised: Any, size: int, level: int, parts: Any) -> int:
    """Fill the ranges of top counts to search, (first, last, level), and return their number.

    First the two ends, the unmoved top count and the top counts of the last maxima, one by one; then all cells.
    """
    for number, first in enumerate((low, max(top, low), high)):
        parts[number, 0], parts[number, 1], parts[number, 2] = first, first, 0
    number = 3
    for k in range(len(raised)):
        hint = min(max(raised[k], low), high)
        if hint != parts[number - 1, 0]:
            parts[number, 0], parts[number, 1], parts[number, 2] = hint, hint, 0
            number += 1
    for first in range(low - low % size, high + 1, size):
        parts[number, 0], parts[number, 1], parts[number, 2] = max(first, low), min(first + size - 1, high), level
        number += 1
    return number


@compiled
def _probability_to_lose(top: int, gap: int, noise: Any, others: Any, known: Any) -> float:
    """Return `_losing` at a top count.

    others: the distinct counts from the third class on, and how often each occurs. known: by top count, the sum of
    their shares, what is filled (0: nothing, 1: that sum, 2: the logarithms too), and the logarithms by node.
    """
    unit, error, shares, weights, above, _ = noise
    rest, seen, logs = known
    if seen[top] == 0:
        rest[top] = _share(top, others[0], others[1], shares)
        seen[top] = 1
    share = unit * (rest[top] + shares[gap])
    if seen[top] == 1 and len(weights) > 0 and share >= _UNION_IS_ENOUGH:
        _fill(top, others[0], others[1], above, logs[top])
        seen[top] = 2
    return _losing(share, weights, logs[top], above, gap, error)


@compiled
def _search(
    stack: Any, best: Any, raised: Any, n: Any, d: int, sizes: Any, offsets: Any, noise: Any, label: Any, by_top: Any,
    by_cell: Any, others: Any, known: Any,
) -> None:  # fmt: skip
    """Raise `best` to the largest cost of the top counts in the range on the `stack`, which the top class has."""
    cap, alpha, beta, _, _ = by_top
    cell_cap, cell_sums, cell_beta, _ = by_cell
    waiting = 1
    while waiting > 0:
        waiting -= 1
        first, last, level = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        # The top class leads by `gap`.
        gap = n[0] - n[1] + (first - n[0]) - (d - max(first - n[0], 0))
        index = _index(_probability_to_lose(first, gap, noise, others, known), noise[5])
        _raise_to(best, raised, label, index, gap, by_top, first)
        if first == last:
            continue
        at = offsets[level] + first // sizes[level]
        if not _exceeds(best, label, index, gap, cell_cap[at], cell_sums[at], cell_beta[at], 1.0, _ROUNDING):
            continue
        if level > 0:
            size = sizes[level - 1]
            inner = last - last % size
            while inner + size > first:
                stack[waiting, 0], stack[waiting, 1] = max(inner, first), min(inner + size - 1, last)
                stack[waiting, 2] = level - 1
                waiting += 1
                inner -= size
            continue
        for top in range(first + 1, last + 1):
            if _exceeds(best, label, index, gap, cap[top], alpha[top], beta[top], 0.0, 1.0):
                middle = (top + last) // 2
                if middle < last:
                    stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = middle + 1, last, 0
                    waiting += 1
                stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = top, middle, 0
                waiting += 1
                break
