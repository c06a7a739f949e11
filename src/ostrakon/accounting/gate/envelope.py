"""The envelope: the most any dataset within d teachers of this one could cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from ostrakon.accounting.data_independent.joint_step import joint_step
from ostrakon.accounting.data_independent.likely_outcome import SLACK
from ostrakon.accounting.data_independent.noisy_max import NODES, AnswerLaw, quadrature_error, require_answer_law
from ostrakon.accounting.data_independent.supremum import (
    costs_by_top_count,
    joint_supremum,
    lowest_top_count,
    two_class_costs,
)
from ostrakon.accounting.gate.likely_outcome_table import LOWEST, STEP, likely_outcome_table
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.numerics.compiled import compiled
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

# Below this share the union bound is as good as the quadrature, whose error is absolute.
_UNION_IS_ENOUGH = 1e-5

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
    Source: MATH.md D3.
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
        logs = _query_envelopes(
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


@compiled
def _losing(
    gap: int, rest: float, shares: Any, weights: Any, product: Any, above: Any, error: float, odds: bool
) -> float:
    """An upper bound on the probability that the top class loses to a runner-up `gap` behind or to the rest."""
    share = rest + shares[gap]
    if odds:
        return share / (1.0 + share)
    if len(weights) == 0 or share < _UNION_IS_ENOUGH:
        return share
    wins = 0.0
    for i in range(len(weights)):
        wins += product[i] * above[gap, i]
    # Not below the switch to the union bound: the bound must grow with the share, or U would not nest.
    return min(share, max(1.0 - wins + error, _UNION_IS_ENOUGH))


@compiled
def _rest(
    top: int, counts: Any, repeats: Any, kinds: int, shares: Any, log_above: Any, weights: Any, out: Any
) -> float:
    """Fill `out` with weight times prod_{j >= 3} Phi(z + (top - n_j) / sigma) and return the sum of their shares."""
    share = 0.0
    nodes = len(weights)
    for i in range(nodes):
        out[i] = 0.0
    for kind in range(kinds):
        gap = top - counts[kind]
        share += repeats[kind] * shares[gap]
        for i in range(nodes):
            out[i] += repeats[kind] * log_above[gap, i]
    for i in range(nodes):
        out[i] = weights[i] * math.exp(out[i])
    return share


@compiled
def _grown_at(losing: float, grown: Any) -> float:
    """e^{(a-1) cost} of a label whose top class loses with at most this probability, rounded upward."""
    if not losing < 1.0:
        return grown[len(grown) - 1]
    if losing <= 0.0:
        return grown[0]
    place = math.ceil((math.log(losing) - LOWEST) / STEP)
    return grown[min(max(place, 0), len(grown) - 1)]


@compiled
def _joint(top: int, label: float, cap: Any, alpha: Any, beta: Any) -> float:
    label = min(label, cap[top])
    best = 1.0
    for variant in range(alpha.shape[0]):
        best = max(best, alpha[variant, top] + beta[variant, top] * label)
    return best


@compiled
def _query_envelopes(
    sorted_: Any,
    steps: Any,
    lowest: int,
    stride: int,
    odds: bool,
    error: float,
    shares: Any,
    weights: Any,
    log_above: Any,
    grown: Any,
    cap: Any,
    alpha: Any,
    beta: Any,
    peak: Any,
) -> Any:
    """(a - 1) U(n, d) of every distinct query, shape (queries, distances).

    The maximum over top counts is exact, by branch and bound over cells of `stride` of them: within a cell the
    probability to lose is largest at the lowest top count.
    """
    queries, classes = sorted_.shape
    teachers = len(peak) - 1
    above = np.exp(log_above)
    nodes = len(weights)
    result = np.empty((queries, len(steps)))
    product = np.empty((teachers + 1, nodes))
    rest: Any = np.empty(teachers + 1)
    seen = np.empty(teachers + 1, np.bool_)
    counts = np.empty(classes, np.int64)
    repeats = np.empty(classes, np.float64)
    for query in range(queries):
        n = sorted_[query]
        lead = n[0] - n[1]
        seen[:] = False
        kinds = 0
        for j in range(2, classes):
            if kinds > 0 and counts[kinds - 1] == n[j]:
                repeats[kinds - 1] += 1.0
            else:
                counts[kinds], repeats[kinds] = n[j], 1.0
                kinds += 1
        for column in range(len(steps)):
            d = steps[column]
            high = min(n[0] + d, teachers)
            best = 1.0
            if lead < 2 * d:
                for top in range(max(n[0] - d, lowest), high + 1):
                    best = max(best, peak[top])
                result[query, column] = math.log(best)
                continue
            low = n[0] - d
            start = low - low % stride
            # The ends first, and where nobody moved: the maximum is nearly always there.
            for hint in (low, n[0], high):
                if not seen[hint]:
                    rest[hint] = _rest(hint, counts, repeats, kinds, shares, log_above, weights, product[hint])
                    seen[hint] = True
                gap = lead + (hint - n[0]) - (d - max(hint - n[0], 0))
                losing = _losing(gap, rest[hint], shares, weights, product[hint], above, error, odds)
                best = max(best, _joint(hint, _grown_at(losing, grown), cap, alpha, beta))
            for cell in range(start, high + 1, stride):
                first, last = max(cell, low), min(cell + stride - 1, high)
                if not seen[first]:
                    rest[first] = _rest(first, counts, repeats, kinds, shares, log_above, weights, product[first])
                    seen[first] = True
                gap = lead + (first - n[0]) - (d - max(first - n[0], 0))
                losing = _losing(gap, rest[first], shares, weights, product[first], above, error, odds)
                label = _grown_at(losing, grown)
                bound = 1.0
                for top in range(first, last + 1):
                    bound = max(bound, _joint(top, label, cap, alpha, beta))
                if bound <= best:
                    continue
                best = max(best, _joint(first, label, cap, alpha, beta))
                for top in range(first + 1, last + 1):
                    if not seen[top]:
                        rest[top] = _rest(top, counts, repeats, kinds, shares, log_above, weights, product[top])
                        seen[top] = True
                    gap = lead + (top - n[0]) - (d - max(top - n[0], 0))
                    losing = _losing(gap, rest[top], shares, weights, product[top], above, error, odds)
                    best = max(best, _joint(top, _grown_at(losing, grown), cap, alpha, beta))
            result[query, column] = math.log(best)
    return result
