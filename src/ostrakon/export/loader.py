"""Load the student beside this file, and predict. Needs NumPy and, as student.json says, onnxruntime or torch.

    from load_student import Student
    student = Student()
    labels = student.predict(rows)

Rows of a table: a data frame (pandas, Polars, Arrow), a list of dictionaries (csv.DictReader gives them), or a
dictionary of columns. Columns go by name, in any order; further ones are not looked at. A cell that cannot be read
counts as missing, and a word that the public rows did not have as unknown, both with a warning. Images and numbers: an
array.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BEFORE, _AFTER = r"[+-]?([$€£¥]\s?)?", r"([eE][+-]?[0-9]+)?(\s?[$€£¥%])?"
_COMMA_NUMBER = re.compile(rf"{_BEFORE}(([0-9]+|[0-9]{{1,3}}(\.[0-9]{{3}})+)(,[0-9]*)?|,[0-9]+){_AFTER}")
_AMOUNT = re.compile(rf"{_BEFORE}(([0-9]+|[0-9]{{1,3}}(,[0-9]{{3}})+)(\.[0-9]*)?|\.[0-9]+){_AFTER}")
_SIGNS = re.compile(r"[$€£¥%\s]")
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WRITTEN_DATE = re.compile(
    rf"(\d{{1,2}})([./ -])(\d{{1,2}}|(?i:(?:{'|'.join(_MONTHS)})[a-z]*))\2(\d{{4}})"
    r"(?:[T, ]+(\d{1,2}):(\d{2})(?::(\d{2}))?(?: ?([AaPp])[Mm])?)?"
)
_EIGHT_DIGITS = re.compile(r"(19\d{2}|20\d{2}|2100)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:\.0+)?")
_FORMS = {
    "number": "1234.5",
    "decimal comma": "1234,5",
    "amount": "1,234.50",
    "date": "2024-12-31",
    "date (day first)": "31/12/2024",
    "date (month first)": "12/31/2024",
    "date (digits)": "20241231",
}
_ORIGIN = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_DAY = datetime.timedelta(days=1)
_TERM = re.compile(r"\b\w\w+\b")
_MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
_AT_ONCE = 1024
NO_SETS = (
    "Prediction sets need a student of one label a row, of per-record teachers, whose probabilities were tried on at "
    "least 50 queries that it did not learn from; this one was not."
)
NO_INTERVALS = (
    "Intervals need a student whose errors on the private records were counted: that of a run with enough records for "
    "the noise on these counts, not another one that was fitted later."
)


class Student:
    """The student of a folder: `predict`, `predict_proba`, `predict_sets`, `predict_interval`, `classes_`.

    folder: where student.json lies; by default beside this file.
    """

    def __init__(self, folder: Any = None) -> None:
        self.folder = Path(__file__).parent if folder is None else Path(folder)
        self.description = json.loads((self.folder / "student.json").read_text(encoding="utf-8"))
        self.classes_ = np.asarray(self.description.get("classes", []))
        self._estimates = "quantity" in self.description
        self._several = self.description.get("several_labels", False)
        path = self.folder / Path(self.description["file"]).name
        kind = {"onnx": _Onnx, "safetensors": _Torch}[self.description["format"]]
        self._model = kind(path, self.description)

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Probabilities, (rows, classes), columns as in `classes_`; of a quantity there are none."""
        if self._estimates:
            raise ValueError("This student estimates a quantity: it has no probabilities.")
        return self._answers(rows)[1]

    def predict(self, rows: Any) -> np.ndarray:
        """Return the most likely class of each row, its quantity, or 0 and 1 of several labels, (rows, labels)."""
        if self._estimates or self._several:
            return self._answers(rows)[0]
        return self.classes_[self._answers(rows)[0]]

    def predict_sets(self, rows: Any, coverage: float = 0.9) -> list[list[Any]]:
        """For every row the labels of a set; model_card.md says how often the right label is in it."""
        sets = self.description.get("prediction_sets")
        if sets is None:
            raise ValueError(NO_SETS)
        thresholds = {float(each): least for each, least in sets["thresholds"].items()}
        threshold = threshold_for(thresholds, coverage)
        places, likely = self._answers(rows)
        return as_lists(likely, places, threshold, self.classes_, sets["labels"])

    def predict_interval(self, rows: Any, coverage: float = 0.9) -> np.ndarray:
        """Return both ends of the interval of every row, (rows, 2); model_card.md says what they cover."""
        intervals = self.description.get("prediction_intervals")
        if intervals is None:
            raise ValueError(NO_INTERVALS)
        half_widths = {float(each): width for each, width in intervals["half_widths"].items()}
        half_width = threshold_for(half_widths, coverage)
        return interval_around(self.predict(rows), half_width, **self.description["quantity"])

    def _answers(self, rows: Any) -> Any:
        inputs = self._inputs(rows)
        count = len(next(iter(inputs.values())))
        parts = []
        for at in range(0, count, _AT_ONCE):
            parts.append(self._model.run({name: value[at : at + _AT_ONCE] for name, value in inputs.items()}))
        if not parts and self._estimates:
            return (np.zeros(0),)
        if not parts:
            places = (0, len(self.classes_)) if self._several else 0
            return np.zeros(places, np.int64), np.zeros((0, len(self.classes_)))
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))

    def _inputs(self, rows: Any) -> dict[str, Any]:
        given = self.description["input"]
        if "columns" not in given:
            array = arranged(rows, given["shape"], given["dtype"], given.get("channels"))
            if "range" in given:
                require_range(array, *given["range"])
            return {"rows": array}
        read = read_table(rows, given["columns"], warn=True)
        if not given["missing_allowed"]:
            for name, values in read.items():
                if np.isnan(values).any():
                    at = int(np.isnan(values).argmax())
                    raise ValueError(f"The column {name!r} must hold a number in every row, row {at} has none.")
        columns = {"numbers": [], "words": []}
        for column in given["columns"]:
            columns["words" if column["kind"] == "category" else "numbers"].append(read[column["name"]])
        return {name: np.column_stack(values) for name, values in columns.items() if values}


