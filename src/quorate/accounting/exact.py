"""The exact local cost of every query, for any mechanism that gives its outcome law."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from quorate.accounting.curve import DEFAULT_ORDERS, Curve, require_orders
from quorate.checks import InvalidInput
from quorate.mechanisms.base import FloatArray, Mechanism, TiedMechanism
from quorate.votes import IntArray, Votes

_ROWS = 1 << 15


def local_costs(votes: Votes, mechanism: Mechanism, orders: ArrayLike = DEFAULT_ORDERS) -> FloatArray:
    """Exact local Rényi cost of every query at every order, shape (queries, orders). Private: it depends on the votes.

    `F(n) = max over one-vote moves n -> n' of max(D_a(P_n || P_n'), D_a(P_n' || P_n))`, P the joint outcome law of
    (no answer, label). Moves to and from "abstain" are included where the votes allow abstentions.
    Errors: `InvalidInput` for mechanisms whose queries are tied (they are charged worst-case only).
    Source: MATH.md A.
    """
    if isinstance(mechanism, TiedMechanism):
        raise InvalidInput(
            f"{mechanism.name} ties its queries together and has no cost per query; use its worst case, got {votes!r}."
        )
    a = require_orders(orders)
    costs = np.zeros((votes.queries, len(a)))
    rows = np.arange(votes.queries)
    before = mechanism.log_probabilities(votes)
    for moved, index in _moves(votes):
        for start in range(0, len(index), _ROWS):
            chunk = slice(start, start + _ROWS)
            at = rows[index[chunk]]
            after = mechanism.for_queries(at).log_probabilities(moved[chunk])
            np.maximum.at(costs, at, _both_directions(before[at], after, a))
    return costs


def exact_curve(votes: Votes, mechanism: Mechanism, orders: ArrayLike = DEFAULT_ORDERS) -> Curve:
    """The exact local cost of all queries together: the sum of `local_costs`. Private: it depends on the votes."""
    a = require_orders(orders)
    return Curve(a, local_costs(votes, mechanism, a).sum(axis=0))


def _moves(votes: Votes) -> Iterator[tuple[Votes, NDArray[np.intp]]]:
    """(votes after a move, the queries they belong to), one move of all queries that allow it at a time."""
    places = [*range(votes.classes), *([None] if votes.abstentions else [])]
    for source in places:
        for target in places:
            if source == target:
                continue
            possible = votes.abstained > 0 if source is None else votes.counts[:, source] > 0
            index = np.flatnonzero(possible)
            if not len(index):
                continue
            counts: IntArray = votes.counts[index]
            if source is not None:
                counts[:, source] -= 1
            if target is not None:
                counts[:, target] += 1
            yield Votes(counts, teachers=votes.teachers, abstentions=votes.abstentions), index


def _both_directions(p: FloatArray, q: FloatArray, orders: FloatArray) -> FloatArray:
    return np.maximum(_divergence(p, q, orders), _divergence(q, p, orders))


def _divergence(p: FloatArray, q: FloatArray, orders: FloatArray) -> FloatArray:
    """D_a(P||Q) from log probabilities (rows, outcomes) at every order, (rows, orders)."""
    possible = p > -np.inf
    with np.errstate(invalid="ignore"):
        ratio = np.where(possible, p - q, 0.0)
    a = orders[None, :, None]
    exponent = np.where(possible[:, None, :], p[:, None, :] + (a - 1) * ratio[:, None, :], -np.inf)
    return np.maximum(np.asarray(logsumexp(exponent, axis=2)) / (orders - 1), 0.0)
