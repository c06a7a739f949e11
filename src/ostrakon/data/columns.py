"""The kinds of the columns of a table (numbers, dates, categories), decided on the public table alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from ostrakon.data.embeddings import groups
from ostrakon.data.number_text import DECIMAL_COMMA, commas_in, with_point
from ostrakon.validation import InvalidInput

Kind = Literal["number", "decimal comma", "date", "category", "text", "left out"]
DATE = r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.+Z-]*)?"
_ORIGIN = pd.Timestamp("2000-01-01", tz="UTC")
_FIRST, _LAST = (pd.Timestamp(np.datetime64(day, "s")).tz_localize("UTC") for day in ("-200000-01-01", "200000-01-01"))
"""Times outside of this range count as missing: microseconds cannot represent years much beyond it."""
_FINER = r"([.:]\d{6})\d+"
_EXACT = 2.0**53
_MOST_CATEGORIES = 200
_FEWEST_WORDS = 3
"""Median number of words in a column of free text: names have fewer."""
_MOSTLY, _SEVERAL = 0.9, 10
"""A column has numbers (dates) if this share of its cells are numbers, with more than `_SEVERAL` different ones."""

EMPTY = "empty in every public row"
CONSTANT = "the same in every public row"
FREE_TEXT = "text that differs from row to row (names, free text, or numbers and dates in a form that is not read)"
READABLE = f"{FREE_TEXT}; --representation text (or tfidf) learns from free text"
EITHER = "; its commas may set thousands apart or be decimal ones, which no other column tells"


@dataclass(frozen=True)
class Columns:
    """The kind of every column: "number", "decimal comma" (0,5), "date" (days), "category", "text" or "left out".

    Columns that do not vary in the public rows are left out and, unless text is read, so is text that is nearly unique
    in every row (names, free text).
    A column of numbers or dates with a few words in it has missing values in their cells.
    notes: why a column was left out, and which cells of a kept one count as missing; from public cells alone.

    Guarantee: learned from public rows alone, and applied cell by cell: no private row influences how another
    is read, so the votes of a teacher depend on its own shard.
    """

    kinds: dict[str, Kind]
    notes: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, public: pd.DataFrame, *, text: bool = False) -> Self:
        """From a public table. text: whether free text is read. Raises `InvalidInput` if no column can be used."""
        judged = {str(name): _judged(public[name], text=text) for name in public.columns}
        # 1,234 has a decimal comma if another column of the table has decimal commas.
        decimal = any(kind == "decimal comma" for kind, _ in judged.values())
        judged |= {
            name: _judged(public[name], either="decimal comma" if decimal else None, text=text)
            for name, (_, note) in judged.items()
            if note.endswith(EITHER)
        }
        # A part of an embedding that does not vary in public is still a part of it.
        parts = [name for names in groups(judged).values() for name in names if judged[name] == ("left out", CONSTANT)]
        judged |= dict.fromkeys(parts, ("number", ""))
        kinds: dict[str, Kind] = {name: kind for name, (kind, _) in judged.items()}
        notes = {name: note for name, (_, note) in judged.items() if note}
        if all(kind == "left out" for kind in kinds.values()):
            # Free text first, because there is an option that reads it.
            first = sorted(notes.items(), key=lambda named: named[1] != READABLE)[:5]
            said = "; ".join(f"{name} is {note}" for name, note in first)
            raise InvalidInput(f"No column of the public table varies in a way to learn from: {said}.")
        return cls(kinds, notes)

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The kept columns, typed: numbers and days as float64, NaN where unreadable or infinite; text as objects.

        Raises `InvalidInput` if a column is missing.
        """
        absent = next((name for name in self.kept if name not in frame.columns), None)
        if absent is not None:
            raise InvalidInput(f"The table must have the columns of the public one; {absent!r} is missing.")
        return pd.DataFrame({name: typed(frame[name], self.kinds[name]) for name in self.kept}, index=frame.index)

    def of_kind(self, *kinds: Kind) -> tuple[str, ...]:
        """Names of the columns of these kinds, in order."""
        return tuple(name for name, kind in self.kinds.items() if kind in kinds)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return self.of_kind("number", "decimal comma", "date", "category", "text")

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that are not used."""
        return self.of_kind("left out")


def is_text(column: pd.Series) -> bool:
    """Whether a public column is free text, where text is read: most of its cells differ, and have several words."""
    return _judged(column, text=True)[0] == "text"


def _judged(column: pd.Series, *, either: Kind | None = None, text: bool = False) -> tuple[Kind, str]:
    """(kind, note). either: the kind of a column with ambiguous commas; None: text. text: whether free text is read."""
    known = column.dropna()
    different = known.nunique()
    if different == 0 or (different == 1 and len(known) == len(column)):
        return "left out", CONSTANT if different else EMPTY
    if pd.api.types.is_bool_dtype(column.dtype):
        return "category", ""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "number", ""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date", ""
    cells = known.astype(str)
    read = pd.to_numeric(cells, errors="coerce").notna()
    if _mostly(cells, read):
        return "number", _words(cells, read)
    read, note = cells.str.fullmatch(DECIMAL_COMMA), ""
    if _mostly(cells, read):
        kind = "decimal comma" if commas_in(cells[read]) == "decimal" else either
        if kind is not None:
            return kind, _words(cells, read)
        note = EITHER
    read = cells.str.fullmatch(DATE) & days(cells).notna()
    if _mostly(cells, read):
        return "date", _words(cells, read)
    free = different > len(known) / 2 and float(cells.str.count(r"\S+").median()) >= _FEWEST_WORDS
    if text and free:
        return "text", ""
    if different > max(_MOST_CATEGORIES, len(known) / 2):
        return "left out", READABLE if free and not note else FREE_TEXT + note
    return "category", f"text{note}" if note else ""


def _mostly(text: pd.Series, read: pd.Series) -> bool:
    # With few different numbers, a word may be another category: 1, 2, 3 and "crew".
    return bool(read.all()) or (float(read.mean()) >= _MOSTLY and text[read].nunique() > _SEVERAL)


def _words(text: pd.Series, read: pd.Series) -> str:
    others = text[~read]
    if not len(others):
        return ""
    return f"{len(others) / len(text):.1%} of its public cells, such as {others.mode()[0]!r}, count as missing"


def typed(column: pd.Series, kind: Kind) -> pd.Series:
    if kind in ("category", "text"):
        text = column.astype(object)
        text = text.where(text.notna(), None)
        try:
            return text.map(word, na_action="ignore")
        except UnicodeEncodeError:
            # A lone surrogate, which pandas' string type refuses: one such cell must not stop the others.
            return pd.Series([None if cell is None else word(cell) for cell in text], text.index, dtype=object)
    if kind == "date":
        return days(column)
    if kind == "decimal comma":
        column = column.astype(object).map(with_point, na_action="ignore")
    if isinstance(column.dtype, pd.ArrowDtype) and str(column.dtype).startswith("decimal"):
        # pandas loses the missing cells of decimal columns.
        column = column.astype("Float64")
    numbers = pd.to_numeric(column, errors="coerce").astype("Float64").astype(float)
    # An infinity in one private row must not stop its teacher: it counts as missing.
    return numbers.where(np.isfinite(numbers))


def word(cell: Any) -> str:
    """A cell as a category: its text. A missing cell elsewhere turns integers into floats, so 7 and 7.0 are equal."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def days(column: pd.Series) -> pd.Series:
    """Times as days since 2000, cell by cell; NaN for anything but an ISO date.

    Text is truncated to microseconds: one finer cell would make pandas read the whole column in nanoseconds, which end
    in the year 2262. "now" and other words are not dates.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        moments = pd.to_datetime(column, utc=True)
        moments = moments.where((moments >= _FIRST) & (moments <= _LAST)).dt.floor("us")
    else:
        text = column.astype(object).map(str, na_action="ignore").astype("string")
        text = text.where(text.str.fullmatch(DATE), None).str.replace(_FINER, r"\1", regex=True)
        moments = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
    return (moments.astype("datetime64[us, UTC]") - _ORIGIN) / pd.Timedelta(days=1)


def require_same_types(private: Any, public: Any) -> None:
    """Refuse private columns whose types differ from the public ones: in frames and arrays, types depend on all cells.

    One private cell can turn a whole column of numbers or times into text, or integers into floats that are inexact
    beyond 2**53. Where that would change how other rows are read, the frame is refused.
    Images, sparse matrices, and columns that one of the two lacks are not checked. Raises `InvalidInput` that names the
    column.
    """
    private, public = _as_frame(private), _as_frame(public)
    if private is None or public is None:
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


def _as_frame(X: Any) -> pd.DataFrame | None:
    """A table in memory as a frame; None for anything else."""
    if isinstance(X, pd.DataFrame):
        return X
    return pd.DataFrame(X, copy=False) if isinstance(X, np.ndarray) and X.ndim == 2 else None


def _family(column: pd.Series) -> str:
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind):
        return "true or false"
    if pd.api.types.is_numeric_dtype(kind):
        return "number"
    moment = pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind)
    return str(kind) if moment else "text"
