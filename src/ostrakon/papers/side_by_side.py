"""One run priced four ways: as printed, by the paper's bound, exactly, and in the worst case."""

import numpy as np

from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.papers.table import Cell
from ostrakon.votes import PublicVotes

COLUMNS = (
    "printed ε",
    "published bound",
    "bound at order",
    "exact, Mironov",
    "exact",
    "exact at order",
    "worst case",
    "worst case, answers capped",
)
NOTE = (
    "Published bound: the papers' theorems and Mironov's conversion. Exact: the true data-dependent cost of the same "
    "run, by Mironov's and by Canonne, Kamath and Steinke's conversion. All three depend on the votes and are not "
    "guarantees; the worst case is one, for any votes"
)
HALF_ORDERS: FloatArray = np.arange(2.0, 100.0, 0.5)
"""The orders of the 2018 code up to 100."""


def priced(
    votes: PublicVotes,
    mechanism: Mechanism,
    *,
    printed: float | None,
    delta: float,
    max_answers: int,
    orders: FloatArray = HALF_ORDERS,
) -> tuple[Cell, ...]:
    """Return the cells of `COLUMNS` for one run. orders: of the published bound. max_answers: a cap on the answers."""
    bound = published_curve(votes, mechanism, orders)
    exact = exact_curve(votes, mechanism, DEFAULT_ORDERS)
    guarantee, capped = (
        worst_case_of(votes, mechanism, delta=delta, max_answers=cap, adaptive=True).epsilon
        for cap in (None, max_answers)
    )
    return (
        printed,
        *((None, None) if bound is None else bound.epsilon(delta=delta, conversion="mironov")),
        exact.epsilon(delta=delta, conversion="mironov")[0],
        *exact.epsilon(delta=delta),
        guarantee,
        capped,
    )
