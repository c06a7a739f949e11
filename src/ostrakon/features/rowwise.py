"""A function of rows, applied so that what it makes of a row is that row's own to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A multiple of the widths in which linear algebra takes rows, so that none of them is at an edge.
_BLOCK = 768
_MANY = 49_152

ANY = 0
"""Rows at once for a function of operations on each number alone, which are rounded alike in arrays of any shape."""


def own_rows(function: Callable[[Any], Any], public: Any) -> int:
    """How many rows may go through `function` at once without a say in each other's last bits: a block, or 1.

    Linear algebra rounds by the shape of an array, which is therefore always the same, and may round by a row's place
    in it, to which private rows would push each other. Whether it does is tried on public rows in two orders: the
    order of the sums is not decided by the numbers.
    """
    some = np.resize(np.arange(row_count(public)), _BLOCK)
    order = np.random.default_rng(0).permutation(_BLOCK)
    here, there = _dense(function(take_rows(public, some))), _dense(function(take_rows(public, some[order])))
    return _BLOCK if here.shape == there.shape and here[order].tobytes() == there.tobytes() else 1


def in_blocks(function: Callable[[Any], Any], X: Any, *, rows: int) -> list[Any]:
    """`function` of X, `rows` rows at a time (see `own_rows`); the last block is filled up, and cut off again.

    rows: `ANY` where no row can have a say in another's.
    """
    if rows == ANY:
        places = (np.arange(at, min(at + _MANY, row_count(X))) for at in range(0, row_count(X), _MANY))
        return [function(X if len(here) == row_count(X) else take_rows(X, here)) for here in places]
    starts = range(0, row_count(X), rows)
    places = (np.arange(start, min(start + rows, row_count(X))) for start in starts)
    return [function(take_rows(X, np.resize(here, rows)))[: len(here)] for here in places]


def row_count(X: Any) -> int:
    """Number of rows of an array, a sparse matrix, a frame or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """The chosen rows of an array, a sparse matrix or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else (X[rows] if hasattr(X, "shape") else [X[i] for i in rows])


def _dense(made: Any) -> NDArray[Any]:
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made)
