"""Sums of the contributions of per-record teachers over blocks of private rows, here or by workers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import joblib
import numpy as np
from numpy.typing import ArrayLike

from ostrakon.data.object_store import AnyPath
from ostrakon.progress import Report, counted_in, reporting
from ostrakon.teachers.blocks import Block, Transform, UnitPart
from ostrakon.teachers.parallel import in_parallel
from ostrakon.teachers.shared import SharedValue, share
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray


@dataclass(frozen=True, eq=False)
class Contributions:
    """Votes, (queries, classes); sums of features, (directions, classes), or None; number of units.

    These are integers, so the order in which parts are added does not matter.
    """

    counts: IntArray
    sums: IntArray | None
    units: int

    def __add__(self, other: "Contributions") -> "Contributions":
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return Contributions(self.counts + other.counts, sums, self.units + other.units)


class ContributionRule(Protocol):
    """The public rule that maps private rows to contributions."""

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        ...

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of the units of one block."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Private rows that the workers of an engine read; they receive the path of a part, never rows.

    parts: no owner has rows in two of them. transform: from typed rows to features, independently for every row.
    folder: from which workers read `transform` and the rule.
    """

    parts: Sequence[UnitPart]
    transform: Transform
    folder: AnyPath


def sum_contributions(
    rows: Iterable[Block] | Parts, rule: ContributionRule, *, units: int, progress: bool | Report | None, label: str
) -> Contributions:
    """Return the sum over all private rows. units: their number, for the progress bar with this `label`.

    A part counts once, even if the engine repeats its work. Errors: `InvalidInput` if parts are missing;
    `WorkerKilled` if the engine gives up.
    """
    if isinstance(rows, Parts):
        return _by_workers(rows, rule, units=units, progress=progress, label=label)
    total = rule.empty()
    with (
        reporting(progress, label=label, total=units) as report,
        counted_in(lambda more, _: report(min(total.units + more, units), units)),
    ):
        for block in rows:
            total += rule.contributions_of(block)
            report(total.units, units)
    return total


def _by_workers(
    rows: Parts, rule: ContributionRule, *, units: int, progress: bool | Report | None, label: str
) -> Contributions:
    total, received = rule.empty(), set[int]()
    shared = share((rows.transform, rule), rows.folder)
    tasks = (joblib.delayed(_contributions_of_part)(number, part, shared) for number, part in enumerate(rows.parts))
    with reporting(progress, label=label, total=units) as report:
        for number, contributions in in_parallel(tasks, n_jobs=-1, max_nbytes=None):
            if number not in received:
                received.add(number)
                total += contributions
                report(total.units, units)
    if len(received) != len(rows.parts):
        raise InvalidInput(
            f"The engine gave {len(received)} of {len(rows.parts)} parts; the same command asks it again."
        )
    return total


def _contributions_of_part(number: int, part: UnitPart, shared: SharedValue) -> tuple[int, Contributions]:
    transform, rule = shared.get()
    total = rule.empty()
    for block in part.blocks(transform):
        total += rule.contributions_of(block)
    return number, total


def renumbered(owners: ArrayLike) -> tuple[IntArray, int]:
    """Return (owners as numbers from 0 without gaps, (rows,), their number)."""
    ids = np.asarray(owners)
    if len(ids) and ids.dtype.kind in "iu" and ids[0] == 0 and (np.diff(ids) == 1).all():
        return ids, len(ids)
    unique, number = np.unique(ids, return_inverse=True)
    return number, len(unique)


def distinct_rows(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return (the distinct rows of some columns of numbers from 0, in order; their frequencies)."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys, repeats = np.unique(np.ravel_multi_index(columns, shape), return_counts=True)
    return np.stack(np.unravel_index(keys, shape), axis=1), repeats
