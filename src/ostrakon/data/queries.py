"""Connections to DuckDB that write nothing to disk, and their errors in one sentence."""

from __future__ import annotations

import contextlib
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
    """The result of `work` on the connection, which Ctrl-C interrupts at once; DuckDB alone may not notice it."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


@contextlib.contextmanager
def asking(path: Path | ObjectPath, *, note: str = "") -> Generator[duckdb.DuckDBPyConnection]:
    """A connection for queries on a file: errors of DuckDB and of object storage become one sentence.

    It writes nothing to disk: its data are private, and by default DuckDB would write them to the current folder.
    """
    connection = duckdb.connect(config={"temp_directory": "", "disabled_optimizers": ",".join(_DISABLED)})
    try:
        if isinstance(path, ObjectPath):
            connection.register_filesystem(client())
        yield connection
    except duckdb.Error as error:
        raise unreadable(path, error, note=note) from error
    finally:
        connection.close()


def unreadable(path: Path | ObjectPath, error: Exception, *, note: str = "") -> InvalidInput:
    """One sentence for an error of DuckDB; the line that caused it is private and left out."""
    first = str(error).splitlines()[0].strip().rstrip(".")
    if "Invalid unicode" in str(error):
        reason = "it is not UTF-8 text, as which it must be saved"
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
