"""Outcome laws of an argmax and of a check under Laplace noise, in log space."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.laws._laplace_quadrature import gauss_legendre_table, laplace_nodes, tail_rules
from ostrakon.mechanisms.laws.gaussian import add, by_sorted_rows, distinct, likely_top, require_finite
from ostrakon.numerics.compiled import compiled
from ostrakon.validation import positive

_LOG_2 = math.log(2)


def laplace_argmax_log_probabilities(scores: ArrayLike, scale: float) -> FloatArray:
    """Log probability that each class has the largest of `scores + Laplace(scale)`, shape (queries, classes).

    scores: finite reals, shape (queries, classes). scale: b of the noise density e^{-|z|/b} / (2b), above 0.

    Piecewise quadrature with a bound of 1e-16 on each piece (`laplace_nodes`) relative to that class's own
    probability, however small; with rounding, 1e-12 relative is not exceeded where the log probability is above
    -1,000, and the log itself has that relative error below.
    Errors: `InvalidInput` for scores that are not finite or a scale that is not a finite number above 0.
    Source: docs/mathematics.md A.

    >>> np.exp(laplace_argmax_log_probabilities([[1.0, 1.0]], 20.0)).round(12)
    array([[0.5, 0.5]])
    """
    x = require_finite(scores) / positive("scale", scale)
    return by_sorted_rows(x, _law, *gauss_legendre_table(), *tail_rules(x.shape[1]))


@compiled
def _law(x: FloatArray, gl_x: FloatArray, gl_w: FloatArray, tail_u: FloatArray, tail_w: FloatArray) -> FloatArray:
    queries, m = x.shape
    out = np.empty((queries, m))
    values, counts = np.empty(m), np.empty(m)
    for q in range(queries):
        d = distinct(x[q], values, counts)
        log_p = _distinct_law(values[:d], counts[:d], gl_x, gl_w, tail_u, tail_w)
        likely_top(log_p, counts, d)
        k = 0
        for j in range(m):
            if values[k] != x[q, j]:
                k += 1
            out[q, j] = log_p[k]
    return out


@compiled
def _distinct_law(
    values: FloatArray, counts: FloatArray, gl_x: FloatArray, gl_w: FloatArray, tail_u: FloatArray, tail_w: FloatArray
) -> FloatArray:
    d = len(values)
    z, up, down = laplace_nodes(values, counts, 0.0, gl_x, gl_w, tail_u, tail_w)
    total, peak, low = np.zeros(d), np.full(d, -np.inf), np.empty(d)
    for k in range(len(z)):
        s, lost = 0.0, 0.0
        for j in range(d):
            t = z[k] - values[j]
            low[j] = t - _LOG_2 if t < 0 else math.log1p(-0.5 * math.exp(-t))
            s, lost = add(s, lost, counts[j] * low[j])
        for i in range(d):
            e = s + lost - low[i] - abs(z[k] - values[i]) + (up[k] if values[i] >= z[k] else down[k])
            if e > peak[i]:
                total[i] = total[i] * math.exp(peak[i] - e) + 1.0
                peak[i] = e
            else:
                total[i] += math.exp(e - peak[i])
    for i in range(d):
        total[i] = peak[i] + math.log(total[i]) - _LOG_2
    return total


def laplace_log_above(margin: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return (log probability that `margin + Lap(scale) > 0`, log probability that it is not), shapes of `margin`.

    Exact to rounding at both ends: one side is half an exponential, the other one minus it.
    """
    tail = -np.abs(margin) / scale - np.log(2.0)
    head = np.log1p(-np.exp(tail))
    return np.where(margin > 0, head, tail), np.where(margin > 0, tail, head)
