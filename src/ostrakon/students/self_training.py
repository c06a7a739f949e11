"""The self-training student: it learns from the answered queries, then from its own confident predictions."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.semi_supervised import SelfTrainingClassifier

from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.validation import InvalidInput


class SelfTrainingStudent(SklearnStudent):
    """A scikit-learn classifier that labels the public rows it is sure of and learns from them too.

    estimator: a classifier with predict_proba; default: logistic regression.
    threshold: probability above which it believes itself, in (0, 1). max_iter: rounds of believing at most.
    random_state: seeds the classifier wherever it has a random_state that is unset.

    fit(X, y) as in `SklearnStudent`; unlabelled rows (-1) are used. Same guarantee, same errors.
    Source: Yarowsky 1995, as built in scikit-learn.
    """

    def __init__(
        self, estimator: Any = None, *, threshold: float = 0.9, max_iter: int = 10, random_state: int | None = None
    ) -> None:
        super().__init__(estimator, random_state=random_state)
        self.threshold = threshold
        self.max_iter = max_iter

    def _fit(self, X: Any, labels: Any) -> Any:
        base = self._fresh()
        if not hasattr(base, "predict_proba"):
            raise InvalidInput(f"A self-training student needs a classifier with predict_proba, got {base!r}.")
        believing = SelfTrainingClassifier(base, threshold=self.threshold, max_iter=self.max_iter)
        with warnings.catch_warnings():
            # All rows may be answered: then self-training is plain training.
            warnings.filterwarnings("ignore", message="y contains no unlabeled samples")
            return believing.fit(X, labels)
