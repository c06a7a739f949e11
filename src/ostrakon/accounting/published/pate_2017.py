"""The 2017 paper's data-dependent bound for Laplace noise: Lemma 4 and Theorem 3."""

import math

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.published.pate_2018 import require_histograms, require_log_q
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import positive


def log_q_laplace(counts: ArrayLike, *, scale: float) -> FloatArray:
    """Return the natural log of a bound on P[argmax_j (n_j + Lap(scale)) is not the plurality], shape (queries,).

    counts: finite reals, shape (queries, classes). scale: of the Laplace noise, in votes (1/gamma).
    `sum_j (2 + x_j) / (4 e^{x_j})`, x_j = (n_1 - n_j) / scale, over all classes but the plurality, and never more
    than 1 - 1/classes.
    Source: pate-2017, Lemma 4.

    >>> round(float(np.exp(log_q_laplace([[60, 40]], scale=10))[0]), 6)
    0.135335
    """
    n = require_histograms(counts)
    # Where several classes tie for the top, one of them is the plurality and the others stay in the sum.
    gaps = np.sort(n.max(axis=1, keepdims=True) - n, axis=1)[:, 1:] / positive("scale", scale)
    terms = np.log1p(gaps / 2) - math.log(2) - gaps
    # The runner-up's term is the largest: (2 + x) / e^x falls in x.
    lead = terms[:, :1]
    log_q = lead[:, 0] + np.log(np.exp(terms - lead).sum(axis=1))
    return np.minimum(log_q, math.log1p(-1 / n.shape[1]))


def rdp_pure_eps(log_q: ArrayLike, *, epsilon: float, orders: ArrayLike) -> FloatArray:
    """Return the cost by Theorem 3 of 2017 as the published code computes it, shape (queries, orders).

    log_q: ln of a bound on the probability that the plurality is not the answer, shape (queries,).
    epsilon: the pure-DP epsilon of one query (LNMax: 2 gamma).
    The smallest of Theorem 3 (where q <= 1 / (1 + e^epsilon)), epsilon^2 order / 2, and epsilon.
    Guarantee: bounds the Rényi divergence from this dataset to every neighbour; depends on the votes.
    Source: pate-2017, Theorems 2 and 3 (moment l = order - 1).
    """
    lq, e = require_log_q(log_q)[:, None], positive("epsilon", epsilon)
    a = require_orders(orders)[None, :]
    applies = lq <= -np.logaddexp(0.0, e)
    lq = np.where(applies, lq, -2 * e - 1)  # any q that keeps the logarithms finite where the bound is not used
    log_kept = np.log1p(-np.exp(lq))
    log_least = np.log1p(-np.exp(lq + e))
    theorem_3 = _log_sum_up(a * log_kept, (1 - a) * log_least, lq + (a - 1) * e, -lq) / (a - 1)
    return np.minimum(np.where(applies, theorem_3, np.inf), np.minimum(e * e * a / 2, e))


def _log_sum_up(first: FloatArray, second: FloatArray, rest: FloatArray, digits: FloatArray) -> FloatArray:
    """Return ln(e^(first + second) + e^rest), rounded upward.

    first, second: opposite in sign, proportional to q where it is small. digits: |ln q|, the units of the last place
    by which a q given by its logarithm is uncertain.
    """
    kept, size = first + second, np.abs(first) + np.abs(second)
    rounding = 4e-16 * (1 + digits) * size
    # Near 1 the sum is taken from its excess over 1, whose parts nearly cancel.
    near = (np.abs(kept) < 1) & (rest < 1)
    tail = np.exp(np.where(near, rest, 0.0))
    excess = np.expm1(np.where(near, kept, 0.0)) + tail
    excess = excess + np.e * rounding + 4e-16 * (1 + digits + np.abs(rest)) * tail
    far = np.logaddexp(kept, rest) + rounding + 4e-16 * (1 + digits + np.abs(rest))
    return np.where(near, np.log1p(np.maximum(excess, 0.0)), far)
