"""Tables on disk, CSV or Parquet, read by DuckDB a piece at a time, so that they may be larger than memory."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
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

from ostrakon.data.column_names import resolve_names
from ostrakon.data.embeddings import unfolded
from ostrakon.data.object_store import AnyPath, ObjectPath, client, is_uri, stored_path, talk
from ostrakon.data.partition import describe_columns, fingerprint_from, fingerprint_sql, identity_sql, quoted
from ostrakon.validation import InvalidInput

_MISSING = ("?", "NA", "N/A", "NaN", "nan", "null", "NULL")
_PARQUET = b"PAR1"
# The first bytes of files that are no CSV, and what to do with them.
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; unpack it, or save the sheet as CSV",
    b"ARRO": "a Feather (Arrow) file; save it as Parquet",
    b"FEA1": "a Feather file; save it as Parquet",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# All else (times, lists, identifiers, ...) becomes text: files and frames hold it in forms of their own.
_KEPT_TYPES = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN)")
# A nameless index, which pandas writes as a column: numbers of rows, and no feature of them.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
# What somebody is still writing often has such a name.
_HIDDEN = re.compile(r"\.[^.]")
_DELIMITERS = (",", ";", "\t", "|")
_IN_QUOTES = "^(?:'([^']+)'|\"([^\"]+)\")$"
_COUNTED_AT_ONCE = 2**24
# The signs of missing values are an IN of every column: as joins, hundreds of columns would take minutes to plan.
# And a Parquet file's statistics leave NaN out: DuckDB takes them to say that isnan is false in every row.
_DISABLED = ("in_clause", "statistics_propagation")

FORMATS: dict[str, Callable[[str], str]] = {}
"""Formats beside CSV and Parquet, by suffix: from a path as an SQL literal to the DuckDB relation that reads it.

