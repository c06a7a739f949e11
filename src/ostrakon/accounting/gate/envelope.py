"""The envelope: the largest cost of any data set within d teachers of this one."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.data_independent.noisy_max import require_answer_law
from ostrakon.accounting.data_independent.supremum import two_class_costs
from ostrakon.accounting.gate.envelope_tables import EnvelopeTables, Report, TwoClassTables
from ostrakon.accounting.rdp import require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

_SUM_BITS = 50
_LARGEST = 2048.0
"""Costs of one query from here on count as endless; sums are kept in units of the number of queries / 2^50."""


def envelope(
    votes: Votes, mechanism: Mechanism, *, orders: ArrayLike, distances: ArrayLike | None = None
) -> FloatArray:
    """Return U(D, d): the most the queries could cost together at any dataset within d teachers; shape (K, distances).

    votes: private; the result is private too. orders: Rényi orders, shape (K,). distances: numbers of teachers,
    default 0..N, shape (distances,).

    Guarantee: U(D, 0) is at least the exact data-dependent cost of D (both directions, every neighbour); U(D, d) never
    decreases in d; and `U(D', d) <= U(D, d + 1)` for neighbours D, D'. U(D, N) is the data-independent cost.
    Two classes without abstentions: the exact joint cost, a function of the top count alone, maximized over it.
    Errors: `InvalidInput` where the mechanism is not an argmax of counts plus noise.
    Source: docs/mathematics.md D3.
    """
    return Envelope.of(votes, mechanism, orders=orders).summed(_distances(distances, votes.teachers))


@dataclass(frozen=True, kw_only=True, eq=False)
class Envelope:
    """The envelope of these votes at any distances. Private.

    rows: the distinct histograms, sorted downward, shape (R, classes); back: the index of every query's histogram,
    (queries,).
    """

    rows: IntArray
    back: IntArray
    tables: EnvelopeTables | TwoClassTables

    @classmethod
    def of(cls, votes: Votes, mechanism: Mechanism, *, orders: ArrayLike) -> Self:
        """Return the envelope from the arguments of `envelope`, without the distances."""
        a = require_orders(orders)
        two = votes.classes == 2 and not votes.abstentions
        law = None if two else require_answer_law(mechanism, teachers=votes.teachers, classes=votes.classes)
        rows, back = np.unique(-np.sort(-votes.counts, axis=1), axis=0, return_inverse=True)
        if law is None:
            tables = TwoClassTables(orders=a, cost=two_class_costs(mechanism, a, teachers=votes.teachers))
        else:
            tables = EnvelopeTables.of(law, a, abstentions=votes.abstentions)
        return cls(rows=rows, back=back.ravel(), tables=tables)

    def summed(self, steps: IntArray, report: Report | None = None) -> FloatArray:
        """Return U(D, d), shape (K, distances).

        Sums are of whole numbers: they nest to the last bit, and do not depend on the order of queries.
        """
        how_many = np.bincount(self.back, minlength=len(self.rows))
        unit = 2.0 ** (len(self.back).bit_length() - _SUM_BITS)
        total = np.zeros((len(self.tables.orders), len(steps)), np.int64)
        endless = np.zeros(total.shape, np.bool_)
        for start, costs in self.tables.in_blocks(self.rows, steps, report):
            endless |= (costs >= _LARGEST).any(axis=0).T
            units = np.ceil(np.minimum(costs, _LARGEST) / unit).astype(np.int64)
            total += np.einsum("q,qdk->kd", how_many[start : start + len(costs)], units)
        return np.where(endless, np.inf, total * unit)

    def by_query(self, steps: IntArray, report: Report | None = None) -> FloatArray:
        """Return U(n, d), shape (K, queries, distances)."""
        result = np.empty((len(self.tables.orders), len(self.back), len(steps)))
        for start, costs in self.tables.in_blocks(self.rows, steps, report):
            here = np.flatnonzero((self.back >= start) & (self.back < start + len(costs)))
            result[:, here] = costs[self.back[here] - start].transpose(2, 0, 1)
        return result


def _distances(distances: ArrayLike | None, teachers: int) -> IntArray:
    steps = np.arange(teachers + 1) if distances is None else np.array(distances)
    if steps.ndim != 1 or steps.dtype.kind not in "iu" or (steps < 0).any():
        raise InvalidInput(f"distances must be a list of whole numbers of teachers, got {distances!r}.")
    return np.minimum(steps, teachers).astype(np.int64)
