"""A table larger than memory, written out as one folder of Parquet per teacher by one SQL statement."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from quorate.checks import InvalidInput, whole
from quorate.data.files import cannot_write, private_folder, sync_folder, writing
from quorate.data.partition import describe_columns, identity_sql, quoted, teacher_sql
from quorate.data.sources import Table, literal, open_table, parquet_relation, unreadable

TEACHER = "teacher"
_FULL = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "failed to offload",
    "max_temp_directory_size",
)


@dataclass(frozen=True, kw_only=True)
class ShardFolder:
    """Shards on disk: folder/teacher=17/*.parquet holds the rows of teacher 17. Private.

    sizes: rows of every teacher, shape (n_teachers,). like: one of the shards, whose columns all of them have.
    """

    folder: Path
    n_teachers: int
    sizes: NDArray[np.int64]
    like: Table

    @classmethod
    def open(cls, folder: str | os.PathLike[str], n_teachers: int) -> Self:
        """Shards that `partition_table` finished. Raises `InvalidInput` where there are none."""
        place = Path(folder)
        if not place.is_dir():
            raise InvalidInput(f"There are no shards in {place}.")
        n_teachers = whole("n_teachers", n_teachers, at_least=1)
        sizes = np.zeros(n_teachers, np.int64)
        for shard in place.glob(f"{TEACHER}=*"):
            index = int(shard.name.partition("=")[2])
            if not 0 <= index < n_teachers:
                raise InvalidInput(f"{place} holds teacher {index}, but there are {n_teachers} teachers.")
            sizes[index] = sum(_rows(file) for file in shard.glob("*.parquet"))
        if not sizes.any():
            raise InvalidInput(f"There are no shards in {place}.")
        like = open_table(place / f"{TEACHER}={int(sizes.argmax())}")
        return cls(folder=place, n_teachers=n_teachers, sizes=sizes, like=like)

    def table(self, index: int) -> Table:
        """The rows of teacher `index`, in an order of their own. Raises `InvalidInput` where it has none."""
        index = whole("index", index, at_most=self.n_teachers - 1)
        place = self.folder / f"{TEACHER}={index}"
        if not place.is_dir():
            raise InvalidInput(f"Teacher {index} has no rows.")
        parts = [part.as_posix() for part in sorted(place.glob("*.parquet"))]
        return replace(self.like, path=place, relation=parquet_relation(parts))

    def read(self, index: int) -> pd.DataFrame:
        """The rows of teacher `index` in memory."""
        return self.table(index).read()


def partition_table(
    table: Table,
    folder: str | os.PathLike[str],
    n_teachers: int,
    *,
    key: bytes,
    by: str | None = None,
    memory_limit: str = "1GB",
    threads: int | None = None,
) -> ShardFolder:
    """Split a table among teachers, out of core: the same teachers as `assign_teachers` gives in memory.

    folder: where the shards go; shards that are there already (from a run that was interrupted later) are kept.
    by: the column of users; default: a row's whole content is its identity. key: see `assign_teachers`.
    memory_limit: for DuckDB's buffers, as it writes it ("1GB"); the process takes about 0.2 GB more.

    Half-written shards never stand under `folder`: they are written aside and renamed when they are whole.
    Raises `InvalidInput` for what cannot be read, `CannotWrite` on a full disk.
    """
    target = Path(folder)
    if target.is_dir():
        return ShardFolder.open(target, n_teachers)
    with writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f"{target.name}.part")
    spill = target.with_name(f"{target.name}.spill")
    _remove(aside, spill)
    private_folder(aside)
    columns = [(name, kind) for name, kind in table.typed_columns if by is None or name == by]
    if not columns:
        raise InvalidInput(f"The column of users {by!r} is not in {table.path}.")
    rows = table.select()
    connection = duckdb.connect()
    try:
        # Spilled rows are private: they stay beside the shards, never in a shared temporary folder.
        connection.execute(f"SET temp_directory = {literal(spill.as_posix())}")
        connection.execute(f"SET memory_limit = {literal(memory_limit)}")
        connection.execute("SET preserve_insertion_order = false")
        if threads is not None:
            connection.execute(f"SET threads = {whole('threads', threads, at_least=1)}")
        described = dict(describe_columns(connection, f"({rows})"))
        teacher = teacher_sql(identity_sql([(name, described[name]) for name, _ in columns]), n_teachers, key=key)
        connection.execute(
            f"COPY (SELECT *, {teacher} AS {quoted(_free_name(table))} FROM ({rows})) TO {literal(aside.as_posix())} "
            f"(FORMAT parquet, PARTITION_BY ({quoted(_free_name(table))}), OVERWRITE_OR_IGNORE true)"
        )
        for shard in aside.iterdir():
            shard.rename(aside / f"{TEACHER}={shard.name.rpartition('=')[2]}")
        sync_folder(aside)
        os.replace(aside, target)
        sync_folder(target.parent)
    except duckdb.Error as error:
        _remove(aside)
        if any(sign in str(error) for sign in _FULL):
            raise cannot_write(target, OSError(28, "no space")) from error
        raise unreadable(table.path, error) from error
    except OSError as error:
        _remove(aside)
        raise cannot_write(target, error) from error
    except BaseException:
        _remove(aside)
        raise
    finally:
        connection.close()
        _remove(spill)
    return ShardFolder.open(target, n_teachers)


def _free_name(table: Table) -> str:
    """A name for the column of teachers that the table does not use itself."""
    name = TEACHER
    while name.lower() in {column.lower() for column in table.columns}:
        name += "_"
    return name


def _rows(file: Path) -> int:
    return pq.read_metadata(file).num_rows


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
