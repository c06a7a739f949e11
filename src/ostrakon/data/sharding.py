"""A table larger than memory, split among teachers by one SQL statement into Parquet files of several teachers each."""

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

from ostrakon.data.checksummed import Damaged, checksums, read_checksummed, sha256, write_checksummed
from ostrakon.data.files import cannot_write, private_folder, sync_folder, writing
from ostrakon.data.identity import quoted
from ostrakon.data.object_store import AnyPath, ObjectPath, StoredFolder, as_file
from ostrakon.data.partition import teacher_sql
from ostrakon.data.queries import asking, interruptible
from ostrakon.data.table import Table, label_sql, literal
from ostrakon.validation import InvalidInput, whole

TEACHER, PIECE = "teacher", "piece"
MOST_PIECES = 48
"""Maximum number of files: with thousands of teachers, several of them share a file."""
_LIST, _LISTED = "shards.json", "list of shards"
# Each thread buffers about 50 MB of rows before they are written; more threads would exceed the memory limit.
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
        """Return the rows. Raises `InvalidInput` for a file that is missing or not as it was written, or is not
        reached.
        """
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
    """Return consecutive teachers in at most `most` pieces, which depend on the public number of teachers, not on their
    rows.

    >>> pieces(5, most=3)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    size = -(-n_teachers // most)
    return [range(start, min(start + size, n_teachers)) for start in range(0, n_teachers, size)]


@dataclass(frozen=True, kw_only=True)
class ShardPart:
    """Where the rows of some teachers are, cheap to send to a worker that reads them. Private.

    files: with these rows and those of other teachers. number: the column with the teacher of every row.
    """

    files: tuple[ShardFile, ...]
    number: str
    teachers: range

    def tables(self) -> list[pa.Table]:
        """Return the rows of each teacher, in an order that depends on its own rows alone; empty if no teacher has
        rows.

        Neither the speed of the threads that split the table nor the order of its rows changes what a teacher learns.
        Raises `InvalidInput` for files that are missing or damaged.
        """
        first, last = self.teachers[0], self.teachers[-1]
        own = (pc.field(self.number) >= first) & (pc.field(self.number) <= last)
        filtered = [file.read().filter(own) for file in self.files]
        if not filtered:
            return []
        rows = pa.concat_tables(filtered)
        content = [name for name in rows.column_names if name != self.number]
        rows = rows.sort_by([(name, "ascending") for name in (self.number, *content)])
        ends = np.searchsorted(rows[self.number].to_numpy(), [*self.teachers, last + 1])
        return [rows.slice(at, to - at).select(content) for at, to in itertools.pairwise(ends.tolist())]

    def read(self) -> list[pd.DataFrame]:
        """Return `tables` as separate frames, so that missing cells of a teacher do not change another's types."""
        # Integers stay integers if one is missing: as floats, all beyond 2**53 would be rounded because of that one.
        form: Any = {"date_as_object": False, "integer_object_nulls": True, "use_threads": False}
        return [rows.to_pandas(**form) for rows in self.tables()] or [pd.DataFrame() for _ in self.teachers]


