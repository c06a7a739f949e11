"""What plans are compared with: models that learn without noise, and always the same answer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from ostrakon.data.target import Target
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.students.boosting import MOST_BINS, Boosting
from ostrakon.students.label_student import thresholds_of
from ostrakon.students.measures import measures_of_labels, measures_of_quantity

Scores = tuple[float, ...]
"""Of one model, each of the `MEASURES` of what is predicted."""
WITHOUT_NOISE: dict[Target, str] = {
    "classes": "gradient boosting",
    "quantity": "a random forest",
    "labels": "a random forest (with thresholds at the rates of its labels)",
}
"""What plans are compared with: models that learn without noise."""


def scores_of(shown: PublicRows, right: NDArray[Any], said: Any, likely: Any = None) -> Scores:
    """The measures of what a model says. said: classes, values or labels; likely: probabilities of labels."""
    if shown.target == "classes":
        return (float(np.mean(said == right)),)
    if shown.target == "quantity":
        of_values = measures_of_quantity(said, right)
        return of_values.r2 or 0.0, of_values.mean_absolute_error
    of_labels = measures_of_labels(likely, said, right, shown.classes)
    return of_labels.macro_f1, of_labels.micro_f1, 0.5 if of_labels.auc is None else of_labels.auc


def constant_of(shown: PublicRows, y: NDArray[Any], rows: int) -> tuple[Any, Any]:
    """(what is said, probabilities of labels), the same for every row. y: of the rows that play the private side."""
    if shown.target == "classes":
        return np.bincount(y).argmax(), None
    same = np.repeat(y.mean(axis=0, keepdims=True), rows, axis=0)
    return (same, None) if shown.target == "quantity" else (np.rint(same), same)


def learned_without_noise(shown: PublicRows, seen: Any, y: NDArray[Any], test: Any, *, seed: int) -> tuple[Any, Any]:
    """The same of a model (`WITHOUT_NOISE`) that learns from features; of a single class, that class."""
    # As many rows in a leaf as scikit-learn's 20, but so few where rows are few that trees may split at all.
    least = min(20, max(2, len(y) // 20))
    if shown.target == "classes" and len(np.unique(y)) < 2:
        return y[0], None
    if shown.target == "classes":
        steps: Any = {"max_iter": 40, "max_leaf_nodes": 15, "max_bins": MOST_BINS}
        model = Boosting(min_samples_leaf=least, random_state=seed, **steps)
        return model.fit(seen, y).predict(test), None
    said = RandomForestRegressor(min_samples_leaf=2, max_features=1 / 3, random_state=seed).fit(seen, y).predict(test)
    return (said, None) if shown.target == "quantity" else (said >= thresholds_of(said, y.mean(axis=0)), said)
