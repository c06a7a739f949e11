"""The move lemma: what a Gaussian label costs when one class is likely, with the direction of the vote's move.

A vote moves from class i to class j, or back. Let m = n_i - n_j >= 0, Y the largest noisy count of all other classes
and eta = (Y - n_i) / sigma. C_m is the least concave function above the curve (r_m(eta), f_m(eta)), where r_m is the
probability of "not i" (or of "i or j") given eta, and f_m the moment sum_o P(o)^a Q(o)^(1-a) - 1. The moment of the
label is at most C_m at the probability itself. Statement, proof and the error between grid points: docs/mathematics.md
D1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled
from ostrakon.votes import IntArray

_CELL = 1 / 32
_END = 12.0
_FAR = 26.0
"""Margins beyond this number of sigmas are as good as infinite: the other class wins with a chance below e^-100."""

_DENSE = 25
"""Margins per sigma that are computed; all of them where sigma is smaller."""

_STEEPEST = 3.0
"""Orders times the shift of one vote, in sigmas, up to which the lemma is used."""

_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Added to every moment: more than the errors of quadrature and of the ends of the grid."""

LOG_Q: FloatArray = np.linspace(-20.0, 0.0, 4001)
"""The logarithms of q in the tables."""
LOG_Q.setflags(write=False)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_ROWS = 16


@dataclass(frozen=True, eq=False)
class MoveCosts:
    """The bounds of the lemma, as moments sum_o P(o)^a Q(o)^(1-a), at the points of `LOG_Q`.

    row: the row of every smallest lead, (teachers + 1,). pair: where the likely class takes part in the move, (2, rows,
    Q, K): it has more votes under P than under Q, and fewer. third: where it does not take part, (Q, K). All are
    infinite where the lemma is not used.
    """

    row: IntArray
    pair: NDArray[np.float32]
    third: NDArray[np.float32]

    @classmethod
    def nothing(cls, orders: int, *, teachers: int) -> MoveCosts:
        """Return costs without a bound at any order."""
        row = np.zeros(teachers + 1, np.int64)
        empty = np.full((2, 1, len(LOG_Q), orders), np.inf, np.float32)
        return cls(row, empty, empty[0, 0])

    def at(self, lead: IntArray, q: FloatArray) -> FloatArray:
        """Return the bounds at leads and probabilities to lose, both of shape (n,): (3, n, K).

        First where the top count stays: the likely class takes part only if it may lead by one vote or none. Then where
        it has one vote more under P than under Q, and one fewer.
        """
        index = np.minimum(np.searchsorted(np.exp(LOG_Q) * (1 - 1e-14), q), len(LOG_Q) - 1)
        more, fewer = self.pair[:, self.row[lead], index]
        third = self.third[index]
        stays = np.where((lead <= 1)[:, None], np.maximum(np.maximum(more, fewer), third), third)
        return np.array([stays, more, fewer], np.float64)