@dataclass(frozen=True, kw_only=True)
class ShardFolder:
    """Shards on disk or in object storage: folder/piece-17.parquet has the rows of several teachers. Private.

    sizes: rows of every teacher, shape (n_teachers,). listed: the checksum of every file, by name. number: the column
    with the teacher of every row.
    """

    folder: Path | ObjectPath
    n_teachers: int
    sizes: NDArray[np.int64]
    listed: dict[str, str]
    number: str

    @classmethod
    def open(cls, folder: AnyPath, n_teachers: int, *, belongs: dict[str, Any] | None = None) -> Self:
        """Open the shards that `partition_table` finished.

        belongs: the inputs that they must have been made from; None: any.
        Raises `InvalidInput` for missing or damaged shards, and those of another table or another split. The files
        themselves are verified when they are read.
        """
        location = as_file(folder)
        if isinstance(location, Path) and not location.is_dir():
            raise InvalidInput(f"There are no shards in {location}.")
        n_teachers = whole("n_teachers", n_teachers, at_least=1)
        try:
            record = read_checksummed(location / _LIST, what=_LISTED)
        except Damaged as error:
            raise _damaged(location) from error
        if record is None:
            raise _damaged(location)
        different = [name for name, value in (belongs or {}).items() if record.belongs.get(name) != value]
        if different:
            raise InvalidInput(
                f"{location} holds shards that were made otherwise (different: {', '.join(different)}); choose another "
                "folder, or remove it."
            )
        content = json.loads(record.payload)
        sizes = np.array(content["sizes"], np.int64)
        if len(sizes) != n_teachers:
            raise InvalidInput(
                f"{location} holds shards of {len(sizes)} teachers, but there are {n_teachers} teachers."
            )
        return cls(
            folder=location, n_teachers=n_teachers, sizes=sizes, listed=content["files"], number=content["number"]
        )

    def part(self, teachers: range) -> ShardPart:
        """Return the rows of consecutive teachers, not yet read; `InvalidInput` for teachers that do not exist."""
        whole("index", teachers.start, at_most=self.n_teachers - 1)
        whole("index", teachers.stop - 1, at_least=teachers.start, at_most=self.n_teachers - 1)
        numbers = (
            number
            for number, own in enumerate(pieces(self.n_teachers))
            if own.start < teachers.stop and teachers.start < own.stop
        )
        listed = [(name, self.listed[name]) for name in map(_file_name, numbers) if name in self.listed]
        if isinstance(self.folder, ObjectPath):
            files = tuple(ShardFile(self.folder / _stored_name(*entry), entry[1]) for entry in listed)
        else:
            files = tuple(ShardFile(self.folder / name, checksum) for name, checksum in listed)
        return ShardPart(files=files, number=self.number, teachers=teachers)

    def read(self, index: int) -> pd.DataFrame:
        """Return the rows of one teacher; see `ShardPart.read`."""
        return self.part(range(index, index + 1)).read()[0]


def _file_name(piece: int) -> str:
    return f"{PIECE}-{piece:02d}.parquet"


def _stored_name(name: str, checksum: str) -> str:
    """Return a name with the checksum: every split of a table has another order of rows, and so other bytes."""
    return f"{checksum[:16]}-{name}"


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
    """Split a table among teachers, out of core, as `assign_teachers` does in memory.

    Parameters
    ----------
    table : Table
        The private table.
    folder : str, path or StoredFolder
        Where the shards are written; finished shards of an interrupted run are kept. For object storage, they are
        written to its local scratch folder, uploaded (the list last), and removed from the scratch folder.
    n_teachers : int
        Number of teachers, at least 1.
    key : bytes
        As in `assign_teachers`.
    by : str, optional
        The column of users. Default: the content of a row is its identity.
    columns : list of str, optional
        Columns to write. Default: all.
    labels : str, optional
        One of them, written as `Table.labels` gives it.
    identity : list of str, optional
        Columns whose content is the identity of a row. Default: all.
    digest : str
        Checksum of the table, by which shards of another table are detected.
    memory_limit : str
        For DuckDB's buffers, in its syntax ("1GB"); the process takes about 0.2 GB more.
    threads : int, optional
        Default: one per core, at most eight.

    Returns
    -------
    ShardFolder
        The finished shards. Unfinished ones are never in `folder`: they are renamed into it when they are complete.

    Raises
    ------
    InvalidInput
        If the table cannot be read or lacks the column `by`, or if `folder` has shards of another split.
    CannotWrite
        On a full disk.
    """
    n_teachers = whole("n_teachers", n_teachers, at_least=1)
    if by is not None and by not in table.columns:
        raise InvalidInput(f"The column of users {by!r} is not in {table.path}.")
    names = list(table.columns if columns is None else columns)
    content = list(table.columns if identity is None else identity)
    belongs = {"table": digest, "key": sha256(key), "by": by, "columns": names, "labels": labels}
    if identity is not None:
        belongs["identity"] = content
    split = _Split(
        table=table,
        n_teachers=n_teachers,
        key=key,
        identity=content if by is None else [by],
        written=[_written(name, table, labels) for name in names],
        belongs=belongs,
        memory_limit=memory_limit,
        threads=min(os.cpu_count() or 1, _MOST_THREADS) if threads is None else whole("threads", threads, at_least=1),
    )
    return split.into_store(folder) if isinstance(folder, StoredFolder) else split.into_folder(Path(folder))


