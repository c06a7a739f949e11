"""Labels of three or more classes under Gaussian noise, as three outcomes: i, j, and any other class.

A vote moves from class i to class j. Given Y, the largest noisy count of the other classes, the label is i, j or
"other" by n_i - Y and n_j - Y alone, and Y has the same law on both sides. The family is all margins d = n_i - n_j >= 1
and all eta = (Y - n_i) / sigma, with the exchange of both data sets, and of i and j. Pairs on a grid of (d, eta), mixed
with randomized responses, cover it: docs/adaptive.md.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from ostrakon.accounting.composition.adaptive import Family
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray

_MAIN_ETA = [-1.3, -1.1, -0.9, -0.75, -0.6, -0.4, -0.2, 0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2, 2.5, 3.5, 5, 9]
_ETA: dict[bool, FloatArray] = {
    False: np.array([-9, -3.5, -2.5, -2, -1.6, *_MAIN_ETA]),
    True: np.array([-9, -5, -4, -3.25, -2.75, -2.25, -2, -1.75, -1.5, *_MAIN_ETA]),
}
"""The etas of the cover, and of the close one, which differ on the left."""

_CELLS = {False: 96, True: 384}
"""Cells of eta by standard deviation of the noise, in the cover and in the close one."""

_LEVELS: FloatArray = np.array([[1.5, 3.0, 3.0], [5.0, 9.0, 15.0]])
_SHARES: FloatArray = np.array([[0.8, 0.2, 0.0], [0.8, 0.16, 0.04]])
"""Two kinds of randomized responses, of epsilon _LEVELS / sigma, and the share of each level; the second kind is for
ratios that the first does not reach.
"""

_NEAR = 2.2
"""Ratios up to e^(_NEAR / sigma) are covered by the first kind."""

_FARTHEST = 9.0 * math.sqrt(2)
"""Margins beyond this number of sigmas, and eta beyond 9, change no probability by more than 1e-18."""

ABSOLUTE_ERROR = 1e-13
"""Added to every comparison of divergences, times max(1, y)."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


@dataclass(frozen=True, eq=False)
class ThreeOutcomes:
    """The cover.

    p, q: (pairs, 3), P with n_i - n_j = d and Q with d - 2. share: (pairs, 2), the weights k of both kinds of common
    outcomes, which p and q do not include yet. d: (pairs,). reach: (pairs,); a pair covers eta below it. common_p,
    common_q: (2, outcomes), rows add up to 1.
    """

    p: FloatArray
    q: FloatArray
    share: FloatArray
    d: IntArray
    reach: FloatArray
    common_p: FloatArray
    common_q: FloatArray


def widest(sigma: float, teachers: int | None) -> int:
    """Return the largest margin that is computed by itself."""
    farthest = math.ceil(_FARTHEST * sigma)
    return farthest if teachers is None else min(teachers, farthest)


def margins(sigma: float, most: int, *, dense: bool = False) -> IntArray:
    """Return the margins of the cover: dense where labels reveal most; dense: with four times as many there."""
    far = [2.9, 3.4, 4, 5, 6.5, 8, 10, _FARTHEST]
    near = [np.arange(0.05, 0.8, 0.05), np.arange(0.8, 1.6, 0.1), np.arange(1.7, 2.6, 0.2)]
    scaled = np.concatenate([*([np.arange(0.02, 2.6, 0.02)] if dense else near), far])
    return np.unique(np.clip(np.concatenate([[1], np.round(scaled * sigma), [most]]), 1, most).astype(np.int64))


