"""Tables on disk, CSV or Parquet, read by DuckDB in pieces, so that they may be larger than memory."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import itertools
import os
import re
import zipfile
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ostrakon.data.changed_rows import MOST_PRIVATE
from ostrakon.data.column_names import resolve_names
from ostrakon.data.embeddings import unfolded
from ostrakon.data.labels import NO, SEPARATOR, YES
from ostrakon.data.object_store import AnyPath, ObjectPath, client, is_uri, stored_path, talk
from ostrakon.data.partition import describe_columns, fingerprint_from, fingerprint_sql, identity_sql, quoted
from ostrakon.data.shared_rows import CountedRows
from ostrakon.validation import InvalidInput, did_you_mean

_MISSING = ("?", "NA", "N/A", "NaN", "nan", "null", "NULL")
_PARQUET = b"PAR1"
# The first bytes of other formats, and what to do with them.
_OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save the sheet as CSV",
    b"ARRO": "a Feather (Arrow) file; save it as Parquet",
    b"FEA1": "a Feather file; save it as Parquet",
}
_JSON = (".json", ".jsonl", ".ndjson")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# All other types (times, lists, identifiers, ...) become text: files and frames store them in different forms.
_KEPT_TYPES = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN)")
# An index without a name, which pandas writes as a column: numbers of rows, which are not a feature.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# Unfinished files often have such a name.
_HIDDEN = re.compile(r"\.[^.]")
_DELIMITERS = (",", ";", "\t", "|")
_IN_QUOTES = "^(?:'([^']+)'|\"([^\"]+)\")$"
_COUNTED_AT_ONCE = 2**24
# The signs of missing values are an IN of every column: as joins, hundreds of columns would take minutes to plan.
# And the statistics of Parquet files ignore NaN: DuckDB concludes from them that isnan is false in every row.
_DISABLED = ("in_clause", "statistics_propagation")

FORMATS: dict[str, Callable[[str], str]] = {}
"""Formats beside CSV and Parquet, by suffix: from a path as an SQL literal to the DuckDB relation that reads it.

A new format needs one entry. The relation has named columns, and its rows are in the order of the file."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a CSV is written: its signs, "" for none, and the number of lines before the table."""

    delim: str
    quote: str
    escape: str
    comment: str
    skip: int

    @property
    def signs(self) -> str:
        """The signs as options of DuckDB's readers."""
        signs = {"delim": self.delim, "quote": self.quote, "escape": self.escape, "comment": self.comment}
        return ", ".join(f"{key} = {literal(value)}" for key, value in signs.items())


