"""The identity of a row: its cells, each in one canonical form, or its user; and keyed fingerprints of rows."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ostrakon.data.images_on_disk import blocks_of
from ostrakon.data.queries import connect
from ostrakon.validation import InvalidInput

_BLOCK = 64  # SHA-256's block, to which HMAC pads its key
_MISSING = "chr(30)"
_BETWEEN = "chr(31)"
_SMALL_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
_LARGE_INTEGERS = {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"}
_NUMBERS = {"FLOAT", "DOUBLE"}
_NEAR_ZERO = 1e-6
_TINY = 1e-200
_WITH_DATE = r"([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4})([t ,].*)?"


def identity_numbers(identities: Any) -> NDArray[np.int64]:
    """Return the number of every row's identity, as `assign_teachers` distinguishes them.

    Parameters
    ----------
    identities : list, Series, DataFrame or array
        As in `assign_teachers`.

    Returns
    -------
    array of int64, shape (rows,)
        Numbers from 0; rows of equal identity have equal numbers.

    Examples
    --------
    >>> identity_numbers(["17", 17.0, "0017", "a", None, ""]).tolist()
    [0, 0, 0, 1, 2, 2]
    """
    return pd.factorize(by_row(identities, lambda identity: identity))[0].astype(np.int64)


def row_marks(rows: Any, *, rounded: bool = False) -> NDArray[np.uint64]:
    """Return one mark for every row: rows of equal content, as `assign_teachers` compares it, have equal marks.

    Parameters
    ----------
    rows : list, Series, DataFrame or array
        As the identities in `assign_teachers`.
    rounded : bool, default False
        As in `identity_sql`.

    Returns
    -------
    array of uint64, shape (rows,)
        Marks.

    Examples
    --------
    >>> marks = row_marks(pd.DataFrame({"age": [7, 7, 8], "city": ["Ulm", "Ulm", "Ulm"]}))
    >>> bool(marks[0] == marks[1]), bool(marks[0] == marks[2])
    (True, False)
    """
    return np.asarray(by_row(rows, lambda identity: f"hash({identity})", rounded=rounded), np.uint64)


def require_users(users: Any) -> None:
    """Refuse users of a type that a single user could change, and with it the identities of all others.

    Parameters
    ----------
    users : array of shape (rows,)
        Text, or whole numbers where they are exact.

    Raises
    ------
    InvalidInput
        For other types.

    Notes
    -----
    All values of an array influence its type: one text turns times and truth values into other text, and one fraction
    rounds whole numbers beyond 2**53. Text and exact whole numbers are the same identities in any case.
    """
    array = np.asarray(users)
    kind = array.dtype.kind
    if kind not in "iufUO" or (kind == "f" and bool(((array != np.round(array)) | (np.abs(array) >= 2**53)).any())):
        raise InvalidInput(
            f"users must be text or whole numbers (beyond 2**53 as integers or text), got values of type {array.dtype}."
        )


def by_row(identities: Any, sql: Callable[[str], str], *, rounded: bool = False) -> NDArray[Any]:
    table = _as_arrow(identities)
    if table.num_columns == 0:
        raise InvalidInput("identities must have at least one column, got none.")
    connection = connect()
    try:
        connection.register("records", table)
        expression = sql(identity_sql(describe_columns(connection, "records"), rounded=rounded))
        return np.asarray(connection.execute(f"SELECT {expression} AS found FROM records").fetchnumpy()["found"])
    finally:
        connection.close()


def describe_columns(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    """Return names and DuckDB types of the columns of a relation (a table name or a table function call)."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return [(str(name), str(kind)) for name, kind, *_ in rows]


def identity_sql(columns: Sequence[tuple[str, str]], *, rounded: bool = False) -> str:
    """Return the SQL text expression for the identity of a row: its cells in order, each in one canonical form.

    rounded: cells that differ in their form alone are equal: numbers are rounded to six digits (below 1e-6 to 0), which
    covers single precision and fewer digits in a file; capitals do not matter, nor whether the day, the month or the
    year of a date is first.

    The form of a cell depends on that cell and the declared type of the column alone, never on other rows: with a type
    that is guessed from all rows, one added record could change the identity, and so the teacher, of every other.
    """
    cells = [cell_sql(name, kind, rounded=rounded) for name, kind in columns]
    return cells[0] if len(cells) == 1 else f"concat_ws({_BETWEEN}, {', '.join(cells)})"


