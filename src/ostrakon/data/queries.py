"""Connections to DuckDB that write nothing to disk, and their errors in one sentence."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

from ostrakon.data.object_store import ObjectPath, client
from ostrakon.validation import InvalidInput

# The signs of missing values are an IN of every column: as joins, hundreds of columns would take minutes to plan.
# And the statistics of Parquet files ignore NaN: DuckDB concludes from them that isnan is false in every row.
_DISABLED = ("in_clause", "statistics_propagation")


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Any]) -> Any:
    """Return the result of `work` on the connection, which Ctrl-C interrupts; DuckDB alone may not notice it."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _new_database(**settings: Any) -> duckdb.DuckDBPyConnection:
    config = {"temp_directory": "", "disabled_optimizers": ",".join(_DISABLED), **settings}
    return duckdb.connect(config={name: str(value) for name, value in config.items()})


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the database in memory of this process: to open one takes longer than most queries."""
    database = _new_database()
    # A setting would be one of all connections, also of those that other threads have.
    database.execute("SET lock_configuration = true")
    return database


if hasattr(os, "register_at_fork"):
    # A forked process has none of its threads, and would wait for them at its end.
    os.register_at_fork(before=_database.cache_clear)


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection that sees nothing of others, and writes nothing to disk.

    Its data are private, and by default DuckDB would write them to the current folder.
    """
    return _database().cursor()


@contextlib.contextmanager
def asking(path: Path | ObjectPath, *, note: str = "", **settings: Any) -> Generator[duckdb.DuckDBPyConnection]:
    """Yield a connection for queries on a file: errors of DuckDB and of object storage become one sentence.

    settings: of DuckDB, for a database of its own; without any it is as of `connect`.
    """
    alone = bool(settings) or isinstance(path, ObjectPath)
    connection = _new_database(**settings) if alone else connect()
    try:
        if isinstance(path, ObjectPath):
            connection.register_filesystem(client())
        yield connection
    except duckdb.Error as error:
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            _database.cache_clear()  # DuckDB refuses further queries on it
        raise unreadable(path, error, note=note) from error
    finally:
        connection.close()


def unreadable(path: Path | ObjectPath, error: Exception, *, note: str = "") -> InvalidInput:
    """Return one sentence for an error of DuckDB; the line that caused it is private and left out."""
    first = str(error).splitlines()[0].strip().rstrip(".")
    if "Invalid unicode" in str(error):
        reason = "it is not UTF-8 text; save it as UTF-8 (in Excel: CSV UTF-8)"
    elif isinstance(error, duckdb.OutOfMemoryException):
        reason = "there is not enough memory"
    elif isinstance(error, duckdb.ConversionException):
        # DuckDB's sentence quotes the cell.
        reason = "a cell is not of the type that its column has elsewhere"
    elif first.startswith("Invalid Input Error: Error when sniffing"):
        reason = "its rows do not share one form"
    else:
        reason = re.sub(r"^[A-Za-z /]*Error: ", "", first)
    wrong = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", str(error))
    if wrong:
        line = re.search(r"Line: (\d+)", str(error))
        at = f" in line {line[1]}" if line else ""
        reason = f"its lines have different numbers of cells, {wrong[1]} expected, {wrong[2]} found{at}"
    return InvalidInput(f"{path} cannot be read as CSV or Parquet: {reason}. {note}".strip())
