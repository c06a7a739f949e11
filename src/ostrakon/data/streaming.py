"""The rows of a table on disk as a stream of Arrow tables, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ostrakon.data.identity import quoted
from ostrakon.data.queries import asking, interruptible, unreadable
from ostrakon.data.table import Table, label_sql

_THREADS = 2
"""Threads that read ahead, with one group of rows in memory each; the consumer is slower than a single thread."""


def stream(table: Table, columns: Sequence[str], *, labels: str, rows: int) -> Iterator[pa.Table]:
    """Cleaned cells of some columns, `rows` rows at a time (the last table has what is left), in the file's order.

    labels: one of the columns, given as by `Table.labels`. Nothing is written.
    Raises `InvalidInput` at the first row that cannot be read.
    """
    kinds = dict(table.typed_columns)
    cells = ", ".join(_cell(name, kinds[name], label=name == labels) for name in columns)
    with asking(table.path) as connection:
        connection.execute(f"SET threads = {_THREADS}")
        reader = interruptible(
            connection, lambda: _reader(connection.sql(f"SELECT {cells} FROM ({table.select(columns)})"), rows)
        )
        batches: list[pa.RecordBatch] = []
        while True:
            try:
                batch = interruptible(connection, lambda: next(reader, None))
            except (pa.ArrowException, OSError) as error:
                raise unreadable(table.path, error) from error
            batches = batches if batch is None else [*batches, batch]
            while sum(part.num_rows for part in batches) >= rows:
                whole = pa.Table.from_batches(batches)
                yield whole.slice(0, rows)
                batches = whole.slice(rows).to_batches()
            if batch is None:
                break
        if batches:
            yield pa.Table.from_batches(batches)


def _cell(name: str, kind: str, *, label: bool) -> str:
    if label:
        return f"{label_sql(name, kind)} AS {quoted(name)}"
    # Arrow has no such integers.
    return f"{quoted(name)}::DOUBLE AS {quoted(name)}" if kind in ("HUGEINT", "UHUGEINT") else quoted(name)


def _reader(answer: Any, rows: int) -> Any:
    """The method has another name in DuckDB 1."""
    return answer.to_arrow_reader(rows) if hasattr(answer, "to_arrow_reader") else answer.fetch_record_batch(rows)
