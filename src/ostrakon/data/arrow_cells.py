"""Rows of a table on disk as a stream of Arrow tables, and their cells typed."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.columns import Columns, typed
from ostrakon.data.identity import identity_numbers, quoted
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.queries import asking, interruptible, unreadable
from ostrakon.data.table import Table, label_sql
from ostrakon.data.target import learned_numbers


def typed_cells(table: pa.Table, columns: Columns) -> pd.DataFrame:
    """Return what `Columns.apply` makes of the table's frame, column by column, in a fraction of the time.

    Guarantee: as of `Columns`, cell by cell: no row influences how another is read.
    """
    cells = {name: _typed(table.column(name), columns.kinds[name]) for name in columns.kept}
    return pd.DataFrame(cells, index=pd.RangeIndex(table.num_rows), copy=False)


def label_numbers(labels: pa.ChunkedArray, classes: Sequence[str] | Quantity | Labels) -> NDArray[np.int64]:
    """Return `learned_numbers` of a column."""
    if isinstance(classes, Quantity | Labels) or labels.null_count or not len(labels):
        return learned_numbers(labels.to_pandas(), classes)
    values, codes = _coded(labels)
    return label_indices(values[:-1], classes, rows=np.bincount(codes, minlength=len(values) - 1))[codes]


def owner_numbers(users: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return `identity_numbers` of a column of users."""
    return identity_numbers(pa.table({"user": users}))


def _typed(cells: pa.ChunkedArray, kind: Any) -> Any:
    if kind == "number" and (pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type)):
        numbers = np.array(pc.cast(cells, pa.float64(), safe=False).to_numpy())
        numbers[~np.isfinite(numbers)] = np.nan
        return numbers
    values, codes = _coded(cells)
    return typed(values, kind).array.take(codes)


def _coded(cells: pa.ChunkedArray) -> tuple[pd.Series, NDArray[np.int64]]:
    """Return (the different cells and after them a missing one, which of those every cell is)."""
    coded = cells.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    dictionary = pa.concat_arrays([coded.dictionary, pa.nulls(1, coded.dictionary.type)])
    codes = pc.fill_null(coded.indices, len(dictionary) - 1).to_numpy(zero_copy_only=False)
    return dictionary.to_pandas(date_as_object=False, integer_object_nulls=True), codes


_THREADS = 2
"""Threads that read ahead, with one group of rows in memory each; the consumer is slower than a single thread."""


def stream(table: Table, columns: Sequence[str], *, labels: str, rows: int) -> Iterator[pa.Table]:
    """Yield cleaned cells of some columns, `rows` rows at a time (the last table has what is left), in the file's
    order.

    labels: one of the columns, given as by `Table.labels`. Nothing is written.
    Raises `InvalidInput` at the first row that cannot be read.
    """
    kinds = dict(table.typed_columns)
    cells = ", ".join(_cell(name, kinds[name], label=name == labels) for name in columns)
    with asking(table.path, threads=_THREADS) as connection:
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
                all_rows = pa.Table.from_batches(batches)
                yield all_rows.slice(0, rows)
                batches = all_rows.slice(rows).to_batches()
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
    """Call the method, which has another name in DuckDB 1."""
    return answer.to_arrow_reader(rows) if hasattr(answer, "to_arrow_reader") else answer.fetch_record_batch(rows)
