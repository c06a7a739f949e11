"""Per-record (per-user) teachers: every record, or user, votes only on the public queries nearest to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.public.moments import MomentMap
from ostrakon.public.rowwise import in_blocks, own_rows
from ostrakon.teachers.progress import Report, reporting
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, Moments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Block = tuple[Any, Any, Any]
"""(whose each row is, features of the rows, class numbers), with all rows of everyone whom it names."""


def collect_per_record(
    blocks: Iterable[Block],
    queries: ArrayLike,
    *,
    classes: int,
    units: int,
    max_contributions: int = 1,
    moments: MomentMap | None = None,
    progress: bool | Report | None = None,
) -> BoundedVotes:
    """The votes of per-record teachers on the queries nearest to their own rows: contributions are bounded.

    blocks: the private rows; owners (integers) tell units apart within a block, and nobody has rows in two blocks.
    queries: features of *all* queries of the run at once, (queries, features): asked in two parts, everyone would
    speak twice. units: how many records or users there are in all, the `teachers` of the votes. moments: what is summed
    of features beside the votes, by class, as the `moments` of the result; None: nothing is.

    Everyone speaks on the at most `max_contributions` queries to which most of their rows are nearest, and says the
    class that most of those rows have. Ties go to the earlier query and the lower class.
    Guarantee: what a unit votes depends on its own rows, on the queries and on public features alone. With
    `BoundedGNMax`, thousands of queries cost what `max_contributions` queries cost.
    Errors: `InvalidInput` for features that are not finite, or more units than were announced.
    """
    max_contributions = whole("max_contributions", max_contributions, at_least=1)
    asked = np.asarray(queries, np.float32)
    if asked.ndim != 2 or not np.isfinite(asked).all():
        raise InvalidInput(f"queries must be finite features of shape (queries, features), got {asked.shape}.")
    counts = np.zeros((len(asked), classes), np.int64)
    sums = None if moments is None else np.zeros((moments.directions, classes), np.int64)
    seen = 0
    with reporting(progress, label="Collecting votes", total=units) as report:
        for owners, rows, labels in blocks:
            features = np.asarray(rows, np.float32)
            if not np.isfinite(features).all():
                raise InvalidInput("The features of the private rows must be finite numbers.")
            place = nearest(features, asked)
            where, what = contributions(
                np.asarray(owners), place, np.asarray(labels), classes=classes, max_contributions=max_contributions
            )
            np.add.at(counts, (where, what), 1)
            if moments is not None and sums is not None:
                sums += moments_said(np.asarray(owners), moments.steps(features), np.asarray(labels), classes=classes)
            seen += len(np.unique(owners))
            report(seen, units)
    if seen > units:
        raise InvalidInput(f"units must be at least the number of those that voted, {seen}, got {units}.")
    votes = BoundedVotes(counts, teachers=units, max_contributions=max_contributions)
    votes.moments = None if sums is None else Moments(sums, teachers=units)
    return votes


def contributions(
    owners: IntArray, place: IntArray, labels: IntArray, *, classes: int, max_contributions: int
) -> tuple[IntArray, IntArray]:
    """(queries, classes) of all that is said: by each owner on at most `max_contributions` queries, once on each.

    owners, place, labels: of every row, its owner, the query nearest to it and its class, all (rows,).

    >>> owners, place, labels = np.array([7, 7, 7, 9]), np.array([4, 4, 2, 2]), np.array([1, 0, 1, 0])
    >>> contributions(owners, place, labels, classes=2, max_contributions=1)
    (array([4, 2]), array([0, 0]))
    """
    # Equal rows side by side: (owner, query, class), how often.
    said, often = np.unique(np.column_stack([owners, place, labels]), axis=0, return_counts=True)
    # Of each (owner, query) the class that most rows have, the lower one first, and how many rows are there at all.
    said, often = _ordered(said, often, by=(said[:, 2], -often, said[:, 1], said[:, 0]))
    first = np.flatnonzero(_begins(said[:, :2]))
    near = np.add.reduceat(often, first) if len(first) else often
    said = said[first]
    # Of each owner the queries with most rows, the earlier one first.
    said, _ = _ordered(said, near, by=(said[:, 1], -near, said[:, 0]))
    begins = _begins(said[:, :1])
    rank = np.arange(len(said)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    kept = said[rank < max_contributions]
    return kept[:, 1], kept[:, 2]


def moments_said(owners: IntArray, steps: IntArray, labels: IntArray, *, classes: int) -> IntArray:
    """(directions, classes): the sum of what each owner says, in the class that most of its rows have.

    steps: of every row, (rows, directions), as of `MomentMap.steps`; of an owner's rows of its class the mean, rounded
    towards 0: it is no longer than the longest of them, and has their constant.

    >>> owners, labels = np.array([7, 7, 7, 9]), np.array([1, 1, 0, 0])
    >>> moments_said(owners, np.array([[10, 4], [10, -1], [10, 9], [10, 2]]), labels, classes=2).tolist()
    [[10, 10], [2, 1]]
    """
    said, often = np.unique(np.column_stack([owners, labels]), axis=0, return_counts=True)
    said, _ = _ordered(said, often, by=(said[:, 1], -often, said[:, 0]))
    chosen = said[_begins(said[:, :1])]
    place = np.searchsorted(chosen[:, 0], owners)
    own = labels == chosen[place, 1]
    sums = np.zeros((len(chosen), steps.shape[1]), np.int64)
    np.add.at(sums, place[own], steps[own])
    rows = np.bincount(place[own], minlength=len(chosen))[:, None]
    means = np.sign(sums) * (np.abs(sums) // rows)
    return np.stack([means[chosen[:, 1] == label].sum(axis=0) for label in range(classes)], axis=1)


def nearest(rows: ArrayLike, queries: ArrayLike) -> IntArray:
    """The position of the nearest query of every row, (rows,); a tie goes to the earlier one.

    In double numbers and in blocks (see `ostrakon.public.rowwise`), so that where a row stands, beside which others,
    has no say in how its distances are rounded; those that agree to nine digits are a tie.
    """
    given, asked = np.asarray(rows, np.float64), np.asarray(queries, np.float64)
    squares = np.square(asked).sum(axis=1)
    scale = max(float(squares.max(initial=0)), 1e-300)

    def product(some: FloatArray) -> FloatArray:
        return some @ asked.T

    def place(some: FloatArray) -> IntArray:
        return np.round((squares - 2 * product(some)) / scale, 9).argmin(axis=1)

    found = in_blocks(place, given, rows=own_rows(product, asked))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _ordered(said: IntArray, often: IntArray, *, by: tuple[IntArray, ...]) -> tuple[IntArray, IntArray]:
    """Both in the order of the last of `by`, ties by the one before it."""
    order = np.lexsort(by)
    return said[order], often[order]


def _begins(keys: IntArray) -> NDArray[np.bool_]:
    """Where a row of sorted keys differs from the one before."""
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new
