"""The student of several labels that learns from the answers of trained teachers: logistic regression for each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ostrakon.mechanisms import NO_ANSWER

FloatArray = NDArray[np.float64]

ANSWERS = "logistic"
"""The name of this student."""


class AnsweredLabels(ClassifierMixin, BaseEstimator):
    """A logistic regression for each label, from the rows of which the label was answered.

    Attributes
    ----------
    coef_ : array of shape (features, labels)
    intercept_ : array of shape (labels,)
    answers_ : array of int, shape (labels,)
        The number of answers on each label.
    classes_ : array of int, shape (labels,)

    Notes
    -----
    A label that has no answer is never predicted. One whose answers are all alike has the same probability for every
    row, with half an answer more on either side.

    Guarantee: a function of public rows and of released answers, so it costs no privacy.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from features X, (rows, features), and answers y, (rows, labels): 1, 0, or -1 for none."""
        scaler: Any = StandardScaler().fit(X)
        scaled, answers = np.asarray(scaler.transform(X)), np.asarray(y)
        labels = answers.shape[1]
        self.coef_, self.intercept_ = np.zeros((scaled.shape[1], labels)), np.zeros(labels)
        self.answers_ = (answers != NO_ANSWER).sum(axis=0)
        for label, column in enumerate(answers.T):
            known = column != NO_ANSWER
            if len(np.unique(column[known])) == 2:
                model = LogisticRegression(max_iter=1000).fit(scaled[known], column[known])
                self.coef_[:, label], self.intercept_[label] = model.coef_[0], model.intercept_[0]
            else:
                rate = (column[known].sum() + 0.5) / (known.sum() + 1)
                self.intercept_[label] = logit(rate) if known.any() else logit(0.01)
        self.coef_ = self.coef_ / scaler.scale_[:, None]
        self.intercept_ = self.intercept_ - scaler.mean_ @ self.coef_
        self.n_features_in_ = scaled.shape[1]
        self.classes_ = np.arange(labels)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of every label, (rows, labels)."""
        check_is_fitted(self, "coef_")
        return expit(np.asarray(X, np.float64) @ self.coef_ + self.intercept_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """0 or 1 for every label, (rows, labels)."""
        return (self.predict_proba(X) >= 0.5).astype(np.int64)
