"""Rows of a request, checked cell by cell before anything is looked up or paid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ostrakon.export.loader import read_comma_number, read_date, read_number, read_word
from ostrakon.validation import InvalidInput, shown

_READ = {"number": read_number, "decimal comma": read_comma_number, "date": read_date}
_WORDS = {"number": "a number", "decimal comma": "a number with a decimal comma", "date": "a date such as 2024-12-31"}


def require_readable(rows: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a row that lacks a column or has a cell that cannot be read as its column; null is a missing value.

    Raises
    ------
    InvalidInput
        One sentence that names the row, the column and the value.
    """
    for at, row in enumerate(rows):
        for column in columns:
            name, kind = str(column["name"]), column["kind"]
            if name not in row:
                raise InvalidInput(f"Row {at} must have the column {name!r}.")
            cell = row[name]
            if cell is not None and not _is_readable(cell, kind, column):
                wanted = _WORDS.get(kind, f"{column.get('width')} finite numbers" if kind == "embedding" else "text")
                raise InvalidInput(f"Row {at}: {name} must be {wanted} or null, got {shown(cell)}.")
            if cell is None and kind == "embedding":
                raise InvalidInput(f"Row {at}: {name} must be {column.get('width')} finite numbers, got null.")


def _is_readable(cell: Any, kind: str, column: Mapping[str, Any]) -> bool:
    if kind == "embedding":
        numbers = cell if isinstance(cell, list) else []
        return len(numbers) == column["width"] and all(_is_finite(each) for each in numbers)
    if isinstance(cell, list):
        return False
    if kind not in _READ:
        return isinstance(cell, str) or _is_finite(cell)
    if isinstance(cell, str) and read_word(cell, frozenset()) == "":
        return True  # one of the usual signs of a missing value
    if kind == "date" and not isinstance(cell, str):
        return False
    return math.isfinite(_READ[kind](cell))


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False
