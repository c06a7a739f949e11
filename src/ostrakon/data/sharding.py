"""A table larger than memory, split among teachers by one SQL statement: a Parquet file for a few of them each."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ostrakon.data.checksummed import Damaged, Unreachable, checksums, read_checksummed, sha256, write_checksummed
from ostrakon.data.files import cannot_write, private_folder, sync_folder, writing
from ostrakon.data.object_store import AnyPath, ObjectPath, StoredFolder, as_file
from ostrakon.data.partition import quoted, teacher_sql
from ostrakon.data.sources import Table, asking, interruptible, label_sql, literal
from ostrakon.validation import InvalidInput, whole

TEACHER, PIECE = "teacher", "piece"
MOST_PIECES = 48
"""Pieces into which teachers are cut, a file each: thousands of teachers are no thousands of files."""
_LIST, _LISTED = "shards.json", "list of shards"
# Each thread holds about 50 MB of rows that wait to be written; more threads would not fit the memory limit.
_MOST_THREADS = 8
_FULL = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "failed to offload",
    "max_temp_directory_size",
)


@dataclass(frozen=True)
class ShardFile:
    """One file of rows and the SHA-256 that it had when it was written."""

    path: Path | ObjectPath
    checksum: str

    def read(self) -> pa.Table:
        """The rows. Raises `InvalidInput` for a file that is missing or not as it was written, or is not reached."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError as error:
            raise _damaged(self.path.parent) from error
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be read ({error}); once it can, the same command goes on."
            ) from error
        try:
            if sha256(content) != self.checksum:
                raise _damaged(self.path.parent)
            return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(self.path.parent) from error


def pieces(n_teachers: int, *, most: int = MOST_PIECES) -> list[range]:
    """Neighbouring teachers, in at most `most` pieces: by their number alone, which is public, not by their rows.

    >>> pieces(5, most=3)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    each = -(-n_teachers // most)
    return [range(start, min(start + each, n_teachers)) for start in range(0, n_teachers, each)]


@dataclass(frozen=True, kw_only=True)
class ShardPart:
    """Where the rows of some teachers lie, cheap to send to a worker that reads them. Private.

    files: that hold them, among those of other teachers. number: the column that says whose a row is.
    """

    files: tuple[ShardFile, ...]
    number: str
    teachers: range

    def tables(self) -> list[pa.Table]:
        """The rows of each teacher, in an order that follows from its rows alone; none where nobody has any.

        Who was faster when the table was split has no say in what a teacher learns, nor has the order of the table.
        Raises `InvalidInput` for files that are missing or damaged.
        """
        first, last = self.teachers[0], self.teachers[-1]
        own = (pc.field(self.number) >= first) & (pc.field(self.number) <= last)
        held = [file.read().filter(own) for file in self.files]
        if not held:
            return []
        rows = pa.concat_tables(held)
        content = [name for name in rows.column_names if name != self.number]
        rows = rows.sort_by([(name, "ascending") for name in (self.number, *content)])
        ends = np.searchsorted(rows[self.number].to_numpy(), [*self.teachers, last + 1])
        return [rows.slice(at, to - at).select(content) for at, to in itertools.pairwise(ends.tolist())]

    def read(self) -> list[pd.DataFrame]:
        """`tables`, each as a frame by itself: another teacher's missing cells have no say in how its own are held."""
        return [_frame(rows) for rows in self.tables()] or [pd.DataFrame() for _ in self.teachers]


