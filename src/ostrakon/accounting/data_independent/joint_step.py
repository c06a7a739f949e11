"""The cost of (no answer, or a label) together, given the top count and the cost of the label."""

from __future__ import annotations

import numpy as np

from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.mechanisms.base import FloatArray


def joint_step(law: AnswerLaw, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logs of the coefficients of `J(M, e) = ln max_v [alpha_v(M) + beta_v(M) e^{(a-1) e}] / (a - 1)`.

    orders: shape (K,). Both have the shape (K, 5, teachers + 1): the top count stays or moves by one, in both
    directions. A variant that cannot be (a top count below 0 or above `teachers`) is -inf.

    Guarantee: a query with top count M whose label costs at most e in either direction, at any neighbour, costs
    at most J(M, e): the outcome law is a mixture of "refused" and the label's law, with weights that depend on the
    top count alone, and a vote moved changes that by at most 1. J grows with e.
    Source: MATH.md D2.
    """
    answer, refuse = law.log_answered()
    a = orders[:, None]
    log_alpha = np.full((len(orders), 5, law.teachers + 1), -np.inf)
    log_beta = np.full_like(log_alpha, -np.inf)
    log_alpha[:, 0] = refuse
    log_beta[:, 0] = answer
    here, next_ = slice(None, -1), slice(1, None)
    for variant, (at, other) in enumerate(((here, next_), (next_, here)), start=1):
        for kind, (p, q) in enumerate(((at, other), (other, at))):
            row = 2 * variant - 1 + kind
            log_alpha[:, row, at] = _power(refuse[p], refuse[q], a)
            log_beta[:, row, at] = _power(answer[p], answer[q], a)
    return log_alpha, log_beta


def joint_cost(log_alpha: FloatArray, log_beta: FloatArray, label: FloatArray, orders: FloatArray) -> FloatArray:
    """J(M, e_M): shape (K, teachers + 1), for label costs of the same shape, by order and top count."""
    less = orders[:, None] - 1
    value = np.logaddexp(log_alpha, log_beta + (less * label)[:, None, :]).max(axis=1)
    return np.maximum(value, 0.0) / less + SLACK


def _power(log_p: FloatArray, log_q: FloatArray, a: FloatArray) -> FloatArray:
    """ln p^a q^(1-a) from logarithms; -inf where p is 0."""
    impossible = np.isneginf(log_p)
    p, q = np.where(impossible, 0.0, log_p), np.where(impossible, 0.0, log_q)
    return np.where(impossible, -np.inf, a * p + (1 - a) * q)
