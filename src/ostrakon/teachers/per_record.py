"""Per-record (per-user) teachers: every record, or user, votes only on the public queries nearest to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ostrakon.data.object_store import AnyPath
from ostrakon.features.moments import MomentMap
from ostrakon.features.nearest import nearest
from ostrakon.teachers.blocks import Block, Transform, UnitPart
from ostrakon.teachers.parallel import in_parallel
from ostrakon.teachers.placed import Placed, place
from ostrakon.teachers.progress import Report, reporting
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, Moments

IntArray = NDArray[np.int64]


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
    Errors: `InvalidInput` for features that are not finite, class numbers that are none, or more units than were
    announced.
    """
    asked = _Asked(queries, classes=classes, max_contributions=max_contributions, moments=moments)
    said = asked.nothing()
    with reporting(progress, label="Collecting votes", total=units) as report:
        for block in blocks:
            said += asked.heard(block)
            report(said.units, units)
    return asked.votes(said, units=units)


def collect_from_parts(
    parts: Sequence[UnitPart],
    transform: Transform,
    queries: ArrayLike,
    *,
    classes: int,
    units: int,
    max_contributions: int = 1,
    folder: AnyPath,
    moments: MomentMap | None = None,
    progress: bool | Report | None = None,
) -> BoundedVotes:
    """`collect_per_record` where an engine's workers read the rows (`ostrakon.teachers.engines`): the same votes.

    parts: nobody has rows in two of them. transform: from typed rows to features, each row on its own. folder: which
    workers read; what is public is put there once. They are sent where that and a part lie, and give back what its
    units say. A part counts once, however often the engine had to do its work.
    Errors: as of `collect_per_record`; `WorkerKilled` where the engine gives up.
    """
    asked = _Asked(queries, classes=classes, max_contributions=max_contributions, moments=moments)
    said, heard = asked.nothing(), set[int]()
    told = place((transform, asked), folder)
    tasks = (joblib.delayed(_heard_from)(number, part, told) for number, part in enumerate(parts))
    with reporting(progress, label="Collecting votes", total=units) as report:
        for number, some in in_parallel(tasks, n_jobs=-1, max_nbytes=None):
            if number not in heard:
                heard.add(number)
                said += some
                report(said.units, units)
    if len(heard) != len(parts):
        raise InvalidInput(f"The engine gave {len(heard)} of {len(parts)} parts; the same command asks it again.")
    return asked.votes(said, units=units)


class _Asked:
    """What everyone is asked, all of it public; arguments and errors as of `collect_per_record`."""

    def __init__(self, queries: ArrayLike, *, classes: int, max_contributions: int, moments: MomentMap | None) -> None:
        self.max_contributions = whole("max_contributions", max_contributions, at_least=1)
        self.queries = np.asarray(queries, np.float32)
        if self.queries.ndim != 2 or not np.isfinite(self.queries).all():
            raise InvalidInput(
                f"queries must be finite features of shape (queries, features), got {np.shape(queries)}."
            )
        self.classes, self.moments = classes, moments

    def nothing(self) -> _Said:
        """What nobody says."""
        sums = None if self.moments is None else np.zeros((self.moments.directions, self.classes), np.int64)
        return _Said(np.zeros((len(self.queries), self.classes), np.int64), sums, 0)

    def heard(self, block: Block) -> _Said:
        """What the units of one block say."""
        owners, rows, given = block
        features = np.asarray(rows, np.float32)
        if not np.isfinite(features).all():
            raise InvalidInput("The features of the private rows must be finite numbers.")
        whose, everyone = _numbered(owners)
        place, label = nearest(features, self.queries), np.asarray(given, np.int64)
        if len(label) and not 0 <= label.min() <= label.max() < self.classes:
            raise InvalidInput(f"The class numbers of the private rows must be 0 to {self.classes - 1}.")
        each: dict[str, int] = {"classes": self.classes, "max_contributions": self.max_contributions}
        where, what = contributions(whose, place, label, **each)
        shape = (len(self.queries), self.classes)
        counts = np.bincount(where * self.classes + what, minlength=shape[0] * shape[1]).reshape(shape)
        if self.moments is None:
            return _Said(counts, None, everyone)
        return _Said(counts, moments_said(whose, self.moments.steps(features), label, classes=self.classes), everyone)

    def votes(self, said: _Said, *, units: int) -> BoundedVotes:
        """What `units` units say."""
        if said.units > units:
            raise InvalidInput(f"units must be at least the number of those that voted, {said.units}, got {units}.")
        votes = BoundedVotes(said.counts, teachers=units, max_contributions=self.max_contributions)
        votes.moments = None if said.sums is None else Moments(said.sums, teachers=units)
        return votes