def cell_sql(name: str, kind: str, *, rounded: bool = False) -> str:
    """Return the SQL text expression for one cell: numbers and times by value, text without outer spaces, one sign for
    missing.
    """
    cell = quoted(name)
    if rounded:
        return f"coalesce({_alike_sql(cell, kind)}, {_MISSING})"
    if kind in _SMALL_INTEGERS or kind in _NUMBERS or kind.startswith("DECIMAL"):
        text = _number_sql(f"{cell}::DOUBLE")
    elif kind in _LARGE_INTEGERS:
        # Beyond 2**53 a floating-point number would merge neighbours.
        text = (
            f"CASE WHEN abs({cell}::HUGEINT) < {2**53} THEN {_number_sql(f'{cell}::DOUBLE')} ELSE {cell}::VARCHAR END"
        )
    elif kind == "VARCHAR" or kind.startswith("ENUM"):
        trimmed = f"nullif(trim({cell}::VARCHAR), '')"
        number = f"TRY_CAST({trimmed} AS DOUBLE)"
        text = (
            f"CASE WHEN {number} IS NULL OR (abs({number}) >= {2**53} AND regexp_full_match({trimmed}, '-?[0-9]+')) "
            f"THEN {trimmed} ELSE {_number_sql(number)} END"
        )
    elif kind == "DATE" or kind.startswith("TIMESTAMP"):
        # A day is its midnight, and text would depend on the machine's time zone; infinities have no such number.
        text = f"coalesce(TRY(epoch_us({cell}))::VARCHAR, {cell}::VARCHAR)"
    else:
        text = f"{cell}::VARCHAR"
    return f"coalesce({text}, {_MISSING})"


def keyed_digest_sql(identity: str, *, key: bytes) -> str:
    """Return the SQL text expression of the identity's HMAC-SHA256 under `key` (16 to 64 bytes), hexadecimal."""
    if not isinstance(key, bytes) or not 16 <= len(key) <= _BLOCK:
        size = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise InvalidInput(f"key must be 16 to {_BLOCK} bytes, such as new_key() gives, got {size}.")
    padded = key.ljust(_BLOCK, b"\0")
    inner = f"unhex('{bytes(byte ^ 0x36 for byte in padded).hex()}')"
    outer = f"unhex('{bytes(byte ^ 0x5C for byte in padded).hex()}')"
    return f"sha256({outer} || unhex(sha256({inner} || encode({identity}))))"


def fingerprint_sql(identity: str, relation: str, *, key: bytes, once: bool) -> str:
    """Return the SQL query for the fingerprint of a relation: four sums of parts of keyed digests, and their count.

    once: whether an identity that occurs several times counts once. The order of rows does not matter; no row is kept.
    """
    sums = ", ".join(f"sum(('0x' || substr(digest, {1 + 15 * part}, 15))::BIGINT)::VARCHAR" for part in range(4))
    digests = f"SELECT {'DISTINCT ' if once else ''}{keyed_digest_sql(identity, key=key)} AS digest FROM {relation}"
    return f"SELECT {sums}, count(*)::VARCHAR FROM ({digests})"


def fingerprint_of_identities(X: Any, users: Any = None, *, key: bytes) -> str:
    """Return a keyed fingerprint of rows in memory, in any order: the same for the same identities and key.

    X: rows, which are their own identities. users: the user of every row; then every user counts once.
    """
    once = users is not None
    table = _as_arrow(users if once else X)
    connection = connect()
    try:
        connection.register("records", table)
        identity = identity_sql(describe_columns(connection, "records"))
        rows = connection.execute(fingerprint_sql(identity, "records", key=key, once=once)).fetchall()
        return fingerprint_from(rows)
    finally:
        connection.close()


def fingerprint_from(rows: Sequence[Sequence[Any]]) -> str:
    """Return the fingerprint from the one row that `fingerprint_sql` gives."""
    return hashlib.sha256(" ".join(map(str, rows[0])).encode()).hexdigest()


