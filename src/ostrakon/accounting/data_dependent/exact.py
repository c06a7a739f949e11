"""The exact data-dependent cost of every query, for any mechanism with an outcome law."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.accounting.data_dependent._kernel import argmax_costs_of
from ostrakon.accounting.data_dependent.renyi_divergence import both_divergences
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Curve, require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism, NoisyArgmax, StatefulMechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

_NUMBERS = 1 << 22


def data_dependent_costs(votes: Votes, mechanism: Mechanism, orders: ArrayLike = DEFAULT_ORDERS) -> FloatArray:
    """Return the exact data-dependent Rényi cost of every query at every order. Private, like the votes.

    `F(n) = max over one-vote moves n -> n' of max(D_a(P_n || P_n'), D_a(P_n' || P_n))`, P the joint outcome law of (no
    answer, label). Moves to and from "abstain" are included if the votes allow abstentions.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
    orders : array-like of floats above 1, increasing

    Returns
    -------
    ndarray of float, shape (queries, orders)
        Nats. Errors of quadrature, rounding and pruning are bounded and added: never below the true cost, and above it
        by at most about 1e-11 relative.

    Raises
    ------
    InvalidInput
        For mechanisms whose queries depend on each other (only their worst case has a price).

    Notes
    -----
    Guarantee: none; the cost at the true votes must not be published. An argmax of counts plus independent noise
    (`Mechanism.noisy_argmax`) is computed by the compiled `argmax_costs`; for any other mechanism the law is evaluated
    after every move. Equal queries are computed once.

    References
    ----------
    docs/mathematics.md A.

    Examples
    --------
    >>> from ostrakon.mechanisms import GNMax
    >>> data_dependent_costs(Votes([[8, 2]]), GNMax(sigma2=40.0), [2.0]).round(8)
    array([[0.00079486]])
    """
    return costs_and_chances(votes, mechanism, orders)[0]


def costs_and_chances(
    votes: Votes, mechanism: Mechanism, orders: ArrayLike = DEFAULT_ORDERS
) -> tuple[FloatArray, FloatArray]:
    """Return `data_dependent_costs`, and two probabilities of every query; private.

    Parameters
    ----------
    votes, mechanism, orders
        As for `data_dependent_costs`.

    Returns
    -------
    costs : array of float, shape (queries, orders)
        Nats, as `data_dependent_costs`.
    chances : array of float, shape (queries, 2)
        The probability that the query is answered, and that the answer is its plurality (the lowest of tied classes);
        to 1e-11.

    Raises
    ------
    InvalidInput
        As `data_dependent_costs`.
    """
    mechanism.require_votes(votes)
    if isinstance(mechanism, StatefulMechanism):
        raise InvalidInput(
            f"{mechanism.name} ties its queries together and has no cost per query; use its worst case, got {votes!r}."
        )
    a = require_orders(orders)
    if not votes.queries:
        return np.zeros((0, len(a))), np.zeros((0, 2))
    structure = mechanism.noisy_argmax(votes)
    if structure is None:
        costs, chances = np.full((votes.queries, len(a)), np.nan), np.zeros((votes.queries, 2))
    else:
        costs, logs = _structured(votes, structure, a)
        chances = np.exp(np.cumsum(logs, axis=1))
    left = np.flatnonzero(np.isnan(costs).any(axis=1))
    if len(left):
        some, law = votes[left], mechanism.for_queries(left)
        costs[left] = _generic(some, law, a)
        outcomes = np.exp(law.log_probabilities(some))
        chances[left, 0] = np.minimum(outcomes[:, :-1].sum(axis=1), 1.0)
        chances[left, 1] = outcomes[np.arange(len(left)), some.plurality]
    # A cost that could not be computed is unbounded.
    return np.where(costs >= 0, costs, np.inf), chances


def exact_curve(votes: Votes, mechanism: Mechanism, orders: ArrayLike = DEFAULT_ORDERS) -> Curve:
    """Return the exact data-dependent cost of all queries together: the sum of `data_dependent_costs`. Private.

    Parameters
    ----------
    votes, mechanism, orders
        As for `data_dependent_costs`.

    Returns
    -------
    Curve
        Nats at each order.

    Raises
    ------
    InvalidInput
        As `data_dependent_costs`.

    Notes
    -----
    Guarantee: none; the curve depends on the votes and must not be published.

    References
    ----------
    docs/mathematics.md A.
    """
    a = require_orders(orders)
    return Curve(a, data_dependent_costs(votes, mechanism, a).sum(axis=0))


def _structured(votes: Votes, law: NoisyArgmax, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return costs and log chances from the compiled code, once per distinct query; nan if only the generic code is
    safe.
    """
    offsets = None if law.threshold_test is None else law.threshold_test.offsets
    counts = -np.sort(-votes.counts, axis=1)
    if offsets is None:
        rows, back = np.unique(counts, axis=0, return_inverse=True)
        scores = None
    else:
        checked = votes.counts - offsets
        order = np.lexsort((-checked, -votes.counts), axis=1)
        both = np.hstack([np.take_along_axis(votes.counts, order, axis=1), np.take_along_axis(checked, order, axis=1)])
        rows, back = np.unique(both, axis=0, return_inverse=True)
        rows, scores = rows[:, : votes.classes], rows[:, votes.classes :].astype(np.float64)
    costs, chances = argmax_costs_of(
        rows.astype(np.float64),
        scores,
        abstained=(votes.teachers - rows.sum(axis=1)).astype(np.float64),
        abstentions=votes.abstentions,
        law=law,
        orders=orders,
    )
    return costs[back.ravel()], chances[back.ravel()]