An entry is all that a format needs. The relation has named columns, and its rows in the order of the file."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a CSV is written: its signs, "" for none, and how many lines stand before the table."""

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
    columns. named: False where nobody does (they are then column0, column1, ...). dialect: of a CSV, else None. stamps:
    of its files, from before anything of them was read.
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

    def require_unchanged(self) -> None:
        """Refuse a table whose files were written again, added to or removed since it was opened.

        What was counted, what its checksum is of and what was read would be different tables. Errors: `InvalidInput`.
        """
        if _stamps(self.path) != self.stamps:
            raise InvalidInput(
                f"{self.path} changed while it was read; nothing was made of it: the same command reads it again, or "
                "says that it is another one."
            )

    def __repr__(self) -> str:
        return f"Table({str(self.path)!r}, {self.kind}, {len(self.columns)} columns)"

    @property
    def typed_columns(self) -> list[tuple[str, str]]:
        """(name, DuckDB type) of every column, in order."""
        return list(zip(self.columns, self.types, strict=True))

    def column(self, which: str | int, *, what: str = "column") -> str:
        """The name of a column that is given by name or by position (-1 is the last).

        Raises `InvalidInput` that lists the columns where there is none.
        """
        if isinstance(which, str) and which in self.columns:
            return which
        if not isinstance(which, bool) and re.fullmatch(r"-?\d+", str(which)):
            place = int(which)
            if -len(self.columns) <= place < len(self.columns):
                return self.columns[place]
        near = difflib.get_close_matches(str(which), self.columns, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        hint = "" if self.named else " (the file has no header: give --names, or the position of the column)"
        raise InvalidInput(
            f"The {what} {which!r} is not in {self.path}, whose columns are {', '.join(self.columns)}{hint}.{meant}"
        )

    def select(self, columns: Sequence[str] | None = None) -> str:
        """SQL query of the cleaned cells: numbers, truth values, dates and moments as they are, all else text.

        Text is trimmed and loses quotes around it ('7' is 7), and the usual signs for missing values become NULL.
        """
        kinds = dict(self.typed_columns)
        cells = [_cleaned(name, kinds[name]) for name in (self.columns if columns is None else columns)]
        return f"SELECT {', '.join(cells)} FROM {self.relation}"

    def identity(self, columns: Sequence[str]) -> str:
        """SQL text expression for the identity of a row of `select(columns)` (see `identity_sql`)."""
        described = self.fetch(f"DESCRIBE {self.select(columns)}")
        return identity_sql([(str(name), str(kind)) for name, kind, *_ in described])

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The table, or some of its columns, in memory."""
        return self.frame(self.select(columns))

    def rows(self) -> int:
        """Number of rows, without reading them into memory."""
        return int(self.fetch(f"SELECT count(*) FROM {self.relation}")[0][0])

    def require_one_line(self, columns: Sequence[str]) -> None:
        """Refuse a CSV with a line break within a cell of these columns.

        A quote that is opened in one row and closed in another makes one cell of all rows between them: two odd rows
        would take others out of the table. Numbers, dates and categories have no line breaks of their own.
        """
        # A file may end some of its lines in the two signs of another system.
        cells = [f"rtrim({quoted(name)}, chr(13))" for name in columns]
        broken = [f"contains({cell}, chr(10)) OR contains({cell}, chr(13))" for cell in cells]
        if self.kind != "csv" or not broken:
            return
        counted = ", ".join(f"count(*) FILTER ({sign})" for sign in broken)
        found = self.fetch(f"SELECT {counted} FROM {self.relation}")[0]
        name = next((name for name, cells in zip(columns, found, strict=True) if cells), None)
        if name is not None:
            raise InvalidInput(
                f"{self.path} must have no line break within a cell of the column {name!r}; a quotation mark that is "
                "not closed where it was opened would swallow the rows up to the next one."
            )

    def different(self, column: str) -> int:
        """Number of different values of `column`, as `assign_teachers` tells them apart, in bounded memory."""
        marks = f"(SELECT hash({self.identity([column])}) AS mark FROM ({self.select([column])}))"
        parts = self.rows() // _COUNTED_AT_ONCE + 1
        counts = (f"SELECT count(DISTINCT mark) FROM {marks} WHERE mark % {parts} = {part}" for part in range(parts))
        return sum(int(self.fetch(count)[0][0]) for count in counts)

    def fingerprint(self, *, by: str | None, key: bytes) -> str:
        """A keyed fingerprint of the rows, or of the different users in the column `by`, in bounded memory."""
        columns = self.columns if by is None else [by]
        query = fingerprint_sql(self.identity(columns), f"({self.select(columns)})", key=key, once=by is not None)
        return fingerprint_from(self.fetch(query))

    def marks(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """One mark for every row, shape (rows,): rows of equal content in `columns` have equal marks in any table."""
        query = f"SELECT hash({self.identity(columns)}) AS mark FROM ({self.select(columns)})"
        return self._run(query, lambda answer: np.asarray(answer.fetchnumpy()["mark"], np.uint64))

    def rows_among(self, marks: NDArray[np.uint64], columns: Sequence[str]) -> int:
        """Number of rows whose mark is one of `marks`, without reading them into memory."""
        own = f"SELECT hash({self.identity(columns)}) AS mark FROM ({self.select(columns)})"
        known = pa.table({"mark": np.unique(marks)})
        query = f"SELECT count(*) FROM ({own}) SEMI JOIN known_marks USING (mark)"
        with asking(self.path) as connection:
            connection.register("known_marks", known)
            answer = interruptible(connection, lambda: connection.execute(query).fetchall())
        return int(answer[0][0])

    def about_different_labels(self, column: str) -> int:
        """About how many different labels `column` has, whatever their number, in little memory."""
        return int(self.fetch(f"SELECT approx_count_distinct(label) FROM ({self.label_query(column)})")[0][0])

    def label_counts(self, column: str) -> dict[str | None, int]:
        """How often each label of `column` occurs, None standing for missing. Private where the table is."""
        return dict(
            self.fetch(f"SELECT label, count(*) FROM ({self.label_query(column)}) GROUP BY label ORDER BY label")
        )

    def labels(self, column: str) -> pd.Series:
        """The labels of `column` as text (7 and 7.0 are both "7"), shape (rows,); missing ones are None."""
        labels = self.frame(self.label_query(column))["label"].astype(object)
        return labels.where(labels.notna(), None)

    def label_query(self, column: str) -> str:
        """SQL query with one column, `label`: the labels of `column` as text."""
        label = label_sql(column, dict(self.typed_columns)[column])
        return f"SELECT {label} AS label FROM ({self.select([column])})"

    def frame(self, sql: str) -> pd.DataFrame:
        """The answer of SQL on the table; what the file cannot give becomes one sentence."""
        return self._run(sql, lambda answer: answer.df())

    def fetch(self, sql: str) -> list[Any]:
        """The answer's rows as tuples."""
        return self._run(sql, lambda answer: answer.fetchall())

    def _run(self, sql: str, take: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
        with asking(self.path) as connection:
            # Rows are read only while they are taken: a bad line far down shows here, not in execute.
            return interruptible(connection, lambda: take(connection.execute(sql)))


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], Any]) -> Any:
    """The result of `work` on the connection, which Ctrl-C stops at once: by itself, DuckDB may not notice it."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


@contextlib.contextmanager
def asking(place: Path | ObjectPath, *, note: str = "") -> Generator[duckdb.DuckDBPyConnection]:
    """A connection to ask about the file `place`: DuckDB's errors, and those of object storage, become one sentence.

    It spills nothing: what it holds is private, and by itself it would write it into the current folder.
    """
    connection = duckdb.connect(config={"temp_directory": "", "disabled_optimizers": ",".join(_DISABLED)})
    try:
        if isinstance(place, ObjectPath):
            connection.register_filesystem(client())
        yield connection
    except duckdb.Error as error:
        raise unreadable(place, error, note=note) from error
    finally:
        connection.close()


def open_table(
    path: AnyPath,
    *,
    names: Sequence[str] | str | None = None,
    header: bool | None = None,
    like: Table | None = None,
) -> Table:
    """Look at a CSV or Parquet file (also compressed, or a folder of Parquet files) and say how it is read.

    path: on the disk, or s3://BUCKET/KEY of a Parquet file or a folder of them (the extra `s3`; credentials are the
        client's own).

    names: column names of a CSV without header: a list, "a,b,c", the path of a file of names (one per line, or
        `name: description` as in the UCI archive, whose last column, the class, it does not name), or a name known
        here ("adult"). Default: the header; without one, a `.names` file beside the table, then column0, column1, ...
    header: whether the first row of a CSV holds names; default: found out from the rows.
    like: a public table that decides the signs of a CSV: its own ones, or, where it is no CSV, the delimiter by which
        the first line names its columns (else a comma). Found out from private rows, one odd row could decide how all
        others are cut.
    Raises `InvalidInput` in one sentence for a file that is missing, empty or unreadable, and for names that repeat
    or do not fit.
    """
    place = _place(path)
    if isinstance(place, Path) and not place.exists():
        raise InvalidInput(f"There is no file {place}.")
    before = _stamps(place)
    return replace(_open(place, names, header, like), stamps=before)


def parts_of(place: Path | ObjectPath) -> list[str]:
    """The files of a table: itself, or all Parquet files of a folder, in order; hidden ones are not its.

    Errors: `InvalidInput` for a folder without any, and for two names of one file, whose rows would be there twice.
    """
    if isinstance(place, Path) and not place.is_dir():
        return [place.as_posix()]
    if isinstance(place, ObjectPath):
        try:
            named = {part: part.removeprefix(place.uri) for part in place.below(".parquet")}
        except OSError as error:
            raise InvalidInput(f"{place} cannot be read ({error}).") from None
    else:
        named = {part.as_posix(): part.relative_to(place).as_posix() for part in _parquet_files(place)}
    parts = [part for part, name in named.items() if not any(map(_HIDDEN.match, name.split("/")))]
    if not parts:
        raise InvalidInput(f"{place} must be a Parquet file, or a folder of them; there is none.")
    if isinstance(place, Path):
        same: dict[str, str] = {}
        for part in parts:
            other = same.setdefault(os.path.realpath(part), part)
            if other != part:
                raise InvalidInput(f"{place} must have every file once, and {part} is {other} by another name.")
    return parts


def _parquet_files(place: Path) -> list[Path]:
    return sorted(part for part in place.rglob("*") if part.suffix.lower() == ".parquet" and part.is_file())


def _stamps(place: Path | ObjectPath) -> tuple[tuple[str, ...], ...]:
    """What tells that a table was written again: of every file name, size, time and place on the disk (or ETag)."""
    if isinstance(place, ObjectPath):
        try:
            return place.stamps()
        except OSError as error:
            raise InvalidInput(f"{place} cannot be read ({error}).") from None
    found = list[tuple[str, ...]]()
    for part in _parquet_files(place) if place.is_dir() else [place]:
        with contextlib.suppress(FileNotFoundError):
            held = part.stat()
            found.append((part.as_posix(), str(held.st_size), str(held.st_mtime_ns), str(held.st_ino)))
    return tuple(found)


def _open(
    place: Path | ObjectPath, names: Sequence[str] | str | None, header: bool | None, like: Table | None
) -> Table:
    if isinstance(place, ObjectPath) or place.is_dir():
        return _open_parquet(place, parts_of(place))
    try:
        with open(place, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise InvalidInput(f"{place} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    if not start:
        raise InvalidInput(f"{place} is empty.")
    if start == _PARQUET:
        return _open_parquet(place, [place.as_posix()])
    if place.suffix == ".parquet":
        raise InvalidInput(f"{place} must be a Parquet file, as its name says; it does not begin as one.")
    if place.suffix in FORMATS:
        return _open_typed(place, place.suffix.removeprefix("."), FORMATS[place.suffix](_file(place.as_posix())))
    if start in _OTHER_FORMATS:
        raise InvalidInput(f"{place} is {_OTHER_FORMATS[start]}.")
    if start[:1] == b"{" and place.suffix in (".json", ".jsonl", ".ndjson"):
        raise InvalidInput(f"{place} is JSON; save it as CSV or Parquet.")
    if start[:2] in _UTF_16 or [byte == 0 for byte in start] in ([True, False] * 2, [False, True] * 2):
        raise InvalidInput(f"{place} is UTF-16 text; save it as UTF-8.")
    if like is not None:
        _require_same_delimiter(place, like)
    return _open_csv(place, names=names, header=header, known=None if like is None else _dialect_of(place, like))


def open_labels_only(path: AnyPath, *, names: Sequence[str] | str | None = None) -> Table:
    """`open_table` of a table whose labels alone are private: no label has a say in how it is read.

    The first line of a CSV decides how its cells are cut: at the sign that cuts it most often. It is the header, unless
    `names` are given, which say that there is none: neither is found out from rows, which hold labels.
    Errors: as of `open_table`; besides, a first line of another form than the lines below it.
    """
    place, delims = _place(path), list(_DELIMITERS)
    if isinstance(place, Path) and place.is_file():
        cut = {delim: len(_first_cells(place, delim)) for delim in _DELIMITERS}
        delims.sort(key=lambda delim: -cut[delim])
    return open_described(place, delimiter=delims[0], names=names)


def open_described(path: AnyPath, *, delimiter: str, names: Sequence[str] | str | None = None) -> Table:
    """`open_table` of a table without a public one beside it: no row has a say in how it is read.

    delimiter: what cuts a CSV, whose first line is the header, unless `names` are given, which say that there is none.
    Errors: as of `open_table`; besides, a first line of another form than the lines below it.
    """
    place, header = _place(path), names is None
    like = Table(path=place, kind="csv", columns=(), types=(), header=header, named=True, relation="",
                 dialect=Dialect(delim=delimiter, quote='"', escape='"', comment="", skip=0))  # fmt: skip
    table = open_table(place, names=names, header=header, like=like)
    if table.dialect is not None and table.dialect.skip:
        # Else a record, whose label is private, would pass for the header: its cells would become names of columns.
        raise InvalidInput(
            f"The first line of {place} must be {'a row' if names is not None else 'its header'}, with as many cells "
            "as the lines below it have, and it has another number of cells."
        )
    return table


def _place(path: AnyPath) -> Path | ObjectPath:
    if isinstance(path, ObjectPath):
        return path
    return stored_path("A table's place", str(path)) if is_uri(path) else Path(path)


def _open_parquet(place: Path | ObjectPath, parts: list[str]) -> Table:
    _require_one_schema(place, parts)
    return _open_typed(place, "parquet", _read_parquet(parts))


def _read_parquet(parts: Sequence[str]) -> str:
    return f"read_parquet([{', '.join(map(_file, parts))}], hive_partitioning = false)"


def _require_one_schema(place: Path | ObjectPath, parts: Sequence[str]) -> None:
    """Refuse a folder of Parquet files whose columns have other names or types in one file than in another.

    What writes such a file often takes a type from its cells: 1, 2, 3 are whole numbers, and one missing or odd cell
    makes the column floating or text. Read together, all files get the types of one: a single record would decide how
    all rows of the other files are read.
    """
    with asking(place) as connection:
        first = dict(describe_columns(connection, _read_parquet(parts[:1])))
        for part in parts[1:]:
            other = dict(describe_columns(connection, _read_parquet([part])))
            if other != first:
                name = next(name for name in {**first, **other} if first.get(name) != other.get(name))
                raise InvalidInput(
                    f"{place} must hold Parquet files of one schema: the column {name!r} is "
                    f"{first.get(name, 'absent')} in {Path(parts[0]).name} and {other.get(name, 'absent')} in "
                    f"{Path(part).name}; write all of them with the same types."
                )


def _open_typed(place: Path | ObjectPath, kind: str, relation: str) -> Table:
    """A table whose columns have names and types of their own; a column of lists of numbers is an embedding."""
    with asking(place) as connection:
        relation = unfolded(connection, relation, dict(describe_columns(connection, relation)), place)
        columns = [
            column for column in describe_columns(connection, relation) if not _PANDAS_INDEX.fullmatch(column[0])
        ]
    return _checked(place, kind, columns, header=True, named=True, relation=relation)


def _dialect_of(place: Path, like: Table) -> Dialect:
    if like.dialect is not None:
        return like.dialect
    delim = next((delim for delim in _DELIMITERS if len(set(like.columns) & _first_cells(place, delim)) > 1), ",")
    return Dialect(delim=delim, quote='"', escape='"', comment="", skip=0)


def _first_cells(place: Path, delim: str) -> set[str]:
    """The cells of a CSV's first line, cut at `delim`; none where it cannot be read."""
    try:
        return {str(name).strip() for name in pd.read_csv(place, sep=delim, nrows=0, skipinitialspace=True).columns}
    except (OSError, ValueError):
        return set()


