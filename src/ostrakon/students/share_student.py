"""A classifier as the student of a quantity: its probability of the high end of the range is the estimate."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ostrakon.votes import FloatArray

HIGH = 1
"""The class of votes for the high end of a range, and for a label."""


class ShareStudent(RegressorMixin, BaseEstimator):
    """A fitted classifier of two classes, the low and the high end of a range, that estimates a quantity.

    Parameters
    ----------
    classifier : fitted classifier
        Its probability of the high end is the estimate.
    source : fitted student
        The student of sums whose estimates for the public rows it learned.

    Notes
    -----
    Guarantee: that of the source, because it learned from public rows and from estimates of that student alone.

    References
    ----------
    Hinton et al. 2015 (distillation).
    """

    def __init__(self, classifier: Any, source: Any) -> None:
        self.classifier = classifier
        self.source = source

    def predict(self, X: Any) -> FloatArray:
        """Return the quantity of every row as a share of its range, 0 to 1, (rows,)."""
        return proba_of_high(self.classifier, X)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def proba_of_high(classifier: Any, X: Any) -> FloatArray:
    """Return the probability of the class `HIGH` of every row, (rows,); 0 if the classifier lacks this class."""
    return classifier.predict_proba(X) @ is_high(classifier)


def is_high(classifier: Any) -> FloatArray:
    """Return 1 for the class `HIGH` of a classifier, 0 for its others, (classes,)."""
    return (np.asarray(classifier.classes_) == HIGH).astype(np.float64)
