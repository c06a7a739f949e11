"""The private data of a run: rows in memory, or a table on disk that may be larger than memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from ostrakon.data.identity import fingerprint_of_identities, identity_numbers, require_users
from ostrakon.data.images_on_disk import Pixels, blocks_of
from ostrakon.data.labels import set_numbers
from ostrakon.data.object_store import StoredFolder
from ostrakon.data.partition import assign_teachers, key_from_seed, random_partition
from ostrakon.data.sharding import ShardFolder
from ostrakon.data.task import TableTask
from ostrakon.features.rowwise import row_count
from ostrakon.mechanisms.base import Relation
from ostrakon.statements.adjacency import adjacency, label_adjacency, other_adjacency
from ostrakon.statements.statement import Protects, Unit
from ostrakon.teachers.blocks import (
    Block,
    UnitPart,
    blocks_of_array,
    blocks_of_records,
    blocks_of_users,
    unit_parts,
)
from ostrakon.teachers.shards import ArrayShards, Shards, TableShards
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

Transform = Callable[[Any], Any]

_ROWS_AT_A_TIME = 50_000


class PrivateData(Protocol):
    """The interface of private data.

    unit: the protected unit; protects: whole records or labels alone. units: number of units. unit_column: the column
    with the user of each row; None without one.
    """

    @property
    def protects(self) -> Protects: ...

    @property
    def unit(self) -> Unit: ...

    @property
    def units(self) -> int: ...

    @property
    def unit_column(self) -> str | None: ...

    def adjacencies(self, *, counted: bool = False) -> tuple[tuple[Relation, str], ...]:
        """Return (relation, sentence of the statement) for all definitions of neighbours, that of the guarantee first.

        counted: whether the number of units is public.
        """
        ...

    def fingerprint(self, key: bytes) -> str:
        """Return a keyed fingerprint of the users, or of the records without users."""
        ...

    def shards(
        self, teachers: int, *, classes: int, seed: int, transform: Transform, folder: Path | StoredFolder
    ) -> Shards:
        """Return the rows of every teacher, by a keyed hash of the identity of each row (or its user).

        classes: their number. transform: from rows to features. folder: for the shards of a table.
        Errors: `InvalidInput` if a teacher would have no rows.
        """
        ...

    def by_unit(self, *, seed: int, transform: Transform, folder: Path) -> Iterator[Block]:
        """Yield the rows with their owners, for `ostrakon.teachers.per_record`. folder: for shards of users."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Private rows in memory.

    X: array, frame, images or `Pixels`, (rows, ...). y: their class numbers, shape (rows,). users: the user of each
    row, shape (rows,), if users are protected; None: records are. fixed: rows are split at random by position instead
    of by content, for a table whose number of rows is public. protects: "labels" if X and users are public. identities:
    digests of the original rows for a ledger, if X was computed from them. levels: number of every row's level of
    consent, shape (rows,), if they have one.

    Errors: `InvalidInput` for lengths that differ, no rows, users of a fixed table, missing users, users of
    a type that one of them could change (`ostrakon.data.identity.require_users`).
    """

    X: Any
    y: IntArray
    users: Any = None
    fixed: bool = False
    protects: Protects = "records"
    identities: Any = None
    levels: IntArray | None = None

    def __post_init__(self) -> None:
        rows = row_count(self.X)
        if len(self.y) != rows:
            raise InvalidInput(f"y must have one label per private row, {rows}, got {len(self.y)}.")
        if rows == 0:
            raise InvalidInput("The private data must have at least one row, got none.")
        if self.fixed and self.users is not None:
            raise InvalidInput("A random split cannot protect users: split by the users' identity instead.")
        if self.users is not None and np.shape(self.users) != (rows,):
            raise InvalidInput(f"users must have one entry per private row, {rows}, got shape {np.shape(self.users)}.")
        if self.users is not None and (missing := int(pd.isna(np.asarray(self.users, object)).sum())):
            raise InvalidInput(f"users must say whose every private row is, got {missing} missing.")
        if self.users is not None:
            require_users(self.users)

    @property
    def unit(self) -> Unit:
        """A user if users are given, else a record."""
        return "record" if self.users is None else "user"

    @property
    def units(self) -> int:
        """Number of records, or of users."""
        return int(self._owners.max()) + 1

    @cached_property
    def _owners(self) -> IntArray:
        return np.arange(row_count(self.X)) if self.users is None else identity_numbers(self.users)

    @property
    def unit_column(self) -> None:
        """Users in memory have no column."""
        return None

    def adjacencies(self, *, counted: bool = False) -> tuple[tuple[Relation, str], ...]:
        """See `PrivateData`."""
        by = None if self.users is None else "user"
        return _adjacencies(self.protects, by=by, fixed=self.fixed or counted)

    def fingerprint(self, key: bytes) -> str:
        """See `PrivateData`."""
        return fingerprint_of_identities(records_of(self.X, self.identities), self.users, key=key)

    def assignment(self, teachers: int, *, seed: int) -> IntArray:
        """Return the teacher of every row."""
        if self.fixed:
            return random_partition(row_count(self.X), teachers, seed=seed)
        return assign_teachers(self.X if self.users is None else self.users, teachers, key=key_from_seed(seed))

    def shards(
        self, teachers: int, *, classes: int, seed: int, transform: Transform, folder: Path | StoredFolder | None = None
    ) -> ArrayShards:
        """See `PrivateData`; nothing is written."""
        assignment = self.assignment(teachers, seed=seed)
        _require_rows(np.bincount(assignment, minlength=teachers), self)
        y = self.y if self.y.ndim == 1 else set_numbers(self.y)
        return ArrayShards(_features(transform, self.X), y, assignment, n_teachers=teachers, classes=classes)

    def by_unit(self, *, seed: int, transform: Transform, folder: Path | None = None) -> Iterator[Block]:
        """See `PrivateData`; with users one block, with records several, so that progress shows."""
        labels = self.y if self.levels is None else np.column_stack([self.y, self.levels])
        if self.users is not None:
            yield self._owners, _features(transform, self.X), labels
            return
        yield from blocks_of_array(self.X, labels, transform)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateTable:
    """The private table of a task on disk: it is split there and read one teacher at a time.

    digest: a checksum of the table, so that shards of another table are refused.
    """

    tables: TableTask
    digest: str = ""

    @property
    def unit(self) -> Unit:
        """A user if a column names the user of each row, else a record."""
        return self.tables.unit

    @property
    def units(self) -> int:
        """Number of records, or of users."""
        return self._units

    @cached_property
    def _units(self) -> int:
        return self.tables.units()

    @property
    def unit_column(self) -> str | None:
        """The column of users."""
        return self.tables.by

    @property
    def protects(self) -> Protects:
        """As of the task."""
        return self.tables.protects

    def adjacencies(self, *, counted: bool = False) -> tuple[tuple[Relation, str], ...]:
        """See `PrivateData`."""
        return _adjacencies(self.protects, by=self.tables.by, fixed=counted)

    def fingerprint(self, key: bytes) -> str:
        """See `PrivateData`."""
        return self.tables.private.fingerprint(by=self.tables.by, key=key)

    def shards(
        self, teachers: int, *, classes: int, seed: int, transform: Transform, folder: Path | StoredFolder
    ) -> TableShards:
        """See `PrivateData`; the table is split once, and the shards are kept in `folder`."""
        partition = self.tables.partition(folder, teachers, key=key_from_seed(seed), digest=self.digest)
        _require_rows(partition.sizes, self)
        return TableShards(partition, self.tables, transform=transform)

    def by_unit(self, *, seed: int, transform: Transform, folder: Path) -> Iterator[Block]:
        """See `PrivateData`; records are read in the order of the table, users from shards that fit memory."""
        if self.tables.by is None:
            yield from blocks_of_records(self.tables, transform)
            return
        yield from blocks_of_users(self._pieces(seed, folder), self.tables, transform)

    def parts_by_unit(self, *, seed: int, folder: Path | StoredFolder) -> list[UnitPart]:
        """Return the rows of `by_unit` as parts for the workers of an engine; shards are stored in `folder`."""
        return unit_parts(self._pieces(seed, folder), self.tables)

    def _pieces(self, seed: int, folder: Path | StoredFolder) -> ShardFolder:
        pieces = 1 + self.tables.private.rows() // _ROWS_AT_A_TIME
        return self.tables.partition(folder, pieces, key=key_from_seed(seed), users=True, digest=self.digest)


def records_of(X: Any, identities: Any) -> Any:
    """Return what a fingerprint of the records is computed from: their identities, or else their content."""
    return X if identities is None else pa.table({"record": [str(identity) for identity in identities]})


def _adjacencies(protects: Protects, *, by: str | None, fixed: bool) -> tuple[tuple[Relation, str], ...]:
    if protects == "labels":
        # Features of all records are public, so no record can be left out.
        return (("labels", label_adjacency(by=by)),)
    first, other = ("replace", "take-out") if fixed else ("add-remove", "replace")
    return (first, adjacency(by=by, fixed=fixed)), (other, other_adjacency(by=by, fixed=fixed))


def _features(transform: Transform, X: Any) -> Any:
    """Return `transform` of all rows, without decoding all images at once."""
    if not isinstance(X, Pixels):
        return transform(X)
    transformed = np.concatenate([transform(block) for block in blocks_of(X)])
    X.require_unchanged()
    return transformed


def _require_rows(sizes: IntArray, data: PrivateData) -> None:
    empty = int((sizes == 0).sum())
    if empty:
        raise InvalidInput(
            f"teachers must be few enough for everyone to have rows: {empty} of {len(sizes)} would have none of the "
            f"{data.units} {data.unit}s; ask for fewer."
        )
