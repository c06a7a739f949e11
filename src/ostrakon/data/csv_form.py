"""How a CSV is written: its delimiter, quotes, header and names, found from its first rows or from the public table."""

import csv
import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from ostrakon.data.queries import asking
from ostrakon.data.table import (
    Dialect,
    Table,
    checked_table,
    file_literal,
    literal,
)
from ostrakon.validation import InvalidInput

DELIMITERS = (",", ";", "\t", "|")


def dialect_of(path: Path, like: Table) -> Dialect:
    if like.dialect is not None:
        return like.dialect
    delim = next((delim for delim in DELIMITERS if len(set(like.columns) & first_cells(path, delim)) > 1), ",")
    return Dialect(delim=delim)


def first_cells(path: Path, delim: str) -> set[str]:
    """Return the cells of the first line of a CSV with the delimiter `delim`; empty if it cannot be read."""
    try:
        return {str(name).strip() for name in pd.read_csv(path, sep=delim, nrows=0, skipinitialspace=True).columns}
    except (OSError, ValueError):
        return set()


def require_same_delimiter(path: Path, like: Table) -> None:
    """Refuse a CSV whose header has the public names only with another delimiter than that of the public table."""
    if like.dialect is None or len(like.columns) < 2 or len(first_cells(path, like.dialect.delim)) > 1:
        return
    for delim in DELIMITERS:
        if len(first_cells(path, delim) & set(like.columns)) > 1:
            raise InvalidInput(
                f"{path} separates its columns by {delim!r}, the public table {like.path} by {like.dialect.delim!r}; "
                "save both alike."
            )


def open_csv(
    path: Path, *, names: Sequence[str] | str | None, header: bool | None, own_dialect: Dialect | None
) -> Table:
    """Return a CSV as a table. own_dialect: the signs of the public table; None to find them.

    Errors: `InvalidInput` for a file that is not one table, names that do not fit, and no rows.
    """
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix, "none")
    source = f"{file_literal(path.as_posix())}, compression = '{compression}'"
    sniffed = _sniffed(path, source, header, own_dialect)
    if own_dialect is None:
        # Quotes may first occur below the rows that were sniffed.
        signs = {sign: sniffed[sign.capitalize()] for sign in ("quote", "escape", "comment")}
        signs = {sign: value for sign, value in signs.items() if value != "(empty)"}
        dialect = Dialect(delim=sniffed["Delimiter"], skip=int(sniffed["SkipRows"]), **signs)
    else:
        dialect = replace(own_dialect, skip=int(sniffed["SkipRows"]))
    own = [str(column["name"]).strip() for column in sniffed["Columns"]]
    has_header = bool(sniffed["HasHeader"]) if header is None else header
    chosen = None if names is None else resolve_names(names, file=path, columns=len(own))
    if chosen and has_header and header is None and not {name.lower() for name in own} & set(map(str.lower, chosen)):
        # Rows of text alone look like a header; it is one only where it names columns as the user does.
        has_header = False
    named = True
    if not has_header:
        chosen = chosen or resolve_names(None, file=path, columns=len(own))
        named = bool(chosen)
        chosen = chosen or [f"column{number}" for number in range(len(own))]
    elif chosen is None or header is None:
        chosen = own
        _require_names_once(path, dialect, own)
    if len(chosen) != len(own):
        raise InvalidInput(f"{path} has {len(own)} columns, but {len(chosen)} names were given.")
    cells = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in chosen)
    base = f"{source}, {dialect.signs}, skip = {dialect.skip}, header = {str(has_header).lower()}, auto_detect = false"
    relation = f"read_csv({base}, columns = {{{cells}}})"
    columns = [(name, "VARCHAR") for name in chosen]
    table = checked_table(path, "csv", columns, header=has_header, named=named, relation=relation)
    return replace(table, dialect=dialect)


