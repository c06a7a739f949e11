"""The envelope: the most any dataset within d teachers of this one could cost."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.noisy_max import NODES, AnswerLaw, quadrature_error, require_answer_law
from ostrakon.accounting.data_independent.supremum import (
    costs_by_top_count,
    joint_step,
    joint_supremum,
    lowest_top_count,
    two_class_costs,
)
from ostrakon.accounting.gate._envelope_kernel import likely_outcome_table, query_envelopes_of
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray, Votes

_BIGGEST_LOG = 600.0


def envelope(
    votes: Votes, mechanism: Mechanism, *, orders: ArrayLike, distances: ArrayLike | None = None
) -> FloatArray:
    """U(D, d): the most the queries could cost together at any dataset within d teachers; shape (K, distances).

    votes: private; the result is private too. orders: Rényi orders, shape (K,). distances: numbers of teachers,
    default 0..N, shape (distances,).

    Guarantee: U(D, 0) is at least the exact data-dependent cost of D (both directions, every neighbour); U(D, d) never
    decreases in d; and `U(D', d) <= U(D, d + 1)` for neighbours D, D'. U(D, N) is the data-independent cost.
    Proof. Let n be a query's sorted votes and n' any histogram within d moved votes. If the lead is at least 2 d, the
    winner still leads; it has n_1 + k votes and the others received at most d - max(k, 0) in all. The probability
    p_1 that it wins falls in the others' counts; it is log-concave in the added votes (Prékopa: the noise has
    log-concave densities and "1 wins" is a convex set of noise and counts), so least at a vertex, where one class
    receives them all; and Schur-concave in the others' counts, so that class is the runner-up. D1 and D2 bound the
    cost by `J(n_1 + k, beta*(1 - p_1))`. If the lead is less, the top count still moves by at most d, and the cost
    at any top count is bounded by `costs_by_top_count`. The sets over which the maxima are taken grow with d, and
    that of n' at d lies in that of n at d + 1.
    Two classes without abstentions: the exact joint cost, a function of the top count alone, maximized over it.
    Errors: `InvalidInput` where the mechanism is not an argmax of counts plus noise.
    Source: docs/mathematics.md D3.
    """
    return query_envelopes(votes, mechanism, orders=orders, distances=distances).sum(axis=1)


def query_envelopes(
    votes: Votes, mechanism: Mechanism, *, orders: ArrayLike, distances: ArrayLike | None = None
) -> FloatArray:
    """U(n, d) of every query: `envelope` before the sum, shape (K, queries, distances). Private."""
    a = require_orders(orders)
    steps = _distances(distances, votes.teachers)
    if votes.classes == 2 and not votes.abstentions:
        return _two_classes(votes, mechanism, a, steps)
    law = require_answer_law(mechanism, teachers=votes.teachers, classes=votes.classes)
    sorted_, back = np.unique(-np.sort(-votes.counts, axis=1), axis=0, return_inverse=True)
    worst = costs_by_top_count(law, a)
    lowest = lowest_top_count(teachers=law.teachers, classes=law.classes, abstentions=votes.abstentions)
    log_alpha, log_beta = joint_step(law, a)
    tables = _noise_tables(law)
    error = quadrature_error(law.classes)
    stride = max(1, round(law.form.scale / 8))
    result = np.empty((len(a), len(back), len(steps)))
    for row, order in enumerate(a):
        # The same worst label costs as inside `costs_by_top_count`: every label cost is clipped there.
        log_cap = (order - 1) * law.likely_outcome_rdp(law.worst_q(), np.array([order]))[0]
        table = likely_outcome_table(law, float(order))
        biggest = max(log_alpha[row].max(), log_beta[row].max() + max(log_cap.max(), table.log_grown[-1]))
        if not biggest < _BIGGEST_LOG:
            result[row] = np.inf  # an order far too high for this noise: no bound, rather than an overflow
            continue
        grown, cap = np.exp(table.log_grown), np.exp(log_cap)
        alpha, beta = np.exp(log_alpha[row]), np.exp(log_beta[row])
        peak = np.maximum(np.exp((order - 1) * worst[row]), 1.0)
        logs = query_envelopes_of(
            sorted_,
            steps,
            lowest,
            stride,
            law.form.noise == "gumbel",
            error,
            *tables,
            grown,
            cap,
            alpha,
            beta,
            peak,
        )
        result[row] = (logs / (order - 1) + SLACK)[back.ravel()]
    return result


def highest_cost(
    mechanism: Mechanism, *, queries: int, teachers: int, classes: int, order: float, abstentions: bool = False
) -> float:
    """U(D, N): the data-independent cost of `queries` queries at one order, nats. Public."""
    orders = require_orders([order])
    queries, classes = whole("queries", queries, at_least=1), whole("classes", classes, at_least=2)
    if classes == 2 and not abstentions:
        return queries * float(two_class_costs(mechanism, orders, teachers=teachers).max())
    law = require_answer_law(mechanism, teachers=teachers, classes=classes)
    return queries * (float(joint_supremum(law, orders, abstentions=abstentions)[0]) + SLACK)


def _two_classes(votes: Votes, mechanism: Mechanism, orders: FloatArray, steps: IntArray) -> FloatArray:
    n = votes.teachers
    cost = two_class_costs(mechanism, orders, teachers=n)
    reach = np.maximum(cost, cost[:, ::-1])[:, (n + 1) // 2 :]  # by top count, from its smallest value
    tops = votes.top - (n + 1) // 2
    result = np.empty((len(orders), len(tops), len(steps)))
    done = 0
    for column in np.argsort(steps, kind="stable"):
        while done < steps[column]:
            wider = reach.copy()
            wider[:, 1:] = np.maximum(wider[:, 1:], reach[:, :-1])
            wider[:, :-1] = np.maximum(wider[:, :-1], reach[:, 1:])
            reach, done = wider, done + 1
        result[:, :, column] = reach[:, tops]
    return result


def _distances(distances: ArrayLike | None, teachers: int) -> IntArray:
    steps = np.arange(teachers + 1) if distances is None else np.array(distances)
    if steps.ndim != 1 or steps.dtype.kind not in "iu" or (steps < 0).any():
        raise InvalidInput(f"distances must be a list of whole numbers of teachers, got {distances!r}.")
    return np.minimum(steps, teachers).astype(np.int64)


def _noise_tables(law: AnswerLaw) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(share of a class t behind, quadrature weights, ln Phi(z + t / sigma) by gap t and node z)."""
    shares = law.behind()
    if law.form.noise != "gaussian":
        return shares, np.empty(0), np.empty((law.teachers + 1, 0))
    step = NODES[1] - NODES[0]
    weights = np.exp(-NODES * NODES / 2) * step / math.sqrt(2 * math.pi)
    gaps = np.arange(law.teachers + 1) / law.form.scale
    return shares, weights, np.asarray(log_ndtr(gaps[:, None] + NODES[None, :]))