@dataclass(frozen=True, kw_only=True)
class _Split:
    """How a table is split. identity: columns that decide the teacher; written: the columns to write, in SQL."""

    table: Table
    n_teachers: int
    key: bytes
    identity: list[str]
    written: list[str]
    belongs: dict[str, Any]
    memory_limit: str
    threads: int

    def into_store(self, folder: StoredFolder) -> ShardFolder:
        """Split in the local scratch folder, upload the shards, the list last, and open them there."""
        if not _is_listed(folder.folder):
            split = self.into_folder(folder.scratch)
            for name, checksum in split.listed.items():
                (folder.folder / _stored_name(name, checksum)).put((folder.scratch / name).read_bytes())
            # If two machines split it at once, the first list counts; it names its own files.
            with contextlib.suppress(FileExistsError):
                (folder.folder / _LIST).put((folder.scratch / _LIST).read_bytes(), create=True)
            _remove(folder.scratch)
        return ShardFolder.open(folder.folder, self.n_teachers, belongs=self.belongs)

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
            # Else shards of another table would be taken for those of this one.
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
        """Return the SQL statement that copies every row with its teacher's number, partitioned by piece."""
        size = len(pieces(self.n_teachers)[0])
        # Spilled rows are private: they stay beside the shards, never in a shared temporary folder.
        how: dict[str, Any] = {"temp_directory": spill.as_posix(), "memory_limit": self.memory_limit}
        with asking(self.table.path, **how, preserve_insertion_order="false", threads=self.threads) as connection:
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
    """Join the files that threads wrote for one piece into one file, and remove their folder."""
    parts = sorted(folder.glob("*.parquet"))
    if len(parts) == 1:
        parts[0].rename(file)
    else:
        with pq.ParquetWriter(file, pq.read_schema(parts[0])) as whole_piece:
            for part in parts:
                with pq.ParquetFile(part) as source:
                    for group in range(source.num_row_groups):
                        whole_piece.write_table(source.read_row_group(group, use_threads=False))
    with open(file, "rb") as piece:
        os.fsync(piece.fileno())
    shutil.rmtree(folder)


def _free_names(table: Table, *wanted: str) -> list[str]:
    """Return names for added columns that the table does not use itself."""
    existing, free = {column.lower() for column in table.columns}, list[str]()
    for name in wanted:
        while name in existing:
            name += "_"
        free.append(name)
    return free


def _list_shards(folder: Path, n_teachers: int, number: str, belongs: dict[str, Any]) -> None:
    """Write the list of the finished shards."""
    files = checksums(folder)
    sizes = np.zeros(n_teachers, np.int64)
    for name in files:
        owners = pq.read_table(folder / name, columns=[number], use_threads=False)[number].to_numpy()
        sizes += np.bincount(owners.astype(np.int64), minlength=n_teachers)
    content = json.dumps({"sizes": sizes.tolist(), "files": files, "number": number}).encode()
    write_checksummed(folder / _LIST, content, what=_LISTED, belongs=belongs)


def _is_listed(folder: ObjectPath) -> bool:
    return read_checksummed(folder / _LIST, what=_LISTED) is not None


def _damaged(folder: Path | ObjectPath) -> InvalidInput:
    return InvalidInput(
        f"The shards in {folder} are damaged, not as they were written; remove that folder, and the same command "
        "makes it again."
    )


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
