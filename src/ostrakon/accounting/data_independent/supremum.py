"""The joint supremum: the largest cost of one query over all votes, check and label together."""

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import whole
from ostrakon.votes import Votes

TWO_CLASS_ERROR = 1e-9
"""Relative error charged to costs computed from a mechanism's own outcome law."""

_STRIDE = 32


def joint_step(law: AnswerLaw, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return logs of the coefficients of `J(M, e) = ln max_v [alpha_v(M) + beta_v(M) e^{(a-1) e}] / (a - 1)`.

    orders: shape (K,). Both results have the shape (K, 5, teachers + 1): the top counts of P and Q are (M, M),
    (M, M + 1), (M + 1, M), (M, M - 1), (M - 1, M). An impossible variant (a top count below 0 or above `teachers`) is
    -inf.

    Guarantee: a query with top count M whose label costs at most e in either direction, at any neighbour, costs at most
    J(M, e). The outcome law is a mixture of "refused" and the label's law, with weights that depend on the top count
    alone, and a moved vote changes that by at most 1. J grows with e.
    Source: docs/mathematics.md D2.
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
    """Return J(M, e_M): shape (K, teachers + 1), for label costs (K, 1 or 5, teachers + 1): one for all variants, or
    each.
    """
    less = orders[:, None] - 1
    value = np.logaddexp(log_alpha, log_beta + less[:, None] * label).max(axis=1)
    return np.maximum(value, 0.0) / less + SLACK


def lowest_top_count(*, teachers: int, classes: int, abstentions: bool) -> int:
    """Return the smallest top count that votes of this shape can have."""
    return 0 if abstentions else -(-teachers // classes)


def joint_supremum(law: AnswerLaw, orders: ArrayLike, *, abstentions: bool = False) -> FloatArray:
    """Return the largest cost of one query over all votes: an RDP curve, shape (K,), by numerical maximum over M.

    A label's cost grows with q, hence falls with M, and J grows with it. So the cost at a lower M bounds the cost at
    every higher M, and values of M that cannot reach the greatest cost so far are skipped.
    """
    a = require_orders(orders)
    lowest = lowest_top_count(teachers=law.teachers, classes=law.classes, abstentions=abstentions)
    alpha, beta = (logs[:, :, lowest:] for logs in joint_step(law, a))
    q = law.worst_q()[lowest:]

    def costs(at: NDArray[np.intp]) -> FloatArray:
        return joint_cost(alpha[:, :, at], beta[:, :, at], law.likely_outcome_rdp(q[at], a)[:, None], a)

    every = np.arange(len(q))
    some = every[::_STRIDE]
    falling = np.maximum.accumulate(q[::-1])[::-1][some]
    bound = joint_cost(alpha, beta, law.likely_outcome_rdp(falling, a)[:, None, every // _STRIDE], a)
    best = costs(some).max(axis=1)
    left = np.flatnonzero((bound > best[:, None]).any(axis=0))
    return best if not len(left) else np.maximum(best, costs(left).max(axis=1))


@functools.lru_cache(maxsize=64)
def two_class_law(mechanism: Mechanism, teachers: int) -> FloatArray:
    """Log probabilities of both labels and of no answer where n = 0 .. teachers vote for the first of two classes."""
    first = np.arange(teachers + 1)
    law = mechanism.log_probabilities(Votes(np.column_stack([first, teachers - first])))
    law.setflags(write=False)
    return law


def two_class_costs(mechanism: Mechanism, orders: ArrayLike, *, teachers: int) -> FloatArray:
    """Return the exact cost of one query at every histogram (n, teachers - n), shape (K, teachers + 1).

    Two classes without abstentions: the largest Rényi divergence, in both directions, to (n - 1, ...) and (n + 1, ...),
    from the mechanism's outcome law; refusal is an outcome. The maximum over n is the exact worst case of the released
    answer, below that of the noisy histogram.
    Source: docs/mathematics.md A and B.
    """
    a, teachers = require_orders(orders), whole("teachers", teachers, at_least=1)
    law = two_class_law(mechanism, teachers)
    here, there = law[:-1], law[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        cost = np.maximum(_divergence(here, there, a), _divergence(there, here, a))
    result = np.zeros((len(a), teachers + 1))
    result[:, :-1] = cost
    result[:, 1:] = np.maximum(result[:, 1:], cost)
    return result * (1 + TWO_CLASS_ERROR) + SLACK


def _divergence(log_p: FloatArray, log_q: FloatArray, orders: FloatArray) -> FloatArray:
    """Return D_a(P||Q) row by row, shape (K, rows); inf if P has an outcome that Q has not."""
    out = np.empty((len(orders), len(log_p)))
    never = np.isneginf(log_p)
    p, q = np.where(never, 0.0, log_p), np.where(never, 0.0, log_q)
    for row, a in enumerate(orders):
        exponent = np.where(never, -np.inf, a * p + (1 - a) * q)
        peak = exponent.max(axis=1)
        total = np.exp(exponent - peak[:, None]).sum(axis=1)
        out[row] = (peak + np.log(total)) / (a - 1)
    return np.maximum(out, 0.0)


def _power(log_p: FloatArray, log_q: FloatArray, a: FloatArray) -> FloatArray:
    """Return ln p^a q^(1-a) from logarithms; -inf where p is 0."""
    impossible = np.isneginf(log_p)
    p, q = np.where(impossible, 0.0, log_p), np.where(impossible, 0.0, log_q)
    return np.where(impossible, -np.inf, a * p + (1 - a) * q)
