"""Labels of three or more classes under Gaussian noise, as three outcomes: i, j, and any other class.

A vote moves from class i to class j. Given Y, the largest noisy count of the other classes, the label is i, j or
"other" by n_i - Y and n_j - Y alone, and Y has the same law on both sides: revealing it only helps the adversary. The
family is all margins d = n_i - n_j >= 1 and all eta = (Y - n_i) / sigma, with the exchange of both data sets, and of i
and j.

**A finite cover.** Only some pairs, on a grid of (d, eta), are kept. Let A be a pair that lies between its neighbours
on the grid, M a mixture of theirs (which one is hidden) and R randomized responses. Where the hockey-stick divergences
obey H_A(y) <= (1 - k) H_M(y) + k H_R(y) for all y, the same holds for sum_o P(o) V(y Q(o)/P(o)) with any convex V,
because V is a mixture of hockey sticks; and that of M is at most the largest of its parts, because p V(y q / p) is
convex in (p, q). H_A, H_M and H_R are piecewise linear and convex: it suffices to compare at the kinks of M and R. A
itself covers a cell of eta: where the largest of X_i, X_j lies within the cell, who is the larger is revealed, and that
number; its likelihood ratio is monotone there, so two outcomes at the ends of its range, with the same masses, reveal
still more.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray

_ETA: FloatArray = np.concatenate(
    [[-9, -5, -4, -3.25, -2.75, -2.25, -2, -1.75, -1.5, -1.3, -1.1, -0.9, -0.75, -0.6, -0.4, -0.2, 0, 0.2],
     [0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2, 2.5, 3.0, 4, 5, 6, 7.5, 9]]
)  # fmt: skip
_CELLS_PER_SIGMA = 192
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

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_ROWS = 25


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


def margins(sigma: float, teachers: int) -> IntArray:
    """The margins of the cover: dense where labels reveal most."""
    most = min(teachers, math.ceil(_FARTHEST * sigma))
    far = [2.9, 3.4, 4, 5, 6.5, 8, 10, _FARTHEST]
    scaled = np.concatenate([np.arange(0.05, 0.8, 0.05), np.arange(0.8, 1.6, 0.1), np.arange(1.7, 2.6, 0.2), far])
    return np.unique(np.clip(np.concatenate([[1], np.round(scaled * sigma), [most]]), 1, most).astype(np.int64))


def three_outcomes(sigma: float, teachers: int) -> ThreeOutcomes:
    """A cover of all labels of at most `teachers` votes on three or more classes with Gaussian noise `sigma`.

    Guarantee: for every convex V with V(y) + y nondecreasing and every pair of the family, the sum of P(o) V(y
    Q(o)/P(o)) is at most the largest value of the cover's pairs plus 1e-13 (1 + y). A pair's value is 1 minus its
    shares, times its own value, plus its shares times those of the common outcomes. Source: docs/adaptive.md.
    """
    kept = margins(sigma, teachers)
    edges = _edges()
    nodes = np.searchsorted(edges, _ETA)
    corner = _Laws.at(kept / sigma, 1 / sigma, edges)
    p, q = corner.p[:, nodes], corner.q[:, nodes]
    share = np.zeros((len(kept), len(_ETA), 2))
    every = np.arange(1, kept[-1] + 1)
    for start in range(0, len(every), _ROWS):
        d = every[start : start + _ROWS]
        row = np.clip(np.searchsorted(kept, d, side="right") - 1, 0, max(len(kept) - 2, 0))
        next_ = np.minimum(row + 1, len(kept) - 1)
        along = (d - kept[row]) / np.maximum(kept[next_] - kept[row], 1)
        laws = _Laws.at(d / sigma, 1 / sigma, edges)
        needed, column = _shares_needed(laws, (p, q), 1 / sigma, (row, next_), along)
        for r in (row, next_):
            for c in (column, column + 1):
                np.maximum.at(share, (r[:, None], c[None, :]), needed)
    shape = (len(kept), len(_ETA))
    reach = np.append(_ETA[1:], np.inf)
    d, reach = (np.broadcast_to(x, shape).ravel() for x in (kept[:, None], reach[None]))
    return ThreeOutcomes(p.reshape(-1, 3), q.reshape(-1, 3), share.reshape(-1, 2), d, reach, *_common(1 / sigma))


def _edges() -> FloatArray:
    parts: list[FloatArray] = []
    for a, b in itertools.pairwise(_ETA.tolist()):
        dense = _CELLS_PER_SIGMA if a >= -3.25 and b <= 3 else _CELLS_PER_SIGMA / 4
        parts.append(np.linspace(a, b, max(8, math.ceil((b - a) * dense)) + 1)[:-1])
    return np.concatenate([*parts, _ETA[-1:]])


def _common(m: float) -> tuple[FloatArray, FloatArray]:
    likely = 1 / (1 + np.exp(-_LEVELS * m))
    p, q = _SHARES * likely, _SHARES * (1 - likely)
    return np.hstack([p, q]), np.hstack([q, p])


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of (i, j, other) at every edge and of cells between edges, (margins, edges, outcomes); d, m: in sigma."""

    p: FloatArray
    q: FloatArray
    cell_p: FloatArray
    cell_q: FloatArray

    @classmethod
    def at(cls, d: FloatArray, m: float, edges: FloatArray) -> _Laws:
        d = d[:, None]
        (pi, pj), (qi, qj) = _masses(d, 0.0, edges), _masses(d, m, edges)
        p = np.stack([_above(pi), _above(pj), ndtr(edges) * ndtr(edges + d)], axis=-1)
        q = np.stack([_above(qi), _above(qj), ndtr(edges + m) * ndtr(edges + d - m)], axis=-1)
        first = -edges * m - m * m / 2 + log_ndtr(edges + d - m) - log_ndtr(edges + d)
        second = (edges + d) * m - m * m / 2 + log_ndtr(edges + m) - log_ndtr(edges)
        strips = [*_ends(pi, qi, first), *_ends(pj, qj, second)]
        cell_p = np.stack([p[:, 1:, 0], p[:, 1:, 1], p[:, :-1, 2], *(x for x, _ in strips)], axis=-1)
        cell_q = np.stack([q[:, 1:, 0], q[:, 1:, 1], q[:, :-1, 2], *(x for _, x in strips)], axis=-1)
        return cls(p, q, cell_p, cell_q)