def quoted(name: str) -> str:
    """Return a column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _number_sql(number: str) -> str:
    # The value's 64 bits, because digits are slow to write. Adding 0 turns -0.0 into 0.0; NaN becomes missing.
    # hex of a whole number is faster than of bytes, and lacks the zeros with which tiny numbers begin.
    return (
        f"CASE WHEN isnan({number}) THEN NULL WHEN abs({number}) < {_TINY} THEN hex(({number} + 0.0)::BIT::BLOB) "
        f"ELSE hex({number}::BIT::UBIGINT) END"
    )


def _alike_sql(cell: str, kind: str) -> str:
    """Return the SQL text expression for a cell that is the same however the cell was exported (see `identity_sql`)."""
    if kind in _SMALL_INTEGERS | _LARGE_INTEGERS | _NUMBERS or kind.startswith("DECIMAL"):
        return _rounded_sql(f"{cell}::DOUBLE")
    text = f"{cell}::VARCHAR"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return _date_sql(text)
    if kind != "VARCHAR" and not kind.startswith("ENUM"):
        return text
    folded = f"nullif(lower(trim({text})), '')"
    number = f"TRY_CAST({folded} AS DOUBLE)"
    dated = f"CASE WHEN regexp_full_match({folded}, '{_WITH_DATE}') THEN {_date_sql(folded)} ELSE {folded} END"
    return f"CASE WHEN {number} IS NULL THEN {dated} ELSE {_rounded_sql(number)} END"


def _rounded_sql(number: str) -> str:
    # All numbers alike: were whole ones written otherwise, 25 would not be 25.000000001. Near 0 no digits are kept.
    return (
        f"CASE WHEN abs({number}) < {_NEAR_ZERO} THEN '0' WHEN NOT isnan({number}) "
        f"THEN format('{{:.5e}}', {number}) END"
    )


def _date_sql(text: str) -> str:
    """Return a date as its year, its day and month in order of size, since either may be first, and its time in
    minutes.
    """
    year = f"regexp_extract({text}, '[0-9]{{4}}')"
    parts = f"regexp_extract_all(regexp_extract({text}, '^[^t ,]*'), '\\b[0-9]{{1,2}}\\b')"
    others = f"list_sort(list_transform({parts}, lambda part: part::INT))"
    minutes = f"nullif(lpad(regexp_extract({text}, '[0-9]{{1,2}}:[0-9]{{2}}'), 5, '0'), '00:00')"
    return f"concat_ws(' ', {year}, ({others})::VARCHAR, nullif({minutes}, '00000'))"


def _as_arrow(identities: Any) -> pa.Table:
    if isinstance(identities, pa.Table):
        return identities
    if isinstance(identities, pd.Series):
        identities = identities.to_frame()
    if isinstance(identities, pd.DataFrame):
        return _frame_as_arrow(identities)
    if hasattr(identities, "tocsr"):
        return pa.table({"record": _row_digests(identities.tocsr())})
    if getattr(identities, "ndim", 0) > 2:
        return pa.table({"record": list(image_digests(identities))})
    array = np.asarray(identities)
    if array.ndim == 0:
        raise InvalidInput(f"identities must have one entry per row, got {identities!r}.")
    if array.ndim > 2:
        return pa.table({"record": list(image_digests(array))})
    if array.dtype.kind not in "biuf":
        return _frame_as_arrow(pd.DataFrame(array))
    columns = array[:, None] if array.ndim == 1 else array
    return pa.table({f"c{index}": np.ascontiguousarray(columns[:, index]) for index in range(columns.shape[1])})


def _frame_as_arrow(frame: pd.DataFrame) -> pa.Table:
    arrays = []
    for index in range(frame.shape[1]):
        column = frame.iloc[:, index]
        if column.dtype == object:
            # Mixed cells (text and numbers) have no common type, so their text is compared.
            column = column.map(_text, na_action="ignore").astype("string")
        arrays.append(pa.array(column, from_pandas=True))
    return pa.table(arrays, names=[f"c{index}" for index in range(frame.shape[1])])


def image_digests(images: Any) -> Iterator[str]:
    """Yield a digest of the values of every image of an array or `Pixels`, which have too many values for a table."""
    if images.dtype.kind not in "biuf":
        raise InvalidInput(
            f"identities of {images.ndim} dimensions must be numbers, got values of type {images.dtype}."
        )
    rows = (row for some in blocks_of(images) for row in some.reshape(len(some), -1))
    return (hashlib.sha256((row.astype("<f8") + 0.0).tobytes()).hexdigest() for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _row_digests(rows: Any) -> list[str]:
    rows.sum_duplicates()
    rows.eliminate_zeros()
    values = rows.data.astype(np.float64)
    pieces = zip(np.split(rows.indices, rows.indptr[1:-1]), np.split(values, rows.indptr[1:-1]), strict=True)
    return [hashlib.sha256(places.astype("<i8").tobytes() + data.tobytes()).hexdigest() for places, data in pieces]