@dataclass(frozen=True, eq=False)
class _Said:
    """What some units say: votes, (queries, classes); sums of features, (directions, classes), or None; their number.

    Sums of whole numbers: in whatever order parts are added, the result is the same.
    """

    counts: IntArray
    sums: IntArray | None
    units: int

    def __add__(self, other: _Said) -> _Said:
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return _Said(self.counts + other.counts, sums, self.units + other.units)


def _heard_from(number: int, part: UnitPart, told: Placed) -> tuple[int, _Said]:
    transform, asked = told.get()
    said = asked.nothing()
    for block in part.blocks(transform):
        said += asked.heard(block)
    return number, said


def contributions(
    owners: IntArray, place: IntArray, labels: IntArray, *, classes: int, max_contributions: int
) -> tuple[IntArray, IntArray]:
    """(queries, classes) of all that is said: by each owner on at most `max_contributions` queries, once on each.

    owners, place, labels: of every row, its owner, the query nearest to it and its class, all (rows,).

    >>> owners, place, labels = np.array([7, 7, 7, 9]), np.array([4, 4, 2, 2]), np.array([1, 0, 1, 0])
    >>> contributions(owners, place, labels, classes=2, max_contributions=1)
    (array([4, 2]), array([0, 0]))
    """
    whose, everyone = _numbered(owners)
    if everyone == len(whose):
        return place, labels
    # Equal rows side by side: (owner, query, class), how often.
    said, often = _counted(whose, place, labels)
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
    whose, everyone = _numbered(owners)
    if everyone == len(whose):
        return _summed(labels, steps, classes).T
    said, often = _counted(whose, labels)
    said, _ = _ordered(said, often, by=(said[:, 1], -often, said[:, 0]))
    chosen = said[_begins(said[:, :1])][:, 1]
    own = labels == chosen[whose]
    sums, rows = _summed(whose[own], steps[own], everyone), np.bincount(whose[own], minlength=everyone)[:, None]
    return _summed(chosen, np.sign(sums) * (np.abs(sums) // rows), classes).T


def _numbered(owners: ArrayLike) -> tuple[IntArray, int]:
    """(owners as numbers from 0 without gaps, (rows,), how many there are)."""
    given = np.asarray(owners)
    if len(given) and given.dtype.kind in "iu" and given[0] == 0 and (np.diff(given) == 1).all():
        return given, len(given)
    different, whose = np.unique(given, return_inverse=True)
    return whose, len(different)


def _counted(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """(the different rows of some columns of numbers from 0, in order; how often each occurs)."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys, often = np.unique(np.ravel_multi_index(columns, shape), return_counts=True)
    return np.stack(np.unravel_index(keys, shape), axis=1), often


def _summed(groups: IntArray, steps: IntArray, count: int) -> IntArray:
    """(count, directions): of every group the sum of its rows, in whole numbers."""
    ones = np.ones(len(groups), np.int64)
    return csr_array((ones, (groups, np.arange(len(groups)))), shape=(count, len(groups))) @ steps


def _ordered(said: IntArray, often: IntArray, *, by: tuple[IntArray, ...]) -> tuple[IntArray, IntArray]:
    """Both in the order of the last of `by`, ties by the one before it."""
    order = np.lexsort(by)
    return said[order], often[order]


def _begins(keys: IntArray) -> NDArray[np.bool_]:
    """Where a row of sorted keys differs from the one before."""
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new
