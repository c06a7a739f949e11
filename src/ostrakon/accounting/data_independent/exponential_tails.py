"""Labels of three or more classes under Laplace or exponential noise, as three outcomes: i, j, and any other class.

A vote moves from class i to class j, d = n_i - n_j >= 1 (else exchange i with j and the data sets). Units: the noise's
scale b. The largest noisy count of the other classes is S + E, S any number and E exponential of mean 1; it has one law
on both sides, so S may be revealed. A chord over a cell of S of width w is right to w^2 e^w / 4 of its value: a pair in
the cell is, but for that error, a mixture of the pairs at both ends. Proof: docs/adaptive.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.compiled import compiled

_FARTHEST = 25.0
"""Where |S| is more than this number of scales, some chances are less than 1e-9."""

_ERROR = 1e-9
"""Charged to every probability: more than what is left out beyond `_FARTHEST`, and than rounding."""

_FINEST, _COARSEST = 1 / 1000, 1 / 100
_MOST_MARGINS = 1000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)


class LabelPairs:
    """All pairs of laws of (i, j, other), by margin.

    Parameters
    ----------
    noise : {"laplace", "exponential"}
    scale : float
        In votes.
    teachers : int, optional
        No margin is larger. None: any number.
    abstentions : bool
        Whether a vote may also come from or go to no class: a margin beyond all others.
    """

    def __init__(
        self, noise: Literal["laplace", "exponential"], scale: float, teachers: int | None, *, abstentions: bool
    ) -> None:
        self.vote = 1 / scale
        self._step = max(1, math.ceil(self.vote / min(max(self.vote / 10, _FINEST), _COARSEST)))
        self.width = self.vote / self._step
        most = max(2, math.ceil(2 * _FARTHEST * scale))
        self.margins = most if teachers is None else min(teachers, most)
        self.beyond = abstentions or teachers is None or teachers > most
        self._noise = noise
        self._half = math.ceil(_FARTHEST / self.width)

    @property
    def tractable(self) -> bool:
        """Whether the pairs can be computed in seconds."""
        return self.margins <= _MOST_MARGINS and self.width >= _FINEST / 2 and self.vote <= _FARTHEST / 5

    @property
    def error(self) -> float:
        """The relative error of a chord over a cell of S, and of the probabilities."""
        return self.width**2 / 4 * math.exp(self.width) + _ERROR

    def chunks(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield (p, q) of every margin, shapes (cells, 3)."""
        step, least = self._step, math.exp(-2 * self.vote)
        before, now = self._law(0), self._law(1)
        # d = 1 becomes -1: the same law with i and j exchanged.
        yield _with_ends(now, now[:, [1, 0, 2]], least)
        for d in range(2, self.margins + 1):
            two_before, before, now = before, now, self._law(d)
            yield _with_ends(now[:-step], two_before[step:], least)
        if not self.beyond:
            return
        far = self._law(None)
        yield _with_ends(far[:-step], far[step:], least)
        # Larger margins: the chances of i and "other" grow with them, and that of j falls.
        if self.margins > 2 * _FARTHEST * (1 / self.vote) - 1:
            p, q = far[:-step].copy(), before[step:].copy()
            p[:, 1] = now[:-step, 1]
            q[:, 1] = least * p[:, 1]
            yield _with_ends(p, q, least)

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Density and distribution function of the noise, and e^-x, at the nodes of every cell, shape (cells, 3)."""
        cells = np.arange(-self._half, self._half + self.margins * self._step)
        x = (cells[:, None] + (_NODES + 1) / 2) * self.width
        tail = np.exp(-np.abs(x))
        if self._noise == "laplace":
            return tail / 2, np.where(x > 0, 1 - tail / 2, tail / 2), np.exp(-x)
        return np.where(x > 0, tail, 0.0), np.where(x > 0, -np.expm1(-np.abs(x)), 0.0), np.exp(-x)

    def _law(self, d: int | None) -> FloatArray:
        """Return chances of (i, j, other) at every s, with i at 0 and j at -d votes; None: j never wins."""
        density, below, discount = self._nodes
        cells = 2 * self._half
        if d is None:
            other_density, other_below, decay = np.zeros((cells, 3)), np.ones((cells, 3)), 0.0
        else:
            shift = d * self._step
            other_density, other_below = density[shift : shift + cells], below[shift : shift + cells]
            decay = math.exp(-d * self.vote)
        tail = 0.5 if self._noise == "laplace" else 1.0
        return _law(
            density, below, other_density, other_below, discount, _WEIGHTS / 2 * self.width, tail, decay, self.width
        )


def _with_ends(p: FloatArray, q: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return the pairs, and two that are above all with S beyond either end; rows add up to 1.

    An outcome's value grows with its p and falls with its q, which is at least e^-epsilon p = `least` p. For smaller S,
    i and j are likelier by at most the chance of "other"; for larger S they are less likely, and "other" is likelier.
    """
    ends_p, ends_q = p[[0, -1]].copy(), q[[0, -1]].copy()
    ends_p[0, :2] += ends_p[0, 2]
    ends_p[1, 2] = 1.0
    ends_q[0, 2] = ends_q[1, 0] = ends_q[1, 1] = 0.0
    p, q = np.vstack([ends_p, p]), np.vstack([np.maximum(ends_q, least * ends_p), q])
    return p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)


@compiled
def _law(
    density: FloatArray,
    below: FloatArray,
    other_density: FloatArray,
    other_below: FloatArray,
    discount: FloatArray,
    weights: FloatArray,
    tail: float,
    decay: float,
    width: float,
) -> FloatArray:
    """Return sums over cells from the right; tail, decay: beyond the last cell the noise has the density tail e^-x."""
    cells = len(other_density)
    law = np.empty((cells + 1, 3))
    end = math.exp(-(cells // 2) * width)
    both = tail * tail * decay
    first, first_late = tail * end - both * end**2 / 2, tail * end**2 / 2 - both * end**3 / 3
    second, second_late = decay * tail * end - both * end**2 / 2, decay * tail * end**2 / 2 - both * end**3 / 3
    neither = end - tail * (1 + decay) * end**2 / 2 + both * end**3 / 3
    for c in range(cells, -1, -1):
        if c < cells:
            for k in range(3):
                one = density[c, k] * other_below[c, k] * weights[k]
                two = other_density[c, k] * below[c, k] * weights[k]
                first += one
                second += two
                first_late += one * discount[c, k]
                second_late += two * discount[c, k]
                neither += below[c, k] * other_below[c, k] * discount[c, k] * weights[k]
        grown = math.exp((c - cells // 2) * width)
        law[c, 0] = first - grown * first_late
        law[c, 1] = second - grown * second_late
        law[c, 2] = grown * neither
    return law