def threshold_for(thresholds: Mapping[float, float], coverage: float) -> float:
    """Return the threshold, or the half-width, of a coverage. Errors: ValueError for one that is not offered."""
    if coverage not in thresholds:
        raise ValueError(f"coverage must be one of {', '.join(map(str, thresholds))}, got {coverage!r}.")
    return thresholds[coverage]


def interval_around(values: Any, half_width: float, low: float, high: float) -> np.ndarray:
    """Return the ends of intervals around estimates, within the range from low to high, (rows, 2)."""
    return np.column_stack([np.maximum(values - half_width, low), np.minimum(values + half_width, high)])


def as_lists(likely: Any, places: Any, threshold: float, classes: Any, labels: Sequence[Any]) -> list[list[Any]]:
    """Return the labels of each row's set: its own (at `places`), and those that reach the threshold.

    likely: probabilities, (rows, classes). classes: their labels. labels: all labels, which a threshold of 0 gives.
    """
    if threshold <= 0:
        return [list(labels) for _ in likely]
    inside = likely >= threshold
    inside[np.arange(len(inside)), places] = True
    return [np.asarray(classes)[row].tolist() for row in inside]


def _load_pyfunc(folder: str) -> Student:  # pyright: ignore[reportUnusedFunction] (MLflow calls it)
    """Return the student of a folder, under the name by which MLflow loads a model."""
    return Student(folder)


