"""The cost of (no answer, or a label) together, given the top count and the cost of the label."""

from __future__ import annotations

import numpy as np

from quorate.accounting.answer_law import AnswerLaw
from quorate.accounting.label_cost import SLACK
from quorate.mechanisms.base import FloatArray


def joint_step(law: AnswerLaw, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients (alpha, beta) of `J(M, e) = ln max_v [alpha_v(M) + beta_v(M) e^{(a-1) e}] / (a - 1)`.

    orders: shape (K,). Both have the shape (K, 5, teachers + 1): the top count stays or moves by one, in both
    directions. A variant that cannot be (a top count below 0 or above `teachers`) is 0.

    Guarantee: a query with top count M whose label costs at most e in either direction, at any neighbour, costs
    at most J(M, e): the outcome law is a mixture of "refused" and the label's law, with weights that depend on the
    top count alone, and a vote moved changes that by at most 1. J grows with e.
    Source: MATH.md D2.
    """
    answer, refuse = law.log_answered()
    a = orders[:, None]
    alpha = np.zeros((len(orders), 5, law.teachers + 1))
    beta = np.zeros_like(alpha)
    alpha[:, 0] = np.exp(np.where(np.isneginf(refuse), -np.inf, refuse))
    beta[:, 0] = np.exp(answer)
    here, next_ = slice(None, -1), slice(1, None)
    for variant, (at, other) in enumerate(((here, next_), (next_, here)), start=1):
        for kind, (p, q) in enumerate(((at, other), (other, at))):
            row = 2 * variant - 1 + kind
            alpha[:, row, at] = _power(refuse[p], refuse[q], a)
            beta[:, row, at] = _power(answer[p], answer[q], a)
    return alpha, beta


def joint_cost(alpha: FloatArray, beta: FloatArray, label: FloatArray, orders: FloatArray) -> FloatArray:
    """J(M, e_M): shape (K, teachers + 1), for label costs of the same shape, by order and top count."""
    grown = np.exp((orders[:, None] - 1) * label)
    value = (alpha + beta * grown[:, None, :]).max(axis=1)
    return np.log(np.maximum(value, 1.0)) / (orders[:, None] - 1) + SLACK


def _power(log_p: FloatArray, log_q: FloatArray, a: FloatArray) -> FloatArray:
    """p^a q^(1-a) from logarithms; 0 where p is 0."""
    impossible = np.isneginf(log_p)
    p, q = np.where(impossible, 0.0, log_p), np.where(impossible, 0.0, log_q)
    with np.errstate(over="ignore"):
        return np.where(impossible, 0.0, np.exp(a * p + (1 - a) * q))
