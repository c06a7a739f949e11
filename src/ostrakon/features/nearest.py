"""The nearest query of each row, independent of other rows to the last bit, mostly in single precision."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.votes import IntArray

FloatArray = NDArray[np.float64]

_CELLS, _EXACT_CELLS = 2**19, 2**20
"""Number of pairs of rows and queries that fit into a processor's cache, and into memory in exact comparisons."""
_UNIT, _UNDERFLOW, _OVERFLOW = 2.0**-24, 2.0**-100, 2.0**126
"""Of single precision: half the distance from 1 to the next number, and bounds of the sums that are computed."""
_DIGITS = 9


def nearest(rows: ArrayLike, queries: ArrayLike) -> IntArray:
    """Return the position of the nearest query of each row, (rows,), the first of equally near ones.

    rows: (rows, features); queries: (queries, features), at least one; finite numbers. (q·q - 2 x·q) / (largest q·q) of
    a query q and a row x is compared in double precision, summed feature by feature and rounded to nine digits.
    Guarantee: the result does not depend on the position of a row or on other rows. A matrix product in single
    precision only excludes queries by more than its error, for any order of summation; the remaining queries are
    compared by elementwise operations.
    Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: the error of a product.
    """
    values, points = np.asarray(rows), np.asarray(queries, np.float64)
    distinct, search = _build_search(points.tobytes(), points.shape[1])
    positions = np.empty(len(values), np.int64)
    size = max(1, _CELLS // max(len(distinct), 1))
    for start in range(0, len(values), size):
        block = np.asarray(values[start : start + size], np.float64)
        positions[start : start + size] = distinct[search.nearest_of(block)]
    return positions


class _Search:
    """A search among distinct queries, (queries, features)."""

    def __init__(self, queries: FloatArray, scale: float) -> None:
        self.queries, self.scale = queries, scale
        self.squares = _squares(queries)
        with np.errstate(over="ignore"):
            self.single = np.ascontiguousarray(np.column_stack([queries, -self.squares / 2]).T, np.float32)
        self.max_length = float(np.sqrt(self.squares.max(initial=0)))
        self.bound_holds = self._respects_bound(queries[:: max(1, len(queries) // 64)])

    def nearest_of(self, rows: FloatArray) -> IntArray:
        """Return the nearest query of each row, (rows,)."""
        # If a row overflows in single precision, no query is excluded.
        with np.errstate(over="ignore", invalid="ignore"):
            products = self._near(rows)
            largest = products.max(axis=1)
            cutoff = largest.astype(np.float64) - 2 * self._error(rows) - self.scale * 10.0**-_DIGITS
            cutoff = np.nextafter(cutoff.astype(np.float32), np.float32(-np.inf))
        candidates = products >= cutoff[:, None]
        candidates[~np.isfinite(cutoff) | (not self.bound_holds)] = True
        row, best = np.divmod(np.flatnonzero(candidates), len(self.queries))
        undecided = np.flatnonzero(np.bincount(row, minlength=len(rows)) != 1)
        if len(undecided):
            best = best[np.searchsorted(row, np.arange(len(rows)))]
        size = max(1, _EXACT_CELLS // len(self.queries))
        for start in range(0, len(undecided), size):
            block = undecided[start : start + size]
            best[block] = self._exact(rows[block], candidates[block]).argmin(axis=1)
        return best

    def _near(self, rows: FloatArray) -> NDArray[np.float32]:
        """Return approximately x·q - q·q / 2, (rows, queries), which is larger for nearer queries."""
        return np.column_stack([rows, np.ones(len(rows))]).astype(np.float32) @ self.single

    def _error(self, rows: FloatArray) -> FloatArray:
        """Return a bound on the error of `_near`, (rows,): n u sum |x||q| plus a margin; inf if a sum may overflow."""
        sizes = np.sqrt(np.einsum("rf,rf->r", rows, rows)) * self.max_length + float(self.squares.max(initial=0)) / 2
        bound = 1.1 * (self.queries.shape[1] + 8) * (_UNIT * sizes + _UNDERFLOW)
        return np.where(sizes < _OVERFLOW, bound, np.inf)

    def _exact(self, rows: FloatArray, candidates: NDArray[np.bool_]) -> FloatArray:
        """Return the compared values, (rows, queries); inf for excluded queries."""
        row, query = np.nonzero(candidates)
        products = np.zeros(len(row))
        for of_row, of_query in zip(rows.T, self.queries.T, strict=True):
            products += of_row[row] * of_query[query]
        values = np.full(candidates.shape, np.inf)
        values[row, query] = np.round((self.squares[query] - 2 * products) / self.scale, _DIGITS)
        return values

    def _respects_bound(self, rows: FloatArray) -> bool:
        """Return whether the products of this machine respect the bound, tested on public rows."""
        if self.queries.shape[1] * _UNIT > 0.05:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(self._near(rows) - (rows @ self.queries.T - self.squares / 2))
            error = self._error(rows)[:, None]
            return bool(np.isfinite(self.single).all() and ((errors <= error) | np.isinf(error)).all())


@lru_cache(maxsize=2)
def _build_search(queries: bytes, columns: int) -> tuple[IntArray, _Search]:
    """Return (positions of the distinct queries, their search), for many blocks of private rows."""
    points = np.frombuffer(queries).reshape(-1, columns)
    scale = max(float(_squares(points).max(initial=0)), 1e-300)
    # The first of equal queries is the nearest.
    _, first = np.unique(points, axis=0, return_index=True)
    distinct = np.sort(first)
    return distinct, _Search(points[distinct], scale)


def _squares(points: FloatArray) -> FloatArray:
    """Return the squared length of each point, summed feature by feature."""
    total = np.zeros(len(points))
    for column in points.T:
        total += np.square(column)
    return total
