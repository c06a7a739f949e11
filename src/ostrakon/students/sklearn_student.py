"""The plain student: any scikit-learn classifier, trained on the answered queries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.students.labelled import UNLABELLED, of_margins, require_labels, seeded


class SklearnStudent(ClassifierMixin, BaseEstimator):
    """Any scikit-learn classifier as a student: rows labelled -1 are left out.

    estimator: the classifier to clone and fit; default: logistic regression.
    random_state: seeds the classifier (and its parts) wherever it has a random_state that is unset.

    fit(X, y): X as the classifier takes it, y integers of shape (rows,), -1 for unlabelled. Where the answers hold
    one class alone, the student always says that class. Fitted: `classes_` (class numbers seen), `estimator_`.
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    Errors: `InvalidInput` where no row is labelled.

    >>> student = SklearnStudent().fit(np.array([[0.0], [1.0], [9.0]]), np.array([0, -1, 1]))
    >>> student.predict(np.array([[8.0]]))
    array([1])
    """

    def __init__(self, estimator: Any = None, *, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> SklearnStudent:
        """Train on the rows whose label is not -1."""
        labels = require_labels(y, row_count(X))
        self.classes_ = np.unique(labels[labels != UNLABELLED])
        self.estimator_ = None if len(self.classes_) == 1 else self._fit(X, labels)
        return self

    def _fit(self, X: Any, labels: Any) -> Any:
        rows = np.flatnonzero(labels != UNLABELLED)
        return self._fresh().fit(take_rows(X, rows), labels[rows])

    def _fresh(self) -> Any:
        estimator = LogisticRegression(max_iter=1000) if self.estimator is None else clone(self.estimator)
        return seeded(estimator, self.random_state)

    def predict(self, X: Any) -> Any:
        """The likeliest class number of every row, shape (rows,)."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.full(row_count(X), self.classes_[0])
        return self.estimator_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, shape (rows, len(classes_)); of a classifier that has none, `of_margins`."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.ones((row_count(X), 1))
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(X)
        return of_margins(self.estimator_, X)