@dataclass(frozen=True, kw_only=True)
class ShardFolder:
    """Shards on disk, or in object storage: folder/piece-17.parquet holds the rows of some neighbours. Private.

    sizes: rows of every teacher, shape (n_teachers,). listed: the checksum of every file, by its name. number: the
    column of its rows that says whose they are.
    """

    folder: Path | ObjectPath
    n_teachers: int
    sizes: NDArray[np.int64]
    listed: dict[str, str]
    number: str

    @classmethod
    def open(cls, folder: AnyPath, n_teachers: int, *, belongs: dict[str, Any] | None = None) -> Self:
        """Shards that `partition_table` finished.

        belongs: how they were made, where the caller knows.
        Raises `InvalidInput` where there are none, damaged ones, or those of another table or another split. The files
        themselves are verified when they are read.
        """
        place = as_file(folder)
        if isinstance(place, Path) and not place.is_dir():
            raise InvalidInput(f"There are no shards in {place}.")
        n_teachers = whole("n_teachers", n_teachers, at_least=1)
        try:
            held = read_checksummed(place / _LIST, what=_LISTED)
        except Unreachable:
            raise
        except Damaged as error:
            raise _damaged(place) from error
        if held is None:
            raise _damaged(place)
        different = [name for name, value in (belongs or {}).items() if held.belongs.get(name) != value]
        if different:
            raise InvalidInput(
                f"{place} holds shards that were made otherwise (different: {', '.join(different)}); choose another "
                "folder, or remove it."
            )
        content = json.loads(held.payload)
        sizes = np.array(content["sizes"], np.int64)
        if len(sizes) != n_teachers:
            raise InvalidInput(f"{place} holds shards of {len(sizes)} teachers, but there are {n_teachers} teachers.")
        return cls(folder=place, n_teachers=n_teachers, sizes=sizes, listed=content["files"], number=content["number"])

    def part(self, teachers: range) -> ShardPart:
        """The rows of neighbouring teachers, not yet read. Errors: `InvalidInput` for teachers that do not exist."""
        whole("index", teachers.start, at_most=self.n_teachers - 1)
        whole("index", teachers.stop - 1, at_least=teachers.start, at_most=self.n_teachers - 1)
        asked = (number for number, own in enumerate(pieces(self.n_teachers)) if _overlap(own, teachers))
        listed = [(name, self.listed[name]) for name in map(_file_name, asked) if name in self.listed]
        if isinstance(self.folder, ObjectPath):
            files = tuple(ShardFile(self.folder / _stored_name(*each), each[1]) for each in listed)
        else:
            files = tuple(ShardFile(self.folder / name, checksum) for name, checksum in listed)
        return ShardPart(files=files, number=self.number, teachers=teachers)

    def read(self, index: int) -> pd.DataFrame:
        """The rows of one teacher; as of `ShardPart.read`."""
        return self.part(range(index, index + 1)).read()[0]


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _file_name(piece: int) -> str:
    return f"{PIECE}-{piece:02d}.parquet"


def _stored_name(name: str, checksum: str) -> str:
    """A name by content: rows lie in another order each time a table is split, and so do the bytes of a file."""
    return f"{checksum[:16]}-{name}"


def _frame(rows: pa.Table) -> pd.DataFrame:
    # Integers stay integers beside a missing one: as floats, all beyond 2**53 would be rounded because of that one.
    return rows.to_pandas(date_as_object=False, integer_object_nulls=True, use_threads=False)


def partition_table(
    table: Table,
    folder: str | os.PathLike[str] | StoredFolder,
    n_teachers: int,
    *,
    key: bytes,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    labels: str | None = None,
    identity: Sequence[str] | None = None,
    digest: str = "",
    memory_limit: str = "1GB",
    threads: int | None = None,
) -> ShardFolder:
    """Split a table among teachers, out of core: the same teachers as `assign_teachers` gives in memory.

    folder: where the shards go; shards that are there already (from a run that was interrupted later) are kept.
        In object storage, they are made in its local scratch, put, the list last, and removed from there.
    by: the column of users; default: a row's content is its identity, or that of its columns `identity`. key: see
    `assign_teachers`.
    columns: what to write of a row; default: all. labels: one of them that is written as `Table.labels` gives it.
    digest: a checksum of the table, so that shards of another one are not taken for its own.
    memory_limit: for DuckDB's buffers, as it writes it ("1GB"); the process takes about 0.2 GB more.
    threads: default: one per core, eight at most.

    Half-written shards never stand under `folder`: they are written aside and renamed when they are whole.
    Raises `InvalidInput` for what cannot be read, `CannotWrite` on a full disk.
    """
    n_teachers = whole("n_teachers", n_teachers, at_least=1)
    if by is not None and by not in table.columns:
        raise InvalidInput(f"The column of users {by!r} is not in {table.path}.")
    written = list(table.columns if columns is None else columns)
    content = list(table.columns if identity is None else identity)
    belongs = {"table": digest, "key": sha256(key), "by": by, "columns": written, "labels": labels}
    if identity is not None:
        belongs["identity"] = content
    split = _Split(
        table=table,
        n_teachers=n_teachers,
        key=key,
        identity=content if by is None else [by],
        written=[_written(name, table, labels) for name in written],
        belongs=belongs,
        memory_limit=memory_limit,
        threads=min(os.cpu_count() or 1, _MOST_THREADS) if threads is None else whole("threads", threads, at_least=1),
    )
    return split.into_store(folder) if isinstance(folder, StoredFolder) else split.into_folder(Path(folder))