def read_table(rows: Any, columns: Sequence[Mapping[str, Any]], *, warn: bool = False) -> dict[str, Any]:
    """Return the columns of `rows` by name, read cell by cell: numbers as doubles, NaN if missing, categories as text.

    columns: "name" and "kind" of each; kinds: number, decimal comma (0,5), amount ($1,234.50), date (days since 2000,
    also "date (day first)", 31/12/2024, "date (month first)", 12/31/2024, and "date (digits)", 20241231),
    duration (days), category ("" is missing), which has the "values" that the public data knew, embedding: "width"
    numbers in every row, doubles (rows, width), given as lists, as an array of two dimensions, or as the
    columns NAME.0, NAME.1, ...; text, as it is; tfidf: text as the weights of its "terms", doubles (rows, width).
    An array goes by position. warn: name the columns with unread or unknown text. Errors: ValueError for a column
    that is not there, and for anything that is not rows.
    """
    given = _cells_by_name(rows, columns)
    for column in columns:
        name, parts = column["name"], _parts_of(column)
        if name not in given and parts and all(part in given for part in parts):
            given[name] = np.stack([np.asarray(given[part], np.float64) for part in parts], axis=1)
    absent = [column["name"] for column in columns if column["name"] not in given]
    if absent:
        raise ValueError(f"X must have the columns of the public table; missing: {', '.join(absent)}.")
    read = {column["name"]: _read_column(given[column["name"]], column) for column in columns}
    for column in columns if warn else ():
        _warn_of_unread(given[column["name"]], read[column["name"]], column)
    return read


def _warn_of_unread(cells: Any, read: np.ndarray, column: Mapping[str, Any]) -> None:
    """Warn of words that the public table did not have, and of numbers and dates that are written otherwise."""
    unknown = set(read).difference(column["values"], [""]) if column["kind"] == "category" else ()
    if unknown:
        some = ", ".join(f"{word!r:.60}" for word in sorted(unknown)[:3])
        warnings.warn(
            f"The student does not know some values of the column {column['name']!r} and reads them as unknown: "
            f"{some}{', ...' if len(unknown) > 3 else ''}.",
            stacklevel=2,
        )
    form = _FORMS.get(column["kind"])
    if form is None or not np.isnan(read).any():
        return
    texts = [cell for cell, value in zip(cells, read, strict=True) if isinstance(cell, str) and math.isnan(value)]
    unread = [text for text in texts if read_word(text, frozenset())]
    if unread:
        warnings.warn(
            f"The column {column['name']!r} must be written like {form}: {len(unread)} of {len(read)} cells are not "
            f"and count as missing, the first {unread[0]!r}.",
            stacklevel=2,
        )


def _parts_of(column: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns that an embedding may be given as; none for other kinds."""
    return [f"{column['name']}.{number}" for number in range(column.get("width", 0))]


def _cells_by_name(rows: Any, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the cells of `rows` by column, or part of one. Errors: ValueError for anything that is not rows."""
    names = [column["name"] for column in columns]
    if hasattr(rows, "keys"):
        given = {str(name): rows[name] for name in rows.keys()}  # noqa: SIM118 (a Series iterates its cells)
        _require_columns(given)
        return {**{name.strip(): cells for name, cells in given.items()}, **given}
    if isinstance(rows, np.ndarray):
        if len(columns) == 1 and columns[0]["kind"] == "embedding":
            return {names[0]: rows}
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ValueError(f"X must have {len(names)} columns ({', '.join(names)}), got shape {rows.shape}.")
        return dict(zip(names, rows.T, strict=True))
    rows = next((getattr(rows, how)() for how in ("to_dicts", "to_pylist") if hasattr(rows, how)), rows)
    rows = _list_of_rows(rows)
    if not rows:
        return {name: [] for name in names}
    known = {str(name) for row in rows for name in row}
    # A header such as "age, income" was read without its blanks.
    own = {**{name.strip(): name for name in known}, **{name: name for name in known}}
    wanted = {name for column in columns for name in (column["name"], *_parts_of(column))}
    return {name: [row.get(own[name]) for row in rows] for name in wanted & own.keys()}


def _require_columns(given: Mapping[str, Any]) -> None:
    """Refuse a dictionary that holds one row, or columns of different lengths."""
    lengths = {}
    for name, cells in given.items():
        if isinstance(cells, (str, bytes)) or not hasattr(cells, "__len__"):
            raise ValueError(
                f"X must hold a column of cells under each name, got {cells!r} under {name!r}; one row is a list of "
                "one dictionary, [{...}]."
            )
        lengths[name] = len(cells)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r}: {length}" for name, length in lengths.items())
        raise ValueError(f"The columns of X must be equally long, got {told}.")


