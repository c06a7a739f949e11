"""What a row is to a released student: named columns of certain kinds, or an array of a certain shape."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from ostrakon.data.columns import DAY_FIRST, DIGITS, MONTH_FIRST, word
from ostrakon.data.embeddings import groups
from ostrakon.data.frames import as_frame
from ostrakon.export.loader import read_table
from ostrakon.features.frozen import FEATURES, FrozenEncoder
from ostrakon.features.representation import Encoder
from ostrakon.validation import InvalidInput

_ORIGIN = datetime.datetime(2000, 1, 1)


@dataclass(frozen=True, kw_only=True)
class RowForm:
    """How raw rows are read, decided on the public rows alone.

    columns: name, kind and (of categories) known values or (of embeddings) width of each column, as `student.json`
    lists them; an embedding is one column here, name.0, name.1, … of the frame; None for rows without names. shape: of
    one row, where rows are arrays. frame: whether the learners see a frame. example: one row of public values, or the
    least and the greatest public value of arrays.

    >>> form = RowForm.of(pd.DataFrame({"age": [30.0, 50.0], "city": ["Ulm", "Bonn"]}))
    >>> form.read([{"city": "Bonn", "age": "41"}]).to_dict("records")
    [{'age': 41.0, 'city': 'Bonn'}]
    """

    columns: tuple[Mapping[str, Any], ...] | None
    shape: tuple[int, ...] | None
    frame: bool
    example: Any

    @classmethod
    def of(cls, X_public: Any, *, kinds: Mapping[str, str] | None = None, names: Sequence[str] | None = None) -> Self:
        """Return the form of public rows.

        kinds: what the raw columns of a typed frame are, where its types do not tell (dates that became days, text).
        names: of the columns of an array, where it had any.
        """
        if hasattr(X_public, "iloc"):
            known = {} if kinds is None else kinds
            columns, example = list[Mapping[str, Any]](), dict[str, Any]()
            embeddings = groups(map(str, X_public.columns))
            part_of = {part: name for name, parts in embeddings.items() for part in parts}
            for column in X_public.columns:
                name = part_of.get(str(column), str(column))
                if name in embeddings and name not in example:
                    columns.append({"name": name, "kind": "embedding", "width": len(embeddings[name])})
                    example[name] = None
                elif name not in embeddings:
                    columns.append(_column(X_public[column], name, known.get(name)))
                    example[name] = _typical(X_public[column], columns[-1])
            return cls(columns=tuple(columns), shape=None, frame=True, example=example)
        array = np.asarray(X_public.toarray() if hasattr(X_public, "toarray") else X_public)
        if names is not None:
            columns = tuple({"name": str(name), "kind": "number"} for name in names)
            example = dict(zip(map(str, names), np.median(array.astype(np.float64), axis=0).tolist(), strict=True))
            return cls(columns=columns, shape=None, frame=False, example=example)
        bounds = (float(array.min()), float(array.max())) if array.dtype.kind in "fiub" and array.size else (0.0, 1.0)
        return cls(columns=None, shape=array.shape[1:], frame=False, example=bounds)

    @property
    def channels(self) -> str | None:
        """The position of the channels in an image, "first", "last" or "none"; None if rows are not images."""
        if self.shape is None or len(self.shape) not in (2, 3):
            return None
        if len(self.shape) == 2:
            return "none"
        first, middle, last = self.shape
        # As networks read them: first where that can be, unless the image is a square seen sideways.
        at_end = first not in (1, 3, 4) or (last in (1, 3, 4) and first == middle)
        return "last" if at_end else "first"

    def read(self, X: Any) -> Any:
        """Raw rows as the learners take them: a typed frame, doubles (rows, columns), or the array as it is.

        Named columns are found by name, in whatever order; an array goes by position.
        Errors: `InvalidInput` for a column that is not there, a sparse matrix, a lazy frame.
        """
        rows = as_frame(X)
        if self.columns is None:
            return rows
        named = hasattr(rows, "keys") or not hasattr(rows, "shape")
        try:
            read = read_table(rows if named else np.asarray(rows), list(self.columns))
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        if not self.frame:
            return np.column_stack(list(read.values()))
        index = rows.index if hasattr(rows, "iloc") else None
        cells: dict[str, Any] = {}
        for name, one in read.items():
            cells |= {name: one} if one.ndim == 1 else {f"{name}.{at}": part for at, part in enumerate(one.T)}
        return pd.DataFrame(cells, index=index)

    def encoded(self, encoder: Encoder) -> Self:
        """Return the form of rows that have been through a representation's encoder, which stays behind."""
        if isinstance(encoder, FrozenEncoder):
            return replace(
                self, columns=(encoder.described(FEATURES),), shape=None, frame=True, example={FEATURES: None}
            )
        assert self.columns is not None
        described = {name: encoder.described(name) for name in encoder.texts_}
        return replace(self, columns=tuple(described.get(column["name"], column) for column in self.columns))


def _column(column: pd.Series, name: str, kind: str | None) -> dict[str, Any]:
    if kind is None:
        kind = _kind(column)
    if kind != "category":  # the texts of the public rows stay where they are
        return {"name": name, "kind": kind}
    words = column.astype(object).map(word, na_action="ignore").astype(object).fillna("")
    return {"name": name, "kind": kind, "values": sorted(set(words))}


def _kind(column: pd.Series) -> str:
    if pd.api.types.is_datetime64_any_dtype(column):
        return "date"
    if pd.api.types.is_timedelta64_dtype(column):
        return "duration"
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return "number"
    return "category"


def _typical(column: pd.Series, described: Mapping[str, Any]) -> Any:
    """Return a public value to show what a cell may hold: the middle number, the first of the most frequent words."""
    kind = described["kind"]
    if kind == "text":
        return "a text"
    if kind == "category":
        counts = column.astype(object).map(word, na_action="ignore").value_counts()
        return min(counts[counts == counts.max()].index) if len(counts) else ""
    if kind == "duration":
        return None
    if pd.api.types.is_datetime64_any_dtype(column):
        return str(column.dropna().sort_values().iloc[len(column.dropna()) // 2].date())
    values = np.sort(column.dropna().to_numpy(np.float64))
    if not len(values):
        return None
    middle = float(values[len(values) // 2])
    if not kind.startswith("date"):
        return middle
    day = (_ORIGIN + datetime.timedelta(days=middle)).date()
    year, month, date = str(day).split("-")
    written = {DAY_FIRST: f"{date}/{month}/{year}", MONTH_FIRST: f"{month}/{date}/{year}", DIGITS: year + month + date}
    return written.get(kind, str(day))
