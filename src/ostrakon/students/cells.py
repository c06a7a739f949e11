"""Cells: the public rows around each representative, and what the private records in them may have been."""

import numpy as np
from numpy.typing import NDArray

from ostrakon.votes import FloatArray, IntArray

_UNSURE = 0.5
"""How far the private share of a cell may be from its public share, as a standard deviation of the latter."""


def cell_of(features: NDArray[np.float32], centres: NDArray[np.float32]) -> IntArray:
    """The nearest centre of every row, (rows,); a tie goes to the earlier one."""
    squares, turned = np.square(centres).sum(axis=1), np.ascontiguousarray(-2 * centres.T)

    def nearest(rows: NDArray[np.float32]) -> IntArray:
        away = rows @ turned
        away += squares
        return away.argmin(axis=1)

    return np.concatenate([nearest(features[at : at + 512]) for at in range(0, len(features), 512)])


def cell_by_query(features: NDArray[np.float32], queries: IntArray) -> IntArray:
    """The query nearest to every row, (rows,): that of a query is its own.

    features: (rows, features). queries: positions of the queries among the rows.
    """
    own = cell_of(features, features[queries])
    own[queries] = np.arange(len(queries))
    return own


def cell_means(features: NDArray[np.floating], own: IntArray, centres: NDArray[np.floating]) -> FloatArray:
    """The mean of the rows of each cell, (cells, features); the centre itself where a cell has no rows."""
    sums = np.zeros(centres.shape)
    np.add.at(sums, own, features)
    members = np.bincount(own, minlength=len(centres))
    return np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)


def likely_counts(noisy: FloatArray, sizes: IntArray, *, sigma2: float) -> FloatArray:
    """The counts from 0 that are likeliest to have become the `noisy` ones, (cells, classes).

    sizes: public rows of each cell. sigma2: standard deviation of the Gaussian noise on every count.
    The noisy counts are projected onto the counts from 0 whose sum is `likely_totals`, which is their maximum
    likelihood. Cutting negative counts off instead would leave a sigma2 of noise in most classes of every cell.
    Guarantee: a function of released and public numbers.

    >>> likely_counts(np.array([[9.0, 1.5, -2.5]]), np.array([4]), sigma2=1.0).round(2).tolist()
    [[7.75, 0.25, 0.0]]
    """
    return _projected(noisy, likely_totals(noisy, sizes, sigma2=sigma2))


def likely_totals(noisy: FloatArray, sizes: IntArray, *, sigma2: float) -> FloatArray:
    """How many records each cell is likely to have, (cells,), at least 0.

    noisy: counts of (cells, classes). sizes: public rows of each cell. sigma2: standard deviation of the Gaussian
    noise on every count.
    The noisy sum of a cell and its share of the public rows are weighed by how far each can be trusted.
    Guarantee: a function of released and public numbers.
    """
    expected = max(float(noisy.sum()), 0.0) * sizes / max(int(sizes.sum()), 1)
    spread = np.maximum(expected + np.square(_UNSURE * expected), 1e-9)
    noise = noisy.shape[1] * sigma2**2
    return np.maximum((expected / spread + noisy.sum(axis=1) / noise) / (1 / spread + 1 / noise), 0.0)


def shared_out(
    beliefs: FloatArray, own: IntArray, shares: FloatArray, *, sizes: IntArray, steps: int = 5
) -> FloatArray:
    """Class shares of every row, near `beliefs`, whose mean in each cell is nearly that cell's `shares`.

    beliefs: a model's probabilities, (rows, classes). own: the cell of each row. shares: (cells, classes). sizes: rows
    of each cell. Iterative proportional fitting: each row keeps its odds against its neighbours of the same cell, and
    a cell that is half of one class has half of its rows for it, those that look most like it.
    """
    given = np.clip(beliefs, 1e-4, None)
    for _ in range(steps):
        current = np.zeros(shares.shape)
        np.add.at(current, own, given)
        given = given * (shares * sizes[:, None] / np.maximum(current, 1e-9))[own]
        given = given / np.maximum(given.sum(axis=1, keepdims=True), 1e-12)
    return given


def _projected(values: FloatArray, total: FloatArray) -> FloatArray:
    """The nearest numbers from 0 of each row that sum to `total` (Duchi 2008)."""
    ordered = -np.sort(-values, axis=1)
    beyond = (np.cumsum(ordered, axis=1) - total[:, None]) / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > beyond).sum(axis=1) - 1, 0)
    return np.maximum(values - beyond[np.arange(len(values)), last][:, None], 0.0)
