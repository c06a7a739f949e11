"""Baselines: models that learn without noise, and constant predictions."""

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
"""Values of the `MEASURES` of the target for one model."""
WITHOUT_NOISE: dict[Target, str] = {
    "classes": "gradient boosting",
    "quantity": "a random forest",
    "labels": "a random forest (with thresholds at the rates of its labels)",
}
"""Names of the models that learn without noise."""


def scores_of(public: PublicRows, actual: NDArray[Any], predicted: Any, proba: Any = None) -> Scores:
    """Return the measures of predicted classes, values or labels. proba: probabilities of labels."""
    if public.target == "classes":
        return (float(np.mean(predicted == actual)),)
    if public.target == "quantity":
        values = measures_of_quantity(predicted, actual)
        return values.r2 or 0.0, values.mean_absolute_error
    labels = measures_of_labels(proba, predicted, actual, public.classes)
    return labels.macro_f1, labels.micro_f1, 0.5 if labels.auc is None else labels.auc


def scores_of_constants(public: PublicRows, y: NDArray[Any], actual: NDArray[Any]) -> Scores:
    """Return the measures of predictions that are the same for every row: as runs print them beside the student's.

    y: of the simulated private rows.
    """
    if public.target == "classes":
        return scores_of(public, actual, np.bincount(y).argmax())
    same = np.repeat(y.mean(axis=0, keepdims=True), len(actual), axis=0)
    if public.target == "labels":
        return scores_of(public, actual, np.ones_like(actual), same)
    return scores_of(public, actual, same)[0], scores_of(public, actual, np.full(len(actual), np.median(y)))[1]


def predictions_without_noise(
    public: PublicRows, features: Any, y: NDArray[Any], test: Any, *, seed: int
) -> tuple[Any, Any]:
    """Return (predictions, probabilities of labels) of a `WITHOUT_NOISE` model; with a single class, that class."""
    # scikit-learn's 20 rows in a leaf, but fewer with few rows, so that trees can split.
    least = min(20, max(2, len(y) // 20))
    if public.target == "classes" and len(np.unique(y)) < 2:
        return y[0], None
    if public.target == "classes":
        steps: Any = {"max_iter": 40, "max_leaf_nodes": 15, "max_bins": MOST_BINS}
        model = Boosting(min_samples_leaf=least, random_state=seed, **steps)
        return model.fit(features, y).predict(test), None
    predicted = (
        RandomForestRegressor(min_samples_leaf=2, max_features=1 / 3, random_state=seed).fit(features, y).predict(test)
    )
    return (
        (predicted, None)
        if public.target == "quantity"
        else (predicted >= thresholds_of(predicted, y.mean(axis=0)), predicted)
    )
