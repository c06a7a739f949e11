"""Which teacher sees which record: a keyed hash of the record's own identity, so that one record changes one teacher.

The same SQL expression decides in memory and in files larger than memory, so both always agree.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ostrakon.data.images_on_disk import blocks_of
from ostrakon.validation import InvalidInput, whole

KEY_BYTES = 32
_BLOCK = 64  # SHA-256's block, to which HMAC pads its key
_MISSING = "chr(30)"
_BETWEEN = "chr(31)"
_SMALL_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
_LARGE_INTEGERS = {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"}
_NUMBERS = {"FLOAT", "DOUBLE"}
_NEAR_ZERO = 1e-6
_WITH_DATE = r"([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4})([t ,].*)?"


def new_key() -> bytes:
    """A new secret key of a partition. Keep it in private/: it reveals the teacher of every record.

    Returns
    -------
    bytes
        32 random bytes.

    Notes
    -----
    The guarantee does not depend on the key; its secrecy prevents an adversary from choosing records that all go to
    one teacher.
    """
    return secrets.token_bytes(KEY_BYTES)


def key_from_seed(seed: int) -> bytes:
    """The key of a repeatable run: the same seed splits the same data in the same way.

    Parameters
    ----------
    seed : int
        At least 0. Anybody who knows the seed knows the key.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    InvalidInput
        For anything but a whole number of at least 0.

    Examples
    --------
    >>> key_from_seed(7) == key_from_seed(7) != key_from_seed(8)
    True
    """
    seed = whole("seed", seed)
    return hashlib.sha256(b"ostrakon partition " + str(seed).encode()).digest()


def assign_teachers(identities: Any, n_teachers: int, *, key: bytes) -> NDArray[np.int64]:
    """The teacher of every row, which depends on the row's own identity alone.

    Parameters
    ----------
    identities : list, Series, DataFrame or array
        One identity per row (a list, one-dimensional array or Series of user or record numbers), or the records
        themselves (a DataFrame, or an array of two or more dimensions), whose identity is then all of their content.
    n_teachers : int
        Number of teachers, at least 1.
    key : bytes
        Secret, 16 to 64 bytes, such as `new_key()` gives.

    Returns
    -------
    array of int64, shape (rows,)
        Teachers, from 0 to n_teachers - 1.

    Raises
    ------
    InvalidInput
        For a key of another length, fewer than one teacher, and identities without rows.

    Notes
    -----
    Guarantee: adding or removing a row does not change the teacher of any other row. Rows of equal identity go to the
    same teacher: with user numbers, all rows of a user; with whole records, all duplicates. *Changing* a record whose
    content is its identity is one removal and one addition, and may affect two teachers; where a number is the
    identity, it affects one. Numbers are compared by value: 7, 7.0 and the text " 7" are one identity, up to 2**53.
    NaN, None and "" are one.

    Examples
    --------
    >>> first = assign_teachers([101, 102, 103], 10, key=bytes(32))
    >>> later = assign_teachers([101, 103], 10, key=bytes(32))
    >>> bool((first[[0, 2]] == later).all())
    True
    """
    teachers = _by_row(identities, lambda identity: teacher_sql(identity, n_teachers, key=key))
    return np.asarray(teachers, dtype=np.int64)


def identity_numbers(identities: Any) -> NDArray[np.int64]:
    """The number of every row's identity, as `assign_teachers` distinguishes them.

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
    return pd.factorize(_by_row(identities, lambda identity: identity))[0].astype(np.int64)


