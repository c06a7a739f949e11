"""The nearest of some public points to every row: its own to the last bit, most of the way in single numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_CELLS, _EXACT_CELLS = 2**19, 2**20
"""Of rows by queries: as many fit a processor's cache, and memory where all are compared exactly."""
_UNIT, _LEAST, _MOST = 2.0**-24, 2.0**-100, 2.0**126
"""Of single numbers: half the distance from 1 to the next, and what no sum of theirs may leave on either side."""
_DIGITS = 9


def nearest(rows: ArrayLike, queries: ArrayLike) -> IntArray:
    """The position of the nearest query of every row, (rows,); a tie goes to the earlier one.

    rows: (rows, features); queries: (queries, features), at least one; finite numbers.
    Of a query q and a row x, (q·q - 2 x·q) / (largest q·q) is compared, in double numbers and summed feature by
    feature; what agrees to nine digits is a tie.
    Guarantee: where a row stands, beside which others, has no say: a matrix product of single numbers only rules out
    queries that are further away than its error can be, in whatever order it sums, and the others are compared by
    operations on each number alone.
    Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: the error of a product.
    """
    given, asked = np.asarray(rows), np.asarray(queries, np.float64)
    scale = max(float(_squares(asked).max(initial=0)), 1e-300)
    # Of queries that are alike the first is nearest.
    _, first = np.unique(asked, axis=0, return_index=True)
    kept = np.sort(first)
    search = _Search(asked[kept], scale)
    found = np.empty(len(given), np.int64)
    some = max(1, _CELLS // max(len(kept), 1))
    for at in range(0, len(given), some):
        found[at : at + some] = kept[search.places(np.asarray(given[at : at + some], np.float64))]
    return found


class _Search:
    """Different queries, (queries, features), among which the nearest are found."""

    def __init__(self, asked: FloatArray, scale: float) -> None:
        self.asked, self.scale = asked, scale
        self.squares = _squares(asked)
        with np.errstate(over="ignore"):
            self.single = np.ascontiguousarray(np.column_stack([asked, -self.squares / 2]).T, np.float32)
        self.longest = float(np.sqrt(self.squares.max(initial=0)))
        self.sound = self._keeps_the_bound(asked[:: max(1, len(asked) // 64)])

    def places(self, rows: FloatArray) -> IntArray:
        """The nearest query of every row, (rows,)."""
        # Where single numbers do not hold a row, nothing is ruled out.
        with np.errstate(over="ignore", invalid="ignore"):
            near = self._near(rows)
            largest = near.max(axis=1)
            least = largest.astype(np.float64) - 2 * self._error(rows) - self.scale * 10.0**-_DIGITS
            least = np.nextafter(least.astype(np.float32), np.float32(-np.inf))
        left = near >= least[:, None]
        left[~np.isfinite(least) | (not self.sound)] = True
        row, best = np.divmod(np.flatnonzero(left), len(self.asked))
        several = np.flatnonzero(np.bincount(row, minlength=len(rows)) != 1)
        if len(several):
            best = best[np.searchsorted(row, np.arange(len(rows)))]
        some = max(1, _EXACT_CELLS // len(self.asked))
        for at in range(0, len(several), some):
            here = several[at : at + some]
            best[here] = self._exact(rows[here], left[here]).argmin(axis=1)
        return best

    def _near(self, rows: FloatArray) -> NDArray[np.float32]:
        """About x·q - q·q / 2, (rows, queries): the larger, the nearer."""
        return np.column_stack([rows, np.ones(len(rows))]).astype(np.float32) @ self.single

    def _error(self, rows: FloatArray) -> FloatArray:
        """How far `_near` may be off, (rows,): n u sum |x||q|, and some more for what is rounded before.

        Infinite where a sum on the way might be too large for single numbers.
        """
        sizes = np.sqrt(np.einsum("rf,rf->r", rows, rows)) * self.longest + float(self.squares.max(initial=0)) / 2
        bound = 1.1 * (self.asked.shape[1] + 8) * (_UNIT * sizes + _LEAST)
        return np.where(sizes < _MOST, bound, np.inf)

    def _exact(self, rows: FloatArray, left: NDArray[np.bool_]) -> FloatArray:
        """What is compared, (rows, queries); infinite for queries that are not left."""
        row, query = np.nonzero(left)
        products = np.zeros(len(row))
        for of_row, of_query in zip(rows.T, self.asked.T, strict=True):
            products += of_row[row] * of_query[query]
        values = np.full(left.shape, np.inf)
        values[row, query] = np.round((self.squares[query] - 2 * products) / self.scale, _DIGITS)
        return values

    def _keeps_the_bound(self, rows: FloatArray) -> bool:
        """Whether this machine's products are as exact as single numbers are, tried on public rows."""
        if self.asked.shape[1] * _UNIT > 0.05:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(self._near(rows) - (rows @ self.asked.T - self.squares / 2))
            error = self._error(rows)[:, None]
            return bool(np.isfinite(self.single).all() and ((off <= error) | np.isinf(error)).all())


def _squares(points: FloatArray) -> FloatArray:
    """The square of every point's length, feature by feature."""
    summed = np.zeros(len(points))
    for column in points.T:
        summed += np.square(column)
    return summed
