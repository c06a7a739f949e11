"""Rows as the cells of their columns: one-hot for an additive model, and pairs of columns for the law of the rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from ostrakon.data.domain import Domain
from ostrakon.votes import STEPS, IntArray


class CellFeatures(TransformerMixin, BaseEstimator):
    """One feature for each described cell of each column: 1 in the row's own cell, else 0.

    Parameters
    ----------
    domain : Domain
        What the columns may hold; public.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def fit(self, X: Any, y: Any = None) -> "CellFeatures":
        """Learn nothing: the description says everything."""
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return float32 of shape (rows, cells of all columns) for a typed frame."""
        return one_hot(self.domain.codes(X), self.domain.sizes)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def one_hot(codes: IntArray, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Return one-hot features, (rows, sum of sizes), of cells, (rows, columns).

    >>> one_hot(np.array([[0, 2]]), [2, 3]).tolist()
    [[1.0, 0.0, 0.0, 0.0, 1.0]]
    """
    columns = np.zeros((len(codes), int(sum(sizes))), np.float32)
    columns[np.arange(len(codes))[:, None], codes + starts(sizes)] = 1
    return columns


def starts(sizes: Sequence[int]) -> IntArray:
    """Return the place of the first cell of each column among the cells of all columns."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class PairMap:
    """Counts of rows in the cells of pairs of columns, in a table with one column for each class.

    Parameters
    ----------
    sizes : tuple of int
        Number of cells of each column.
    pairs : tuple of (int, int)
        Pairs of columns that are counted; at least one.
    classes : int
        Number of columns of the table. The cells of all pairs fill its rows in turn; the last row may end with numbers
        that count nothing.

    Notes
    -----
    Guarantee: a record (or user) adds `unit` steps to one cell of each pair, so its contribution has a length of at
    most one vote, and the product of two contributions is not negative: the conditions of `MomentGNMax`.
    """

    sizes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    classes: int

    @property
    def unit(self) -> int:
        """Steps of 1/`STEPS` vote in each pair: the largest whole number whose contributions stay within one vote."""
        return math.isqrt(STEPS**2 // len(self.pairs))

    @property
    def cells(self) -> int:
        """Number of cells of all pairs."""
        return sum(self.sizes[first] * self.sizes[second] for first, second in self.pairs)

    @property
    def directions(self) -> int:
        """Number of rows of the table."""
        return -(-self.cells // self.classes)

    def codes(self, cells: IntArray) -> IntArray:
        """Return the place of each row in each pair, (rows, pairs), among the cells of all pairs."""
        shapes = [self.sizes[first] * self.sizes[second] for first, second in self.pairs]
        near, far = (np.array([pair[side] for pair in self.pairs]) for side in (0, 1))
        return cells[:, near] * np.asarray(self.sizes)[far] + cells[:, far] + starts(shapes)

    def table(self, counts: IntArray) -> IntArray:
        """Return the table, (directions, classes), in steps, of the number of units in each cell."""
        sums = np.zeros(self.directions * self.classes, np.int64)
        sums[: self.cells] = self.unit * counts
        return sums.reshape(self.directions, self.classes)

    def counts(self, sums: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the (noisy) number of units in the cells of each pair, of a (noisy) table in votes."""
        flat = sums.ravel()[: self.cells] * (STEPS / self.unit)
        shapes = [(self.sizes[first], self.sizes[second]) for first, second in self.pairs]
        parts = np.split(flat, np.cumsum([rows * columns for rows, columns in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
