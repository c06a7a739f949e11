"""What the columns of a table are (numbers, dates, categories), decided on the public table for all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from quorate.checks import InvalidInput

Kind = Literal["number", "date", "category", "left out"]
_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.+Z-]*)?"
_ORIGIN = pd.Timestamp("2000-01-01", tz="UTC")
_MOST_CATEGORIES = 200


@dataclass(frozen=True)
class Columns:
    """The kind of every column: "number", "date" (counted in days), "category", or "left out".

    Left out are columns that do not vary in public and text that is nearly unique in each row (names, free text).

    Guarantee: learned from public rows alone, and applied cell by cell: no private row has a say in how another
    is read, so the votes of a teacher rest on its own shard.
    """

    kinds: dict[str, Kind]

    @classmethod
    def of(cls, public: pd.DataFrame) -> Self:
        """Look at a public table. Raises `InvalidInput` where no column is of use."""
        kinds: dict[str, Kind] = {str(name): _kind(public[name]) for name in public.columns}
        if all(kind == "left out" for kind in kinds.values()):
            raise InvalidInput(f"No column of the public table varies in a way to learn from: {', '.join(kinds)}.")
        return cls(kinds)

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The kept columns, typed: numbers and days as float64, NaN where unreadable or infinite; text as objects.

        Raises `InvalidInput` for a column that is not there.
        """
        absent = next((name for name in self.kept if name not in frame.columns), None)
        if absent is not None:
            raise InvalidInput(f"The table must have the columns of the public one; {absent!r} is missing.")
        return pd.DataFrame({name: _typed(frame[name], self.kinds[name]) for name in self.kept}, index=frame.index)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(name for name, kind in self.kinds.items() if kind != "left out")

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that are not used."""
        return tuple(name for name, kind in self.kinds.items() if kind == "left out")


def _kind(column: pd.Series) -> Kind:
    known = column.dropna()
    different = known.nunique()
    if different == 0 or (different == 1 and len(known) == len(column)):
        return "left out"
    if pd.api.types.is_bool_dtype(column.dtype):
        return "category"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date"
    text = known.astype(str)
    if pd.to_numeric(text, errors="coerce").notna().all():
        return "number"
    if text.str.fullmatch(_DATE).all() and _days(text).notna().all():
        return "date"
    return "left out" if different > max(_MOST_CATEGORIES, len(known) / 2) else "category"


def _typed(column: pd.Series, kind: Kind) -> pd.Series:
    if kind == "category":
        text = column.astype(object)
        return text.where(text.notna(), None).map(_word, na_action="ignore")
    if kind == "date":
        return _days(column)
    numbers = pd.to_numeric(column, errors="coerce").astype("Float64").astype(float)
    # An infinity in one private row must not stop its teacher: it counts as missing.
    return numbers.where(np.isfinite(numbers))


def _word(cell: Any) -> str:
    # A missing cell elsewhere makes whole numbers floating: 7 and 7.0 are one word.
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _days(column: pd.Series) -> pd.Series:
    moments = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)
    return (moments - _ORIGIN) / pd.Timedelta(days=1)
