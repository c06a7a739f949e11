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
"""(owner of every row, features, classes, or steps of a quantity, or labels), with all rows of every owner in it. With
levels of consent, the class and the level of a row are side by side, (rows, 2)."""

FEWEST, MOST, _CELLS = 1536, 49_152, 2**20
"""Minimum and maximum number of rows of a block, and of its features: large blocks are faster."""
_QUICK = 0.25
"""Seconds: after a faster block, the next one is twice as large; slower blocks stay small, so that progress shows."""


def blocks_of_records(task: TableTask, transform: Transform) -> Iterator[Block]:
    """Every record of the private table as a unit, in the order of the table; nothing is written.

    Guarantee: the block of a row, and the other rows in it, do not change its features if `transform` treats every row
    independently, to the last bit.
    """
    columns = [*task.columns.kept, task.target, *task.extra]
    grown = _Grown(transform)
    for rows in stream(task.private, columns, labels=task.target, rows=MOST):
        labels = label_numbers(rows.column(task.target), task.read_by or task.classes)
        yield from grown.blocks(typed_cells(rows, task.columns), _with_levels(labels, rows, task.consent))
    task.private.require_unchanged()


@dataclass(frozen=True, kw_only=True)
class UnitPart:
    """Some records, or all rows of some users, as paths: cheap to send to a worker, which reads them. Private.

    shards: made by `TableTask.partition` made with its users. by: the column of users; None: every row is a unit.
    """

    shards: ShardPart
    columns: Columns
    by: str | None
    target: str
    classes: tuple[str, ...] | Quantity | Labels
    consent: Consent | None = None

    def blocks(self, transform: Transform) -> Iterator[Block]:
        """The rows in blocks; a shard per block for users. Guarantee: as of `blocks_of_records`."""
        grown = _Grown(transform)
        for rows in self.shards.tables():
            if self.by is not None:
                owners = owner_numbers(rows.column(self.by))
                yield owners, transform(typed_cells(rows, self.columns)), self._labels(rows)
                continue
            for at in range(0, rows.num_rows, MOST):
                some = rows.slice(at, MOST)
                yield from grown.blocks(typed_cells(some, self.columns), self._labels(some))

    def _labels(self, rows: pa.Table) -> IntArray:
        return _with_levels(label_numbers(rows.column(self.target), self.classes), rows, self.consent)


def unit_parts(folder: ShardFolder, task: TableTask) -> list[UnitPart]:
    """One part for every file of shards that `task.partition` made with its users."""
    filled = [shards for shards in pieces(folder.n_teachers) if folder.sizes[shards.start : shards.stop].any()]
    return [_unit_part(folder, task, shards) for shards in filled]


def blocks_of_users(folder: ShardFolder, task: TableTask, transform: Transform) -> Iterator[Block]:
    """One block for every shard that `task.partition` made with its users: all rows of some users."""
    for index in np.flatnonzero(folder.sizes).tolist():
        yield from _unit_part(folder, task, range(index, index + 1)).blocks(transform)


def _unit_part(folder: ShardFolder, task: TableTask, shards: range) -> UnitPart:
    return UnitPart(
        shards=folder.part(shards),
        columns=task.columns,
        by=task.by,
        target=task.target,
        classes=task.read_by or task.classes,
        consent=task.consent,
    )


def _with_levels(labels: IntArray, rows: pa.Table, consent: Consent | None) -> IntArray:
    """The labels, or with levels of consent both side by side."""
    if consent is None or consent.column is None:
        return labels
    return np.column_stack([labels, consent.numbers(rows.column(consent.column).to_pandas().tolist())])


def blocks_of_array(X: Any, y: IntArray, transform: Transform) -> Iterator[Block]:
    """Every row in memory as a unit."""
    yield from _Grown(transform).blocks(X, y)
    if isinstance(X, Pixels):
        X.require_unchanged()


class _Grown:
    """Blocks of records that grow while they are fast to transform: with a network, a block may take a minute."""

    def __init__(self, transform: Transform) -> None:
        self.transform, self.rows = transform, FEWEST

    def blocks(self, X: Any, y: IntArray) -> Iterator[Block]:
        at, all_rows = 0, row_count(X)
        while at < all_rows:
            here = np.arange(at, min(at + self.rows, all_rows))
            started = time.perf_counter()
            features = self.transform(take_rows(X, here))
            if len(here) == self.rows and time.perf_counter() - started < _QUICK:
                most = _CELLS // max(1, int(np.prod(np.shape(features)[1:])))
                self.rows = max(FEWEST, min(2 * self.rows, MOST, most))
            yield np.arange(len(here)), features, y[here]
            at += len(here)
