"""Apply a function to rows so that its result for a row depends on that row alone, to the last bit."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.progress import counted_in, working

BLOCK = 768
"""Rows per call: a multiple of the block sizes of linear algebra libraries, so that none is in an incomplete block."""
_MANY = 49_152
_DIFFERENT = 64
"""Number of distinct test rows: some functions take longer for distinct rows."""

ANY = 0
"""Number of rows per call for elementwise functions, which round in the same way in arrays of any shape."""


def independent_rows(function: Callable[[Any], Any], public: Any) -> int:
    """Return the number of rows per call of `function` at which rows do not affect each other's bits: a block, or 1.

    The rounding of linear algebra depends on the shape of an array, which is therefore always the same, and may depend
    on the position of a row, which other private rows can change. This is tested on a few public rows, again and again,
    in two orders: the order of summation does not depend on the values.
    """
    tested = np.resize(np.linspace(0, row_count(public) - 1, _DIFFERENT).astype(int), BLOCK)
    order = np.random.default_rng(0).permutation(BLOCK)
    outputs, permuted = _dense(function(take_rows(public, tested))), _dense(function(take_rows(public, tested[order])))
    return BLOCK if outputs.shape == permuted.shape and outputs[order].tobytes() == permuted.tobytes() else 1


def in_blocks(function: Callable[[Any], Any], X: Any, *, rows: int, label: str = "Computing features") -> list[Any]:
    """Return `function` of X in blocks of `rows` rows (see `independent_rows`); the last block is padded.

    rows: `ANY` for elementwise functions. label: of the progress bar.
    """
    if rows == ANY:
        blocks = (np.arange(at, min(at + _MANY, row_count(X))) for at in range(0, row_count(X), _MANY))
        return [
            function(X if len(rows_of_block) == row_count(X) else take_rows(X, rows_of_block))
            for rows_of_block in blocks
        ]
    starts = range(0, row_count(X), rows)
    blocks = (np.arange(start, min(start + rows, row_count(X))) for start in starts)
    results, done, total = [], 0, row_count(X)
    with working(label, total) as report, counted_in(lambda more, _: report(min(done + more, total), total)):
        for rows_of_block in blocks:
            results.append(function(take_rows(X, np.resize(rows_of_block, rows)))[: len(rows_of_block)])
            done += len(rows_of_block)
            report(done, total)
    return results


def row_count(X: Any) -> int:
    """Return the number of rows of an array, a sparse matrix, a frame or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Return the chosen rows of an array, a sparse matrix or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else (X[rows] if hasattr(X, "shape") else [X[i] for i in rows])


def _dense(values: Any) -> NDArray[Any]:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def row_digest(row: NDArray[Any]) -> bytes:
    """Return a checksum of the values of an array."""
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()
