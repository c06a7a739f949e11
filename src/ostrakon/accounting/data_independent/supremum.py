"""The joint supremum: the most one query can cost whatever the votes, check and label together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.data_independent.joint_step import joint_cost, joint_step
from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.votes import Votes

TWO_CLASS_ERROR = 1e-9
"""Relative error charged to costs computed from a mechanism's own outcome law."""


def costs_by_top_count(law: AnswerLaw, orders: ArrayLike) -> FloatArray:
    """The most a query with top count M can cost, shape (K, teachers + 1).

    Guarantee: no histogram of at most `teachers` votes with this top count has a greater Rényi divergence, in
    either direction, to any neighbour: a likely answer forces a large top count, hence a small q.
    Source: MATH.md B (joint supremum), D1 and D2.
    """
    a = require_orders(orders)
    alpha, beta = joint_step(law, a)
    return joint_cost(alpha, beta, law.likely_outcome_rdp(law.worst_q(), a), a)


def lowest_top_count(*, teachers: int, classes: int, abstentions: bool) -> int:
    """The smallest top count that votes of this shape can have."""
    return 0 if abstentions else -(-teachers // classes)


def joint_supremum(law: AnswerLaw, orders: ArrayLike, *, abstentions: bool = False) -> FloatArray:
    """The most one query can cost whatever the votes: an RDP curve, shape (K,), by numerical maximum over M."""
    lowest = lowest_top_count(teachers=law.teachers, classes=law.classes, abstentions=abstentions)
    return costs_by_top_count(law, orders)[:, lowest:].max(axis=1)


def two_class_costs(mechanism: Mechanism, orders: ArrayLike, *, teachers: int) -> FloatArray:
    """The exact cost of one query at every histogram (n, teachers - n), shape (K, teachers + 1).

    Two classes without abstentions: the largest Rényi divergence, in both directions, to (n - 1, ...) and
    (n + 1, ...), from the mechanism's outcome law; refusal is an outcome. The maximum over n is the exact worst
    case of what leaves, below that of the noisy histogram.
    Source: MATH.md A and B.
    """
    a = require_orders(orders)
    first = np.arange(teachers + 1)
    law = mechanism.log_probabilities(Votes(np.column_stack([first, teachers - first])))
    here, there = law[:-1], law[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        cost = np.maximum(_divergence(here, there, a), _divergence(there, here, a))
    result = np.zeros((len(a), teachers + 1))
    result[:, :-1] = cost
    result[:, 1:] = np.maximum(result[:, 1:], cost)
    return result * (1 + TWO_CLASS_ERROR) + SLACK


def _divergence(log_p: FloatArray, log_q: FloatArray, orders: FloatArray) -> FloatArray:
    """D_a(P||Q) row by row, shape (K, rows); inf where P has an outcome that Q has not."""
    out = np.empty((len(orders), len(log_p)))
    never = np.isneginf(log_p)
    p, q = np.where(never, 0.0, log_p), np.where(never, 0.0, log_q)
    for row, a in enumerate(orders):
        exponent = np.where(never, -np.inf, a * p + (1 - a) * q)
        peak = exponent.max(axis=1)
        total = np.exp(exponent - peak[:, None]).sum(axis=1)
        out[row] = (peak + np.log(total)) / (a - 1)
    return np.maximum(out, 0.0)
