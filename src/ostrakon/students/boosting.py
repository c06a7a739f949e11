"""Histogram boosting of weighted rows, with bins of the rows without weights."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from ostrakon.validation import InvalidInput

MOST_BINS = 32
"""Number of bins of a feature; more take time and do not help."""
WITHOUT: Any = False
"""Value of `early_stopping`: rows with class shares have no labels for a stratified validation set."""


class Boosting(HistGradientBoostingClassifier):
    """scikit-learn's histogram boosting with bins from quantiles of the rows without weights.

    scikit-learn spends most of its time on quantiles of weighted rows.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **others: Any) -> Self:
        """Learn from rows, (rows, features), their classes and weights, (rows,). others: as in scikit-learn."""
        return super().fit(quantized(X, self.max_bins), y, sample_weight=sample_weight, **others)

    def fit_shares(
        self, X: ArrayLike, shares: ArrayLike, *, classes: NDArray[Any], sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from rows with shares of two classes. shares: of the second class, from 0 to 1, (rows,).

        The loss equals that of every row as an example of both classes, each with its share of the weight, in half of
        the time; `min_samples_leaf` counts rows, not examples. Refused if no weight is above 0.
        """
        if sample_weight is not None and not (np.asarray(sample_weight) > 0).any():
            raise InvalidInput("sample_weight must be above 0 for at least one row, got none.")
        self.fit(X, np.asarray(shares, np.float64), sample_weight=sample_weight)
        self.classes_ = np.asarray(classes)
        return self

    def _bin_data(self, X: NDArray[Any], *weights: Any, **options: Any) -> Any:
        # After quantization few values are left; scikit-learn would sort all rows of every feature to find them.
        if not options["is_training_data"]:
            return super()._bin_data(X, *weights, **options)
        values, mapper = [np.unique(column[~np.isnan(column)]) for column in X.T], self._bin_mapper
        mapper.bin_thresholds_ = [(column[1:] + column[:-1]) / 2 for column in values]
        mapper.n_bins_non_missing_ = np.array([max(1, len(column)) for column in values], np.uint32)
        mapper.is_categorical_ = np.zeros(len(values), np.uint8)
        mapper.missing_values_bin_idx_ = mapper.n_bins - 1
        return mapper.transform(X)

    def _encode_y(self, y: Any) -> Any:
        # The binary loss accepts targets from 0 to 1; scikit-learn's encoding of labels does not.
        targets = np.asarray(y)
        if targets.dtype.kind != "f" or not (targets.min() >= 0 and targets.max() <= 1):
            return super()._encode_y(y)
        super()._encode_y(np.arange(2))
        return targets.astype(np.float64)


def quantized(X: ArrayLike, most: int) -> NDArray[Any]:
    """Return a copy of the rows in which features with more than `most` values take the nearest of `most` quantiles.

    >>> quantized(np.arange(8.0)[:, None], 2).ravel().tolist()
    [1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0]
    """
    rows = np.array(X, np.float64, order="F")
    for column in rows.T:
        known = np.isfinite(column)
        if len(np.unique(column[known])) > most:
            middle = (np.arange(most) + 0.5) / most
            levels = np.unique(np.quantile(column[known], middle, method="inverted_cdf"))
            column[known] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, column[known])]
    return rows