def _require_same_delimiter(place: Path, like: Table) -> None:
    """Refuse a CSV whose header has the public names only where it is cut at another sign than the public table is."""
    if like.dialect is None or len(like.columns) < 2 or len(_first_cells(place, like.dialect.delim)) > 1:
        return
    for delim in _DELIMITERS:
        if len(_first_cells(place, delim) & set(like.columns)) > 1:
            raise InvalidInput(
                f"{place} separates its columns by {delim!r}, the public table {like.path} by {like.dialect.delim!r}; "
                "save both alike."
            )


def _open_csv(place: Path, *, names: Sequence[str] | str | None, header: bool | None, known: Dialect | None) -> Table:
    packed = place.suffix in (".gz", ".zst") or None
    compression = {".gz": "gzip", ".zst": "zstd"}.get(place.suffix, "none")
    told_header = f", header = {str(header).lower()}" if header is not None else ""
    told_signs = "" if known is None else f", {known.signs}"
    source = f"{_file(place.as_posix())}, compression = '{compression}'"
    with asking(place, note="Is it gzip?" if packed else "") as connection:
        # Full samples would make the look as slow as the reading; the dialect shows in the first rows.
        answer = connection.execute(f"FROM sniff_csv({source}{told_header}{told_signs})")
        values: tuple[Any, ...] = answer.fetchone() or ()
        found = dict(zip([column[0] for column in answer.description or []], values, strict=True))
    has_header = bool(found["HasHeader"]) if header is None else header
    skip = int(found["SkipRows"])
    if known is None:
        dialect = Dialect(
            # Quotes may first occur below the rows that were looked at.
            delim=found["Delimiter"],
            quote='"' if found["Quote"] == "(empty)" else found["Quote"],
            escape='"' if found["Escape"] == "(empty)" else found["Escape"],
            comment="" if found["Comment"] == "(empty)" else found["Comment"],
            skip=skip,
        )
    elif skip > max(1, known.skip):
        raise InvalidInput(
            f"{place} must be one table with the signs of the public one (delimiter {known.delim!r}, quote "
            f"{known.quote!r}); its first {skip} lines do not share the form of the others."
        )
    else:
        dialect = replace(known, skip=skip)
    own = [str(column["name"]).strip() for column in found["Columns"]]
    told = None if names is None else resolve_names(names, place=place, columns=len(own))
    if told and has_header and header is None:
        # Rows of text alone look like a header; it is one only where it names columns as the user does.
        has_header = bool({name.lower() for name in told} & {name.lower() for name in own})
        told = None if has_header else told
    if told is None and not has_header:
        told = resolve_names(None, place=place, columns=len(own)) or [f"column{number}" for number in range(len(own))]
    given = told or own
    if len(given) != len(own):
        raise InvalidInput(f"{place} has {len(own)} columns, but {len(given)} names were given.")
    cells = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in given)
    base = f"{source}, {dialect.signs}, skip = {dialect.skip}, header = {str(has_header).lower()}, auto_detect = false"
    relation = f"read_csv({base}, columns = {{{cells}}})"
    named = has_header or given[0] != "column0"
    typed = [(name, "VARCHAR") for name in given]
    table = _checked(place, "csv", typed, header=has_header, named=named, relation=relation)
    return replace(table, dialect=dialect)


