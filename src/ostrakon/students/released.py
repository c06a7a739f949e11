"""The student as it leaves: from a raw row to a label, in one object."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class ReleasedStudent(ClassifierMixin, BaseEstimator):
    """A fitted transformer and a fitted student, with the labels that class numbers stand for. Already fitted.

    transformer: learned from public rows, or None for a student that takes rows as they are. student: predicts class
    numbers. labels: the label of each class number, in order. `classes_`: the labels that the student knows.
    """

    def __init__(self, transformer: Any, student: Any, labels: Any) -> None:
        self.transformer = transformer
        self.student = student
        self.labels = labels

    @property
    def classes_(self) -> Any:
        """Labels, in the order of `predict_proba`'s columns."""
        return np.asarray(self.labels)[np.asarray(self.student.classes_)]

    def predict(self, X: Any) -> Any:
        """The likeliest label of every raw row."""
        return np.asarray(self.labels)[np.asarray(self.student.predict(self._features(X)))]

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, (rows, len(classes_))."""
        return self.student.predict_proba(self._features(X))

    def _features(self, X: Any) -> Any:
        return X if self.transformer is None else self.transformer.transform(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True