def _generic(votes: Votes, mechanism: Mechanism, orders: FloatArray) -> FloatArray:
    """Return costs from the outcome law before and after every move, for mechanisms of any structure."""
    form = mechanism.noisy_argmax(votes)
    named = form is None or (form.threshold_test is not None and form.threshold_test.offsets is not None)
    counts = votes.counts if named else -np.sort(-votes.counts, axis=1)
    back = np.arange(votes.queries)
    if mechanism.for_queries(back) is mechanism:
        counts, back = np.unique(counts, axis=0, return_inverse=True)
    votes = Votes(counts, teachers=votes.teachers, abstentions=votes.abstentions)
    costs = np.zeros((votes.queries, len(orders)))
    before = mechanism.log_probabilities(votes)
    chunk = max(1, _NUMBERS // (len(orders) * (votes.classes + 1)))
    for moved, index in moves(votes, named=named):
        for start in range(0, len(index), chunk):
            part = np.arange(start, min(start + chunk, len(index)))
            at = index[part]
            after = mechanism.for_queries(at).log_probabilities(moved[part])
            costs[at] = np.maximum(costs[at], both_divergences(before[at], after, orders))
    return costs[back.ravel()]


def moves(votes: Votes, *, named: bool) -> Iterator[tuple[Votes, NDArray[np.intp]]]:
    """Yield all one-vote moves, one move of all queries that allow it at a time.

    Parameters
    ----------
    votes : Votes
    named : bool
        Whether classes of equal counts differ. If they do not, rows are sorted, and of equal ones only the last loses a
        vote and only the first gains one.

    Yields
    ------
    tuple of Votes and array of int
        The votes after a move, and the queries that they belong to.
    """
    n = votes.counts
    targets = [*range(votes.classes), *([None] if votes.abstentions else [])]
    for source in targets:
        loses = votes.abstained > 0 if source is None else n[:, source] > 0
        if not named and source is not None and source + 1 < votes.classes:
            loses &= n[:, source] > n[:, source + 1]
        if not loses.any():
            continue
        for target in targets:
            if source == target:
                continue
            possible = loses if named or not target else loses & (n[:, target] < n[:, target - 1])
            index = np.flatnonzero(possible)
            if not len(index):
                continue
            counts: IntArray = n[index]
            if source is not None:
                counts[:, source] -= 1
            if target is not None:
                counts[:, target] += 1
            yield Votes(counts, teachers=votes.teachers, abstentions=votes.abstentions), index