def _masses(d: FloatArray, m: float, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(X_i > X_j, X_i in the cell) and the same of j, with means -m and m - d, by Gauss and Legendre's rule."""
    width = np.diff(edges)[:, None]
    x = (edges[:-1, None] + width * (_NODES + 1) / 2)[None]
    weight = width * _WEIGHTS / 2 / math.sqrt(2 * math.pi)
    e = d[:, :, None]
    first = np.exp(-((x + m) ** 2) / 2) * ndtr(x + e - m)
    second = np.exp(-((x + e - m) ** 2) / 2) * ndtr(x + m)
    return (first * weight).sum(axis=-1), (second * weight).sum(axis=-1)


def _above(cells: FloatArray) -> FloatArray:
    """Sums of all cells above every edge."""
    sums = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(cells), 1))], axis=1)


def _ends(p: FloatArray, q: FloatArray, log_ratio: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """A cell's mass on the two ends of its range of ratios, p and q unchanged."""
    low = np.exp(np.minimum(log_ratio[:, :-1], log_ratio[:, 1:]))
    high = np.exp(np.maximum(log_ratio[:, :-1], log_ratio[:, 1:]))
    upper = np.clip((q - p * low) / (high - low), 0, p)
    return [(p - upper, (p - upper) * low), (upper, q - (p - upper) * low)]


def _shares_needed(
    laws: _Laws, grid: tuple[FloatArray, FloatArray], m: float, corners: tuple[IntArray, IntArray], along: FloatArray
) -> tuple[FloatArray, IntArray]:
    """The least share of the common outcomes that covers a cell, (margins, cells, 2), and its column in the grid.

    grid: p and q of the kept pairs. corners: rows of the grid on both sides of every margin; along: the margin's
    relative position between them.
    """
    edges = _edges()
    centre = (edges[:-1] + edges[1:]) / 2
    column = np.clip(np.searchsorted(_ETA, centre) - 1, 0, len(_ETA) - 2)
    across = ((centre - _ETA[column]) / (_ETA[column + 1] - _ETA[column]))[None, :, None]

    def mixture(x: FloatArray) -> FloatArray:
        low, high = (x[row][:, column] * (1 - across) + x[row][:, column + 1] * across for row in corners)
        return low * (1 - along[:, None, None]) + high * along[:, None, None]

    mixed_p, mixed_q = (mixture(x) for x in grid)
    kinks = np.exp(np.concatenate([-_LEVELS.ravel() * m, _LEVELS.ravel() * m]))
    fixed = np.broadcast_to(kinks, (*mixed_p.shape[:2], len(kinks)))
    y = np.concatenate([mixed_p / np.maximum(mixed_q, 1e-300), fixed], axis=-1)
    cell, mixed = _hockey_stick(laws.cell_p, laws.cell_q, y), _hockey_stick(mixed_p, mixed_q, y)
    common_p, common_q = _common(m)
    near, far = (_hockey_stick(p, q, y) - mixed for p, q in zip(common_p, common_q, strict=True))
    excess = cell - mixed - ABSOLUTE_ERROR / 4 * np.maximum(y, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where((excess > 0) & (near > 0) & (np.abs(np.log(y)) <= _NEAR * m), excess / near, 0.0)
        first = first.max(axis=-1, keepdims=True) * (1 + 1e-9)
        left = excess - first * near
        second = np.where(left > 0, np.where(far > 0, left / far, np.inf), 0.0).max(axis=-1) * (1 + 1e-9)
    return np.stack([first[..., 0], second], axis=-1), column


def _hockey_stick(p: FloatArray, q: FloatArray, y: FloatArray) -> FloatArray:
    """sum_o max(0, p - y q) at the last axis of y."""
    total = np.zeros(y.shape)
    for o in range(p.shape[-1]):
        total += np.maximum(p[..., o, None] - y * q[..., o, None], 0)
    return total
