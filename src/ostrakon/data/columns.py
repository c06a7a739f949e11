"""The kinds of the columns of a table (numbers, dates, categories), decided on the public table alone."""

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from ostrakon.data.date_text import (
    EIGHT_DIGITS,
    FIRST_DIGITS,
    LAST_DIGITS,
    WRITTEN_DATE,
    as_iso,
    digits_as_iso,
    order_in,
)
from ostrakon.data.embeddings import groups
from ostrakon.data.number_text import AMOUNT, DECIMAL_COMMA, commas_in, with_point, without_signs
from ostrakon.validation import InvalidInput

Kind = Literal[
    "number",
    "decimal comma",
    "amount",
    "date",
    "date (day first)",
    "date (month first)",
    "date (digits)",
    "category",
    "text",
    "left out",
]
DAY_FIRST: Kind = "date (day first)"
MONTH_FIRST: Kind = "date (month first)"
DIGITS: Kind = "date (digits)"
DATE = r"\d{4}-\d{2}-\d{2}(?:[T ][\d:.+Z-]*)?"


@dataclass(frozen=True)
class Form:
    """How the cells of a kind are written: its name in a list of columns, in a sentence, and a regular expression."""

    title: str
    words: str
    pattern: str | None = None


FORMS: dict[Kind, Form] = {
    "number": Form("Numbers", "numbers"),
    "decimal comma": Form("Numbers with a decimal comma", "numbers with a decimal comma", DECIMAL_COMMA),
    "amount": Form("Numbers with currency or percent signs, or commas between thousands", "numbers", AMOUNT),
    "date": Form("Dates (ISO)", "dates", DATE),
    DAY_FIRST: Form("Dates (day first)", "dates with the day first (31/12/2024)", WRITTEN_DATE),
    MONTH_FIRST: Form("Dates (month first)", "dates with the month first (12/31/2024)", WRITTEN_DATE),
    DIGITS: Form("Dates (eight digits, such as 20241231)", "dates of eight digits (20241231)", EIGHT_DIGITS),
    "category": Form("Categories", "words"),
    "text": Form("Free text", "text"),
}
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
WITH_UNIT = r"\A[+-]?\d[\d.,]*\s?([A-Za-z°µ/]{1,6})\Z"
"""A number and its unit, which are not read (a regular expression)."""
AS_TEXT = "text; "
"""How the note of a column of categories begins that may be of numbers or dates."""
EITHER = "; its commas may set thousands apart or be decimal ones, which no other column tells"
EITHER_ORDER = "; day and month may be in either order, which no other column tells"
IDENTIFIER = (
    "a different whole number in every public row, as identifiers are; give --by if it names the user of each row, and "
    "another name if it is a quantity"
)
NUMBERED = "the number of the row in the public table"
_NAMES_OF_IDS = re.compile(
    r"(?i:(?:^|[^a-z])(?:id|ids|uid|uuid|guid|ssn|key|index|nr|no|number|rownames)\.?$)|[a-z](?:Id|ID|Key|Nr|Number|nummer)\.?$"
)
_FEWEST_IDS = 20
"""Public rows below which whole numbers may differ by chance."""


