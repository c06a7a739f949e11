"""Outcome law of an argmax under Laplace noise, in log space."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import logsumexp

from quorate.mechanisms.base import FloatArray

_X, _W = np.polynomial.legendre.leggauss(24)


def laplace_argmax_log_probabilities(scores: FloatArray, scale: float) -> FloatArray:
    """Log probability that each class has the largest of `scores + Laplace(scale)`, shape (queries, classes).

    Source: MATH.md A.
    """
    x = np.asarray(scores, np.float64) / scale
    out = np.empty(x.shape)
    distinct, back = np.unique(np.sort(x - x.max(axis=1, keepdims=True), axis=1), axis=0, return_inverse=True)
    laws = [_law(row) for row in distinct]
    order = np.argsort(x, axis=1, kind="stable")
    np.put_along_axis(out, order, np.array(laws)[back.ravel()], axis=1)
    return out


def _law(x: FloatArray) -> FloatArray:
    m = len(x)
    z, w = [x[:1]], [np.array([-np.log(m)])]
    knots = np.unique(x)
    for low, high in itertools.pairwise(knots):
        edges = np.linspace(low, high, int(np.ceil((high - low) / 2)) + 1)
        half = np.diff(edges) / 2
        z.append((edges[:-1, None] + half[:, None] * (1 + _X)).ravel())
        w.append(np.log(half[:, None] * _W).ravel())
    u, v = np.polynomial.legendre.leggauss((m + 1) // 2 + 1)
    u, v = (u + 1) / 2, v / 2
    z.append(-np.log(u))
    w.append(np.log(v) - np.log(u))
    nodes, weights = np.concatenate(z), np.concatenate(w)
    t = nodes[None, :] - x[:, None]
    below = np.where(t < 0, t - np.log(2), np.log1p(-0.5 * np.exp(-np.abs(t))))
    log = weights + below.sum(axis=0) - below - np.abs(t) - np.log(2)
    return np.asarray(logsumexp(log, axis=1))