def _checked(
    place: Path | ObjectPath, kind: str, columns: Sequence[tuple[str, str]], *, header: bool, named: bool, relation: str
) -> Table:
    names = [name for name, _ in columns]
    # DuckDB's names are equal where only case differs.
    lowered = [name.lower() for name in names]
    twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{place} has more than one column named {twice!r}.")
    types = tuple(type_name for _, type_name in columns)
    table = Table(
        path=place, kind=kind, columns=tuple(names), types=types, header=header, named=named, relation=relation
    )
    held = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in names)
    if not table.fetch(f"SELECT 1 FROM ({table.select()}) WHERE {held} LIMIT 1"):
        raise InvalidInput(f"{place} has no rows.")
    return table


def _cleaned(name: str, kind: str) -> str:
    cell = quoted(name)
    if kind.startswith("DECIMAL"):
        return f"{cell}::DOUBLE AS {cell}"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        # No number of days stands for the infinities.
        return f"CASE WHEN isfinite({cell}) THEN {cell} ELSE NULL END AS {cell}"
    if _KEPT_TYPES.fullmatch(kind):
        return cell
    text = f"nullif({unquoted_sql(f'trim({cell}::VARCHAR)')}, '')"
    signs = ", ".join(f"'{sign}'" for sign in _MISSING)
    return f"CASE WHEN {text} IN ({signs}) THEN NULL ELSE {text} END AS {cell}"