@dataclass(frozen=True)
class Columns:
    """The kind of every column.

    Kinds: "number", "decimal comma" (0,5), "amount" ($1,234.50), "date" (days, from ISO dates), "date (day first)"
    (31/12/2024), "date (month first)" (12/31/2024), "date (digits)" (20241231, also as numbers), "category", "text" or
    "left out".

    Columns that do not vary in the public rows are left out, whole numbers that number or name the rows are too and,
    unless text is read, so is text that is nearly unique in every row (names, free text).
    A column of numbers or dates with a few words in it has missing values in their cells.
    notes: why a column was left out, and which cells of a kept one count as missing. alike: categories that differ
    only in capitals, spaces or the signs of a number. equal: columns that are equal in every public row. All from
    public cells alone.

    Guarantee: learned from public rows alone, and applied cell by cell: no private row influences how another
    is read, so the votes of a teacher depend on its own shard.
    """

    kinds: dict[str, Kind]
    notes: dict[str, str] = field(default_factory=dict[str, str])
    alike: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict[str, tuple[tuple[str, ...], ...]])
    equal: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, public: pd.DataFrame, *, text: bool = False) -> Self:
        """Return the columns of a public table. text: whether free text is read. Raises `InvalidInput` if no column can
        be used.
        """
        result = _classify_table(public, text=text)
        # A part of an embedding that does not vary in public is still a part of it.
        parts = [name for names in groups(result).values() for name in names if result[name] == ("left out", CONSTANT)]
        result |= dict.fromkeys(parts, ("number", ""))
        kinds: dict[str, Kind] = {name: kind for name, (kind, _) in result.items()}
        notes = {name: note for name, (_, note) in result.items() if note}
        if all(kind == "left out" for kind in kinds.values()):
            # Free text first, because there is an option that reads it.
            first = sorted(notes.items(), key=lambda named: named[1] != READABLE)[:5]
            examples = "; ".join(f"{name} is {note}" for name, note in first)
            raise InvalidInput(f"No column of the public table varies in a way to learn from: {examples}.")
        words = {name: alike(typed(public[name], "category").unique()) for name in kinds if kinds[name] == "category"}
        return cls(kinds, notes, {name: groups for name, groups in words.items() if groups}, _equal(public, kinds))

    def apply(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the kept columns, typed: numbers and days as float64, NaN where unreadable or infinite; text as
        objects.

        Raises `InvalidInput` if a column is missing.
        """
        absent = next((name for name in self.kept if name not in frame.columns), None)
        if absent is not None:
            raise InvalidInput(f"The table must have the columns of the public one; {absent!r} is missing.")
        return pd.DataFrame({name: typed(frame[name], self.kinds[name]) for name in self.kept}, index=frame.index)

    def of_kind(self, *kinds: Kind) -> tuple[str, ...]:
        """Return the names of the columns of these kinds, in order."""
        return tuple(name for name, kind in self.kinds.items() if kind in kinds)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(name for name, kind in self.kinds.items() if kind != "left out")

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that are not used."""
        return self.of_kind("left out")


def written_as_text(public: pd.DataFrame, *, text: bool = False) -> Columns:
    """Return the columns of a public frame in memory whose cells are numbers or dates of a written form, as
    `Columns.of` says.

    Left out are identifiers, as in a file. Text of plain numbers with few different values stays categories: in memory
    its type is a choice.
    text: whether free text is read.
    """
    result = {} if public.columns.has_duplicates else _classify_table(public, text=text)
    kinds: dict[str, Kind] = {}
    named = [name for name, (_, note) in result.items() if note in (IDENTIFIER, NUMBERED)]
    if len(named) < len(result):
        kinds |= dict.fromkeys(named, "left out")
    for name in public.columns:
        kind = result.get(str(name), ("left out", ""))[0]
        column = public[name] if kind not in ("category", "text", "left out") else pd.Series(dtype=np.float64)
        few = kind == "number" and column.nunique() <= _FEWEST_IDS
        if kind == DIGITS or (not few and (column.dtype == object or pd.api.types.is_string_dtype(column.dtype))):
            kinds[str(name)] = kind
    return Columns(kinds, {name: result[name][1] for name in kinds if result[name][1]})


def _classify_table(public: pd.DataFrame, *, text: bool) -> dict[str, tuple[Kind, str]]:
    """Return (kind, note) of every column."""
    result = {str(name): _classify(public[name], text=text) for name in public.columns}
    # 1,234 has a decimal comma, and 1/2/2024 the day first, if another column of the table has.
    kinds: set[Kind] = {kind for kind, _ in result.values()}
    return result | {
        str(name): _classify(public[name], other_kinds=kinds, text=text)
        for name in public.columns
        if result[str(name)][1].endswith((EITHER, EITHER_ORDER))
    }


def names_of_rows(public: pd.DataFrame) -> list[str]:
    """Return columns of a public table that may number or name its rows: whole numbers and text that rarely repeat."""
    return [str(name) for name in public.columns if may_name(public[name])]


def may_name(column: pd.Series, *, share: float = 0.9) -> bool:
    """Return whether a column is of whole numbers or text of which more than `share` differ: names of rows, or of
    people.
    """
    cells = column.dropna()
    if cells.nunique() <= share * len(cells):
        return False
    kind, note = _classify(column)
    if note in (IDENTIFIER, NUMBERED):
        return True
    if kind not in ("number", "category", "left out") or cells.nunique() <= _FEWEST_IDS:
        return False
    if kind != "number":
        return True
    numbers = typed(cells, kind).to_numpy(np.float64)
    return bool((numbers == np.rint(numbers)).all())


def kind_of(column: pd.Series, *, text: bool = False) -> Kind:
    """Return the kind of a public column alone. text: whether free text is read."""
    return _classify(column, text=text)[0]


def is_text(column: pd.Series) -> bool:
    """Return whether a public column is free text, where text is read: most of its cells differ, and have several
    words.
    """
    return kind_of(column, text=True) == "text"


def _equal(public: pd.DataFrame, kinds: dict[str, Kind]) -> tuple[tuple[str, ...], ...]:
    """Return groups of kept columns with equal cells in every row; of few rows none, which may be equal by chance."""
    groups = dict[bytes, list[str]]()
    for name, kind in kinds.items() if len(public) >= _FEWEST_IDS else ():
        if kind != "left out":
            cells = pd.util.hash_pandas_object(typed(public[name], kind), index=False)
            groups.setdefault(cells.to_numpy().tobytes(), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def alike(words: Iterable[Any]) -> tuple[tuple[str, ...], ...]:
    """Return groups of words that differ only in capitals, spaces or the signs of a number, in order.

    >>> alike(["No", "yes", "no ", "1280", "1,280"])
    (('No', 'no '), ('1,280', '1280'))
    """
    groups = dict[str, dict[str, None]]()
    for cell in words:
        if cell is not None:
            plain = without_signs(str(cell)) or "".join(str(cell).split()).casefold()
            groups.setdefault(plain, {})[str(cell)] = None
    return tuple(tuple(sorted(group)) for group in groups.values() if len(group) > 1)


def alike_in_words(groups: Iterable[Iterable[str]]) -> str:
    """Return the groups of `alike` as a list.

    >>> alike_in_words([("No", "no"), ("Yes", "yes")])
    "'No', 'no'; 'Yes', 'yes'"
    """
    return "; ".join(", ".join(map(repr, group)) for group in groups)


def _classify(
    column: pd.Series, *, other_kinds: Collection[Kind] | None = None, text: bool = False
) -> tuple[Kind, str]:
    """Return (kind, note). other_kinds: of other columns, which decide ambiguous ones; None: not yet known."""
    present = column.dropna()
    distinct_count = present.nunique()
    if distinct_count == 0 or (distinct_count == 1 and len(present) == len(column)):
        return "left out", CONSTANT if distinct_count else EMPTY
    if pd.api.types.is_bool_dtype(column.dtype):
        return "category", ""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "date", ""
    if (note := _of_digits(present)) is not None:
        return DIGITS, note
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _number(column, "")
    cells = present.astype(str)
    readable = pd.to_numeric(cells, errors="coerce").notna()
    if _mostly(cells, readable):
        return _number(typed(column, "number"), _words(cells, readable))
    kind, note, readable = _written(cells, other_kinds or ())
    if kind is not None:
        return kind, _words(cells, readable)
    free = distinct_count > len(present) / 2 and float(cells.str.count(r"\S+").median()) >= _FEWEST_WORDS
    if text and free:
        return "text", ""
    if not note and distinct_count > 2 and _has_one_unit(cells):
        note = f"; if it is a quantity such as {cells.iloc[0]!r}, write the number alone and the unit in the header"
    if distinct_count > max(_MOST_CATEGORIES, len(present) / 2):
        return "left out", READABLE if free and not note else FREE_TEXT + note
    return "category", f"{AS_TEXT}{note.removeprefix('; ')}" if note else ""


def _of_digits(column: pd.Series) -> str | None:
    """Return the note of a column of dates such as 20241231; None for another column."""
    if float(typed(column, "number").between(FIRST_DIGITS, LAST_DIGITS).mean()) < _MOSTLY:
        return None
    cells = column.map(word)
    readable = cells.str.fullmatch(EIGHT_DIGITS) & days(cells.map(digits_as_iso)).notna()
    return _words(cells, readable) if _mostly(cells, readable) else None


def _number(column: pd.Series, note: str) -> tuple[Kind, str]:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    all_integers = np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()
    if len(numbers) >= _FEWEST_IDS and all_integers and column.nunique() == len(numbers):
        if (np.diff(numbers) == 1).all() and numbers[0] in (0, 1):
            return "left out", NUMBERED
        if _NAMES_OF_IDS.search(str(column.name)):
            return "left out", IDENTIFIER
    return "number", note


def _written(cells: pd.Series, other_kinds: Collection[Kind]) -> tuple[Kind | None, str, pd.Series]:
    """Return (kind, note, which cells are readable) of numbers and dates that are written in a form of their own."""
    comma, amount = _fit(cells, DECIMAL_COMMA), _fit(cells, AMOUNT)
    if _mostly(cells, comma) or _mostly(cells, amount):
        commas = commas_in(cells[comma | amount])
        if commas == "either":
            # Another column may tell: 0,5 beside 1,234, or 1,234.50.
            commas = "decimal" if "decimal comma" in other_kinds else "thousands" if "amount" in other_kinds else commas
        if commas == "either":
            return None, EITHER, comma
        if commas == "decimal" and _mostly(cells, comma):
            return "decimal comma", "", comma
        if commas != "decimal" and _mostly(cells, amount):
            return "amount", "", amount
    iso = _fit(cells, DATE)
    iso[iso.to_numpy()] = days(cells[iso]).notna().to_numpy()
    if _mostly(cells, iso):
        return "date", "", iso
    dates = _fit(cells, WRITTEN_DATE)
    if _mostly(cells, dates):
        order = order_in(cells[dates])
        if order == "either":
            others = [kind for kind in (DAY_FIRST, MONTH_FIRST) if kind in other_kinds]
            if len(others) != 1:
                return None, EITHER_ORDER, dates
            order = "day first" if others[0] == DAY_FIRST else "month first"
        if order != "no":
            return DAY_FIRST if order == "day first" else MONTH_FIRST, "", dates
    return None, "", dates


def _mostly(text: pd.Series, readable: pd.Series) -> bool:
    # With few different numbers, a word may be another category: 1, 2, 3 and "crew".
    return bool(readable.all()) or (float(readable.mean()) >= _MOSTLY and text[readable].nunique() > _SEVERAL)


def unit_of(labels: Iterable[Any]) -> str | None:
    """Return the unit that is behind every one of several numbers; None without one.

    >>> unit_of(["16.9 kg", "3 kg"]), unit_of(["16.9 kg", "3 t"]), unit_of(["16.9"])
    ('kg', None, None)
    """
    matches = [re.match(WITH_UNIT, str(label)) for label in labels]
    units = {match and match[1] for match in matches}
    return units.pop() if len(units) == 1 else None


def _has_one_unit(text: pd.Series) -> bool:
    """Return whether cells are numbers with the same letters behind them, such as 3.7 kg."""
    units = pd.Series(text.unique()).str.extract(WITH_UNIT)[0]
    return units.nunique() == 1 and _mostly(text, _fit(text, WITH_UNIT))


def _fit(text: pd.Series, pattern: str) -> pd.Series:
    """Return which cells are written so (a regular expression); each different one is looked at once."""
    which, different = pd.factorize(text)
    return pd.Series(pd.Series(different).str.fullmatch(pattern).to_numpy(np.bool_)[which], text.index)


def _words(text: pd.Series, readable: pd.Series) -> str:
    others = text[~readable]
    if not len(others):
        return ""
    return f"{len(others) / len(text):.1%} of its public cells, such as {others.mode()[0]!r}, count as missing"


def typed(column: pd.Series, kind: Kind) -> pd.Series:
    if kind in ("category", "text"):
        if column.dtype == "str":
            return column
        text = column.astype(object)
        text = text.where(text.notna(), None)
        try:
            return text.map(word, na_action="ignore")
        except UnicodeEncodeError:
            # A lone surrogate, which pandas' string type refuses: one such cell must not stop the others.
            return pd.Series([None if cell is None else word(cell) for cell in text], text.index, dtype=object)
    if kind == "date":
        return days(column)
    if kind == DIGITS:
        return days(column.astype(object).map(digits_as_iso, na_action="ignore"))
    if kind in (DAY_FIRST, MONTH_FIRST):
        return days(column.astype(object).map(partial(as_iso, day_first=kind == DAY_FIRST), na_action="ignore"))
    if kind in ("decimal comma", "amount") or column.dtype == object:
        plain = {"decimal comma": with_point, "amount": without_signs}.get(kind)
        # Not by map, which makes one type of what all cells have become.
        cells = [_numeric(cell if plain is None else plain(cell)) for cell in column.astype(object)]
        column = pd.Series(cells, column.index, dtype=object)
    if isinstance(column.dtype, pd.ArrowDtype) and str(column.dtype).startswith("decimal"):
        # pandas loses the missing cells of decimal columns.
        column = column.astype("Float64")
    numbers = pd.to_numeric(column, errors="coerce").astype("Float64").astype(float)
    # An infinity in one private row must not stop its teacher: it counts as missing.
    return numbers.where(np.isfinite(numbers))


_REAL = (int, float, np.integer, np.floating, np.bool_, Decimal)


def _numeric(cell: Any) -> str | float | None:
    """Return a cell as text or a finite number, None for anything else, whatever the other cells are.

    >>> [_numeric(cell) for cell in ("7", True, 10**400, 2.5, pd.NaT, pd.Timestamp(0), 1j)]
    ['7', 1.0, None, 2.5, None, None, None]
    """
    if isinstance(cell, str):
        return cell
    try:
        number = float(cell) if isinstance(cell, _REAL) and not isinstance(cell, np.timedelta64) else math.nan
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def word(cell: Any) -> str:
    """Return a cell as a category: its text. A missing cell elsewhere turns integers into floats, so 7 and 7.0 are
    equal.
    """
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def days(column: pd.Series) -> pd.Series:
    """Return times as days since 2000, cell by cell; NaN for anything but an ISO date.

    Text is truncated to microseconds: one finer cell would make pandas read the whole column in nanoseconds, which end
    in the year 2262. "now" and other words are not dates.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        moments = pd.to_datetime(column, utc=True)
        moments = moments.where((moments >= _FIRST) & (moments <= _LAST)).dt.floor("us")
    else:
        # Other cells may hold what pandas' string type refuses.
        iso = [text if re.fullmatch(DATE, text) else None for text in map(str, column.astype(object))]
        text = pd.Series(iso, column.index, dtype="string").str.replace(_FINER, r"\1", regex=True)
        moments = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
    return (moments.astype("datetime64[us, UTC]") - _ORIGIN) / pd.Timedelta(days=1)


def require_same_types(private: Any, public: Any) -> None:
    """Refuse private columns whose types differ from the public ones: in frames and arrays, types depend on all cells.

    One private cell can turn a whole column of numbers or times into text. Where that would change how other rows are
    read, the frame is refused.
    Images, sparse matrices, and columns that one of the two lacks are not checked. Raises `InvalidInput` that names the
    column.
    """
    private, public = _as_frame(private), _as_frame(public)
    if private is None or public is None:
        return
    for name in private.columns.intersection(public.columns):
        here, there = private[name], public[name]
        if _family(here) != _family(there):
            numeric = "numbers" in (_family(here), _family(there))
            hint = " pandas.to_numeric(..., errors='coerce') makes cells without a number missing." if numeric else ""
            raise InvalidInput(
                f"The column {name!r} must hold the same in X as in X_public: X has {_in_words(here)}, X_public "
                f"{_in_words(there)}.{hint}"
            )


def with_floats(private: Any, public: Any) -> Any:
    """Return private rows with floats in every column of public numbers that has one of 2**53 or more, or objects.

    All cells of a column decide its type, and beyond 2**53 integers are exact and floats are rounded. What has no float
    (infinities, integers of 400 digits) is missing. Text, images and small numbers stay as they are.
    """
    here, there = _as_frame(private), _as_frame(public)
    if here is None or there is None or private is public:
        return private
    result = here.copy(deep=False)
    for name in here.columns.intersection(there.columns):
        cells = here[name].dropna()
        if is_number(there[name]) and (is_number(cells) or all(isinstance(cell, _REAL) for cell in cells)):
            numbers = typed(here[name], "number")
            if cells.dtype == object or not (numbers[cells.index].abs() < _EXACT).all():
                result[name] = numbers
    return result if here is private else result.to_numpy()


def _as_frame(X: Any) -> pd.DataFrame | None:
    """Return a table in memory as a frame; None for anything else."""
    if isinstance(X, pd.DataFrame):
        return X
    return pd.DataFrame(X, copy=False) if isinstance(X, np.ndarray) and X.ndim == 2 else None


def is_number(column: pd.Series) -> bool:
    """Return whether the type of a column is of numbers, not of truth values."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


_TEXT = "text or mixed cells"


def _in_words(column: pd.Series) -> str:
    """Return the family of a column, and of text the first row that has no number, never its cell."""
    odd = typed(column.astype(object), "number").isna().to_numpy() & column.notna().to_numpy()
    row = f" (first in row {odd.argmax()}, counted from 0)" if _family(column) == _TEXT and odd.any() else ""
    return _family(column) + row


def _family(column: pd.Series) -> str:
    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind):
        return "true and false"
    if pd.api.types.is_numeric_dtype(kind):
        return "numbers"
    moment = pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind)
    return f"times ({kind})" if moment else _TEXT