@dataclass(frozen=True, kw_only=True)
class Table:
    """A readable table: where it is and how it is read. Cells of CSV are text without outer spaces.

    columns: names in order. types: DuckDB's types (all VARCHAR for CSV). header: whether the file itself names its
    columns. named: False if neither the file nor the user does (then they are column0, column1, ...). joined: the last
    column, if it was made from others (`with_labels`). dialect: of a CSV, else None. stamps: of its files, taken before
    they were read.
    """

    path: Path | ObjectPath
    kind: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    header: bool
    named: bool
    relation: str
    dialect: Dialect | None = None
    stamps: tuple[tuple[str, ...], ...] = ()
    joined: str | None = None

    def require_unchanged(self) -> None:
        """Refuse a table whose files were written, added or removed since it was opened.

        Its counts, its checksum and its rows could come from different tables. Errors: `InvalidInput`.
        """
        if _stamps(self.path) != self.stamps:
            raise InvalidInput(
                f"{self.path} changed while it was read, so nothing was computed from it. Run the same command again "
                "when no other program writes it."
            )

    def __repr__(self) -> str:
        return f"Table({str(self.path)!r}, {self.kind}, {len(self.columns)} columns)"

    @property
    def typed_columns(self) -> list[tuple[str, str]]:
        """(name, DuckDB type) of every column, in order."""
        return list(zip(self.columns, self.types, strict=True))

    def column(self, which: str | int, *, what: str = "column") -> str:
        """The name of a column that is given by name or by position (-1 is the last).

        Raises `InvalidInput` that lists the columns if there is no such column.
        """
        if isinstance(which, str) and which in self.columns:
            return which
        if not isinstance(which, bool) and re.fullmatch(r"-?\d+", str(which)):
            position = int(which)
            if -len(self.columns) <= position < len(self.columns):
                return self.columns[position]
        hint = "" if self.named else " (the file has no header: give --names, or the position of the column)"
        raise InvalidInput(
            f"The {what} {which!r} is not in {self.path}, whose columns are {', '.join(self.columns)}{hint}."
            + did_you_mean(str(which), self.columns)
        )

    def select(self, columns: Sequence[str] | None = None) -> str:
        """SQL query of the cleaned cells: numbers, truth values, dates and times unchanged, all else as text.

        Spaces and quotes around text are removed ('7' is 7), and the usual signs for missing values become NULL.
        """
        kinds = dict(self.typed_columns)
        cells = [_cleaned(name, kinds[name]) for name in (self.columns if columns is None else columns)]
        return f"SELECT {', '.join(cells)} FROM {self.relation}"

    def identity(self, columns: Sequence[str], *, rounded: bool = False) -> str:
        """SQL text expression for the identity of a row of `select(columns)` (see `identity_sql`)."""
        described = self.fetch(f"DESCRIBE {self.select(columns)}")
        return identity_sql([(str(name), str(kind)) for name, kind, *_ in described], rounded=rounded)

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The table, or some of its columns, in memory."""
        return self.frame(self.select(columns))

    def some(self, columns: Sequence[str]) -> pd.DataFrame:
        """As `read`; in an order of the rows' content; of a large table the first `MOST_PRIVATE` rows."""
        chosen = f"ORDER BY hash({self.identity(columns)}) LIMIT {MOST_PRIVATE}"
        return self.frame(f"SELECT * FROM ({self.select(columns)}) {chosen}")

    def rows(self) -> int:
        """Number of rows, without reading them into memory."""
        return int(self.fetch(f"SELECT count(*) FROM {self.relation}")[0][0])

    def require_one_line(self, columns: Sequence[str]) -> None:
        """Refuse a CSV with a line break within a cell of these columns.

        A quotation mark that is opened in one row and closed in another turns all rows between them into one cell: two
        odd rows would remove others from the table. Numbers, dates and categories have no line breaks.
        """
        # Some lines of a file may end in \r\n.
        cells = [f"rtrim({quoted(name)}, chr(13))" for name in columns]
        broken = [f"contains({cell}, chr(10)) OR contains({cell}, chr(13))" for cell in cells]
        if self.kind != "csv" or not broken:
            return
        counted = ", ".join(f"count(*) FILTER ({sign})" for sign in broken)
        counts = self.fetch(f"SELECT {counted} FROM {self.relation}")[0]
        name = next((name for name, cells in zip(columns, counts, strict=True) if cells), None)
        if name is not None:
            raise InvalidInput(
                f"{self.path} must have no line break within a cell of the column {name!r}; a quotation mark that is "
                "not closed where it was opened would swallow the rows up to the next one."
            )

    def different(self, column: str) -> int:
        """Number of different values of `column`, as `assign_teachers` distinguishes them, in bounded memory."""
        marks = f"(SELECT hash({self.identity([column])}) AS mark FROM ({self.select([column])}))"
        parts = self.rows() // _COUNTED_AT_ONCE + 1
        counts = (f"SELECT count(DISTINCT mark) FROM {marks} WHERE mark % {parts} = {part}" for part in range(parts))
        return sum(int(self.fetch(count)[0][0]) for count in counts)

    def fingerprint(self, *, by: str | None, key: bytes) -> str:
        """A keyed fingerprint of the rows, or of the users in the column `by`, in bounded memory."""
        columns = [name for name in self.columns if name != self.joined] if by is None else [by]
        query = fingerprint_sql(self.identity(columns), f"({self.select(columns)})", key=key, once=by is not None)
        return fingerprint_from(self.fetch(query))

    def marks(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """One mark for every row, shape (rows,), as of `row_marks`, of `columns`: the same in any table."""
        query = f"SELECT hash({self.identity(columns, rounded=True)}) AS mark FROM ({self.select(columns)})"
        return self._run(query, lambda answer: np.asarray(answer.fetchnumpy()["mark"], np.uint64))

    def counted(self, columns: Sequence[str]) -> CountedRows:
        """The rows by their marks, without reading them into memory."""
        own = f"SELECT hash({self.identity(columns, rounded=True)}) AS mark FROM ({self.select(columns)})"
        rows = self.rows()

        def among(marks: NDArray[Any]) -> NDArray[np.int64]:
            known = pa.table({"mark": marks, "place": np.arange(len(marks))})
            query = f"SELECT place, count(*) AS times FROM ({own}) JOIN known_marks USING (mark) GROUP BY place"
            with asking(self.path) as connection:
                connection.register("known_marks", known)
                counts = interruptible(connection, lambda: connection.execute(query).fetchnumpy())
            times = np.zeros(len(marks), np.int64)
            times[counts["place"]] = counts["times"]
            return times

        def twice() -> float:
            # In bounded memory: of many rows, those of some marks, so all copies of a row or none.
            parts = rows // _COUNTED_AT_ONCE + 1
            times = f"SELECT count(*) AS times FROM ({own}) WHERE mark % {parts} = 0 GROUP BY mark HAVING times = 2"
            return float(self.fetch(f"SELECT count(*) FROM ({times})")[0][0]) * parts

        return CountedRows(rows=rows, among=among, twice=twice)

    def about_different_labels(self, column: str) -> int:
        """The approximate number of different labels of `column`, in little memory."""
        return int(self.fetch(f"SELECT approx_count_distinct(label) FROM ({self.label_query(column)})")[0][0])

    def label_counts(self, column: str) -> dict[str | None, int]:
        """The number of rows of each label of `column` (None: missing). As private as the table."""
        return dict(
            self.fetch(f"SELECT label, count(*) FROM ({self.label_query(column)}) GROUP BY label ORDER BY label")
        )

    def require_numbers(self, column: str) -> None:
        """Refuse a target that is not a finite number in every row. Errors: `InvalidInput` with how many are not."""
        number = "try_cast(label AS DOUBLE)"
        rows, missing, wrong = self.fetch(
            "SELECT count(*), count(*) FILTER (label IS NULL), count(*) FILTER (label IS NOT NULL AND "
            f"({number} IS NULL OR isnan({number}) OR isinf({number}))) FROM ({self.label_query(column)})"
        )[0]
        if missing or wrong:
            what, how_many = ("missing", missing) if missing else ("not a number with a decimal point", wrong)
            raise InvalidInput(
                f"The target {column!r} must be a number in every row, and it is {what} in {how_many} of {rows}."
            )

    def with_labels(self, columns: Sequence[str], name: str) -> Table:
        """The table with one more column, `name`, of cells such as `a;b`: the labels whose columns say 1, yes or true.

        Errors: `InvalidInput` for a column that holds anything else, missing values included.
        """
        kinds = dict(self.typed_columns)
        own = [f"label {number}" for number in range(len(columns))]
        cleaned = [f"{_clean_cell(one, kinds[one])} AS {quoted(to)}" for one, to in zip(columns, own, strict=True)]
        rows = f"(SELECT *, {', '.join(cleaned)} FROM {self.relation})"
        texts = [f"lower({label_sql(to, kinds[one])})" for one, to in zip(columns, own, strict=True)]
        yes, no = (", ".join(map(literal, words)) for words in (YES, NO))
        wrong = ", ".join(f"count(*) FILTER (({text} IN ({yes}, {no})) IS NOT TRUE)" for text in texts)
        for column, times in zip(columns, self.fetch(f"SELECT {wrong} FROM {rows}")[0], strict=True):
            if times:
                raise InvalidInput(
                    f"Each column of several in --target must be 1 or 0, yes or no, true or false in every row of "
                    f"{self.path}; {column!r} is something else in {times} rows."
                )
        pairs = zip(columns, texts, strict=True)
        joined = ", ".join(f"CASE WHEN {text} IN ({yes}) THEN {literal(column)} END" for column, text in pairs)
        hidden = ", ".join(map(quoted, own))
        labels = f"concat_ws({literal(SEPARATOR)}, {joined}) AS {quoted(name)}"
        return replace(
            self,
            columns=(*self.columns, name),
            types=(*self.types, "VARCHAR"),
            relation=f"(SELECT * EXCLUDE ({hidden}), {labels} FROM {rows})",
            joined=name,
        )

    def share_outside(self, column: str, low: float, high: float) -> float:
        """The share of the numbers of `column` below `low` or above `high`. As private as the table."""
        number = "try_cast(label AS DOUBLE)"
        query = f"SELECT avg(({number} < {low!r} OR {number} > {high!r})::INT) FROM ({self.label_query(column)})"
        return float(self.fetch(query)[0][0] or 0.0)

    def labels(self, column: str) -> pd.Series:
        """The labels of `column` as text (7 and 7.0 are both "7"), shape (rows,); missing ones are None."""
        labels = self.frame(self.label_query(column))["label"].astype(object)
        return labels.where(labels.notna(), None)

    def label_query(self, column: str) -> str:
        """SQL query with one column, `label`: the labels of `column` as text."""
        label = label_sql(column, dict(self.typed_columns)[column])
        return f"SELECT {label} AS label FROM ({self.select([column])})"

    def frame(self, sql: str) -> pd.DataFrame:
        """The answer of an SQL query as a frame. Errors: `InvalidInput` in one sentence."""
        return self._run(sql, lambda answer: answer.df())

    def fetch(self, sql: str) -> list[Any]:
        """The rows of the answer as tuples. Errors: as of `frame`."""
        return self._run(sql, lambda answer: answer.fetchall())

    def _run(self, sql: str, take: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
        with asking(self.path) as connection:
            # Rows are read only while they are fetched: a bad line far down fails here, not in execute.
            return interruptible(connection, lambda: take(connection.execute(sql)))


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Any]) -> Any:
    """The result of `work` on the connection, which Ctrl-C interrupts at once; DuckDB alone may not notice it."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


@contextlib.contextmanager
def asking(path: Path | ObjectPath, *, note: str = "") -> Generator[duckdb.DuckDBPyConnection]:
    """A connection for queries on a file: errors of DuckDB and of object storage become one sentence.

    It writes nothing to disk: its data are private, and by default DuckDB would write them to the current folder.
    """
    connection = duckdb.connect(config={"temp_directory": "", "disabled_optimizers": ",".join(_DISABLED)})
    try:
        if isinstance(path, ObjectPath):
            connection.register_filesystem(client())
        yield connection
    except duckdb.Error as error:
        raise unreadable(path, error, note=note) from error
    finally:
        connection.close()


def open_table(
    path: AnyPath,
    *,
    names: Sequence[str] | str | None = None,
    header: bool | None = None,
    like: Table | None = None,
) -> Table:
    """Open a CSV or Parquet file (also compressed, or a folder of Parquet files) and decide how it is read.

    Parameters
    ----------
    path : str or path
        On disk, or s3://BUCKET/KEY of a Parquet file or a folder of them (the extra `s3`; the credentials are those of
        its client).
    names : list of str or str, optional
        Column names of a CSV without a header: a list, "a,b,c", the path of a file of names (one per line, or
        `name: description` as in the UCI archive, which does not name the last column, the class), or the name of a
        known table ("adult"). Default: the header; without one, a `.names` file beside the table, then column0,
        column1, ...
    header : bool, optional
        Whether the first row of a CSV has names. Default: guessed from the rows.
    like : Table, optional
        A public table that decides the signs of a CSV: its own signs if it is a CSV, else the delimiter by which the
        first line has its column names (else a comma). If they were guessed from private rows, one odd row could decide
        how all others are read.

    Returns
    -------
    Table
        How the file is read; no row is in memory.

    Raises
    ------
    InvalidInput
        In one sentence for a file that is missing, empty or unreadable, and for names that repeat or do not fit.
    """
    location = _location(path)
    if isinstance(location, Path) and not location.exists():
        raise InvalidInput(f"There is no file {location}.")
    before = _stamps(location)
    return replace(_open(location, names, header, like), stamps=before)


def parts_of(path: Path | ObjectPath) -> list[str]:
    """The files of a table: itself, or all Parquet files of a folder that are not hidden, in order.

    Errors: `InvalidInput` for a folder without any, and for two names of one file, whose rows would count twice.
    """
    if isinstance(path, Path) and not path.is_dir():
        return [path.as_posix()]
    if isinstance(path, ObjectPath):
        try:
            named = {part: part.removeprefix(path.uri) for part in path.below(".parquet")}
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error}).") from None
    else:
        named = {part.as_posix(): part.relative_to(path).as_posix() for part in _parquet_files(path)}
    parts = [part for part, name in named.items() if not any(map(_HIDDEN.match, name.split("/")))]
    if not parts:
        raise InvalidInput(f"{path} must be a Parquet file, or a folder of them; there is none.")
    if isinstance(path, Path):
        same: dict[str, str] = {}
        for part in parts:
            other = same.setdefault(os.path.realpath(part), part)
            if other != part:
                raise InvalidInput(f"{path} must have every file once, and {part} is {other} by another name.")
    return parts


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(part for part in folder.rglob("*") if part.suffix.lower() == ".parquet" and part.is_file())


def _stamps(path: Path | ObjectPath) -> tuple[tuple[str, ...], ...]:
    """Name, size, time and inode (or ETag) of every file, which show that a table was written again."""
    if isinstance(path, ObjectPath):
        try:
            return path.stamps()
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read ({error}).") from None
    stamps = list[tuple[str, ...]]()
    for part in _parquet_files(path) if path.is_dir() else [path]:
        with contextlib.suppress(FileNotFoundError):
            status = part.stat()
            stamps.append((part.as_posix(), str(status.st_size), str(status.st_mtime_ns), str(status.st_ino)))
    return tuple(stamps)


def _open(path: Path | ObjectPath, names: Sequence[str] | str | None, header: bool | None, like: Table | None) -> Table:
    if isinstance(path, ObjectPath) or path.is_dir():
        return _open_parquet(path, parts_of(path))
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    if not start:
        raise InvalidInput(f"{path} is empty.")
    if start == _PARQUET:
        return _open_parquet(path, [path.as_posix()])
    if path.suffix == ".parquet":
        raise InvalidInput(f"{path} must be a Parquet file, as its name says; it does not begin as one.")
    if path.suffix in FORMATS:
        return _open_typed(path, path.suffix.removeprefix("."), FORMATS[path.suffix](_file(path.as_posix())))
    _refuse_other_format(path, start)
    if start[:2] in _UTF_16 or [byte == 0 for byte in start] in ([True, False] * 2, [False, True] * 2):
        raise InvalidInput(f"{path} is UTF-16 text; save it as UTF-8.")
    if like is not None:
        _require_same_delimiter(path, like)
    return _open_csv(path, names=names, header=header, known=None if like is None else _dialect_of(path, like))


def _refuse_other_format(path: Path, start: bytes) -> None:
    """Refuse a file in another format than CSV, by its first four bytes."""
    if start == b"PK\x03\x04":
        sheet = zipfile.is_zipfile(path) and "xl/workbook.xml" in zipfile.ZipFile(path).namelist()
        raise InvalidInput(
            f"{path} is {'an Excel workbook; save the sheet as CSV' if sheet else 'a zip archive; unpack it'}."
        )
    if start in _OTHER_FORMATS:
        raise InvalidInput(f"{path} is {_OTHER_FORMATS[start]}.")
    if re.match(rb'\{\s*"|\[\s*[\[{]', start) or (start[:1] in b"{[" and path.suffix in _JSON):
        raise InvalidInput(f"{path} is JSON; save it as CSV or Parquet.")


def open_labels_only(path: AnyPath, *, names: Sequence[str] | str | None = None) -> Table:
    """`open_table` for a table in which only the labels are private: no label influences how it is read.

    The delimiter of a CSV is the sign that is most frequent in its first line. That line is the header unless `names`
    are given: neither is guessed from the rows, which have labels.
    Errors: as of `open_table`, and for a first line in another form than the lines below it.
    """
    location, delims = _location(path), list(_DELIMITERS)
    if isinstance(location, Path) and location.is_file():
        cut = {delim: len(_first_cells(location, delim)) for delim in _DELIMITERS}
        delims.sort(key=lambda delim: -cut[delim])
    return open_described(location, delimiter=delims[0], names=names)


def open_described(path: AnyPath, *, delimiter: str, names: Sequence[str] | str | None = None) -> Table:
    """`open_table` for a table without a public one: no row influences how it is read.

    delimiter: of a CSV, whose first line is the header unless `names` are given.
    Errors: as of `open_table`, and for a first line in another form than the lines below it.
    """
    location, header = _location(path), names is None
    like = Table(path=location, kind="csv", columns=(), types=(), header=header, named=True, relation="",
                 dialect=Dialect(delim=delimiter, quote='"', escape='"', comment="", skip=0))  # fmt: skip
    table = open_table(location, names=names, header=header, like=like)
    if table.dialect is not None and table.dialect.skip:
        # Else a record, whose label is private, could be taken for the header: its cells would become column names.
        raise InvalidInput(
            f"The first line of {location} must be {'a row' if names is not None else 'its header'}, with as many "
            "cells as the lines below it have, and it has another number of cells."
        )
    return table


def _location(path: AnyPath) -> Path | ObjectPath:
    if isinstance(path, ObjectPath):
        return path
    return stored_path("A table's place", str(path)) if is_uri(path) else Path(path)


def _open_parquet(path: Path | ObjectPath, parts: list[str]) -> Table:
    _require_one_schema(path, parts)
    return _open_typed(path, "parquet", _read_parquet(parts))


def _read_parquet(parts: Sequence[str]) -> str:
    return f"read_parquet([{', '.join(map(_file, parts))}], hive_partitioning = false)"


def _require_one_schema(path: Path | ObjectPath, parts: Sequence[str]) -> None:
    """Refuse a folder of Parquet files whose columns have other names or types in one file than in another.

    Programs that write such files often derive a column's type from its cells: 1, 2, 3 are integers, and one missing or
    odd cell makes the column floating or text. Read together, all files get the types of one: a single record could
    decide how all rows of the other files are read.
    """
    with asking(path) as connection:
        first = dict(describe_columns(connection, _read_parquet(parts[:1])))
        for part in parts[1:]:
            other = dict(describe_columns(connection, _read_parquet([part])))
            if other != first:
                name = next(name for name in {**first, **other} if first.get(name) != other.get(name))
                raise InvalidInput(
                    f"{path} must hold Parquet files of one schema: the column {name!r} is "
                    f"{first.get(name, 'absent')} in {Path(parts[0]).name} and {other.get(name, 'absent')} in "
                    f"{Path(part).name}; write all of them with the same types."
                )


def _open_typed(path: Path | ObjectPath, kind: str, relation: str) -> Table:
    """A table in a format with named, typed columns; a column of lists of numbers is an embedding."""
    with asking(path) as connection:
        relation = unfolded(connection, relation, dict(describe_columns(connection, relation)), path)
        columns = [
            column for column in describe_columns(connection, relation) if not _PANDAS_INDEX.fullmatch(column[0])
        ]
    return _checked(path, kind, columns, header=True, named=True, relation=relation)


def _dialect_of(path: Path, like: Table) -> Dialect:
    if like.dialect is not None:
        return like.dialect
    delim = next((delim for delim in _DELIMITERS if len(set(like.columns) & _first_cells(path, delim)) > 1), ",")
    return Dialect(delim=delim, quote='"', escape='"', comment="", skip=0)


def _first_cells(path: Path, delim: str) -> set[str]:
    """The cells of the first line of a CSV with the delimiter `delim`; empty if it cannot be read."""
    try:
        return {str(name).strip() for name in pd.read_csv(path, sep=delim, nrows=0, skipinitialspace=True).columns}
    except (OSError, ValueError):
        return set()


def _require_same_delimiter(path: Path, like: Table) -> None:
    """Refuse a CSV whose header has the public names only with another delimiter than that of the public table."""
    if like.dialect is None or len(like.columns) < 2 or len(_first_cells(path, like.dialect.delim)) > 1:
        return
    for delim in _DELIMITERS:
        if len(_first_cells(path, delim) & set(like.columns)) > 1:
            raise InvalidInput(
                f"{path} separates its columns by {delim!r}, the public table {like.path} by {like.dialect.delim!r}; "
                "save both alike."
            )


def _open_csv(path: Path, *, names: Sequence[str] | str | None, header: bool | None, known: Dialect | None) -> Table:
    packed = path.suffix in (".gz", ".zst") or None
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix, "none")
    header_option = f", header = {str(header).lower()}" if header is not None else ""
    signs_option = "" if known is None else f", {known.signs}"
    source = f"{_file(path.as_posix())}, compression = '{compression}'"
    with asking(path, note="Is it gzip?" if packed else "") as connection:
        # The first rows show the dialect; sniffing all rows would be as slow as reading them.
        try:
            answer = connection.execute(f"FROM sniff_csv({source}{header_option}{signs_option})")
        except duckdb.Error:
            _require_one_form(path, None if known is None else known.delim)
            raise
        values: tuple[Any, ...] = answer.fetchone() or ()
        sniffed = dict(zip([column[0] for column in answer.description or []], values, strict=True))
    has_header = bool(sniffed["HasHeader"]) if header is None else header
    skip = int(sniffed["SkipRows"])
    if skip or len(sniffed["Columns"]) == 1:
        _require_one_form(path, None if known is None else known.delim)
    if known is None:
        dialect = Dialect(
            # Quotes may first occur below the rows that were sniffed.
            delim=sniffed["Delimiter"],
            quote='"' if sniffed["Quote"] == "(empty)" else sniffed["Quote"],
            escape='"' if sniffed["Escape"] == "(empty)" else sniffed["Escape"],
            comment="" if sniffed["Comment"] == "(empty)" else sniffed["Comment"],
            skip=skip,
        )
    elif skip > max(1, known.skip):
        raise InvalidInput(
            f"{path} must be one table with the signs of the public one (delimiter {known.delim!r}, quote "
            f"{known.quote!r}); its first {skip} lines do not share the form of the others."
        )
    else:
        dialect = replace(known, skip=skip)
    own = [str(column["name"]).strip() for column in sniffed["Columns"]]
    given_names = None if names is None else resolve_names(names, file=path, columns=len(own))
    if given_names and has_header and header is None:
        # Rows of text alone look like a header; it is one only where it names columns as the user does.
        has_header = bool({name.lower() for name in given_names} & {name.lower() for name in own})
        given_names = None if has_header else given_names
    if given_names is None and not has_header:
        given_names = resolve_names(None, file=path, columns=len(own)) or [
            f"column{number}" for number in range(len(own))
        ]
    given = given_names or own
    if given_names is None and has_header:
        _require_names_once(path, dialect, own)
    if len(given) != len(own):
        raise InvalidInput(f"{path} has {len(own)} columns, but {len(given)} names were given.")
    cells = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in given)
    base = f"{source}, {dialect.signs}, skip = {dialect.skip}, header = {str(has_header).lower()}, auto_detect = false"
    relation = f"read_csv({base}, columns = {{{cells}}})"
    named = has_header or given[0] != "column0"
    typed = [(name, "VARCHAR") for name in given]
    table = _checked(path, "csv", typed, header=has_header, named=named, relation=relation)
    return replace(table, dialect=dialect)


_LINES_LOOKED_AT = 200_000
"""From the start of a CSV: a line of another form there confuses what finds out how it is written."""


def _require_one_form(path: Path, delim: str | None) -> None:
    """Refuse a CSV whose first line is like most others, and one of the first lines has another number of cells.

    delim: what cuts it; None: what cuts the first line most often.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            first = file.readline()
            file.seek(0)
            delim = delim or max(_DELIMITERS, key=first.count)
            rows = csv.reader(file, delimiter=delim)
            counted = [(rows.line_num, len(row)) for row in itertools.islice(rows, _LINES_LOOKED_AT) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return
    wanted = counted[0][1] if counted else 0
    odd = [(line, cells) for line, cells in counted if cells != wanted]
    # Of a table below some lines of text the first line is not like the others.
    if odd and wanted > 1 and len(odd) < len(counted) / 10:
        line, cells = odd[0]
        raise InvalidInput(
            f"{path} must have as many cells in every line as in the first, {wanted}; line {line} has {cells}."
        )


def _require_names_once(path: Path, dialect: Dialect, names: Sequence[str]) -> None:
    """Refuse a header that has a name twice: DuckDB calls the second one NAME_1."""
    if not any((match := re.fullmatch(r"(.*)_\d+", name)) and match[1] in names for name in names):
        return
    first = pd.read_csv(
        path, sep=dialect.delim, quotechar=dialect.quote or '"', skiprows=dialect.skip, header=None, nrows=1, dtype=str
    )
    cells = [str(cell).strip() for cell in first.iloc[0]]
    twice = next((cell for at, cell in enumerate(cells) if cell in cells[:at]), None)
    if twice is not None:
        raise InvalidInput(f"{path} has more than one column named {twice!r}; remove or rename one.")


def _checked(
    location: Path | ObjectPath,
    kind: str,
    columns: Sequence[tuple[str, str]],
    *,
    header: bool,
    named: bool,
    relation: str,
) -> Table:
    names = [name for name, _ in columns]
    # DuckDB's names are equal where only case differs.
    lowered = [name.lower() for name in names]
    twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{location} has more than one column named {twice!r}; remove or rename one.")
    types = tuple(type_name for _, type_name in columns)
    table = Table(
        path=location, kind=kind, columns=tuple(names), types=types, header=header, named=named, relation=relation
    )
    not_null = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in names)
    if not table.fetch(f"SELECT 1 FROM ({table.select()}) WHERE {not_null} LIMIT 1"):
        raise InvalidInput(f"{location} has no rows.")
    return table


