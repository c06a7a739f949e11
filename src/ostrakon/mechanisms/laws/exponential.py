"""Outcome law of an argmax under exponential noise (permute-and-flip), in log space and without a quadrature error."""

from __future__ import annotations

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import positive

_CHUNK = 4_000_000


def exponential_argmax_log_probabilities(scores: FloatArray, scale: float) -> FloatArray:
    """Log probability that each class has the largest of `scores + Exp(scale)`, shape (queries, classes).

    scores: real, shape (queries, classes). scale: mean of the exponential noise, above 0.

    With `w_j = exp(-(s_1 - s_j) / scale)` the probability of class i is
    `w_i` times the integral over u in (0, 1) of `prod_{j != i} (1 - w_j u)`: a polynomial of degree
    classes - 1, which Gauss-Legendre sums exactly with ceil(classes / 2) nodes. Every term is positive, so the
    relative error is that of rounding, about `classes` units in the last place, ties included.
    Source: McKenna and Sheldon 2020, Theorem 5 (permute-and-flip); Ding et al. 2021 (its exponential noise).
    """
    scale = positive("scale", scale)
    log_w = scores / scale
    log_w = log_w - log_w.max(axis=1, keepdims=True)
    queries, classes = log_w.shape
    nodes, weights = np.polynomial.legendre.leggauss((classes + 1) // 2)
    u, log_weights = (nodes + 1) / 2, np.log(weights / 2)
    result = np.empty_like(log_w)
    step = max(1, _CHUNK // (classes * len(u)))
    for start in range(0, queries, step):
        rows = slice(start, start + step)
        factors = np.log1p(-np.exp(log_w[rows])[:, :, None] * u)
        terms = factors.sum(axis=1, keepdims=True) - factors + log_weights
        peak = terms.max(axis=2, keepdims=True)
        result[rows] = log_w[rows] + np.log(np.exp(terms - peak).sum(axis=2)) + peak[:, :, 0]
    return np.minimum(result, 0.0)
