"""Contributions of records with several labels to votes and sums: whole steps, of a bounded joint length."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.features.sums import SumMap, rounded_product
from ostrakon.votes import STEPS, FloatArray, IntArray


def is_limited(labels: int, max_labels: int) -> bool:
    """Return whether records vote only for the labels that they have, which needs less noise if few labels count.

    Votes for or against each label have the squared length `labels`, and twice the effect of votes for labels alone,
    whose squared length is at most `max_labels`. So the latter have less noise if 4 * max_labels < labels.

    >>> is_limited(20, 4), is_limited(20, 5)
    (True, False)
    """
    return 4 * max_labels < labels


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelMap:
    """The map from features and labels of a row to its votes, and to its contribution to sums of features by label.

    Parameters
    ----------
    sum_map : SumMap
        The features that are summed.
    labels : int
        Number of labels, at least 2.
    max_labels : int
        See `LabelsGNMax`: `labels` if rows vote on every label, or a smaller number. A row with more labels then has
        shorter votes, of a joint length of at most the root of this number.

    Notes
    -----
    Guarantee: a row's contribution depends on its own features and labels alone, to the last bit. Its votes are at
    least 0, of a length of at most sqrt(max_labels) votes; its contribution to sums has at most 1/sqrt(2) of this.
    """

    sum_map: SumMap
    labels: int
    max_labels: int

    @property
    def limited(self) -> bool:
        """Whether rows vote only for the labels that they have."""
        return self.max_labels < self.labels

    @property
    def columns(self) -> int:
        """Number of columns of the votes: one for each label, two if rows vote against labels."""
        return self.labels * (1 if self.limited else 2)

    @property
    def directions(self) -> int:
        """Number of rows of the released table of sums, which has `columns` columns and is filled row by row."""
        return -(-self.sum_map.features * self.labels // self.columns)

    @property
    def ends(self) -> IntArray:
        """Two sets of labels, 0 or 1, with the largest distance between their votes, (2, labels)."""
        first = np.arange(self.labels) < (self.max_labels if self.limited else 0)
        return np.stack([first, first[::-1] if self.limited else ~first]).astype(np.int64)

    def votes(self, labels: IntArray) -> IntArray:
        """Return the votes of rows in steps, (rows, columns): for each label, then against each. labels: 0 or 1."""
        return self._weights(labels) if self.limited else np.concatenate([labels, 1 - labels], axis=1) * STEPS

    def signs(self, labels: IntArray) -> IntArray:
        """Return the factors of the rows' `SumMap.steps`, in steps, (rows, labels)."""
        return self._weights(labels) if self.limited else (2 * labels - 1) * STEPS

    def _weights(self, labels: IntArray) -> IntArray:
        number = labels.sum(axis=1, keepdims=True)
        # Rounded down, with a margin, so that no row exceeds the allowed length.
        scaled = np.floor(np.sqrt(self.max_labels / np.maximum(number, 1)) * STEPS * (1 - 1e-12)).astype(np.int64)
        return labels * np.where(number <= self.max_labels, STEPS, scaled)

    def steps(self, features: ArrayLike) -> IntArray:
        """See `SumMap.steps`."""
        return self.sum_map.steps(features)

    def contributions(self, steps: IntArray, labels: IntArray) -> IntArray:
        """Return the total contribution of rows, (features, labels): `steps` times `signs`, rounded towards 0."""
        signs = self.signs(labels)
        unscaled = (np.abs(signs) % STEPS == 0).all(axis=1)
        # Sums of whole numbers below 2^53 are exact in doubles, in any order.
        total = (steps[unscaled].T.astype(np.float64) @ (signs[unscaled] // STEPS)).astype(np.int64)
        for label in np.flatnonzero(signs[~unscaled].any(axis=0)):
            total[:, label] += rounded_product(steps[~unscaled], signs[~unscaled][:, label]).sum(axis=0)
        return total

    def table(self, sums: IntArray) -> IntArray:
        """Return the table, (directions, columns), of sums, (features, labels)."""
        filled = np.zeros(self.directions * self.columns, np.int64)
        filled[: sums.size] = sums.ravel()
        return filled.reshape(self.directions, self.columns)

    def sums(self, table: FloatArray) -> FloatArray:
        """Return the sums, (features, labels), of a table in votes; a row of length 1 counts 1."""
        values = table.ravel()[: self.sum_map.features * self.labels]
        return values.reshape(-1, self.labels) * (STEPS / self.sum_map.longest)
