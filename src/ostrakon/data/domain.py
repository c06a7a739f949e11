"""The public description of columns: categories and ranges, which divide each column into cells."""

import datetime
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import pandas as pd
import tomli_w

from ostrakon.data.columns import Columns, Kind, days, typed, word
from ostrakon.data.files import read_toml
from ostrakon.validation import InvalidInput, quote, whole
from ostrakon.votes import IntArray

DEFAULT_BINS = 16
MOST_CELLS = 1000
"""Of one column."""
MOST_COLUMNS = 40
"""Columns up to which pairs of them are counted."""
MOST_PAIR_CELLS = 10_000
"""Of one pair of columns."""
_EXAMPLES = 256

DRAFT, UNKNOWN = "columns", "?"
"""Names of the draft, and of what it leaves to the user."""
EXAMPLE = '[columns.age] with low = 0 and high = 100, or [columns.city] with categories = ["Ulm", "Bonn"]'
_NUMBERS: tuple[Kind, ...] = ("number", "decimal comma", "date")
_NUMERIC = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
)
_KEYS = ("kind", "categories", "low", "high", "bins", "edges", "whole")


@dataclass(frozen=True, kw_only=True)
class Described:
    """One column: a list of categories, or ranges of numbers (of dates: days since 2000).

    kind: as in `Columns`. categories: of a column of words, else None. edges: increasing ends of the ranges, one more
    than there are ranges; values beyond them belong to the outermost. whole: whether values are whole numbers. The last
    cell of every column is for missing values, and for words outside of the categories.
    """

    kind: Kind
    categories: tuple[str, ...] | None = None
    edges: tuple[float, ...] = ()
    whole: bool = False

    @property
    def cells(self) -> int:
        """Number of ranges or categories, and one for missing values."""
        return (len(self.edges) - 1 if self.categories is None else len(self.categories)) + 1

    def cell_names(self) -> tuple[str, ...]:
        """Return the values of every cell, in words."""
        if self.categories is not None:
            return (*self.categories, "(other or missing)")
        ends = [f"[{low:g}, {high:g})" for low, high in itertools.pairwise(self.edges)]
        return (*ends, "(missing)")

    def typed(self, name: str, column: pd.Series) -> pd.Series:
        """Return a column in memory as float64 (of dates days since 2000, NaN where missing), or words (None where
        missing).

        Errors: `InvalidInput` for a column whose type does not match its description: numbers need a numeric type,
        dates datetime64, all else text. All cells of a column influence its type (one odd cell turns numbers into text,
        and 7 becomes 7.0 or "007"), so the type never decides how a column is read.
        """
        kind = column.dtype
        if self.categories is not None or self.kind == "decimal comma":
            right = pd.api.types.infer_dtype(column.astype(object), skipna=True) in ("string", "empty")
            requirement = "text, such as dtype=str in read_csv gives"
        elif self.kind == "date":
            right, requirement = (
                pd.api.types.is_datetime64_any_dtype(kind),
                "datetime64, such as pandas.to_datetime gives",
            )
        else:
            numeric = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
            right, requirement = (
                numeric and not pd.api.types.is_bool_dtype(kind),
                "numbers, such as pandas.to_numeric gives",
            )
        if not right:
            raise InvalidInput(f"The column {name!r} of X must be {requirement}, as it is described; got {kind}.")
        return typed(column, self.kind)

    def codes(self, column: pd.Series) -> IntArray:
        """Return the cell of every value of a typed column, shape (rows,)."""
        if self.categories is not None:
            index = {name: at for at, name in enumerate(self.categories)}
            return np.array([index.get(cell, len(index)) for cell in column], np.int64)
        values = column.to_numpy(np.float64)
        cell = np.searchsorted(self.edges[1:-1], values, side="right")
        return np.where(np.isfinite(values), cell, self.cells - 1).astype(np.int64)

    def require_type(self, name: str, kind: str, where: object) -> None:
        """Refuse a column of a Parquet file whose type, as DuckDB names it, does not match the description.

        Errors: `InvalidInput`, for the reason given in `typed`.
        """
        if self.categories is not None or self.kind == "decimal comma":
            right, requirement = kind == "VARCHAR" or kind.startswith("ENUM"), "text"
        elif self.kind == "date":
            right, requirement = kind.startswith(("DATE", "TIMESTAMP")), "dates or timestamps"
        else:
            right, requirement = kind.startswith(_NUMERIC), "numbers"
        if not right:
            raise InvalidInput(
                f"The column {name!r} of {where} must hold {requirement}, as it is described; got {kind}."
            )

    def values(self, codes: IntArray, rng: np.random.Generator) -> Any:
        """Return values in these cells, drawn evenly from each range; NaN or None where missing."""
        if self.categories is not None:
            return np.array([*self.categories, None], dtype=object)[codes]
        low, high = (np.array([*ends, np.nan])[codes] for ends in (self.edges[:-1], self.edges[1:]))
        numbers = low + rng.random(len(codes)) * (high - low)
        if not self.whole:
            return numbers
        first = np.ceil(low)
        # The last range includes its end, the others do not.
        last = np.where(high == self.edges[-1], np.floor(high), np.ceil(high) - 1)
        return np.clip(np.floor(first + rng.random(len(codes)) * (last - first + 1)), first, last)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The possible values of the columns of a private table, written down without looking at the table.

    columns: name → its possible values. delimiter: of the private table if it is a CSV.

    Guarantee: public if its author did not look at private rows; how a row is read depends on its own cells and on this
    description alone.
    Errors: `InvalidInput` for no columns, or an unknown delimiter.

    >>> domain = Domain.of({"age": {"low": 0, "high": 100, "bins": 4}, "city": {"categories": ["Ulm", "Bonn"]}})
    >>> domain.codes(pd.DataFrame({"city": ["Bonn", "Rom", None], "age": [25.0, 120.0, None]})).tolist()
    [[1, 1], [3, 2], [4, 2]]
    """

    columns: Mapping[str, Described]
    delimiter: str = ","

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidInput(f"columns must describe at least one column, such as {EXAMPLE}; got none.")
        if self.delimiter not in (",", ";", "\t", "|"):
            raise InvalidInput(f"delimiter must be one of , ; | and the tabulator, got {quote(self.delimiter)}.")

    @classmethod
    def of(cls, columns: Mapping[str, Any], *, delimiter: str = ",") -> Self:
        """Return the domain from plain values: a mapping for every column, with `categories`, or with `low` and
        `high`, or `edges`.

        low, high: the smallest and the largest value, numbers or dates, divided into `bins` ranges of equal width
        (default 16; at most one range per whole number). edges: your own ends of ranges, in place of those. whole:
        whether values are whole numbers. kind: "number", "decimal comma", "date" or "category", where it does not
        follow from the others.
        Errors: `InvalidInput` that names the column and says what it needs.
        """
        if not isinstance(columns, Mapping):
            raise InvalidInput(f"columns must describe columns by name, such as {EXAMPLE}; got {quote(columns)}.")
        descriptions = {str(name): _described(str(name), description) for name, description in columns.items()}
        return cls(columns=descriptions, delimiter=delimiter)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the domain from a TOML file: a table [columns.NAME] for every column, and above them perhaps
        `delimiter`.
        """
        content = read_toml("columns", path)
        foreign = [name for name in content if name not in ("columns", "delimiter")]
        if foreign or "columns" not in content:
            answer = f"{foreign[0]!r}" if foreign else "no columns"
            raise InvalidInput(f"{path} must hold columns, and perhaps a delimiter, as {EXAMPLE}; got {answer}.")
        return cls.of(**content)

    def as_plain(self) -> dict[str, Any]:
        """Return plain values for JSON, from which `of` makes the same description."""
        return {
            "delimiter": self.delimiter,
            "columns": {
                name: {"categories": list(one.categories)}
                if one.categories is not None
                else {"kind": one.kind, "edges": list(one.edges), "whole": one.whole}
                for name, one in self.columns.items()
            },
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of every column."""
        return tuple(column.cells for column in self.columns.values())

    @property
    def ranges(self) -> tuple[bool, ...]:
        """For each column, whether its cells are ranges, in order."""
        return tuple(column.categories is None for column in self.columns.values())

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of columns that are counted: all, unless they have more than 10,000 cells or there are more than 40
        columns; a public rule.

        >>> Domain.of({name: {"low": 0, "high": 1} for name in "abc"}).pairs
        ((0, 1), (0, 2), (1, 2))
        """
        sizes = self.sizes
        near = itertools.combinations(range(len(sizes)), 2) if len(sizes) <= MOST_COLUMNS else ()
        return tuple(pair for pair in near if sizes[pair[0]] * sizes[pair[1]] <= MOST_PAIR_CELLS)

    def cell_names(self) -> tuple[str, ...]:
        """Return the names of the cells of all columns, in order, such as "age [0, 25)" and "city Ulm"."""
        return tuple(f"{name} {cell}" for name, column in self.columns.items() for cell in column.cell_names())

    def kinds(self) -> Columns:
        """Return how the columns are read."""
        return Columns({name: column.kind for name, column in self.columns.items()})

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the described columns of a frame in memory, typed (see `Described.typed`)."""
        return pd.DataFrame({name: column.typed(name, frame[name]) for name, column in self.columns.items()})

    def codes(self, frame: pd.DataFrame) -> IntArray:
        """Return the cell of every value of a typed frame, (rows, columns), in the order of `names`.

        Errors: `InvalidInput` for a frame that lacks a column.
        """
        absent = next((name for name in self.columns if name not in frame.columns), None)
        if absent is not None:
            raise InvalidInput(f"The private rows must have every column that is described; {absent!r} is missing.")
        return np.column_stack([column.codes(frame[name]) for name, column in self.columns.items()])

    def frame(self, codes: IntArray, *, seed: int) -> pd.DataFrame:
        """Return rows in these cells, typed as `Columns.apply` types them."""
        rng = np.random.default_rng(seed)
        return pd.DataFrame(
            {name: one.values(codes[:, at], rng) for at, (name, one) in enumerate(self.columns.items())}
        )

    def examples(self) -> pd.DataFrame:
        """Return example rows with every cell equally often, from public words alone."""
        rng, rows = np.random.default_rng(0), max(_EXAMPLES, *self.sizes)
        return self.frame(np.column_stack([rng.permutation(np.arange(rows) % size) for size in self.sizes]), seed=0)


def drafted(header: Sequence[str]) -> str:
    """Return the draft of a TOML file that `Domain.read` reads, from names and types alone; "?" is for the user to
    replace.

    header: "NAME:TYPE", of the types number, whole (numbers), date and category.
    Errors: `InvalidInput` for no columns, another form, or a name that comes twice.

    >>> print(drafted(["age:whole", "ward:category"]))
    # Replace each ? without looking at the data: all that is written here is treated as public.
    <BLANKLINE>
    [columns.age]
    low = "?"
    high = "?"
    whole = true
    <BLANKLINE>
    [columns.ward]
    categories = [
        "?",
    ]
    <BLANKLINE>
    """
    ends: dict[str, Any] = {"low": UNKNOWN, "high": UNKNOWN}
    kinds: dict[str, dict[str, Any]] = {
        "number": ends,
        "whole": {**ends, "whole": True},
        "date": {"kind": "date", **ends},
        "category": {"categories": [UNKNOWN]},
    }
    columns: dict[str, Any] = {}
    for one in header:
        name, colon, kind = one.rpartition(":")
        if not colon or not name or kind not in kinds or name in columns:
            raise InvalidInput(
                f"columns must be NAME:TYPE, each name once, of the types {', '.join(kinds)}; got {one!r}."
            )
        columns[name] = kinds[kind]
    if not columns:
        raise InvalidInput("columns must be given as NAME:TYPE, such as age:whole ward:category.")
    head = f"# Replace each {UNKNOWN} without looking at the data: all that is written here is treated as public.\n"
    return f"{head}\n{tomli_w.dumps({'columns': columns})}"


def _described(name: str, entry: Any) -> Described:
    if isinstance(entry, Described):
        return entry
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"columns.{name} must be a table, as {EXAMPLE}; got {quote(entry)}.")
    description = cast("Mapping[str, Any]", entry)
    foreign = [key for key in description if key not in _KEYS]
    if foreign:
        raise InvalidInput(f"columns.{name} may have {', '.join(_KEYS)}, got {foreign[0]!r}.")
    kind = description.get("kind", "category" if "categories" in description else _kind_of(description))
    if kind == "category":
        return Described(kind="category", categories=_categories(name, description))
    if kind not in _NUMBERS:
        raise InvalidInput(
            f"columns.{name}.kind must be one of {', '.join((*_NUMBERS, 'category'))}, got {quote(kind)}."
        )
    if "categories" in description:
        raise InvalidInput(f"columns.{name} must have categories or a range, got both.")
    is_whole = description.get("whole", False)
    if not isinstance(is_whole, bool):
        raise InvalidInput(f"columns.{name}.whole must be true or false, got {quote(is_whole)}.")
    return Described(kind=kind, edges=_edges(name, description, is_whole=is_whole), whole=is_whole)


def _kind_of(description: Mapping[str, Any]) -> Kind:
    ends = description.get("edges", [description.get("low")])
    return "date" if isinstance(ends, Sequence) and any(isinstance(end, datetime.date) for end in ends) else "number"


def _categories(name: str, description: Mapping[str, Any]) -> tuple[str, ...]:
    categories = description.get("categories")
    if (
        set(description) - {"kind", "categories"}
        or not isinstance(categories, Sequence)
        or isinstance(categories, str)
        or not categories
    ):
        raise InvalidInput(
            f"columns.{name} must have categories, a list of words, and nothing else; got {quote(description)}."
        )
    if any(not isinstance(item, str | int | float) for item in categories):
        raise InvalidInput(f"columns.{name}.categories must be words, got {quote(categories)}.")
    words = tuple(word(one) for one in categories)
    if words == (UNKNOWN,):
        raise InvalidInput(f"columns.{name}.categories must be filled in, got {UNKNOWN!r}.")
    twice = next((one for one in words if words.count(one) > 1), None)
    if twice is not None or len(words) >= MOST_CELLS:
        answer = f"{twice!r} twice" if twice is not None else f"{len(words)}"
        raise InvalidInput(f"columns.{name}.categories must be fewer than {MOST_CELLS} different words, got {answer}.")
    return words


def _edges(name: str, description: Mapping[str, Any], *, is_whole: bool) -> tuple[float, ...]:
    if "edges" in description:
        if (
            {"low", "high", "bins"} & set(description)
            or not isinstance(description["edges"], Sequence)
            or len(description["edges"]) < 2
        ):
            raise InvalidInput(
                f"columns.{name}.edges must be two or more increasing ends, beside no low, high or bins; got "
                f"{quote(description['edges'])}."
            )
        edges = [_end(f"columns.{name}.edges", end) for end in description["edges"]]
    else:
        for side in ("low", "high"):
            if side not in description:
                raise InvalidInput(
                    f"columns.{name} must say in public words what it may hold: categories, low and high, or edges; "
                    f"{side} is missing."
                )
        low, high = (_end(f"columns.{name}.{side}", description[side]) for side in ("low", "high"))
        bins = whole(f"columns.{name}.bins", description.get("bins", DEFAULT_BINS), at_least=1, at_most=MOST_CELLS - 1)
        if not low < high:
            raise InvalidInput(
                f"columns.{name}.low must be below high, got {description['low']} and {description['high']}."
            )
        if is_whole and math.floor(high) - math.ceil(low) < bins:
            edges = [*np.arange(math.ceil(low), math.floor(high) + 1) - 0.5, math.floor(high) + 0.5]
        else:
            edges = np.linspace(low, high, bins + 1).tolist()
    limits = tuple(map(float, edges))
    if any(not a < b for a, b in itertools.pairwise(limits)) or len(limits) > MOST_CELLS:
        raise InvalidInput(
            f"columns.{name} must have ends that increase, at most {MOST_CELLS}, got {quote(description)}."
        )
    ends = [*[math.ceil(b) - 1 for b in limits[1:-1]], math.floor(limits[-1])]
    if is_whole and any(math.ceil(a) > end for a, end in zip(limits, ends, strict=False)):
        raise InvalidInput(f"columns.{name} must have a whole number in every range, got {quote(description)}.")
    return limits


def _end(name: str, value: Any) -> float:
    """Return a number, or a date as days since 2000."""
    if isinstance(value, datetime.date):
        return float(days(pd.Series([str(value)])).iloc[0])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        filled = "filled in with a finite number or a date" if value == UNKNOWN else "finite numbers or dates"
        raise InvalidInput(f"{name} must be {filled}, got {quote(value)}.")
    return float(value)
