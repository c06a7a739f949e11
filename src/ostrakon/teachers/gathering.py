"""What per-record teachers add to released tables, summed over blocks of private rows, here or by workers."""

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
class Said:
    """Contributions: votes, (queries, classes); sums of features, (directions, classes), or None; number of units.

    Sums of integers, so the order in which parts are added does not matter.
    """

    counts: IntArray
    sums: IntArray | None
    units: int

    def __add__(self, other: "Said") -> "Said":
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return Said(self.counts + other.counts, sums, self.units + other.units)


class Asked(Protocol):
    """What all units are asked: public."""

    def nothing(self) -> Said:
        """The contributions of no unit."""
        ...

    def contributions_of(self, block: Block) -> Said:
        """The contributions of the units of one block."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Private rows that the workers of an engine read; they receive the path of a part, never rows.

    parts: no owner has rows in two of them. transform: from typed rows to features, independently for every row.
    folder: from which workers read `transform` and what is asked.
    """

    parts: Sequence[UnitPart]
    transform: Transform
    folder: AnyPath


def gathered(
    rows: Iterable[Block] | Parts, asked: Asked, *, units: int, progress: bool | Report | None, label: str
) -> Said:
    """The sum over all private rows. units: their number, for the progress bar with this `label`.

    A part counts once, even if the engine repeats its work. Errors: `InvalidInput` if parts are missing;
    `WorkerKilled` if the engine gives up.
    """
    if isinstance(rows, Parts):
        return _by_workers(rows, asked, units=units, progress=progress, label=label)
    said = asked.nothing()
    with (
        reporting(progress, label=label, total=units) as report,
        counted_in(lambda more, _: report(min(said.units + more, units), units)),
    ):
        for block in rows:
            said += asked.contributions_of(block)
            report(said.units, units)
    return said


def _by_workers(rows: Parts, asked: Asked, *, units: int, progress: bool | Report | None, label: str) -> Said:
    said, received = asked.nothing(), set[int]()
    shared = share((rows.transform, asked), rows.folder)
    tasks = (joblib.delayed(_contributions_of_part)(number, part, shared) for number, part in enumerate(rows.parts))
    with reporting(progress, label=label, total=units) as report:
        for number, some in in_parallel(tasks, n_jobs=-1, max_nbytes=None):
            if number not in received:
                received.add(number)
                said += some
                report(said.units, units)
    if len(received) != len(rows.parts):
        raise InvalidInput(
            f"The engine gave {len(received)} of {len(rows.parts)} parts; the same command asks it again."
        )
    return said


def _contributions_of_part(number: int, part: UnitPart, shared: SharedValue) -> tuple[int, Said]:
    transform, asked = shared.get()
    said = asked.nothing()
    for block in part.blocks(transform):
        said += asked.contributions_of(block)
    return number, said


def numbered(owners: ArrayLike) -> tuple[IntArray, int]:
    """(owners as numbers from 0 without gaps, (rows,), their number)."""
    given = np.asarray(owners)
    if len(given) and given.dtype.kind in "iu" and given[0] == 0 and (np.diff(given) == 1).all():
        return given, len(given)
    different, whose = np.unique(given, return_inverse=True)
    return whose, len(different)


def distinct(*columns: IntArray) -> tuple[IntArray, IntArray]:
    """(the distinct rows of some columns of numbers from 0, in order; how often each occurs)."""
    shape = tuple(int(column.max(initial=0)) + 1 for column in columns)
    keys, often = np.unique(np.ravel_multi_index(columns, shape), return_counts=True)
    return np.stack(np.unravel_index(keys, shape), axis=1), often
