"""The student of several labels: ridge regression for each from noisy sums, with thresholds at the released rates."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.labels import LabelMap
from ostrakon.students.quantity_student import cells_of_rows, weights_of_sums
from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float64]

_LEAST = 1e-3
"""Smallest probability to which the lines of `curves_of` are clipped."""
NEEDS_LABELS = "The student of several labels learns from the noisy sums of labels-gnmax, not from labels of rows."


class LabelRidge(ClassifierMixin, BaseEstimator):
    """Linear models, one for each label, with shared features and penalties, fitted without labelled rows.

    Attributes
    ----------
    coef_ : array of shape (features, labels)
        Weights of the features of `SumMap`; a row's score is about -1 (no) to 1 (yes).
    slopes_, shifts_ : array of shape (labels,)
        The probability of a label is the logistic function of its score times the slope plus the shift (`curves_of`).
    rates_ : array of shape (labels,)
        The released share of records that have each label.
    thresholds_ : array of shape (labels,)
        The probability from which a row gets each label: as many public rows get it as the released sums say.
    classes_ : array of int, shape (labels,)

    Notes
    -----
    The model is that of `QuantityRidge`, for the values -1 and 1 of each label. Where rows voted only for labels that
    they have, the sum of features over all rows, which completes them, is taken from the public rows.

    Guarantee: a function of public rows and of released sums, so it costs no privacy.
    """

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Refuse: it learns from sums."""
        raise InvalidInput(NEEDS_LABELS)

    def fit_moments(self, X: Any, released: Any) -> Self:
        """Learn from public features X, (rows, features), and `released`, a `ostrakon.students.selection.Released`.

        Errors: `InvalidInput` where its sums are not those of labels, or not finite.
        """
        moments = released.moments
        if moments is None or not isinstance(moments.directions, LabelMap):
            raise InvalidInput(NEEDS_LABELS)
        label_map = moments.directions
        votes_for, votes_against = votes_on_labels(X, released)
        sums = label_map.sums(moments.sums)
        if not (np.isfinite(sums).all() and np.isfinite(votes_for).all()):
            raise InvalidInput("The released sums must be finite.")
        rows = label_map.sum_map.unrounded(X)
        sigma = float(label_map.sums(np.full(moments.sums.shape, moments.sigma))[0, 0])
        cell_index, cells = cells_of_rows(X, released)
        sigma_of_counts, labels = float(released.sigma2), label_map.labels
        if label_map.limited:
            # Sums over rows with a label become sums over all rows, of 1 with and -1 without it.
            sums = 2 * sums - moments.records * rows.mean(axis=0)[:, None]
            totals, noise = None, (2 * sigma, 2 * sigma_of_counts)
        else:
            totals, noise = (votes_for + votes_against).sum(axis=1) / labels, (sigma, sigma_of_counts * 2**0.5)
        fit = weights_of_sums(
            rows,
            cell_index,
            cells,
            sums=sums,
            differences=votes_for - votes_against,
            totals=totals,
            noise=noise,
            noise_of_totals=sigma_of_counts * (2 / labels) ** 0.5,
            records=moments.records,
            blocks=label_map.sum_map.blocks,
            zero=-1.0 if label_map.limited else 0.0,
        )
        self.coef_, self.penalties_ = fit.weights, fit.penalties
        self.directions_ = label_map.sum_map
        self.slopes_, self.shifts_ = curves_of(rows @ self.coef_)
        self.classes_ = np.arange(labels)
        self.rates_ = released_rates(moments)
        self.thresholds_ = thresholds_of(self.predict_proba(X), self.rates_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every label, (rows, labels)."""
        check_is_fitted(self, "coef_")
        return expit(self.directions_.unrounded(X) @ self.coef_ * self.slopes_ + self.shifts_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """0 or 1 for every label, (rows, labels)."""
        return (self.predict_proba(X) >= self.thresholds_).astype(np.int64)


def votes_on_labels(X: Any, released: Any) -> tuple[FloatArray, FloatArray]:
    """Return (noisy votes for each label, votes against each), (cells, labels).

    If rows voted only for labels that they have, the number of other rows in a cell is estimated from its share of the
    public rows X, (rows, features).
    """
    label_map, counts = released.moments.directions, np.asarray(released.counts, np.float64)
    if not label_map.limited:
        return counts[:, : label_map.labels], counts[:, label_map.labels :]
    cell_index, cells = cells_of_rows(X, released)
    members = released.moments.records * np.bincount(cell_index, minlength=cells) / len(cell_index)
    return counts, members[:, None] - counts


def curves_of(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return slopes and shifts of the logistic curves nearest to (score + 1) / 2, clipped to 0 to 1, (labels,) each.

    scores: of public rows, (rows, labels). Ridge regression has linear probabilities, which leave 0 to 1 and say 0 or 1
    where they do not know. The curves rise with the score, so they change the order of no rows.

    >>> slope, shift = curves_of(np.linspace(-1, 1, 201)[:, None])
    >>> slope.round(2).tolist(), shift.round(2).tolist()
    ([2.61], [0.0])
    """
    curves = list[tuple[float, float]]()
    for column in scores.T:
        likely, model = np.clip((column + 1) / 2, _LEAST, 1 - _LEAST), LogisticRegression(C=1e3)
        yes = np.repeat([1, 0], len(column))
        model.fit(np.tile(column, 2)[:, None], yes, sample_weight=np.concatenate([likely, 1 - likely]))
        curves.append((max(float(np.ravel(model.coef_)[0]), 0.0), float(np.ravel(model.intercept_)[0])))
    slopes, shifts = np.array(curves).T
    return slopes, shifts


def released_rates(moments: Any) -> FloatArray:
    """Estimate the share of records that have each label from the noisy sums of the constant feature, (labels,).

    moments: `ostrakon.students.moment_students.ReleasedMoments` of a `LabelMap`.
    """
    label_map = moments.directions
    counted = label_map.sums(moments.sums)[0] / (moments.records * label_map.sum_map.constant)
    return np.clip(counted if label_map.limited else (counted + 1) / 2, 0, 1)


def thresholds_of(proba: FloatArray, rates: FloatArray) -> FloatArray:
    """Return, for each label, the probability that a share `rates` of the public rows reaches, (labels,).

    proba: of public rows, (rows, labels).
    """
    return np.array([_threshold(column, rate) for column, rate in zip(proba.T, rates, strict=True)])


def _threshold(proba: FloatArray, rate: float) -> float:
    """Return the probability that the share `rate` of rows reaches: between two rows, at least 0.01.

    >>> round(_threshold(np.array([0.1, 0.2, 0.6, 0.9]), 0.5), 3)
    0.4
    """
    number = round(rate * len(proba))
    ordered = np.concatenate([[1.0], np.sort(proba)[::-1], [0.0]])
    return max(float(ordered[number] + ordered[number + 1]) / 2, 0.01)
