"""Several labels of a row in a table: a column for each, or one column of cells such as `a;b`, read by DuckDB."""

from collections.abc import Sequence
from typing import Any

from ostrakon.data.classes import SEPARATOR, foreign_labels
from ostrakon.data.labels import Labels
from ostrakon.data.table import Table, literal
from ostrakon.validation import InvalidInput


def label_columns(target: str | int, coding: Any) -> tuple[str, ...]:
    """Return the columns of labels if the target names one for each; () if one column holds them all."""
    return coding.names if isinstance(coding, Labels) and target == ",".join(coding.names) else ()


def joined_columns(table: Table, columns: Sequence[str], target: str) -> Table:
    """Return the table with a column `target` of cells such as `a;b`, from a column for each label.

    Errors: `InvalidInput` for a column that is named by its position, or holds anything but yes and no.
    """
    for column in columns:
        if table.column(column, what="target column") != column:
            raise InvalidInput(f"target must give several columns by their names, got the position {column}.")
    return table.with_labels(columns, target)


def rows_of_labels(private: Table, target: str) -> dict[str, int]:
    """Return how many rows have each label, which may have spaces around it."""
    parts = f"SELECT unnest(parts) AS part FROM ({_cells(private, target)})"
    return dict(private.fetch(f"SELECT part, count(*) FROM ({parts}) GROUP BY part"))


def require_listed(private: Table, target: str, labels: Labels) -> None:
    """Refuse labels in the cells that nobody listed. Errors: `InvalidInput`."""
    cells, rows = _cells(private, target), rows_of_labels(private, target)
    foreign = {part: times for part, times in rows.items() if part.strip() and part.strip() not in labels.names}
    if foreign:
        listing = ", ".join(literal(part) for part in rows if part not in foreign)
        count = f"SELECT count(*), count(*) FILTER (NOT list_has_all([{listing}]::VARCHAR[], parts)) FROM ({cells})"
        everyone, having = private.fetch(count)[0]
        raise InvalidInput(foreign_labels(foreign, everyone, labels.not_among, having=having))


def _cells(private: Table, target: str) -> str:
    """Return the query of the different labels in every cell."""
    parts = f"SELECT list_distinct(string_split(label, {literal(SEPARATOR)})) AS parts"
    return f"{parts} FROM ({private.label_query(target)})"