@functools.lru_cache(maxsize=4)
def three_outcomes(
    sigma: float, teachers: int | None, *, abstentions: bool = False, close: bool = False, dense: bool = False
) -> ThreeOutcomes:  # fmt: skip
    """Return a cover of all labels of at most `teachers` votes on three or more classes with Gaussian noise `sigma`.

    teachers: None: any number. abstentions: whether a vote may also come from or go to no class: then
    class i alone loses a vote, and with the largest other count revealed, of j too, the label is "i" or "other", a
    margin beyond all others. close: a closer cover, four times slower. dense: with more margins.

    Guarantee: for every convex V with V(y) + y nondecreasing and every pair of the family, the sum of P(o) V(y
    Q(o)/P(o)) is at most the largest value of the cover's pairs plus 1e-13 (1 + y). A pair's value is 1 minus its
    shares, times its own value, plus its shares times those of the common outcomes. Source: docs/adaptive.md.
    """
    most, beyond = widest(sigma, teachers), math.ceil(_FARTHEST * sigma)
    kept, eta = margins(sigma, most, dense=dense), _ETA[close]
    edges = _edges(eta, _CELLS[close])
    every = np.arange(1, most + 1)
    if abstentions and beyond > most:
        kept, every = np.append(kept, beyond), np.append(every, beyond)
    m = 1 / sigma
    common_p, common_q = _common(m)
    kinks = _kinks(m)
    column = np.clip(np.searchsorted(eta, (edges[:-1] + edges[1:]) / 2) - 1, 0, len(eta) - 2)
    places, points, mass = np.searchsorted(edges, eta), *_points(edges)
    p, q, share = _cover(every, kept, eta, edges, column, places, points, mass, m, kinks, common_p, common_q)
    shape = (len(kept), len(eta))
    reach = np.append(eta[1:], np.inf)
    d, reach = np.broadcast_to(kept[:, None], shape).ravel(), np.broadcast_to(reach[None], shape).ravel()
    return ThreeOutcomes(p.reshape(-1, 3), q.reshape(-1, 3), share.reshape(-1, 2), d, reach, common_p, common_q)