def _cleaned(name: str, kind: str) -> str:
    cell, clean = quoted(name), _clean_cell(name, kind)
    return cell if clean == cell else f"{clean} AS {cell}"


def _clean_cell(name: str, kind: str) -> str:
    cell = quoted(name)
    if kind.startswith("DECIMAL"):
        return f"{cell}::DOUBLE"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        # Infinite dates have no number of days.
        return f"CASE WHEN isfinite({cell}) THEN {cell} ELSE NULL END"
    if _KEPT_TYPES.fullmatch(kind):
        return cell
    text = f"nullif({unquoted_sql(f'trim({cell}::VARCHAR)')}, '')"
    signs = ", ".join(f"'{sign}'" for sign in _MISSING)
    return f"CASE WHEN {text} IN ({signs}) THEN NULL ELSE {text} END"


def unquoted_sql(text: str) -> str:
    """SQL for text without one pair of quotes around it, which some files of a run may have and others not."""
    # Most cells have none, and comparing one letter is much faster than matching a pattern.
    inner = f"trim(regexp_replace({text}, {literal(_IN_QUOTES)}, '\\1\\2'))"
    return f"CASE WHEN left({text}, 1) IN ({literal(chr(39))}, {literal(chr(34))}) THEN {inner} ELSE {text} END"


