"""The student as it leaves: from a raw row to a label, several, or a quantity, in one object."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ostrakon.data.quantity import Quantity
from ostrakon.export.loader import NO_INTERVALS, NO_SETS, as_lists, interval_around, threshold_for
from ostrakon.export.row_form import RowForm
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.students.prediction_sets import PredictionSets
from ostrakon.validation import InvalidInput


@dataclass(eq=False, repr=False)
class ReleasedStudent(ClassifierMixin, BaseEstimator):
    """A student behind all that raw rows go through, with the labels that class numbers stand for. Already fitted.

    form: how raw rows are read: columns by name, in any order. representation: learned from public rows, or None for a
    student that makes its own features. student: predicts class numbers. labels: the label of each class number, in
    order. sets: what makes sets of labels; None for a student without. `classes_`: the labels that the student knows.

    Features are single numbers (as the learners saw them) handed over as doubles: what is exported computes the same.
    """

    form: RowForm
    representation: Any
    student: Any
    labels: Any
    sets: PredictionSets | None = None

    @property
    def classes_(self) -> Any:
        """Labels, in the order of `predict_proba`'s columns."""
        return np.asarray(self.labels)[np.asarray(self.student.classes_)]

    def predict(self, X: Any) -> Any:
        """Return the likeliest label of every raw row."""
        return np.asarray(self.labels)[np.asarray(self.student.predict(self._features(X)))]

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities, (rows, len(classes_))."""
        return self.student.predict_proba(self._features(X))

    def predict_sets(self, X: Any, coverage: float = 0.9) -> list[list[Any]]:
        """Return the labels of the set of every raw row; see `PATEClassifier.predict_sets`."""
        if self.sets is None:
            raise InvalidInput(NO_SETS)
        try:
            threshold = threshold_for(self.sets.thresholds, coverage)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        features, classes = self._features(X), np.asarray(self.student.classes_)
        places = np.searchsorted(classes, self.student.predict(features))
        return as_lists(self.student.predict_proba(features), places, threshold, self.classes_, self.labels)

    def _features(self, X: Any) -> Any:
        rows = self.form.read(X)
        return rows if self.representation is None else np.asarray(self.representation.transform(rows), np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class ReleasedLabels(ReleasedStudent):
    """A student of rows that may have several labels, behind all that raw rows go through. Already fitted."""

    def predict(self, X: Any) -> Any:
        """0 or 1 for every label of every raw row, (rows, labels)."""
        return self.student.predict(self._features(X))


@dataclass(eq=False, repr=False)
class ReleasedQuantity(RegressorMixin, BaseEstimator):
    """A student that estimates a quantity, behind all that raw rows go through. Already fitted.

    form, representation: as of `ReleasedStudent`. quantity: the range. clipped: the part of it to which private values
    were clipped. student: predicts shares of this part, 0 to 1. intervals: what makes intervals; None for a student
    whose errors were not counted.
    """

    form: RowForm
    representation: Any
    student: Any
    quantity: Quantity
    clipped: Quantity
    intervals: PredictionIntervals | None = None

    def predict(self, X: Any) -> Any:
        """Return the estimated quantity of every raw row, within the part of the range to which values were clipped."""
        rows = self.form.read(X)
        inputs = rows if self.representation is None else np.asarray(self.representation.transform(rows), np.float64)
        return self.clipped.values(self.student.predict(inputs))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return the lower and the upper end of the interval of every raw row; see `PATERegressor.predict_interval`."""
        if self.intervals is None:
            raise InvalidInput(NO_INTERVALS)
        try:
            half_width = threshold_for(self.intervals.half_widths, coverage)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        return interval_around(self.predict(X), half_width, self.quantity.low, self.quantity.high)

    def __sklearn_is_fitted__(self) -> bool:
        return True