def unquoted_sql(text: str) -> str:
    """SQL for text without one pair of quotes around all of it, which some files of a run may have and others not."""
    # Most cells have none, and a look at one letter is much quicker than one for a form.
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
    """The name of one file as an SQL literal: its own signs *, ? and [ stand for themselves.

    Else they would name other files, too, whose rows would be read a second time.
    """
    return literal(re.sub(r"([*?[])", r"[\1]", path))


def same_content(first: Table, second: Table, columns: Sequence[str]) -> bool:
    """Whether two tables are one file, or hold the same rows of `columns`, in whatever order and format."""
    if isinstance(first.path, ObjectPath) or isinstance(second.path, ObjectPath):
        if first.path == second.path:
            return True
    elif os.path.samefile(first.path, second.path):
        return True
    return first.rows() == second.rows() and _rows_at_once(first, columns) == _rows_at_once(second, columns)


def _rows_at_once(table: Table, columns: Sequence[str]) -> Any:
    """The sum of all rows' digests, which their order does not change."""
    return table.fetch(f"SELECT sum(hash({table.identity(columns)})::HUGEINT) FROM ({table.select(columns)})")[0][0]


def digest_of_file(path: str | os.PathLike[str], *, key: bytes = b"") -> str:
    """Checksum of a file's bytes; with a key, one that does not let others test guesses about the content.

    path: may be s3://BUCKET/KEY. Errors: `OSError`.
    """

    def digest(file: Any) -> str:
        with file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32, key=key)).hexdigest()

    if is_uri(path):
        return talk(str(path), lambda: digest(client().open(str(path), "rb")))
    return digest(open(path, "rb"))


def unreadable(place: Path | ObjectPath, error: Exception, *, note: str = "") -> InvalidInput:
    """One sentence for what DuckDB could not read; the offending line itself is private and left out."""
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
        reason = f"{reason}, {wrong[1]} columns expected, {wrong[2]} found"
    return InvalidInput(f"{place} cannot be read as CSV or Parquet: {reason}. {note}".strip())
