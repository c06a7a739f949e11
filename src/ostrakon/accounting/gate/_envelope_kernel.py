"""The compiled loops of the envelope."""

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
# More than the rounding errors of one cost and of its bound.
_ROUNDING = 1 + 4e-15


@compiled
def _losing(
    share: float, weights: Any, product: Any, top: int, above: Any, gap: int, error: float, odds: bool
) -> float:
    """An upper bound on the probability that the top class loses to a runner-up or to the rest.

    share: of the runner-up and the rest by the union bound. above: Phi at the runner-up's gap, node by node.
    """
    if odds:
        return share / (1.0 + share)
    if len(weights) == 0 or share < _UNION_IS_ENOUGH:
        return share
    # Four sums, so that the loop is vectorised.
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    i = 0
    while i + 3 < len(weights):
        s0 += product[top, i] * above[gap, i]
        s1 += product[top, i + 1] * above[gap, i + 1]
        s2 += product[top, i + 2] * above[gap, i + 2]
        s3 += product[top, i + 3] * above[gap, i + 3]
        i += 4
    while i < len(weights):
        s0 += product[top, i] * above[gap, i]
        i += 1
    wins = (s0 + s1) + (s2 + s3)
    # Not below the switch to the union bound: the bound must grow with the share, or U would not nest.
    return min(share, max(1.0 - wins + error, _UNION_IS_ENOUGH))


@compiled
def _share(top: int, counts: Any, repeats: Any, kinds: int, shares: Any) -> float:
    """The sum of the shares of all classes from the third on."""
    share = 0.0
    for kind in range(kinds):
        share += repeats[kind] * shares[top - counts[kind]]
    return share


@compiled
def _fill(top: int, counts: Any, repeats: Any, kinds: int, above: Any, weights: Any, product: Any, power: Any) -> None:
    """Fill `product` with weight times prod_{j >= 3} Phi(z + (top - n_j) / sigma), node by node; power: scratch.

    Powers by squaring: their relative error, far below 1e-12, is negligible beside `quadrature_error`.
    """
    nodes = len(weights)
    for i in range(nodes):
        product[i] = weights[i]
    for kind in range(kinds):
        gap, left = top - counts[kind], int(repeats[kind])
        for i in range(nodes):
            power[i] = above[gap, i]
        while left > 0:
            if left % 2 == 1:
                for i in range(nodes):
                    product[i] *= power[i]
            left //= 2
            if left > 0:
                for i in range(nodes):
                    power[i] *= power[i]


@compiled
def _index(losing: float, last: int) -> int:
    """The index in a table of label costs for a top class that loses with at most this probability, rounded up."""
    if not losing < 1.0:
        return last
    if losing <= 0.0:
        return 0
    index = math.ceil((math.log(losing) - LOWEST) / STEP)
    return min(max(index, 0), last)


@compiled
def _raise_to(best: Any, raised: Any, grown: Any, index: int, cap: Any, alpha: Any, beta: Any, top: int) -> None:
    """Raise `best` (orders,) to e^{(a-1) J} of one top count, and mark the raised orders in `raised` (orders,)."""
    for k in range(len(best)):
        cost = min(grown[index, k], cap[top, k])
        most = best[k]
        for variant in range(alpha.shape[1]):
            value = alpha[top, variant, k] + beta[top, variant, k] * cost
            most = value if value > most else most
        if most > best[k]:
            best[k] = most
            raised[k] = top


@compiled
def _exceeds(best: Any, grown: Any, index: int, cap: Any, alpha: Any, beta: Any, top: int) -> bool:
    """Whether a top count with at most this label cost might cost more than `best` at some order."""
    for k in range(len(best)):
        cost = min(grown[index, k], cap[top, k])
        most = best[k]
        for variant in range(alpha.shape[1]):
            if alpha[top, variant, k] + beta[top, variant, k] * cost > most:
                return True
    return False


@compiled
def _cell_exceeds(best: Any, grown: Any, index: int, cap: Any, sums: Any, beta: Any, cell: int) -> bool:
    """The same for a whole cell, from its largest cap, alpha + beta and beta, with room for rounding.

    alpha + beta c = (alpha + beta) + beta (c - 1): the sum hardly changes with the top count, but its parts do.
    """
    for k in range(len(best)):
        cost = min(grown[index, k], cap[cell, k]) - 1.0
        most = best[k]
        for variant in range(sums.shape[1]):
            if (sums[cell, variant, k] + beta[cell, variant, k] * cost) * _ROUNDING > most:
                return True
    return False


