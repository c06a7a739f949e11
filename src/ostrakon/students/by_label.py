"""Students of several labels of a row, one for each label."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from ostrakon.students.share_student import proba_of_high
from ostrakon.votes import FloatArray

_UNKNOWN = 0.01
"""Probability of a label without answers."""


class StudentByLabel(ClassifierMixin, BaseEstimator):
    """Fitted classifiers of two classes, without and with a label: one for each label.

    Parameters
    ----------
    students : sequence of fitted classifiers
    thresholds : array of shape (labels,)
        The probability from which a row gets each label.
    rates : array of shape (labels,), optional
        The released share of records that have each label; None if none was released.
    source : fitted student, optional
        The student of sums whose probabilities for the public rows they learned; None if they learned from answers.

    Notes
    -----
    Guarantee: that of the classifiers.
    """

    def __init__(
        self, students: Sequence[Any], thresholds: FloatArray, rates: FloatArray | None = None, source: Any = None
    ) -> None:
        self.students = students
        self.source = source
        self.thresholds = thresholds
        self.rates_ = rates

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Numbers of labels."""
        return np.arange(len(self.students))

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every label, (rows, labels)."""
        return np.column_stack([proba_of_high(student, X) for student in self.students])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 0 or 1 for every label, (rows, labels)."""
        return (self.predict_proba(X) >= self.thresholds).astype(np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def constant_student(X: Any, answers: FloatArray) -> DummyClassifier:
    """Return a student with the same probability for every row, for a label without answers or with equal answers.

    Half an answer is added to both counts. A label without answers is never predicted.

    X: features of public rows. answers: numbers of answers against the label and for it, (2,).
    """
    rate = (answers[1] + 0.5) / (answers.sum() + 1) if answers.any() else _UNKNOWN
    return DummyClassifier(strategy="prior").fit(X[:2], np.arange(2), sample_weight=np.array([1 - rate, rate]))
