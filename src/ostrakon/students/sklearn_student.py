"""A scikit-learn classifier as a student: trained on the answered queries alone, or by self-training on all rows."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.validation import check_is_fitted

from ostrakon.features.representation import seeded
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.students.labelled import UNLABELLED, proba_from_margins, require_labels
from ostrakon.validation import InvalidInput


class SklearnStudent(ClassifierMixin, BaseEstimator):
    """Any scikit-learn classifier as a student: rows labelled -1 are left out.

    Parameters
    ----------
    estimator : classifier, optional
        To clone and fit; by default logistic regression.
    random_state : int, optional
        Seeds the classifier (and its parts) wherever it has a random_state that is unset.

    Attributes
    ----------
    classes_ : array of int
        Class numbers in the released labels.
    estimator_ : classifier

    Notes
    -----
    If the answers have a single class, the student always predicts it; without any label, fit raises `InvalidInput`.

    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.

    Examples
    --------
    >>> student = SklearnStudent().fit(np.array([[0.0], [1.0], [9.0]]), np.array([0, -1, 1]))
    >>> student.predict(np.array([[8.0]]))
    array([1])
    """

    def __init__(self, estimator: Any = None, *, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> "SklearnStudent":
        """Train on the rows whose label is not -1."""
        labels = require_labels(y, row_count(X))
        self.classes_ = np.unique(labels[labels != UNLABELLED])
        self.estimator_ = None if len(self.classes_) == 1 else self._fit(X, labels)
        return self

    def _fit(self, X: Any, labels: Any) -> Any:
        rows = np.flatnonzero(labels != UNLABELLED)
        return self._seeded_estimator().fit(take_rows(X, rows), labels[rows])

    def _seeded_estimator(self) -> Any:
        estimator = LogisticRegression(max_iter=1000) if self.estimator is None else clone(self.estimator)
        return seeded(estimator, self.random_state)

    def predict(self, X: Any) -> Any:
        """Return the likeliest class number of every row, shape (rows,)."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.full(row_count(X), self.classes_[0])
        return self.estimator_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return class probabilities, shape (rows, len(classes_)), from margins if the classifier has none."""
        check_is_fitted(self, "classes_")
        if self.estimator_ is None:
            return np.ones((row_count(X), 1))
        if hasattr(self.estimator_, "predict_proba"):
            return self.estimator_.predict_proba(X)
        return proba_from_margins(self.estimator_, X)


class SelfTrainingStudent(SklearnStudent):
    """A scikit-learn classifier that labels public rows of high confidence and learns from them, too.

    Parameters
    ----------
    estimator : classifier, optional
        With predict_proba; by default logistic regression.
    threshold : float, default 0.9
        Probability above which a row is labelled, in (0, 1).
    max_iter : int, default 10
        Largest number of rounds.
    random_state : int, optional
        Seeds the classifier wherever it has a random_state that is unset.

    Notes
    -----
    Unlabelled rows (-1) are used. Guarantee: as for `SklearnStudent`.

    References
    ----------
    Yarowsky 1995, as built in scikit-learn.
    """

    def __init__(
        self, estimator: Any = None, *, threshold: float = 0.9, max_iter: int = 10, random_state: int | None = None
    ) -> None:
        super().__init__(estimator, random_state=random_state)
        self.threshold = threshold
        self.max_iter = max_iter

    def _fit(self, X: Any, labels: Any) -> Any:
        base = self._seeded_estimator()
        if not hasattr(base, "predict_proba"):
            raise InvalidInput(f"A self-training student needs a classifier with predict_proba, got {base!r}.")
        student = SelfTrainingClassifier(base, threshold=self.threshold, max_iter=self.max_iter)
        with warnings.catch_warnings():
            # If all rows are labelled, self-training is plain training.
            warnings.filterwarnings("ignore", message="y contains no unlabeled samples")
            return student.fit(X, labels)
