"""What records with several labels add to votes and sums: whole steps, of a bounded joint length."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.features.sums import SumMap, rounded_product
from ostrakon.votes import STEPS, FloatArray, IntArray


def is_limited(labels: int, max_labels: int) -> bool:
    """Whether records vote for the labels that they have alone, because few of them are counted.

    A vote on each label, for or against, has the squared length `labels`, but twice the effect of a vote for it alone,
    whose squared length is at most `max_labels`. So the latter has less noise if 4 * max_labels < labels.

    >>> is_limited(20, 4), is_limited(20, 5)
    (True, False)
    """
    return 4 * max_labels < labels


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelMap:
    """From a row's features and labels to its votes, and to what it adds to sums of features by label.

    Parameters
    ----------
    directions_of : SumMap
        The features that are summed.
    labels : int
        Number of labels, at least 2.
    max_labels : int
        As of `LabelsGNMax`: `labels`, where a row votes on every label, or a smaller number. A row with more labels
        then has shorter votes, so that their joint length is at most the root of this number.

    Notes
    -----
    Guarantee: a row's contribution depends on its own features and labels alone, to the last bit. Its votes are at
    least 0, and have at most the length sqrt(max_labels) votes; what it adds to sums has at most 1/sqrt(2) of this.
    """

    directions_of: SumMap
    labels: int
    max_labels: int

    @property
    def limited(self) -> bool:
        """Whether rows vote for the labels that they have alone."""
        return self.max_labels < self.labels

    @property
    def columns(self) -> int:
        """Columns of the votes: one for each label, and if rows vote against labels, too, as many again."""
        return self.labels * (1 if self.limited else 2)

    @property
    def directions(self) -> int:
        """Rows of the released table of sums, which has `columns` columns and is filled row by row."""
        return -(-self.directions_of.features * self.labels // self.columns)

    @property
    def ends(self) -> IntArray:
        """Two sets of labels whose votes are as far apart as any, 0 or 1, (2, labels)."""
        first = np.arange(self.labels) < (self.max_labels if self.limited else 0)
        return np.stack([first, first[::-1] if self.limited else ~first]).astype(np.int64)

    def votes(self, labels: IntArray) -> IntArray:
        """The votes of rows in steps, (rows, columns): for each label, then against each. labels: 0 or 1."""
        return self._weights(labels) if self.limited else np.concatenate([labels, 1 - labels], axis=1) * STEPS

    def signs(self, labels: IntArray) -> IntArray:
        """By which a row's `SumMap.steps` are multiplied, in steps, (rows, labels)."""
        return self._weights(labels) if self.limited else (2 * labels - 1) * STEPS

    def _weights(self, labels: IntArray) -> IntArray:
        number = labels.sum(axis=1, keepdims=True)
        # Rounded down, and once more, so that no row is longer than it may be.
        shorter = np.floor(np.sqrt(self.max_labels / np.maximum(number, 1)) * STEPS * (1 - 1e-12)).astype(np.int64)
        return labels * np.where(number <= self.max_labels, STEPS, shorter)

    def steps(self, features: ArrayLike) -> IntArray:
        """As of `SumMap.steps`."""
        return self.directions_of.steps(features)

    def added(self, steps: IntArray, labels: IntArray) -> IntArray:
        """The sum of what rows add, (features, labels): their `steps` times `signs`, rounded towards 0."""
        signs = self.signs(labels)
        plain = (np.abs(signs) % STEPS == 0).all(axis=1)
        # Sums of whole numbers below 2^53 are exact in doubles, in any order.
        total = (steps[plain].T.astype(np.float64) @ (signs[plain] // STEPS)).astype(np.int64)
        for label in np.flatnonzero(signs[~plain].any(axis=0)):
            total[:, label] += rounded_product(steps[~plain], signs[~plain][:, label]).sum(axis=0)
        return total

    def table(self, sums: IntArray) -> IntArray:
        """The table, (directions, columns), of sums, (features, labels)."""
        filled = np.zeros(self.directions * self.columns, np.int64)
        filled[: sums.size] = sums.ravel()
        return filled.reshape(self.directions, self.columns)

    def sums(self, table: FloatArray) -> FloatArray:
        """The (noisy) sums, (features, labels), of a (noisy) table in votes, where a row of length 1 counts 1."""
        flat = table.ravel()[: self.directions_of.features * self.labels]
        return flat.reshape(-1, self.labels) * (STEPS / self.directions_of.longest)
