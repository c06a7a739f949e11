"""The rows of a table on the disk as a stream of Arrow tables: of any number of rows, in the same memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ostrakon.data.partition import quoted
from ostrakon.data.sources import Table, asking, interruptible, label_sql, unreadable

_THREADS = 2
"""What reads ahead; each thread holds a group of rows, and whoever takes them is slower than one."""


def stream(table: Table, columns: Sequence[str], *, labels: str, rows: int) -> Iterator[pa.Table]:
    """Cleaned cells of some columns, `rows` rows at a time (the last table has what is left), in the file's order.

    labels: one of the columns, that is given as `Table.labels` gives it. Nothing is written.
    Raises `InvalidInput` for what cannot be read, however far down.
    """
    kinds = dict(table.typed_columns)
    cells = ", ".join(_cell(name, kinds[name], label=name == labels) for name in columns)
    with asking(table.path) as connection:
        connection.execute(f"SET threads = {_THREADS}")
        reader = interruptible(
            connection, lambda: _reader(connection.sql(f"SELECT {cells} FROM ({table.select(columns)})"), rows)
        )
        held: list[pa.RecordBatch] = []
        while True:
            try:
                batch = interruptible(connection, lambda: next(reader, None))
            except (pa.ArrowException, OSError) as error:
                raise unreadable(table.path, error) from error
            held = held if batch is None else [*held, batch]
            while sum(part.num_rows for part in held) >= rows:
                whole = pa.Table.from_batches(held)
                yield whole.slice(0, rows)
                held = whole.slice(rows).to_batches()
            if batch is None:
                break
        if held:
            yield pa.Table.from_batches(held)


def _cell(name: str, kind: str, *, label: bool) -> str:
    if label:
        return f"{label_sql(name, kind)} AS {quoted(name)}"
    # Arrow has no such integers.
    return f"{quoted(name)}::DOUBLE AS {quoted(name)}" if kind in ("HUGEINT", "UHUGEINT") else quoted(name)


def _reader(answer: Any, rows: int) -> Any:
    """DuckDB 1 calls it otherwise."""
    return answer.to_arrow_reader(rows) if hasattr(answer, "to_arrow_reader") else answer.fetch_record_batch(rows)
