"""Cells: the public rows around each representative, and estimates of the private counts in them."""

import numpy as np
from numpy.typing import NDArray

from ostrakon.votes import FloatArray, IntArray

_UNSURE = 0.5
"""Standard deviation of the private share of a cell around its public share, as a part of the latter."""


def cell_of(features: NDArray[np.float32], centres: NDArray[np.float32]) -> IntArray:
    """Return the index of the nearest centre of every row, (rows,); of equally near ones the first."""
    squares, factors = np.square(centres).sum(axis=1), np.ascontiguousarray(-2 * centres.T)

    def nearest(rows: NDArray[np.float32]) -> IntArray:
        distances = rows @ factors
        distances += squares
        return distances.argmin(axis=1)

    return np.concatenate([nearest(features[at : at + 512]) for at in range(0, len(features), 512)])


def cell_by_query(features: NDArray[np.float32], queries: IntArray) -> IntArray:
    """Return the index of the query nearest to every row, (rows,); a query is nearest to itself.

    features: (rows, features). queries: positions of the queries among the rows.
    """
    cell_index = cell_of(features, features[queries])
    cell_index[queries] = np.arange(len(queries))
    return cell_index


def cell_means(features: NDArray[np.floating], cell_index: IntArray, centres: NDArray[np.floating]) -> FloatArray:
    """Return the mean of the rows of each cell, (cells, features); the centre if a cell has no rows."""
    sums = np.zeros(centres.shape)
    np.add.at(sums, cell_index, features)
    members = np.bincount(cell_index, minlength=len(centres))
    return np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)


def likely_counts(noisy: FloatArray, sizes: IntArray, *, sigma2: float) -> FloatArray:
    """Return the nonnegative counts that are likeliest given the `noisy` ones, (cells, classes).

    sizes: public rows of each cell. sigma2: standard deviation of the Gaussian noise on every count.
    The noisy counts are projected onto nonnegative counts with the sum `likely_totals`, the maximum likelihood
    estimate. Setting negative counts to 0 would leave noise in most classes of every cell.
    Guarantee: a function of released and public numbers.

    >>> likely_counts(np.array([[9.0, 1.5, -2.5]]), np.array([4]), sigma2=1.0).round(2).tolist()
    [[7.75, 0.25, 0.0]]
    """
    sums = noisy.sum(axis=1)
    everyone, sigma = max(float(sums.sum()), 0.0), noisy.shape[1] ** 0.5 * sigma2
    return _projected(noisy, likely_totals(sums, sizes, records=everyone, sigma=sigma))


def likely_totals(totals: FloatArray, sizes: IntArray, *, records: float, sigma: float) -> FloatArray:
    """Estimate the number of records of each cell, (cells,), at least 0.

    totals: noisy numbers, (cells,). sizes: public rows of each cell. records: number of all records. sigma: standard
    deviation of the noise on a total.
    The noisy number of a cell and its share of the public rows are weighted by their inverse variances.
    Guarantee: a function of released and public numbers.
    """
    # Users may contribute to several cells.
    several = totals.sum() > records + 4 * sigma * np.sqrt(len(totals))
    everyone = max(float(totals.sum()), records) if several else records
    expected = everyone * sizes / max(int(sizes.sum()), 1)
    spread = np.maximum(expected + np.square(_UNSURE * expected), 1e-9)
    return np.maximum((expected / spread + totals / sigma**2) / (1 / spread + 1 / sigma**2), 0.0)


def shared_out(
    proba: FloatArray, cell_index: IntArray, shares: FloatArray, *, sizes: IntArray, steps: int = 5
) -> FloatArray:
    """Return class shares of every row, near `proba`, whose mean in each cell is nearly that cell's `shares`.

    proba: a model's probabilities, (rows, classes). cell_index: the cell of each row. shares: (cells, classes). sizes:
    number of rows of each cell. Iterative proportional fitting: odds ratios between rows of a cell are kept, and if
    half of a cell has one class, that class goes to the half of its rows that are most likely to have it.
    """
    fitted = np.clip(proba, 1e-4, None)
    for _ in range(steps):
        current = np.zeros(shares.shape)
        np.add.at(current, cell_index, fitted)
        fitted = fitted * (shares * sizes[:, None] / np.maximum(current, 1e-9))[cell_index]
        fitted = fitted / np.maximum(fitted.sum(axis=1, keepdims=True), 1e-12)
    return fitted


def _projected(values: FloatArray, total: FloatArray) -> FloatArray:
    """Return the nearest nonnegative numbers in each row that sum to `total` (Duchi 2008)."""
    ordered = -np.sort(-values, axis=1)
    beyond = (np.cumsum(ordered, axis=1) - total[:, None]) / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > beyond).sum(axis=1) - 1, 0)
    return np.maximum(values - beyond[np.arange(len(values)), last][:, None], 0.0)
