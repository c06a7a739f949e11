"""What the columns of a table are (numbers, dates, categories), decided on the public table for all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from ostrakon.validation import InvalidInput

Kind = Literal["number", "date", "category", "left out"]
_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.+Z-]*)?"
_ORIGIN = pd.Timestamp("2000-01-01", tz="UTC")
_FINER = r"([.:]\d{6})\d+"
_EXACT = 2.0**53
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
    if text.str.fullmatch(_DATE).all() and days(text).notna().all():
        return "date"
    return "left out" if different > max(_MOST_CATEGORIES, len(known) / 2) else "category"


def _typed(column: pd.Series, kind: Kind) -> pd.Series:
    if kind == "category":
        text = column.astype(object)
        return text.where(text.notna(), None).map(word, na_action="ignore")
    if kind == "date":
        return days(column)
    numbers = pd.to_numeric(column, errors="coerce").astype("Float64").astype(float)
    # An infinity in one private row must not stop its teacher: it counts as missing.
    return numbers.where(np.isfinite(numbers))


def word(cell: Any) -> str:
    """A cell as a category: its text. A missing cell elsewhere makes whole numbers floating: 7 and 7.0 are one word."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def days(column: pd.Series) -> pd.Series:
    """Moments as days since 2000, each cell on its own; NaN for what is no ISO date.

    Text is cut to microseconds: one finer cell would have all of the column read in nanoseconds, which hold no year
    beyond 2262. "now" and other words are no dates.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        moments = pd.to_datetime(column, utc=True).dt.floor("us")
    else:
        text = column.astype(object).map(str, na_action="ignore").astype("string")
        text = text.where(text.str.fullmatch(_DATE), None).str.replace(_FINER, r"\1", regex=True)
        moments = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
    return (moments.astype("datetime64[us, UTC]") - _ORIGIN) / pd.Timedelta(days=1)


def require_same_types(private: Any, public: Any) -> None:
    """Refuse private frames whose columns have other types than the public ones: types follow from all cells at once.

    One private cell can turn a whole column of numbers or moments into text, or integers into floats that beyond 2**53
    are no longer the same numbers. Where that would change how other rows are read, the frame is refused.
    Arrays, and columns that one of them lacks, are not looked at. Raises `InvalidInput` naming the column.
    """
    if not isinstance(private, pd.DataFrame) or not isinstance(public, pd.DataFrame):
        return
    for name in private.columns.intersection(public.columns):
        here, there = private[name], public[name]
        if _family(here) != _family(there):
            raise InvalidInput(
                f"The column {name!r} of X must be of the type of the public one, {there.dtype}, got {here.dtype}."
            )
        whole = any(pd.api.types.is_integer_dtype(column.dtype) for column in (here, there))
        if whole and (pd.to_numeric(here).abs() >= _EXACT).any():
            raise InvalidInput(
                f"The column {name!r} of X must hold numbers below 2**53, where integers and floats agree; give "
                "greater ones as text."
            )


def _family(column: pd.Series) -> str:
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind):
        return "true or false"
    if pd.api.types.is_numeric_dtype(kind):
        return "number"
    moment = pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind)
    return str(kind) if moment else "text"