def _list_of_rows(rows: Any) -> list[Any]:
    found = [rows] if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__") else list(rows)
    foreign = [row for row in found if not hasattr(row, "keys")]
    if foreign:
        raise ValueError(
            "X must be a data frame, a list of dictionaries, a dictionary of columns or an array, "
            f"got {'' if foreign[0] is rows else 'a list with '}{foreign[0]!r:.60}."
        )
    return found


def _read_column(cells: Any, column: Mapping[str, Any]) -> np.ndarray:
    kind = column["kind"]
    if kind in ("number", "decimal comma", "amount") and getattr(getattr(cells, "dtype", None), "kind", "") in (
        "f",
        "i",
        "u",
    ):
        numbers = np.asarray(cells, dtype=np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    if kind == "embedding":
        return read_embedding(cells, column["name"], column["width"])
    if kind in ("text", "tfidf"):
        texts = [read_word(cell, frozenset()) for cell in cells]
        return np.array(texts, dtype=object) if kind == "text" else weighted_terms(texts, column)
    if kind == "category":
        known = set(column["values"])
        found = [read_word(cell, known) for cell in cells]
        return np.array(found, dtype=object)
    read = READERS[kind]
    found = [read(cell) for cell in (cells.tolist() if _is_plain(cells) else cells)]
    return np.array(found, dtype=np.float64)


def read_embedding(cells: Any, name: str, width: int) -> np.ndarray:
    """Embeddings as doubles (rows, width). Errors: ValueError for another width and for what is no finite number."""
    try:
        array = np.asarray([np.asarray(cell, np.float64) for cell in cells], np.float64)
    except (TypeError, ValueError):
        array = np.full((1, 0), np.nan)
    if not len(cells):
        return np.zeros((0, width))
    if array.shape[1:] != (width,) or not np.isfinite(array).all():
        raise ValueError(f"The column {name!r} must hold {width} finite numbers in every row.")
    return array


def weighted_terms(texts: Sequence[str], column: Mapping[str, Any]) -> np.ndarray:
    """TF-IDF of texts, doubles (rows, width): words of two letters or more and pairs of them, each row of length 1.

    column: "terms", in order, and the inverse document frequency of each, "idf". A term counts 1 + log(occurrences).
    """
    place = {term: number for number, term in enumerate(column["terms"])}
    made = np.zeros((len(texts), len(place)))
    for row, text in enumerate(texts):
        words = _TERM.findall(text.lower())
        for term in [*words, *map(" ".join, itertools.pairwise(words))]:
            if term in place:
                made[row, place[term]] += 1
    held = made > 0
    made[held] = 1 + np.log(made[held])
    made *= np.asarray(column["idf"])
    return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-300)


def _is_plain(cells: Any) -> bool:
    # Moments and durations of NumPy would come out as counts of nanoseconds.
    return isinstance(cells, np.ndarray) and cells.dtype.kind not in "mMO"


def read_number(cell: Any) -> float:
    """Return a cell as a number; NaN for what is none, and for infinities."""
    if isinstance(cell, str):
        text = unquoted(cell.strip())
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
    else:
        if isinstance(cell, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64, bytes)):
            return math.nan
        try:
            number = float(cell)
        except (TypeError, ValueError, OverflowError):
            return math.nan
    return number if math.isfinite(number) else math.nan


def read_comma_number(cell: Any) -> float:
    """Return a cell as a number whose text has a decimal comma (0,5 or 1.234,5); NaN for what is none."""
    if isinstance(cell, str):
        text = unquoted(cell.strip())
        cell = _SIGNS.sub("", text).replace(".", "").replace(",", ".") if _COMMA_NUMBER.fullmatch(text) else "none"
    return read_number(cell)


def read_amount(cell: Any) -> float:
    """Return a cell as a number whose text may have signs, and commas between thousands ($1,234.50); NaN for others."""
    if isinstance(cell, str):
        text = unquoted(cell.strip())
        cell = _SIGNS.sub("", text).replace(",", "") if _AMOUNT.fullmatch(text) else "none"
    return read_number(cell)


def unquoted(text: str) -> str:
    """Return text without one pair of quotes around all of it: '7' is 7."""
    quote, inner = text[:1], text[1:-1]
    alike = len(text) > 2 and quote == text[-1] and quote in "'\"" and quote not in inner
    return inner.strip() if alike else text


