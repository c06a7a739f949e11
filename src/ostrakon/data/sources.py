"""Opens tables: CSV, Parquet, folders of Parquet files and other formats; decides how they are read."""

import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ostrakon.data.csv_form import DELIMITERS, dialect_of, first_cells, open_csv, require_same_delimiter
from ostrakon.data.embeddings import unfolded
from ostrakon.data.identity import describe_columns
from ostrakon.data.object_store import AnyPath, ObjectPath
from ostrakon.data.queries import asking
from ostrakon.data.table import (
    Dialect,
    Table,
    checked_table,
    file_literal,
)
from ostrakon.data.table_files import file_stamps, location_of, parts_of
from ostrakon.validation import InvalidInput

_PARQUET = b"PAR1"
# The first bytes of other formats, and what to do with them.
_OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save the sheet as CSV",
    b"ARRO": "a Feather (Arrow) file; save it as Parquet",
    b"FEA1": "a Feather file; save it as Parquet",
}
_JSON = (".json", ".jsonl", ".ndjson")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# An index without a name, which pandas writes as a column: numbers of rows, which are not a feature.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")

FORMATS: dict[str, Callable[[str], str]] = {}
"""Formats beside CSV and Parquet, by suffix: from a path as an SQL literal to the DuckDB relation that reads it.

A new format needs one entry. The relation has named columns, and its rows are in the order of the file."""


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
    location = location_of(path)
    if isinstance(location, Path) and not location.exists():
        raise InvalidInput(f"There is no file {location}.")
    before = file_stamps(location)
    return replace(_open(location, names, header, like), stamps=before)


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
        return _open_typed(path, path.suffix.removeprefix("."), FORMATS[path.suffix](file_literal(path.as_posix())))
    _refuse_other_format(path, start)
    if start[:2] in _UTF_16 or [byte == 0 for byte in start] in ([True, False] * 2, [False, True] * 2):
        raise InvalidInput(f"{path} is UTF-16 text; save it as UTF-8.")
    if like is not None:
        require_same_delimiter(path, like)
    return open_csv(path, names=names, header=header, own_dialect=None if like is None else dialect_of(path, like))


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
    """Return `open_table` for a table in which only the labels are private: no label influences how it is read.

    The delimiter of a CSV is the sign that is most frequent in its first line. That line is the header unless `names`
    are given: neither is guessed from the rows, which have labels.
    Errors: as of `open_table`, and for a first line in another form than the lines below it.
    """
    location, delims = location_of(path), list(DELIMITERS)
    if isinstance(location, Path) and location.is_file():
        cut = {delim: len(first_cells(location, delim)) for delim in DELIMITERS}
        delims.sort(key=lambda delim: -cut[delim])
    return open_described(location, delimiter=delims[0], names=names)


def open_described(path: AnyPath, *, delimiter: str, names: Sequence[str] | str | None = None) -> Table:
    """Return `open_table` for a table without a public one: no row influences how it is read.

    delimiter: of a CSV, whose first line is the header unless `names` are given.
    Errors: as of `open_table`, and for a first line in another form than the lines below it.
    """
    location, header = location_of(path), names is None
    like = Table(path=location, kind="csv", columns=(), types=(), header=header, named=True, relation="",
                 dialect=Dialect(delim=delimiter))  # fmt: skip
    table = open_table(location, names=names, header=header, like=like)
    if table.dialect is not None and table.dialect.skip:
        # Else a record, whose label is private, could be taken for the header: its cells would become column names.
        raise InvalidInput(
            f"The first line of {location} must be {'a row' if names is not None else 'its header'}, with as many "
            "cells as the lines below it have, and it has another number of cells."
        )
    return table


def _open_parquet(path: Path | ObjectPath, parts: list[str]) -> Table:
    _require_one_schema(path, parts)
    return _open_typed(path, "parquet", _read_parquet(parts))


def _read_parquet(parts: Sequence[str]) -> str:
    return f"read_parquet([{', '.join(map(file_literal, parts))}], hive_partitioning = false)"


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
    """Return a table in a format with named, typed columns; a column of lists of numbers is an embedding."""
    with asking(path) as connection:
        relation = unfolded(connection, relation, dict(describe_columns(connection, relation)), path)
        columns = [
            column for column in describe_columns(connection, relation) if not _PANDAS_INDEX.fullmatch(column[0])
        ]
    return checked_table(path, kind, columns, header=True, named=True, relation=relation)
