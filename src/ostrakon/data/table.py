"""A readable table, and what is asked about it in SQL, so that it may be larger than memory."""

import difflib
import heapq
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ostrakon.data.changed_rows import MOST_PRIVATE
from ostrakon.data.classes import OFTEN, SEPARATOR
from ostrakon.data.columns import unit_of
from ostrakon.data.identity import fingerprint_from, fingerprint_sql, identity_sql, quoted
from ostrakon.data.labels import NO, YES
from ostrakon.data.number_text import DECIMAL_COMMA, SIGNS
from ostrakon.data.object_store import ObjectPath
from ostrakon.data.queries import asking, interruptible
from ostrakon.data.shared_rows import CountedRows
from ostrakon.data.table_files import file_stamps
from ostrakon.validation import InvalidInput

_MISSING = ("?", "NA", "N/A", "NaN", "nan", "null", "NULL")
# All other types (times, lists, identifiers, ...) become text: files and frames store them in different forms.
_KEPT_TYPES = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN)")
_IN_QUOTES = "^(?:'([^']+)'|\"([^\"]+)\")$"
COMMAS_ONLY = "12,5 only if numbers of the public table have decimal commas"
_COUNTED_AT_ONCE = 2**24
_TELLING = 3
_NAMED = 8
"""Maximum number of columns that a refusal names."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a CSV is written: its signs, "" for none, and the number of lines before the table."""

    delim: str
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    skip: int = 0

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
        if file_stamps(self.path) != self.stamps:
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
        """Return the name of a column that is given by name or by position (-1 is the last).

        Raises `InvalidInput` that lists the nearest columns for any other.
        """
        if isinstance(which, str) and which in self.columns:
            return which
        if not isinstance(which, bool) and re.fullmatch(r"-?\d+", str(which)):
            position = int(which)
            if -len(self.columns) <= position < len(self.columns):
                return self.columns[position]
        hint = "" if self.named else " (the file has no header: give --names, or the position of the column)"
        wanted = str(which).casefold()
        near = heapq.nlargest(
            _NAMED, self.columns, key=lambda name: difflib.SequenceMatcher(None, name.casefold(), wanted).ratio()
        )
        raise InvalidInput(
            f"The {what} {which!r} is not in {self.path}, whose {len(self.columns):,} columns are, nearest first, "
            f"{', '.join(near)}{' …' if len(self.columns) > _NAMED else ''}{hint}."
        )

    def select(self, columns: Sequence[str] | None = None) -> str:
        """Return the SQL query of the cleaned cells: numbers, truth values, dates and times unchanged, all else as
        text.

        Spaces and quotes around text are removed ('7' is 7), and the usual signs for missing values become NULL.
        """
        kinds = dict(self.typed_columns)
        cells = [_cleaned(name, kinds[name]) for name in (self.columns if columns is None else columns)]
        return f"SELECT {', '.join(cells)} FROM {self.relation}"

    def identity(self, columns: Sequence[str], *, rounded: bool = False) -> str:
        """Return the SQL text expression for the identity of a row of `select(columns)` (see `identity_sql`)."""
        types = self.fetch(f"DESCRIBE {self.select(columns)}")
        return identity_sql([(str(name), str(kind)) for name, kind, *_ in types], rounded=rounded)

    def read(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the table, or some of its columns, in memory."""
        return self.frame(self.select(columns))

    def sample(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return `read` in an order of the rows' content; of a large table the first `MOST_PRIVATE` rows."""
        # arg_min keeps that many rows; ORDER BY with a LIMIT would keep them all.
        row = f"struct_pack({', '.join(f'{quoted(name)} := {quoted(name)}' for name in columns)})"
        chosen = f"unnest(arg_min({row}, hash({self.identity(columns)}), {MOST_PRIVATE}))"
        return self.frame(f"SELECT unnest(row) FROM (SELECT {chosen} AS row FROM ({self.select(columns)}))")

    def rows(self) -> int:
        """Return the number of rows, without reading them into memory."""
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
        expressions = ", ".join(f"count(*) FILTER ({sign})" for sign in broken)
        counts = self.fetch(f"SELECT {expressions} FROM {self.relation}")[0]
        name = next((name for name, cells in zip(columns, counts, strict=True) if cells), None)
        if name is not None:
            raise InvalidInput(
                f"{self.path} must have no line break within a cell of the column {name!r}; a quotation mark that is "
                "not closed where it was opened would swallow the rows up to the next one."
            )

    def different(self, column: str) -> int:
        """Return the number of different values of `column`, as `assign_teachers` compares them, in bounded memory."""
        marks = f"(SELECT hash({self.identity([column])}) AS mark FROM ({self.select([column])}))"
        parts = self.rows() // _COUNTED_AT_ONCE + 1
        counts = (f"SELECT count(DISTINCT mark) FROM {marks} WHERE mark % {parts} = {part}" for part in range(parts))
        return sum(int(self.fetch(count)[0][0]) for count in counts)

    def fingerprint(self, *, by: str | None, key: bytes) -> str:
        """Return a keyed fingerprint of the rows, or of the users in the column `by`, in bounded memory."""
        columns = [name for name in self.columns if name != self.joined] if by is None else [by]
        query = fingerprint_sql(self.identity(columns), f"({self.select(columns)})", key=key, once=by is not None)
        return fingerprint_from(self.fetch(query))

    def marks(self, columns: Sequence[str]) -> NDArray[np.uint64]:
        """Return one mark for every row, shape (rows,), as of `row_marks`, of `columns`: the same in any table."""
        return self._run(self._marks(columns), lambda answer: np.asarray(answer.fetchnumpy()["mark"], np.uint64))

    def counted(self, columns: Sequence[str], public: "Table") -> CountedRows:
        """Return the rows by their marks of `columns`, without reading them into memory.

        public: the table whose marks are looked up. Only rows that are equal to one of its rows in the few columns in
        which it has most values are compared in all: most rows are not.
        """
        rows, own = self.rows(), self._marks(columns)
        few = list(public.read(columns).nunique().nlargest(_TELLING).index)
        parts = pa.table({"mark": public.marks(few)})
        alike = f"WHERE hash({self.identity(few, rounded=True)}) IN (SELECT mark FROM known_parts)"

        def among(marks: NDArray[Any]) -> NDArray[np.int64]:
            numbers = pa.table({"mark": marks, "place": np.arange(len(marks))})
            query = f"SELECT place, count(*) AS times FROM ({own} {alike}) JOIN known_marks USING (mark) GROUP BY place"
            with asking(self.path) as connection:
                connection.register("known_marks", numbers)
                connection.register("known_parts", parts)
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

    def _marks(self, columns: Sequence[str]) -> str:
        return f"SELECT hash({self.identity(columns, rounded=True)}) AS mark FROM ({self.select(columns)})"

    def about_different_labels(self, column: str) -> int:
        """Return the approximate number of different labels of `column`, at most its rows, in little memory."""
        number = "least(approx_count_distinct(label), count(*))"
        return int(self.fetch(f"SELECT {number} FROM ({self.label_query(column)})")[0][0])

    def label_counts(self, column: str) -> dict[str | None, int]:
        """Return the number of rows of each label of `column` (None: missing). As private as the table."""
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
            what, how_many = ("missing", missing) if missing else ("not", wrong)
            refusal = f"The target {column!r} must be a number such as 12.5 ({COMMAS_ONLY}) in every "
            refusal += f"row, and it is {what} in {how_many} of {rows}."
            refusal += " Leave these rows out." if missing else ""
            unit = unit_of(self.label_counts(column)) if wrong == rows >= OFTEN else None
            if unit is not None:
                refusal += f" Write the number alone and the unit, {unit!r}, in the header."
            raise InvalidInput(refusal)

    def with_labels(self, columns: Sequence[str], name: str) -> "Table":
        """Return the table with one more column, `name`, of cells such as `a;b`: the labels whose columns say one of
        `YES`.

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
                    f"Each column of several in --target must be yes ({', '.join(YES)}) or no ({', '.join(NO)}) in "
                    f"every row of {self.path}; {column!r} is empty or something else in {times} rows."
                )
        pairs = zip(columns, texts, strict=True)
        cases = ", ".join(f"CASE WHEN {text} IN ({yes}) THEN {literal(column)} END" for column, text in pairs)
        hidden = ", ".join(map(quoted, own))
        labels = f"concat_ws({literal(SEPARATOR)}, {cases}) AS {quoted(name)}"
        return replace(
            self,
            columns=(*self.columns, name),
            types=(*self.types, "VARCHAR"),
            relation=f"(SELECT * EXCLUDE ({hidden}), {labels} FROM {rows})",
            joined=name,
        )

    def with_points(self, column: str) -> "Table":
        """Return the table with decimal points in place of decimal commas in a column of text, whose other numbers are
        marked as none.
        """
        if dict(self.typed_columns)[column] != "VARCHAR":
            return self
        clean = _clean_cell(column, "VARCHAR")
        number = f"replace(replace(regexp_replace({clean}, {literal(SIGNS)}, '', 'g'), '.', ''), ',', '.')"
        cell = f"CASE WHEN regexp_full_match({clean}, {literal(DECIMAL_COMMA)}) THEN {number} ELSE {clean} || ' ?' END"
        return replace(self, relation=f"(SELECT * REPLACE ({cell} AS {quoted(column)}) FROM {self.relation})")

    def share_outside(self, column: str, low: float, high: float) -> float:
        """Return the share of the numbers of `column` below `low` or above `high`. As private as the table."""
        number = "try_cast(label AS DOUBLE)"
        query = f"SELECT avg(({number} < {low!r} OR {number} > {high!r})::INT) FROM ({self.label_query(column)})"
        return float(self.fetch(query)[0][0] or 0.0)

    def labels(self, column: str) -> pd.Series:
        """Return the labels of `column` as text (7 and 7.0 are both "7"), shape (rows,); missing ones are None."""
        labels = self.frame(self.label_query(column))["label"].astype(object)
        return labels.where(labels.notna(), None)

    def label_query(self, column: str) -> str:
        """Return an SQL query with one column, `label`: the labels of `column` as text."""
        label = label_sql(column, dict(self.typed_columns)[column])
        return f"SELECT {label} AS label FROM ({self.select([column])})"

    def frame(self, sql: str) -> pd.DataFrame:
        """Return the answer of an SQL query as a frame. Errors: `InvalidInput` in one sentence."""
        return self._run(sql, lambda answer: answer.df())

    def fetch(self, sql: str) -> list[Any]:
        """Return the rows of the answer as tuples. Errors: as of `frame`."""
        return self._run(sql, lambda answer: answer.fetchall())

    def _run(self, sql: str, take: Callable[[duckdb.DuckDBPyConnection], Any]) -> Any:
        with asking(self.path) as connection:
            # Rows are read only while they are fetched: a bad line far down fails here, not in execute.
            return interruptible(connection, lambda: take(connection.execute(sql)))


def checked_table(
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
    """Return the SQL for text without one pair of quotes around it, which only some files of a run may have."""
    # Most cells have none, and comparing one letter is much faster than matching a pattern.
    inner = f"trim(regexp_replace({text}, {literal(_IN_QUOTES)}, '\\1\\2'))"
    return f"CASE WHEN left({text}, 1) IN ({literal(chr(39))}, {literal(chr(34))}) THEN {inner} ELSE {text} END"


def label_sql(column: str, kind: str) -> str:
    """Return the SQL text expression of a label: 7, 7.0 and "7" are one label, and so are 98.6 and 98.60; text stays as
    it is.
    """
    cell = quoted(column)
    if kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        return (
            f"CASE WHEN isnan({cell}::DOUBLE) THEN NULL ELSE regexp_replace(({cell}::DOUBLE)::VARCHAR, '\\.0$', '') END"
        )
    integers = f"regexp_replace({cell}::VARCHAR, '^(-?[0-9]+)\\.0+$', '\\1')"
    return f"regexp_replace({integers}, '^(-?[0-9]+\\.[0-9]*[1-9])0+$', '\\1')"


def literal(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def file_literal(path: str) -> str:
    """Return the name of one file as an SQL literal, with its signs *, ? and [ escaped.

    Else they would match other files, too, whose rows would be read a second time.
    """
    return literal(re.sub(r"([*?[])", r"[\1]", path))


def same_content(first: Table, second: Table, columns: Sequence[str]) -> bool:
    """Return whether two tables are one file, or have the same rows of `columns`, in any order and format."""
    if isinstance(first.path, ObjectPath) or isinstance(second.path, ObjectPath):
        if first.path == second.path:
            return True
    elif os.path.samefile(first.path, second.path):
        return True
    return first.rows() == second.rows() and _rows_at_once(first, columns) == _rows_at_once(second, columns)


def _rows_at_once(table: Table, columns: Sequence[str]) -> Any:
    """Return the sum of the digests of all rows, which does not depend on their order."""
    return table.fetch(f"SELECT sum(hash({table.identity(columns)})::HUGEINT) FROM ({table.select(columns)})")[0][0]