@compiled
def query_envelopes_of(
    sorted_: Any,
    steps: Any,
    lowest: int,
    sizes: Any,
    offsets: Any,
    odds: bool,
    error: float,
    shares: Any,
    weights: Any,
    above: Any,
    grown: Any,
    cap: Any,
    alpha: Any,
    beta: Any,
    peak: Any,
    peak_from: Any,
    cell_cap: Any,
    cell_sums: Any,
    cell_beta: Any,
    cell_peak: Any,
) -> Any:
    """(a - 1) U(n, d) of every distinct query, shape (queries, distances, orders).

    grown: (table, orders). cap, peak: (teachers + 1, orders). alpha, beta: (teachers + 1, 5, orders). peak_from: the
    largest peak from a top count on. cell_: the largest of each cell of `sizes[0]` top counts, then, from row
    `offsets[1]` on, of `sizes[1]`, and so on; cell_sums: of alpha + beta.
    The maximum over top counts is exact, by branch and bound: among neighbouring top counts the probability to lose is
    largest at the lowest. That probability is the same at all orders, so one walk over the top counts serves them all.
    """
    queries, classes = sorted_.shape
    teachers = len(peak) - 1
    nodes, orders, last_index = len(weights), grown.shape[1], len(grown) - 1
    result = np.empty((queries, len(steps), orders))
    product = np.empty((teachers + 1, nodes))
    rest: Any = np.empty(teachers + 1)
    seen = np.empty(teachers + 1, np.int8)
    counts = np.empty(classes, np.int64)
    repeats = np.empty(classes, np.float64)
    best, power = np.empty(orders), np.empty(nodes)
    raised, hints = np.zeros(orders, np.int64), np.empty(orders + 3, np.int64)
    stack = np.empty((256, 3), np.int64)
    stride, top_level = sizes[0], len(sizes) - 1
    for query in range(queries):
        n = sorted_[query]
        lead = n[0] - n[1]
        seen[:] = 0
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
            best[:] = 1.0
            if lead < 2 * d:
                top = max(n[0] - d, lowest)
                if high == teachers:
                    for k in range(orders):
                        best[k] = max(best[k], peak_from[top, k])
                    top = high + 1
                while top <= high:
                    whole = top % stride == 0 and top + stride - 1 <= high
                    worst = cell_peak[top // stride] if whole else peak[top]
                    for k in range(orders):
                        best[k] = max(best[k], worst[k])
                    top += stride if whole else 1
                for k in range(orders):
                    result[query, column, k] = math.log(best[k])
                continue
            low = n[0] - d
            # First the two ends, the unmoved top count and the positions of the last maxima; then all cells.
            hints[0], hints[1], hints[2] = low, n[0], high
            first_cells = 3
            for k in range(orders):
                hint = min(max(raised[k], low), high)
                if hint != hints[first_cells - 1]:
                    hints[first_cells] = hint
                    first_cells += 1
            start = low - low % sizes[top_level]
            cells = (high - start) // sizes[top_level] + 1
            for part in range(first_cells + cells):
                if part < first_cells:
                    stack[0, 0], stack[0, 1], stack[0, 2] = hints[part], hints[part], 0
                else:
                    cell = start + (part - first_cells) * sizes[top_level]
                    stack[0, 0], stack[0, 1] = max(cell, low), min(cell + sizes[top_level] - 1, high)
                    stack[0, 2] = top_level
                waiting = 1
                while waiting > 0:
                    waiting -= 1
                    first, last, level = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
                    if seen[first] == 0:
                        rest[first] = _share(first, counts, repeats, kinds, shares)
                        seen[first] = 1
                    gap = lead + (first - n[0]) - (d - max(first - n[0], 0))
                    share = rest[first] + shares[gap]
                    if seen[first] == 1 and nodes > 0 and share >= _UNION_IS_ENOUGH:
                        _fill(first, counts, repeats, kinds, above, weights, product[first], power)
                        seen[first] = 2
                    losing = _losing(share, weights, product, first, above, gap, error, odds)
                    index = _index(losing, last_index)
                    _raise_to(best, raised, grown, index, cap, alpha, beta, first)
                    if first == last:
                        continue
                    at = offsets[level] + first // sizes[level]
                    if not _cell_exceeds(best, grown, index, cell_cap, cell_sums, cell_beta, at):
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
                        if _exceeds(best, grown, index, cap, alpha, beta, top):
                            middle = (top + last) // 2
                            if middle < last:
                                stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = middle + 1, last, 0
                                waiting += 1
                            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = top, middle, 0
                            waiting += 1
                            break
            for k in range(orders):
                result[query, column, k] = math.log(best[k])
    return result