def row_marks(rows: Any, *, rounded: bool = False) -> NDArray[np.uint64]:
    """One mark for every row: rows of equal content, as `assign_teachers` compares it, have equal marks.

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
    return np.asarray(_by_row(rows, lambda identity: f"hash({identity})", rounded=rounded), np.uint64)


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


def _by_row(identities: Any, sql: Callable[[str], str], *, rounded: bool = False) -> NDArray[Any]:
    table = _as_arrow(identities)
    if table.num_columns == 0:
        raise InvalidInput("identities must have at least one column, got none.")
    connection = duckdb.connect()
    try:
        connection.register("records", table)
        asked = sql(identity_sql(describe_columns(connection, "records"), rounded=rounded))
        return np.asarray(connection.execute(f"SELECT {asked} AS found FROM records").fetchnumpy()["found"])
    finally:
        connection.close()


def random_partition(n: int, n_teachers: int, *, seed: int) -> NDArray[np.int64]:
    """A random split of a fixed array of `n` rows into shards whose sizes differ by one row at most.

    Parameters
    ----------
    n : int
        Number of rows, at least 1.
    n_teachers : int
        Number of teachers, from 1 to `n`.
    seed : int
        At least 0.

    Returns
    -------
    array of int64, shape (n,)
        Teachers, from 0 to n_teachers - 1.

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges.

    Notes
    -----
    Guarantee: the split depends on (n, n_teachers, seed) alone, so *replacing* the content of one row affects one
    teacher. Adding or removing a row is not covered, because it moves others: use `assign_teachers` for that.
    """
    n = whole("n", n, at_least=1)
    n_teachers = whole("n_teachers", n_teachers, at_least=1)
    if n_teachers > n:
        raise InvalidInput(f"n_teachers must be at most {n}, the number of rows, got {n_teachers}.")
    order = np.random.default_rng(whole("seed", seed)).permutation(n)
    teachers = np.empty(n, np.int64)
    teachers[order] = np.arange(n) % n_teachers
    return teachers


def describe_columns(connection: duckdb.DuckDBPyConnection, relation: str) -> list[tuple[str, str]]:
    """Names and DuckDB types of the columns of a relation (a table name or a table function call)."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return [(str(name), str(kind)) for name, kind, *_ in rows]


def identity_sql(columns: Sequence[tuple[str, str]], *, rounded: bool = False) -> str:
    """SQL text expression for the identity of a row: its cells in order, each in one canonical form.

    rounded: cells that differ in their form alone are equal: numbers are rounded to six digits (below 1e-6 to 0), which
    covers single precision and fewer digits in a file; capitals do not matter, nor whether the day, the month or the
    year of a date is first.

    The form of a cell depends on that cell and the declared type of the column alone, never on other rows: with a type
    that is guessed from all rows, one added record could change the identity, and so the teacher, of every other.
    """
    cells = [cell_sql(name, kind, rounded=rounded) for name, kind in columns]
    return cells[0] if len(cells) == 1 else f"concat_ws({_BETWEEN}, {', '.join(cells)})"


def cell_sql(name: str, kind: str, *, rounded: bool = False) -> str:
    """SQL text expression for one cell: numbers and times by value, text without outer spaces, one sign for missing."""
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


def teacher_sql(identity: str, n_teachers: int, *, key: bytes) -> str:
    """SQL integer expression: HMAC-SHA256 of the identity under `key`, modulo the number of teachers.

    60 bits of the hash are used; the bias of the modulo is below n_teachers / 2**60.
    """
    n_teachers = whole("n_teachers", n_teachers, at_least=1)
    return f"(('0x' || substr({keyed_digest_sql(identity, key=key)}, 1, 15))::BIGINT % {n_teachers})"


def keyed_digest_sql(identity: str, *, key: bytes) -> str:
    """SQL text expression: HMAC-SHA256 of the identity under `key` (16 to 64 bytes), in hexadecimal digits."""
    if not isinstance(key, bytes) or not 16 <= len(key) <= _BLOCK:
        size = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
        raise InvalidInput(f"key must be 16 to {_BLOCK} bytes, such as new_key() gives, got {size}.")
    padded = key.ljust(_BLOCK, b"\0")
    inner = f"unhex('{bytes(byte ^ 0x36 for byte in padded).hex()}')"
    outer = f"unhex('{bytes(byte ^ 0x5C for byte in padded).hex()}')"
    return f"sha256({outer} || unhex(sha256({inner} || encode({identity}))))"


def fingerprint_sql(identity: str, relation: str, *, key: bytes, once: bool) -> str:
    """SQL query for the fingerprint of a relation: four sums of parts of keyed digests, and their count.

    once: whether an identity that occurs several times counts once. The order of rows does not matter; no row is kept.
    """
    sums = ", ".join(f"sum(('0x' || substr(digest, {1 + 15 * part}, 15))::BIGINT)::VARCHAR" for part in range(4))
    digests = f"SELECT {'DISTINCT ' if once else ''}{keyed_digest_sql(identity, key=key)} AS digest FROM {relation}"
    return f"SELECT {sums}, count(*)::VARCHAR FROM ({digests})"