@dataclass(frozen=True, kw_only=True)
class _Split:
    """How a table is split. identity: columns that say whose a row is; written: what is written of a row, in SQL."""

    table: Table
    n_teachers: int
    key: bytes
    identity: list[str]
    written: list[str]
    belongs: dict[str, Any]
    memory_limit: str
    threads: int

    def into_store(self, folder: StoredFolder) -> ShardFolder:
        """Split in local scratch, put the shards into the store, the list last, and open them there."""
        if not _is_listed(folder.place):
            split = self.into_folder(folder.scratch)
            for name, checksum in split.listed.items():
                (folder.place / _stored_name(name, checksum)).put((folder.scratch / name).read_bytes())
            # Of two machines that split it at once, the first list counts; it names its own files.
            with contextlib.suppress(FileExistsError):
                (folder.place / _LIST).put((folder.scratch / _LIST).read_bytes(), create=True)
            _remove(folder.scratch)
        return ShardFolder.open(folder.place, self.n_teachers, belongs=self.belongs)

    def into_folder(self, target: Path) -> ShardFolder:
        """Split beside `target` and rename when all is written."""
        if target.is_dir():
            return ShardFolder.open(target, self.n_teachers, belongs=self.belongs)
        with writing(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
        aside, spill = (target.with_name(f"{target.name}.{end}") for end in ("part", "spill"))
        _remove(aside, spill)
        number, piece = _free_names(self.table, TEACHER, PIECE)
        try:
            for folder in (aside, spill):
                private_folder(folder)
            self._copy(aside, spill, number, piece, target)
            for part in list(aside.iterdir()):
                _join(part, aside / _file_name(int(part.name.rpartition("=")[2])))
            # Else shards of another table would pass for this one's.
            self.table.require_unchanged()
            _list_shards(aside, self.n_teachers, number, self.belongs)
            sync_folder(aside)
            os.replace(aside, target)
            sync_folder(target.parent)
        except OSError as error:
            raise cannot_write(target, error) from error
        finally:
            _remove(aside, spill)
        return ShardFolder.open(target, self.n_teachers)

    def _copy(self, aside: Path, spill: Path, number: str, piece: str, target: Path) -> None:
        """One SQL statement: every row with its teacher's number, partitioned by piece."""
        size = len(pieces(self.n_teachers)[0])
        with asking(self.table.path) as connection:
            # Spilled rows are private: they stay beside the shards, never in a shared temporary folder.
            connection.execute(f"SET temp_directory = {literal(spill.as_posix())}")
            connection.execute(f"SET memory_limit = {literal(self.memory_limit)}")
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(f"SET threads = {self.threads}")
            teacher = teacher_sql(self.table.identity(self.identity), self.n_teachers, key=self.key)
            rows = f"SELECT {', '.join(self.written)}, {teacher} AS {quoted(number)} FROM ({self.table.select()})"
            rows = f"SELECT *, {quoted(number)} // {size} AS {quoted(piece)} FROM ({rows})"
            copy = (
                f"COPY ({rows}) TO {literal(aside.as_posix())} "
                f"(FORMAT parquet, PARTITION_BY ({quoted(piece)}), OVERWRITE_OR_IGNORE true)"
            )
            try:
                interruptible(connection, lambda: connection.execute(copy))
            except duckdb.Error as error:
                if any(sign in str(error) for sign in _FULL):
                    raise cannot_write(target, OSError(28, "no space")) from error
                raise


def _written(name: str, table: Table, labels: str | None) -> str:
    if name != labels:
        return quoted(name)
    return f"{label_sql(name, dict(table.typed_columns)[name])} AS {quoted(name)}"


def _join(folder: Path, file: Path) -> None:
    """The files that threads wrote of one piece, as one; the folder is gone afterwards."""
    parts = sorted(folder.glob("*.parquet"))
    if len(parts) == 1:
        parts[0].rename(file)
    else:
        with pq.ParquetWriter(file, pq.read_schema(parts[0])) as whole_piece:
            for part in parts:
                with pq.ParquetFile(part) as held:
                    for group in range(held.num_row_groups):
                        whole_piece.write_table(held.read_row_group(group, use_threads=False))
    with open(file, "rb") as written:
        os.fsync(written.fileno())
    shutil.rmtree(folder)


def _free_names(table: Table, *wanted: str) -> list[str]:
    """Names for columns of our own that the table does not use itself."""
    taken, found = {column.lower() for column in table.columns}, list[str]()
    for name in wanted:
        while name in taken:
            name += "_"
        found.append(name)
    return found


def _list_shards(folder: Path, n_teachers: int, number: str, belongs: dict[str, Any]) -> None:
    """Write down what the finished shards are, file by file."""
    files = checksums(folder)
    sizes = np.zeros(n_teachers, np.int64)
    for name in files:
        owners = pq.read_table(folder / name, columns=[number], use_threads=False)[number].to_numpy()
        sizes += np.bincount(owners.astype(np.int64), minlength=n_teachers)
    content = json.dumps({"sizes": sizes.tolist(), "files": files, "number": number}).encode()
    write_checksummed(folder / _LIST, content, what=_LISTED, belongs=belongs)


def _is_listed(place: ObjectPath) -> bool:
    return read_checksummed(place / _LIST, what=_LISTED) is not None


def _damaged(folder: Path | ObjectPath) -> InvalidInput:
    return InvalidInput(
        f"The shards in {folder} are damaged, not as they were written; remove that folder, and the same command "
        "makes it again."
    )


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