def read_date(cell: Any) -> float:
    """Return a moment, or its ISO text, as days since 2000 (UTC where no zone is named); NaN for what is none."""
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, str):
        match = _DATE.fullmatch(unquoted(cell.strip()))
        if match is None:
            return math.nan
        day, time, zone = match.groups()
        time = re.sub(r"(\.\d{6})\d+", r"\1", time or "00:00")
        whole, _, part = time.partition(".")
        text = f"{day}T{whole if whole.count(':') == 2 else whole + ':00'}"
        try:
            cell = datetime.datetime.strptime(text + (zone or "Z").replace("Z", "+0000").replace(":", ""), _FORM)
        except ValueError:
            return math.nan
        cell = cell.replace(microsecond=int((part or "0").ljust(6, "0")))
    elif isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, datetime.datetime) or cell != cell:
        return math.nan
    moment = _plain(cell)
    return ((moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment) - _ORIGIN) / _DAY


def read_day_first(cell: Any) -> float:
    """Return a moment, or its text such as 31/12/2024 1:20 PM, as days since 2000; NaN for what is none."""
    return read_date(_as_iso(cell, day_first=True) if isinstance(cell, str) else cell)


def read_month_first(cell: Any) -> float:
    """Return a moment, or its text such as 12/31/2024 13:20, as days since 2000; NaN for what is none."""
    return read_date(_as_iso(cell, day_first=False) if isinstance(cell, str) else cell)


def read_digits(cell: Any) -> float:
    """Return a moment, or a number of eight digits such as 20241231, as days since 2000; NaN for what is none."""
    if isinstance(cell, (datetime.date, np.datetime64)):
        return read_date(cell)
    found = _EIGHT_DIGITS.fullmatch(read_word(cell, frozenset()))
    return math.nan if found is None else read_date("-".join(found.groups()))


def _as_iso(text: str, *, day_first: bool) -> str:
    found = _WRITTEN_DATE.fullmatch(unquoted(text.strip()))
    if found is None:
        return "none"
    first, _, second, year, hour, minute, seconds, half = found.groups()
    named = second[:3].lower() in _MONTHS
    if named and not day_first:
        return "none"
    second = str(1 + _MONTHS.index(second[:3].lower())) if named else second
    day, month = (first, second) if day_first else (second, first)
    date = f"{year}-{int(month):02d}-{int(day):02d}"
    if hour is None:
        return date
    if half is not None and not 1 <= int(hour) <= 12:
        return "none"
    clock = int(hour) if half is None else int(hour) % 12 + (12 if half in "Pp" else 0)
    return f"{date}T{clock:02d}:{minute}:{seconds or '00'}"


def _plain(moment: Any) -> datetime.datetime:
    # pandas has moments of its own, which know nanoseconds.
    return moment.floor("us").to_pydatetime() if hasattr(moment, "to_pydatetime") else moment


_FORM = "%Y-%m-%dT%H:%M:%S%z"


def read_duration(cell: Any) -> float:
    """Return a duration as days; NaN for what is none."""
    if isinstance(cell, np.timedelta64):
        return math.nan if np.isnat(cell) else float(cell / np.timedelta64(1, "D"))
    if not isinstance(cell, datetime.timedelta) or cell != cell:
        return math.nan
    return cell / _DAY


def read_word(cell: Any, known: Any) -> str:
    """Return a cell as a category: its text, "" where it is missing. Whole numbers have no decimal point: 7.0 is "7".

    known: the categories of the public data. Text that is none of them loses outer spaces and quotes, and is missing
    where it is one of the usual signs for that.
    """
    if cell is None or type(cell).__name__ in ("NaTType", "NAType"):
        return ""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, float):
        if math.isnan(cell):
            return ""
        return str(int(cell)) if cell.is_integer() else str(cell)
    text = str(cell)
    if text in known:
        return text
    text = text.strip()
    text = text if text in known else unquoted(text)
    if text not in known and text in _MISSING:
        return ""
    if known <= {"True", "False", ""} and text.lower() in ("true", "false"):
        return text.capitalize()
    return text