def fingerprint_of_identities(X: Any, users: Any = None, *, key: bytes) -> str:
    """A keyed fingerprint of rows in memory, in any order: the same for the same identities and key.

    X: rows, which are their own identities. users: the user of every row; then every user counts once.
    """
    once = users is not None
    table = _as_arrow(users if once else X)
    connection = duckdb.connect()
    try:
        connection.register("records", table)
        identity = identity_sql(describe_columns(connection, "records"))
        rows = connection.execute(fingerprint_sql(identity, "records", key=key, once=once)).fetchall()
        return fingerprint_from(rows)
    finally:
        connection.close()


def fingerprint_from(rows: Sequence[Sequence[Any]]) -> str:
    """The fingerprint from the one row that `fingerprint_sql` gives."""
    return hashlib.sha256(" ".join(map(str, rows[0])).encode()).hexdigest()


def quoted(name: str) -> str:
    """A column's name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _number_sql(number: str) -> str:
    # The value's 64 bits, because digits are slow to write. Adding 0 turns -0.0 into 0.0; NaN becomes missing.
    return f"CASE WHEN isnan({number}) THEN NULL ELSE hex(({number} + 0.0)::BIT::BLOB) END"


def _alike_sql(cell: str, kind: str) -> str:
    """SQL text expression for a cell that is the same however the cell was exported (see `identity_sql`)."""
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
    """A date as its year, its day and month in order of size, since either may be first, and its time in minutes."""
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
        return pa.table({"record": image_digests(identities)})
    array = np.asarray(identities)
    if array.ndim == 0:
        raise InvalidInput(f"identities must have one entry per row, got {identities!r}.")
    if array.ndim > 2:
        return pa.table({"record": image_digests(array)})
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


def image_digests(images: Any) -> list[str]:
    """A digest of the values of every image of an array or `Pixels`, which have too many values for a table."""
    if images.dtype.kind not in "biuf":
        raise InvalidInput(
            f"identities of {images.ndim} dimensions must be numbers, got values of type {images.dtype}."
        )
    rows = (row for some in blocks_of(images) for row in some.reshape(len(some), -1))
    return [hashlib.sha256((row.astype("<f8") + 0.0).tobytes()).hexdigest() for row in rows]


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


def adjacency(*, by: str | None = None, fixed: bool = False) -> str:
    """The sentence of a privacy statement that defines neighbouring data sets.

    by: the column of user numbers, where rows were partitioned by user. fixed: whether the number of rows (or users) is
    public, as it is after a `random_partition` or where every record is a teacher.
    """
    if by is not None and fixed:
        return (
            f"Two data sets are neighbours when they have equally many values of {by!r} and differ in all the rows of "
            "one of them, in any way."
        )
    if by is not None:
        return f"Two data sets are neighbours when they differ in all the rows of one value of {by!r}, in any way."
    if fixed:
        return "Two data sets are neighbours when they have equally many rows and differ in the content of one."
    return (
        "Two data sets are neighbours when one has one record more than the other; "
        "changing a record's content counts as removing one and adding one."
    )


def label_adjacency(*, by: str | None = None) -> str:
    """The sentence where labels alone are protected. by: the column of users, where all labels of one may differ."""
    only = "This is label differential privacy: it protects labels only; features and who is in the data are public."
    if by is not None:
        return (
            f"Two data sets are neighbours when they have the same rows, with the same features and the same {by!r}, "
            f"and differ in the labels of the rows of one value of {by!r}, in any way. {only}"
        )
    return (
        "Two data sets are neighbours when they have the same rows, with the same features, and differ in the label of "
        f"one of them. {only}"
    )


def other_adjacency(*, by: str | None = None, fixed: bool = False) -> str:
    """The sentence about the other definition of neighbours, for which the same release has another epsilon.

    Where the number of rows (or users) is public, one of them does not vote; else one is replaced, so that two teachers
    change.
    """
    one, many = ("record", "records") if by is None else (f"value of {by!r}", f"values of {by!r}")
    if fixed:
        return (
            f"Two data sets are neighbours when one of them lacks one {one} of the other, while the published number "
            f"of {many} stays the same."
        )
    if by is not None:
        return f"Two data sets are neighbours when all the rows of one {one} are exchanged for those of another one."
    return "Two data sets are neighbours when they have equally many records and differ in the content of one."