def _sniffed(path: Path, source: str, header: bool | None, own_dialect: Dialect | None) -> dict[str, Any]:
    """Return what DuckDB finds in the first rows of a CSV. Errors: `InvalidInput` for rows of different forms."""
    header_option = f", header = {str(header).lower()}" if header is not None else ""
    signs_option = "" if own_dialect is None else f", {own_dialect.signs}"
    delim = None if own_dialect is None else own_dialect.delim
    with asking(path, note="Is it gzip?" if path.suffix in (".gz", ".zst") else "") as connection:
        # The first rows show the dialect; sniffing all rows would be as slow as reading them.
        try:
            answer = connection.execute(f"FROM sniff_csv({source}{header_option}{signs_option})")
        except duckdb.Error:
            _require_one_form(path, delim)
            raise
        sniffed = _first_row(answer)
        other = _delimiter_of_header(path) if delim is None and int(sniffed["SkipRows"]) else None
        if other not in (None, sniffed["Delimiter"]):
            # DuckDB took decimal commas for the delimiter, because they give more cells in every line but the header.
            sniffed = _first_row(connection.execute(f"FROM sniff_csv({source}{header_option}, delim = '{other}')"))
    skip = int(sniffed["SkipRows"])
    if skip or len(sniffed["Columns"]) == 1:
        _require_one_form(path, delim)
    if own_dialect is not None and skip > max(1, own_dialect.skip):
        raise InvalidInput(
            f"{path} must be one table with the signs of the public one (delimiter {own_dialect.delim!r}, quote "
            f"{own_dialect.quote!r}); its first {skip} lines do not share the form of the others."
        )
    return sniffed


def _first_row(answer: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    return dict(zip([column[0] for column in answer.description or []], answer.fetchone() or (), strict=True))


def _delimiter_of_header(path: Path) -> str | None:
    """Return the delimiter that gives every line as many cells as the first, more than one; None without it."""
    widths = {delim: {cells for _, cells in _widths(path, delim)} for delim in DELIMITERS}
    return next((delim for delim, counts in widths.items() if len(counts) == 1 and max(counts) > 1), None)


def _widths(path: Path, delim: str | None) -> list[tuple[int, int]]:
    """Return (number of the line, number of cells) of the first lines; none of a file that cannot be read.

    delim: None for the sign that is most frequent in the first line.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            first = file.readline()
            file.seek(0)
            rows = csv.reader(file, delimiter=delim or max(DELIMITERS, key=first.count))
            return [(rows.line_num, len(row)) for row in itertools.islice(rows, _LINES_LOOKED_AT) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        return []


_LINES_LOOKED_AT = 200_000
"""From the start of a CSV: a line of another form there confuses what finds out how it is written."""


def _require_one_form(path: Path, delim: str | None) -> None:
    """Refuse a CSV whose first line is like most others, if one of the first lines has another number of cells."""
    widths = _widths(path, delim)
    width = widths[0][1] if widths else 0
    odd = [(line, cells) for line, cells in widths if cells != width]
    # Of a table below some lines of text the first line is not like the others.
    if odd and width > 1 and len(odd) < len(widths) / 10:
        line, cells = odd[0]
        raise InvalidInput(
            f"{path} must have as many cells in every line as in the first, {width}; line {line} has {cells}."
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


# Well-known tables without a header; for others, a `.names` file beside the table gives the names.
KNOWN_NAMES = {
    "adult": [
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    ]
}


def resolve_names(names: Sequence[str] | str | None, *, file: Path, columns: int) -> list[str] | None:
    """Return column names from the user's argument (see `open_table`); None where nothing is known."""
    stem = file.name.split(".")[0]
    if names is None:
        beside = file.with_name(f"{stem}.names")
        if beside.is_file():
            in_file = _names_of_file(beside, columns=columns)
            return in_file if len(in_file) == columns else None
        known_names = KNOWN_NAMES.get(stem.lower(), [])
        return list(known_names) if len(known_names) == columns else None
    if not isinstance(names, str):
        return [str(name) for name in names]
    if names in KNOWN_NAMES:
        return list(KNOWN_NAMES[names])
    if "," not in names and Path(names).is_file():
        return _names_of_file(Path(names), columns=columns)
    return [name.strip() for name in names.split(",")]


def _names_of_file(file: Path, *, columns: int) -> list[str]:
    lines = [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("|")]
    attributes = [match[1].strip() for line in lines if (match := re.match(r"([^:,]+):", line))]
    if attributes:
        names = next((names for names in KNOWN_NAMES.values() if names[:-1] == attributes), None)
        last = names[-1] if names else "class"
        return [*attributes, last] if len(attributes) == columns - 1 else attributes
    return [name.strip() for line in lines for name in line.split(",")]