READERS = {
    "number": read_number,
    "decimal comma": read_comma_number,
    "amount": read_amount,
    "date": read_date,
    "date (day first)": read_day_first,
    "date (month first)": read_month_first,
    "date (digits)": read_digits,
    "duration": read_duration,
}


def arranged(rows: Any, shape: list[Any], dtype: str, channels: Any) -> np.ndarray:
    """Numbers in the shape that the student reads: (rows, columns), or images as (rows, channels, height, width).

    shape: ["rows", ...] as the public rows are. channels: where images have them, "first", "last" or "none"; else None.
    Images may have them elsewhere or come flat. Errors: ValueError for another shape and for what is no finite number.
    """
    array = np.asarray(rows, dtype=dtype)
    wanted = tuple(shape[1:])
    if array.ndim and channels is not None and array.shape[1:] != wanted:
        array = _as_wanted(array, wanted, channels)
    if not array.ndim or array.shape[1:] != wanted:
        raise ValueError(f"X must have the shape {tuple(shape)}, got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError("X must hold finite numbers, got a NaN or an infinity.")
    if channels == "none":
        return array[:, None]
    return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if channels == "last" else array


def require_range(pixels: np.ndarray, least: float, most: float) -> None:
    """Refuse pixels on another scale than the public ones, 0 to 255 where those are 0 to 1. Errors: ValueError."""
    room = 4 * (most - least)
    far = pixels[(pixels > most + room) | (pixels < least - room)]
    if room > 0 and far.size:
        farthest = far[np.abs(far).argmax()]
        raise ValueError(f"The pixels of X must be scaled as the public ones, {least:g} to {most:g}, got {farthest:g}.")


def _as_wanted(array: np.ndarray, wanted: tuple[int, ...], channels: str) -> np.ndarray:
    here = array.shape[1:]
    if len(here) == 1 and here[0] == math.prod(wanted):
        return array.reshape(-1, *wanted)
    if channels == "none" and here in ((1, *wanted), (*wanted, 1)):
        return array.reshape(-1, *wanted)
    if channels == "first" and here == (*wanted[1:], wanted[0]):
        return np.moveaxis(array, -1, 1)
    if channels == "last" and here == (wanted[-1], *wanted[:-1]):
        return np.moveaxis(array, 1, -1)
    return array


class _Onnx:
    """A graph, run by onnxruntime."""

    def __init__(self, path: Path, description: dict[str, Any]) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        self._outputs = ["value"] if "quantity" in description else ["place", "probabilities"]

    def run(self, inputs: dict[str, Any]) -> Any:
        known = {each.name for each in self._session.get_inputs()}
        held = {name: value for name, value in inputs.items() if name in known}
        return self._session.run(self._outputs, held)


class _Torch:
    """A network of plain layers, run by torch."""

    def __init__(self, path: Path, description: dict[str, Any]) -> None:
        import torch

        self._torch = torch
        layers = [self._layer(each) for each in description["layers"]]
        self._network = torch.nn.Sequential(*layers)
        weights = {name: torch.from_numpy(value) for name, value in read_safetensors(path).items()}
        self._network.load_state_dict(weights)
        self._network.eval()

    def _layer(self, entry: dict[str, Any]) -> Any:
        kind = getattr(self._torch.nn, entry["layer"], None)
        if not isinstance(kind, type) or not issubclass(kind, self._torch.nn.Module):
            raise ValueError(f"student.json must name layers of torch.nn, got {entry['layer']!r}.")
        return kind(**entry["options"])

    def run(self, inputs: dict[str, Any]) -> Any:
        with self._torch.no_grad():
            likely = self._network(self._torch.from_numpy(inputs["rows"])).numpy()
        return likely.argmax(axis=1), likely


def read_safetensors(path: Path) -> dict[str, Any]:
    """Return the arrays of a safetensors file: a header of JSON, then their bytes."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}
    arrays = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            array = np.frombuffer(data[start + first : start + end], kinds[entry["dtype"]])
            arrays[name] = array.reshape(entry["shape"]).copy()
    return arrays
