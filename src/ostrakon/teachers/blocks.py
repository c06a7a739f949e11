"""Private rows with whose they are, block by block, for per-record teachers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ostrakon.data.arrow_cells import label_numbers, owner_numbers, typed_cells
from ostrakon.data.columns import Columns
from ostrakon.data.images_on_disk import Pixels
from ostrakon.data.sharding import ShardFolder, ShardPart, pieces
from ostrakon.data.streaming import stream
from ostrakon.data.task import TableTask
from ostrakon.features.rowwise import row_count, take_rows

IntArray = NDArray[np.int64]
Transform = Callable[[Any], Any]
Block = tuple[Any, Any, Any]
"""(whose each row is, features of the rows, class numbers), with all rows of everyone whom it names."""

FEWEST, MOST, _CELLS = 1536, 49_152, 2**20
"""Rows that are seen together: the more, up to `MOST` and so many numbers of theirs, the quicker they go through."""
_QUICK = 0.25
"""Seconds within which a block must go through for the next one to be twice as large, so that progress shows."""


def blocks_of_records(task: TableTask, transform: Transform) -> Iterator[Block]:
    """Every record of the private table, whose own it is, as it stands there; nothing is written.

    Guarantee: a row's block, and the rows beside it, have no say in what is made of it where `transform` treats each
    row on its own, to the last bit.
    """
    columns = [*task.columns.kept, task.target]
    grown = _Grown(transform)
    for rows in stream(task.private, columns, labels=task.target, rows=MOST):
        yield from grown.blocks(typed_cells(rows, task.columns), label_numbers(rows.column(task.target), task.classes))
    task.private.require_unchanged()


@dataclass(frozen=True, kw_only=True)
class UnitPart:
    """Some records, or all rows of some users, where they lie: cheap to send to a worker, which reads them. Private.

    held: shards that `TableTask.partition` made with its users. by: the column of users; None: every row is a unit.
    """

    held: ShardPart
    columns: Columns
    by: str | None
    target: str
    classes: tuple[str, ...]

    def blocks(self, transform: Transform) -> Iterator[Block]:
        """The rows, some at a time; of users a shard at a time. Guarantee: as of `blocks_of_records`."""
        grown = _Grown(transform)
        for rows in self.held.tables():
            if self.by is not None:
                owners = owner_numbers(rows.column(self.by))
                yield owners, transform(typed_cells(rows, self.columns)), self._labels(rows)
                continue
            for at in range(0, rows.num_rows, MOST):
                some = rows.slice(at, MOST)
                yield from grown.blocks(typed_cells(some, self.columns), self._labels(some))

    def _labels(self, rows: pa.Table) -> IntArray:
        return label_numbers(rows.column(self.target), self.classes)


def unit_parts(folder: ShardFolder, task: TableTask) -> list[UnitPart]:
    """Every file of shards that `task.partition` made with its users, as a part by itself."""
    filled = [shards for shards in pieces(folder.n_teachers) if folder.sizes[shards.start : shards.stop].any()]
    return [_unit_part(folder, task, shards) for shards in filled]


def blocks_of_users(folder: ShardFolder, task: TableTask, transform: Transform) -> Iterator[Block]:
    """All rows of some users at a time: a shard that `task.partition` made with its users."""
    for index in np.flatnonzero(folder.sizes).tolist():
        yield from _unit_part(folder, task, range(index, index + 1)).blocks(transform)


def _unit_part(folder: ShardFolder, task: TableTask, shards: range) -> UnitPart:
    return UnitPart(
        held=folder.part(shards), columns=task.columns, by=task.by, target=task.target, classes=task.classes
    )


def blocks_of_array(X: Any, y: IntArray, transform: Transform) -> Iterator[Block]:
    """Every row in memory, whose own it is."""
    yield from _Grown(transform).blocks(X, y)
    if isinstance(X, Pixels):
        X.require_unchanged()


class _Grown:
    """Blocks of records that grow while they are quick to transform: a network's may take a minute for each."""

    def __init__(self, transform: Transform) -> None:
        self.transform, self.rows = transform, FEWEST

    def blocks(self, X: Any, y: IntArray) -> Iterator[Block]:
        at, all_rows = 0, row_count(X)
        while at < all_rows:
            here = np.arange(at, min(at + self.rows, all_rows))
            started = time.perf_counter()
            made = self.transform(take_rows(X, here))
            if len(here) == self.rows and time.perf_counter() - started < _QUICK:
                most = _CELLS // max(1, int(np.prod(np.shape(made)[1:])))
                self.rows = max(FEWEST, min(2 * self.rows, MOST, most))
            yield np.arange(len(here)), made, y[here]
            at += len(here)
