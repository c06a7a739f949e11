"""Private rows with their owners, in blocks, for per-record teachers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ostrakon.data.arrow_cells import label_numbers, owner_numbers, stream, typed_cells
from ostrakon.data.columns import Columns
from ostrakon.data.consent import Consent
from ostrakon.data.images_on_disk import Pixels
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.sharding import ShardFolder, ShardPart, pieces
from ostrakon.data.task import TableTask
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.votes import IntArray

Transform = Callable[[Any], Any]
Block = tuple[Any, Any, Any]
"""(owner of every row, features, targets): all rows of some owners. Targets are classes, steps of a quantity, or
labels; with levels of consent, class and level, (rows, 2)."""

FEWEST, MOST, _NUMBERS = 1536, 49_152, 2**20
"""Smallest and largest number of rows of a block, and largest number of its features: large blocks are faster."""
_FAST = 0.25
"""Seconds: after a faster block, the next one is twice as large; slower blocks stay small, so that progress shows."""


def blocks_of_records(task: TableTask, transform: Transform) -> Iterator[Block]:
    """Yield every record of the private table as a unit, in the order of the table, without writing files.

    Guarantee: the block of a row, and the other rows in it, do not change its features if `transform` treats every row
    independently, to the last bit.
    """
    columns = [*task.columns.kept, task.target, *task.extra]
    growing = _GrowingBlocks(transform)
    for rows in stream(task.private, columns, labels=task.target, rows=MOST):
        labels = label_numbers(rows.column(task.target), task.coding or task.classes)
        yield from growing.blocks(typed_cells(rows, task.columns), _with_levels(labels, rows, task.consent))
    task.private.require_unchanged()


@dataclass(frozen=True, kw_only=True)
class UnitPart:
    """Some records, or all rows of some users, as paths: cheap to send to a worker, which reads them. Private.

    shards: from `TableTask.partition` with its users. by: the column of users; None: every row is a unit.
    """

    shards: ShardPart
    columns: Columns
    by: str | None
    target: str
    classes: tuple[str, ...] | Quantity | Labels
    consent: Consent | None = None

    def blocks(self, transform: Transform) -> Iterator[Block]:
        """Yield the rows in blocks; for users a shard in each. Guarantee: as in `blocks_of_records`."""
        growing = _GrowingBlocks(transform)
        for rows in self.shards.tables():
            if self.by is not None:
                owners = owner_numbers(rows.column(self.by))
                yield owners, transform(typed_cells(rows, self.columns)), self._labels(rows)
                continue
            for at in range(0, rows.num_rows, MOST):
                block = rows.slice(at, MOST)
                yield from growing.blocks(typed_cells(block, self.columns), self._labels(block))

    def _labels(self, rows: pa.Table) -> IntArray:
        return _with_levels(label_numbers(rows.column(self.target), self.classes), rows, self.consent)


def unit_parts(folder: ShardFolder, task: TableTask) -> list[UnitPart]:
    """Return a part for every file of shards that `task.partition` wrote with its users."""
    filled = [shards for shards in pieces(folder.n_teachers) if folder.sizes[shards.start : shards.stop].any()]
    return [_unit_part(folder, task, shards) for shards in filled]


def blocks_of_users(folder: ShardFolder, task: TableTask, transform: Transform) -> Iterator[Block]:
    """Yield a block for every shard that `task.partition` wrote with its users: all rows of some users."""
    for index in np.flatnonzero(folder.sizes).tolist():
        yield from _unit_part(folder, task, range(index, index + 1)).blocks(transform)


def _unit_part(folder: ShardFolder, task: TableTask, shards: range) -> UnitPart:
    return UnitPart(
        shards=folder.part(shards),
        columns=task.columns,
        by=task.by,
        target=task.target,
        classes=task.coding or task.classes,
        consent=task.consent,
    )


def _with_levels(labels: IntArray, rows: pa.Table, consent: Consent | None) -> IntArray:
    """Return the labels, or with levels of consent both, (rows, 2)."""
    if consent is None or consent.column is None:
        return labels
    return np.column_stack([labels, consent.numbers(rows.column(consent.column).to_pandas().tolist())])


def blocks_of_array(X: Any, y: IntArray, transform: Transform) -> Iterator[Block]:
    """Yield every row in memory as a unit."""
    yield from _GrowingBlocks(transform).blocks(X, y)
    if isinstance(X, Pixels):
        X.require_unchanged()


class _GrowingBlocks:
    """Blocks of records whose size grows while transforms are fast; a network may take a minute for a block."""

    def __init__(self, transform: Transform) -> None:
        self.transform, self.rows = transform, FEWEST

    def blocks(self, X: Any, y: IntArray) -> Iterator[Block]:
        at, all_rows = 0, row_count(X)
        while at < all_rows:
            positions = np.arange(at, min(at + self.rows, all_rows))
            started = time.perf_counter()
            features = self.transform(take_rows(X, positions))
            if len(positions) == self.rows and time.perf_counter() - started < _FAST:
                most = _NUMBERS // max(1, int(np.prod(np.shape(features)[1:])))
                self.rows = max(FEWEST, min(2 * self.rows, MOST, most))
            yield np.arange(len(positions)), features, y[positions]
            at += len(positions)
