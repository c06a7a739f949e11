"""The nearest public point to every row, independent of other rows to the last bit, mostly in single precision."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.votes import IntArray

FloatArray = NDArray[np.float64]

_CELLS, _EXACT_CELLS = 2**19, 2**20
"""Number of pairs of rows and queries that fit into the cache of a processor, and into memory in exact comparisons."""
_UNIT, _LEAST, _MOST = 2.0**-24, 2.0**-100, 2.0**126
"""Of single numbers: half the distance from 1 to the next, and what no sum of theirs may leave on either side."""
_DIGITS = 9


def nearest(rows: ArrayLike, queries: ArrayLike) -> IntArray:
    """The position of the nearest query of every row, (rows,); a tie goes to the earlier one.

    rows: (rows, features); queries: (queries, features), at least one; finite numbers.
    Of a query q and a row x, (q·q - 2 x·q) / (largest q·q) is compared, in double numbers and summed feature by
    feature; what agrees to nine digits is a tie.
    Guarantee: the result does not depend on the position of a row or on other rows: a matrix product in single
    precision only excludes queries that are farther away than its error, in any order of summation, and the remaining
    queries are compared by elementwise operations.
    Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.1: the error of a product.
    """
    given, asked = np.asarray(rows), np.asarray(queries, np.float64)
    kept, search = _search_of(asked.tobytes(), asked.shape[1])
    positions = np.empty(len(given), np.int64)
    some = max(1, _CELLS // max(len(kept), 1))
    for at in range(0, len(given), some):
        positions[at : at + some] = kept[search.places(np.asarray(given[at : at + some], np.float64))]
    return positions


class _Search:
    """Distinct queries, (queries, features), to search."""

    def __init__(self, asked: FloatArray, scale: float) -> None:
        self.asked, self.scale = asked, scale
        self.squares = _squares(asked)
        with np.errstate(over="ignore"):
            self.single = np.ascontiguousarray(np.column_stack([asked, -self.squares / 2]).T, np.float32)
        self.longest = float(np.sqrt(self.squares.max(initial=0)))
        self.sound = self._keeps_the_bound(asked[:: max(1, len(asked) // 64)])

    def places(self, rows: FloatArray) -> IntArray:
        """The nearest query of every row, (rows,)."""
        # If a row overflows in single precision, no query is excluded.
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
        """Approximately x·q - q·q / 2, (rows, queries): larger is nearer."""
        return np.column_stack([rows, np.ones(len(rows))]).astype(np.float32) @ self.single

    def _error(self, rows: FloatArray) -> FloatArray:
        """Bound on the error of `_near`, (rows,): n u sum |x||q| and a margin; infinite where a sum might overflow."""
        sizes = np.sqrt(np.einsum("rf,rf->r", rows, rows)) * self.longest + float(self.squares.max(initial=0)) / 2
        bound = 1.1 * (self.asked.shape[1] + 8) * (_UNIT * sizes + _LEAST)
        return np.where(sizes < _MOST, bound, np.inf)

    def _exact(self, rows: FloatArray, left: NDArray[np.bool_]) -> FloatArray:
        """The compared values, (rows, queries); infinite for excluded queries."""
        row, query = np.nonzero(left)
        products = np.zeros(len(row))
        for of_row, of_query in zip(rows.T, self.asked.T, strict=True):
            products += of_row[row] * of_query[query]
        values = np.full(left.shape, np.inf)
        values[row, query] = np.round((self.squares[query] - 2 * products) / self.scale, _DIGITS)
        return values

    def _keeps_the_bound(self, rows: FloatArray) -> bool:
        """Whether the products of this machine respect the bound, tested on public rows."""
        if self.asked.shape[1] * _UNIT > 0.05:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(self._near(rows) - (rows @ self.asked.T - self.squares / 2))
            error = self._error(rows)[:, None]
            return bool(np.isfinite(self.single).all() and ((off <= error) | np.isinf(error)).all())


@lru_cache(maxsize=2)
def _search_of(queries: bytes, columns: int) -> tuple[IntArray, _Search]:
    """(positions of the different queries, their search): private rows come in many blocks, the queries stay."""
    asked = np.frombuffer(queries).reshape(-1, columns)
    scale = max(float(_squares(asked).max(initial=0)), 1e-300)
    # The first of equal queries is the nearest.
    _, first = np.unique(asked, axis=0, return_index=True)
    kept = np.sort(first)
    return kept, _Search(asked[kept], scale)


def _squares(points: FloatArray) -> FloatArray:
    """The square of every point's length, feature by feature."""
    summed = np.zeros(len(points))
    for column in points.T:
        summed += np.square(column)
    return summed