def move_costs(sigma: float, orders: FloatArray, *, teachers: int) -> MoveCosts:
    """Return the lemma for Gaussian noise `sigma`, at Rényi orders (K,).

    Guarantee: docs/mathematics.md D1. Bounds fall with the lead and grow with q.
    """
    nu = 1 / sigma
    usable = np.flatnonzero(orders * nu <= _STEEPEST)
    if not len(usable):
        return MoveCosts.nothing(len(orders), teachers=teachers)
    curves = _Curves.of(nu, teachers)
    row = np.minimum(np.arange(teachers + 1) // curves.stride, len(curves.u) - 2)
    pair = np.full((2, len(curves.u), len(LOG_Q), len(orders)), np.inf, np.float32)
    third = np.full((len(LOG_Q), len(orders)), np.inf, np.float32)
    for k in usable:
        of_pair, of_third = curves.envelopes(float(orders[k]))
        pair[..., k], third[:, k] = _single_above(of_pair), _single_above(of_third)
    return MoveCosts(row, pair, third)


def _single_above(x: FloatArray) -> NDArray[np.float32]:
    """Return the values in half the memory, rounded up."""
    return np.nextafter(x.astype(np.float32), np.float32(np.inf))


def _power_excess(q: FloatArray, x: FloatArray, a: float) -> FloatArray:
    """Return q (e^{a x} - 1 - a (e^x - 1)): an outcome's part of the moment minus 1, for probabilities q e^x and q."""
    return q * np.maximum(np.expm1(a * x) - a * np.expm1(x), 0.0)


def _raised(moment: FloatArray) -> FloatArray:
    return moment * (1 + _RELATIVE) + _ABSOLUTE


@dataclass(frozen=True, eq=False)
class _Curves:
    """Laws of (i, j, other) at margins u, in sigmas, and nodes of eta: before a move, after i -> j, after j -> i.

    u: every `stride`-th margin, and an infinite one. log_law: shape (3, margins, nodes, 3).
    """

    nu: float
    stride: int
    u: FloatArray
    log_law: FloatArray

    @classmethod
    def of(cls, nu: float, teachers: int) -> _Curves:
        stride = max(1, math.floor(1 / (nu * _DENSE)))
        rows = min(math.ceil(teachers / stride), math.ceil(_FAR / (nu * stride))) + 1
        u = np.append(np.arange(rows) * (stride * nu), 2 * _FAR)
        laws = [_log_laws(u[at : at + _ROWS], nu) for at in range(0, len(u), _ROWS)]
        return cls(nu, stride, u, np.concatenate(laws, axis=1))

    def envelopes(self, a: float) -> tuple[FloatArray, FloatArray]:
        """Return (the moments where the likely class takes part, (2, margins, Q); where it does not, (Q,))."""
        law, q = np.exp(self.log_law), np.exp(LOG_Q)
        loses, either = law[0, :, :, 1] + law[0, :, :, 2], law[0, :, ::-1, 0] + law[0, :, ::-1, 1]
        near, far = np.zeros((2, *loses.shape)), np.zeros(loses.shape)
        for kind, p, other in ((0, 0, 1), (0, 2, 0), (1, 1, 0), (1, 0, 2)):
            x = self.log_law[p] - self.log_law[other]
            f = _raised(_power_excess(law[other], x, a).sum(axis=-1))
            f = f + _widest(np.abs(np.diff(f, 2, axis=1)))
            near[kind] = np.maximum(near[kind], f + _skew(loses, f))
            far = np.maximum(far, f[:, ::-1] + _skew(either, f[:, ::-1]))
        of_pair, of_third = np.empty((2, len(self.u), len(q))), np.empty((len(self.u), len(q)))
        zeros = np.zeros((len(self.u), 1))
        for kind in range(2):
            _hulls(loses, near[kind], q, of_pair[kind])
        _hulls(np.hstack([zeros, either]), np.hstack([far[:, :1], far]), q, of_third)
        more, fewer, of_third = (self._between_rows(values) for values in (*of_pair, of_third))
        of_pair = np.array([more, fewer])
        # A lead is possible only if the other class alone beats the likely one with probability at most q. Row by row:
        # the largest lead before the next row.
        alone = np.append(loses[1:-1, 0], loses[-2, 0]) if self.stride > 1 else loses[:-1, 0]
        of_pair[:, :-1][:, alone[:, None] * (1 - 1e-9) > q] = 0.0
        of_pair = np.maximum.accumulate(np.maximum.accumulate(of_pair[:, ::-1], axis=1)[:, ::-1], axis=2)
        return 1 + of_pair, 1 + np.maximum.accumulate(of_third.max(axis=0))

    def _between_rows(self, values: FloatArray) -> FloatArray:
        """Return the values, raised to hold for the margins up to the next row, too, where the next row's value is not
        larger.
        """
        if self.stride == 1 or len(values) < 4:
            return values
        bend = _widest(np.abs(np.diff(values[:-1], 2, axis=0)).T).T
        return values + np.vstack([bend, np.zeros((1, values.shape[1]))])


def _widest(second: FloatArray) -> FloatArray:
    """Return the half of the largest second difference at a node or its two neighbours, shape (rows, nodes)."""
    wide = np.pad(second, ((0, 0), (2, 2)), mode="edge")
    return np.maximum(np.maximum(wide[:, :-2], wide[:, 1:-1]), wide[:, 2:]) / 2


def _skew(x: FloatArray, f: FloatArray) -> FloatArray:
    """Return what a chord over x, instead of over the nodes, may change: x is not linear in the nodes."""
    step, change = np.diff(x, axis=1), np.abs(np.diff(f, axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = np.abs(np.diff(x, 2, axis=1)) / np.minimum(step[:, 1:], step[:, :-1])
    share = np.minimum(np.nan_to_num(_widest(bend), nan=1.0, posinf=1.0), 1.0)
    change = np.pad(change, ((0, 0), (1, 1)))
    return share * np.maximum(change[:, :-1], change[:, 1:])


def _log_laws(u: FloatArray, nu: float) -> FloatArray:
    """Return ln P(i), P(j), P(other) at all nodes of eta, shape (3, margins, nodes, 3)."""
    count = round(2 * _END / _CELL)
    nodes = -_END + np.arange(count + 1) * _CELL
    cells = -_END + np.arange(round((2 * _END + 8) / _CELL)) * _CELL
    x = (cells[:, None] + _CELL * (_NODES + 1) / 2)[None]
    weight = _WEIGHTS * _CELL / 2 / math.sqrt(2 * math.pi)
    laws = np.empty((3, len(u), len(nodes), 3))
    for world, s in enumerate((0.0, nu, -nu)):
        e = u[:, None, None]
        first = (np.exp(-((x + s) ** 2) / 2) * ndtr(x + e - s)) @ weight
        second = (np.exp(-((x + e - s) ** 2) / 2) * ndtr(x + s)) @ weight
        for outcome, mass in enumerate((first, second)):
            above = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1][:, : len(nodes)]
            laws[world, :, :, outcome] = np.log(np.maximum(above, 1e-300))
        laws[world, :, :, 2] = log_ndtr(nodes + s) + log_ndtr(nodes + u[:, None] - s)
    return laws


@compiled
def _hulls(x: FloatArray, f: FloatArray, q: FloatArray, result: FloatArray) -> None:
    """Fill in the least concave function above the points (x, f) of every row, raised to increase, at q; x and q
    increase.
    """
    rows, points = x.shape
    keep = np.empty(points, np.int64)
    for row in range(rows):
        kept = 0
        for i in range(points):
            if kept > 0 and f[row, i] <= f[row, keep[kept - 1]]:
                continue  # the function is raised to increase: lower points further right do not matter
            while kept > 0 and x[row, i] <= x[row, keep[kept - 1]]:
                kept -= 1
            while kept > 1:
                a, b = keep[kept - 2], keep[kept - 1]
                if (f[row, b] - f[row, a]) * (x[row, i] - x[row, a]) > (f[row, i] - f[row, a]) * (
                    x[row, b] - x[row, a]
                ):
                    break
                kept -= 1
            keep[kept] = i
            kept += 1
        at = 0
        for k in range(len(q)):
            while at + 1 < kept and x[row, keep[at + 1]] <= q[k]:
                at += 1
            value = f[row, keep[at]]
            if at + 1 < kept and q[k] > x[row, keep[at]]:
                a, b = keep[at], keep[at + 1]
                value += (f[row, b] - f[row, a]) * ((q[k] - x[row, a]) / (x[row, b] - x[row, a]))
            result[row, k] = value