def every_nth_pair(family: Family, n: int, sigma: float) -> Family | None:
    """Return every n-th of a list of pairs with three outcomes, in place of all of them.

    family: pairs of which neighbours in the list are alike, in such an order that the exchanged pairs come last to
    first. sigma: of the noise, in votes.

    Guarantee: as of `three_outcomes`; the family stays symmetric. None where no share of the common outcomes will do.
    """
    pairs = len(family.p)
    # In the middle of the list the top count passes from one class to the other.
    one = np.concatenate([np.arange(0, pairs // 2, n), np.arange(max(0, pairs // 2 - 1), pairs // 2 + 1)])
    kept = np.unique(np.concatenate([one, pairs - 1 - one]))
    common_p, common_q = _common(1 / sigma)
    share = _thinned(family.p, family.q, kept, 1 / sigma, _kinks(1 / sigma), common_p, common_q)
    own = 1 - share.sum()
    if not own > 0:
        return None
    common_p, common_q = ((share[:, None] * x).ravel() for x in (common_p, common_q))
    return Family(p=own * family.p[kept], q=own * family.q[kept], common_p=common_p, common_q=common_q,
                  symmetric=family.symmetric)  # fmt: skip


@compiled
def _thinned(
    p: FloatArray, q: FloatArray, kept: IntArray, m: float, kinks: FloatArray, common_p: FloatArray,
    common_q: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the shares of both kinds of common outcomes at which mixtures of the kept pairs cover all between."""
    share, needed = np.zeros(2), np.empty(2)
    excess, near = np.empty(len(kinks) + 3), np.empty(len(kinks) + 3)
    for c in range(len(kept) - 1):
        low, high = kept[c], kept[c + 1]
        for r in range(low + 1, high):
            along = (r - low) / (high - low)
            mixed_p, mixed_q = p[low] * (1 - along) + p[high] * along, q[low] * (1 - along) + q[high] * along
            _needed(p[r], q[r], mixed_p, mixed_q, m, kinks, common_p, common_q, excess, near, needed)
            share = np.maximum(share, needed)
    return share


def _kinks(m: float) -> FloatArray:
    return np.exp(np.concatenate([-_LEVELS.ravel() * m, _LEVELS.ravel() * m]))


def _edges(eta: FloatArray, cells: int) -> FloatArray:
    parts: list[FloatArray] = []
    for a, b in itertools.pairwise(eta.tolist()):
        dense = cells if a >= -3.25 and b <= 3.5 else cells / 4
        parts.append(np.linspace(a, b, max(8, math.ceil((b - a) * dense)) + 1)[:-1])
    return np.concatenate([*parts, eta[-1:]])


def _points(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of every cell and its lower edge, and the last edge; and the nodes' weights, shape (cells,
    nodes).
    """
    low, width = edges[:-1, None], np.diff(edges)[:, None]
    nodes = np.vstack([low + width * (_NODES + 1) / 2, np.zeros(len(_NODES))])
    return np.column_stack([nodes, edges]), width * _WEIGHTS / 2 / math.sqrt(2 * math.pi)


def _common(m: float) -> tuple[FloatArray, FloatArray]:
    likely = 1 / (1 + np.exp(-_LEVELS * m))
    p, q = _SHARES * likely, _SHARES * (1 - likely)
    return np.hstack([p, q]), np.hstack([q, p])


@compiled
def _below(x: float) -> float:
    """Return the normal distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@compiled
def _normal(points: FloatArray, shift: float, below: FloatArray, density: FloatArray) -> None:
    """Fill in the normal distribution function and exp(-x^2 / 2) at every point + shift."""
    for k in range(points.shape[0]):
        for at in range(points.shape[1]):
            x = points[k, at] + shift
            below[k, at], density[k, at] = _below(x), math.exp(-x * x / 2)


@compiled
def _laws(
    normals: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    shifted: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    mass: FloatArray,
    law_p: FloatArray,
    law_q: FloatArray,
    cell_p: FloatArray,
    cell_q: FloatArray,
) -> None:
    """Fill in laws of (i, j, other) at every edge, and of cells between edges with seven outcomes.

    normals: `_normal` at the points of `_points` + 0 and + m; shifted: the same + e and + e - m. e, m: d and 1, in
    sigma. mass: the weights of the points of a cell, times its width.

    The masses of X_i > X_j with X_i in a cell, and the reverse, by Gauss and Legendre's rule; X_i and X_j have the
    means 0 and -e, and -m and m - e.
    """
    own = normals[0], normals[2]
    own_density = normals[1], normals[3]
    other = shifted[0], shifted[2]
    other_density = shifted[1], shifted[3]
    last, nodes = len(mass), mass.shape[1]
    above, inside = np.zeros(4), np.zeros(4)
    for at in range(last, -1, -1):
        for side in range(2):
            law = law_p if side == 0 else law_q
            law[at, 0], law[at, 1] = above[2 * side], above[2 * side + 1]
            law[at, 2] = own[side][at, nodes] * other[side][at, nodes]
        if at == 0:
            break
        k = at - 1
        inside[:] = 0.0
        for side in range(2):
            for node in range(nodes):
                inside[2 * side] += mass[k, node] * own_density[side][k, node] * other[side][k, node]
                inside[2 * side + 1] += mass[k, node] * other_density[side][k, node] * own[side][k, node]
            cell = cell_p if side == 0 else cell_q
            cell[k, 0], cell[k, 1] = above[2 * side], above[2 * side + 1]
        # Who is the largest within the cell, and where: two outcomes at the ends of the range of ratios.
        for who in range(2):
            pm, qm = inside[who], inside[2 + who]
            density, below = (own_density, other) if who == 0 else (other_density, own)
            low = density[1][k, nodes] / density[0][k, nodes] * below[1][k, nodes] / below[0][k, nodes]
            high = density[1][at, nodes] / density[0][at, nodes] * below[1][at, nodes] / below[0][at, nodes]
            small, large = min(low, high), max(low, high)
            upper = 0.0 if large <= small else min(max((qm - pm * small) / (large - small), 0.0), pm)
            cell_p[k, 3 + 2 * who], cell_q[k, 3 + 2 * who] = pm - upper, (pm - upper) * small
            cell_p[k, 4 + 2 * who], cell_q[k, 4 + 2 * who] = upper, qm - (pm - upper) * small
        for who in range(4):
            above[who] += inside[who]
    for at in range(last):
        cell_p[at, 2], cell_q[at, 2] = law_p[at, 2], law_q[at, 2]


@compiled
def hockey_stick(p: FloatArray, q: FloatArray, y: float) -> float:
    """Return the sum of max(p - y q, 0) over outcomes."""
    total = 0.0
    for o in range(len(p)):
        total += max(p[o] - y * q[o], 0.0)
    return total


@compiled
def _needed(
    cell_p: FloatArray,
    cell_q: FloatArray,
    mixed_p: FloatArray,
    mixed_q: FloatArray,
    m: float,
    kinks: FloatArray,
    common_p: FloatArray,
    common_q: FloatArray,
    excess: FloatArray,
    near: FloatArray,
    needed: FloatArray,
) -> None:
    """Fill in the least shares of both kinds of common outcomes that cover a cell by the mixture. excess, near:
    buffers.
    """
    size = len(kinks) + 3
    first = 0.0
    for t in range(size):
        y = kinks[t - 3] if t >= 3 else mixed_p[t] / max(mixed_q[t], 1e-300)
        mixed = hockey_stick(mixed_p, mixed_q, y)
        excess[t] = hockey_stick(cell_p, cell_q, y) - mixed - ABSOLUTE_ERROR / 4 * max(y, 1.0)
        near[t] = 0.0
        if excess[t] > 0:
            near[t] = hockey_stick(common_p[0], common_q[0], y) - mixed
            if near[t] > 0 and abs(math.log(y)) <= _NEAR * m:
                first = max(first, excess[t] / near[t])
    first *= 1 + 1e-9
    second = 0.0
    for t in range(size):
        left = excess[t] - first * near[t]
        if excess[t] > 0 and left > 0:
            y = kinks[t - 3] if t >= 3 else mixed_p[t] / max(mixed_q[t], 1e-300)
            far = hockey_stick(common_p[1], common_q[1], y) - hockey_stick(mixed_p, mixed_q, y)
            second = max(second, left / far if far > 0 else np.inf)
    needed[0], needed[1] = first, second * (1 + 1e-9)


@compiled
def _cover(
    every: IntArray,
    kept: IntArray,
    eta: FloatArray,
    edges: FloatArray,
    column: IntArray,
    places: IntArray,
    points: FloatArray,
    mass: FloatArray,
    m: float,
    kinks: FloatArray,
    common_p: FloatArray,
    common_q: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return p and q of the kept pairs and the shares that they need, (margins, etas, 3 and 2)."""
    rows, cells = len(kept), len(edges) - 1
    p, q = np.empty((rows, len(eta), 3)), np.empty((rows, len(eta), 3))
    share = np.zeros((rows, len(eta), 2))
    law_p, law_q = np.empty((cells + 1, 3)), np.empty((cells + 1, 3))
    cell_p, cell_q = np.empty((cells, 7)), np.empty((cells, 7))
    shape = points.shape
    normals = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    here, back = (np.empty(shape), np.empty(shape)), (np.empty(shape), np.empty(shape))
    _normal(points, 0.0, normals[0], normals[1])
    _normal(points, m, normals[2], normals[3])
    for r in range(rows):
        _normal(points, kept[r] * m, here[0], here[1])
        _normal(points, (kept[r] - 1) * m, back[0], back[1])
        _laws(normals, (*here, *back), mass, law_p, law_q, cell_p, cell_q)
        for c in range(len(eta)):
            p[r, c], q[r, c] = law_p[places[c]], law_q[places[c]]
    mixed_p, mixed_q, needed = np.empty(3), np.empty(3), np.empty(2)
    excess, near = np.empty(len(kinks) + 3), np.empty(len(kinks) + 3)
    low, before = 0, -1
    for d in every:
        while low < rows - 2 and kept[low + 1] <= d:
            low += 1
        high = min(low + 1, rows - 1)
        along = (d - kept[low]) / max(kept[high] - kept[low], 1)
        # A margin is that of the last step and one vote.
        here, back = back, here
        if before != d - 1:
            _normal(points, (d - 1) * m, back[0], back[1])
        _normal(points, d * m, here[0], here[1])
        before = d
        _laws(normals, (*here, *back), mass, law_p, law_q, cell_p, cell_q)
        for k in range(cells):
            c = column[k]
            across = ((edges[k] + edges[k + 1]) / 2 - eta[c]) / (eta[c + 1] - eta[c])
            for o in range(3):
                mixed_p[o] = (p[low, c, o] * (1 - across) + p[low, c + 1, o] * across) * (1 - along) + (
                    p[high, c, o] * (1 - across) + p[high, c + 1, o] * across
                ) * along
                mixed_q[o] = (q[low, c, o] * (1 - across) + q[low, c + 1, o] * across) * (1 - along) + (
                    q[high, c, o] * (1 - across) + q[high, c + 1, o] * across
                ) * along
            _needed(cell_p[k], cell_q[k], mixed_p, mixed_q, m, kinks, common_p, common_q, excess, near, needed)
            for o in range(2):
                for r in (low, high):
                    share[r, c, o] = max(share[r, c, o], needed[o])
                    share[r, c + 1, o] = max(share[r, c + 1, o], needed[o])
    return p, q, share
