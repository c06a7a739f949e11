"""Which teacher sees which record: a keyed hash of the record's own identity, so that one record changes one teacher.

The same SQL expression decides in memory and in files larger than memory, so both always agree.
"""

import hashlib
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.identity import (
    by_row,
    keyed_digest_sql,
)
from ostrakon.validation import InvalidInput, whole

KEY_BYTES = 32


def new_key() -> bytes:
    """Return a new secret key of a partition. Keep it in private/: it reveals the teacher of every record.

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
    """Return the key of a repeatable run: the same seed splits the same data in the same way.

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
    """Return the teacher of every row, which depends on the row's own identity alone.

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
    teachers = by_row(identities, lambda identity: teacher_sql(identity, n_teachers, key=key))
    return np.asarray(teachers, dtype=np.int64)


def random_partition(n: int, n_teachers: int, *, seed: int) -> NDArray[np.int64]:
    """Return a random split of a fixed array of `n` rows into shards whose sizes differ by one row at most.

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


def teacher_sql(identity: str, n_teachers: int, *, key: bytes) -> str:
    """Return the SQL integer expression: HMAC-SHA256 of the identity under `key`, modulo the number of teachers.

    60 bits of the hash are used; the bias of the modulo is below n_teachers / 2**60.
    """
    n_teachers = whole("n_teachers", n_teachers, at_least=1)
    return f"(('0x' || substr({keyed_digest_sql(identity, key=key)}, 1, 15))::BIGINT % {n_teachers})"