def label_sql(column: str, kind: str) -> str:
    """SQL text expression of a label: 7, 7.0 and "7" are one label, text stays as it is."""
    cell = quoted(column)
    if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        return (
            f"CASE WHEN isnan({cell}::DOUBLE) THEN NULL ELSE regexp_replace(({cell}::DOUBLE)::VARCHAR, '\\.0$', '') END"
        )
    return f"regexp_replace({cell}::VARCHAR, '^(-?[0-9]+)\\.0+$', '\\1')"


def literal(text: str) -> str:
    """Text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _file(path: str) -> str:
    """The name of one file as an SQL literal, with its signs *, ? and [ escaped.

    Else they would match other files, too, whose rows would be read a second time.
    """
    return literal(re.sub(r"([*?[])", r"[\1]", path))


def same_content(first: Table, second: Table, columns: Sequence[str]) -> bool:
    """Whether two tables are one file, or have the same rows of `columns`, in any order and format."""
    if isinstance(first.path, ObjectPath) or isinstance(second.path, ObjectPath):
        if first.path == second.path:
            return True
    elif os.path.samefile(first.path, second.path):
        return True
    return first.rows() == second.rows() and _rows_at_once(first, columns) == _rows_at_once(second, columns)


def _rows_at_once(table: Table, columns: Sequence[str]) -> Any:
    """The sum of the digests of all rows, which does not depend on their order."""
    return table.fetch(f"SELECT sum(hash({table.identity(columns)})::HUGEINT) FROM ({table.select(columns)})")[0][0]


def digest_of_file(path: str | os.PathLike[str], *, key: bytes = b"") -> str:
    """Checksum of the bytes of a file; with a key, others cannot use it to test guesses about the content.

    path: may be s3://BUCKET/KEY. Errors: `OSError`.
    """

    def digest(file: Any) -> str:
        with file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32, key=key)).hexdigest()

    if is_uri(path):
        return talk(str(path), lambda: digest(client().open(str(path), "rb")))
    return digest(open(path, "rb"))


def unreadable(path: Path | ObjectPath, error: Exception, *, note: str = "") -> InvalidInput:
    """One sentence for an error of DuckDB; the line that caused it is private and left out."""
    first = str(error).splitlines()[0].strip().rstrip(".")
    if "Invalid unicode" in str(error):
        reason = "it is not UTF-8 text, as which it must be saved"
    elif isinstance(error, duckdb.OutOfMemoryException):
        reason = "there is not enough memory"
    elif isinstance(error, duckdb.ConversionException):
        # DuckDB's sentence quotes the cell.
        reason = "a cell is not of the type that its column has elsewhere"
    elif first.startswith("Invalid Input Error: Error when sniffing"):
        reason = "its rows do not share one form"
    else:
        reason = re.sub(r"^[A-Za-z /]*Error: ", "", first)
    wrong = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", str(error))
    if wrong:
        line = re.search(r"Line: (\d+)", str(error))
        at = f" in line {line[1]}" if line else ""
        reason = f"its lines have different numbers of cells, {wrong[1]} expected, {wrong[2]} found{at}"
    return InvalidInput(f"{path} cannot be read as CSV or Parquet: {reason}. {note}".strip())
