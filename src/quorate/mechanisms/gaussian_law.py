"""Outcome law of an argmax under Gaussian noise, in log space."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp

from quorate.mechanisms.base import FloatArray


def gaussian_argmax_log_probabilities(scores: FloatArray, sigma: float, *, nodes: int = 400) -> FloatArray:
    """Log probability that each class has the largest of `scores + N(0, sigma^2)`, shape (queries, classes).

    Source: MATH.md A.
    """
    x = scores / sigma
    x = x - x.max(axis=1, keepdims=True)
    left = x.min(axis=1) / 2 - 9.0
    z = np.linspace(left, 9.0, nodes, axis=1)  # (queries, nodes)
    step = (9.0 - left) / (nodes - 1)
    below = log_ndtr(z[:, None, :] - x[:, :, None])
    density = -0.5 * (z[:, None, :] - x[:, :, None]) ** 2 - 0.5 * np.log(2 * np.pi)
    log_integrand = below.sum(axis=1, keepdims=True) - below + density
    result = np.asarray(logsumexp(log_integrand, axis=2)) + np.log(step)[:, None]
    return result - np.asarray(logsumexp(result, axis=1, keepdims=True))
