"""Checks of labels, with -1 for unlabelled, and of noisy counts that students learn from."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.pipeline import Pipeline

from ostrakon.validation import InvalidInput

UNLABELLED = -1
NOTHING_ANSWERED = (
    "y must label at least one row, got none: no query was answered, so lower the threshold, ask more queries or allow "
    "a larger epsilon."
)


def require_labels(y: ArrayLike, rows: int) -> NDArray[np.int64]:
    """Return `y` as integers; refuse it unless it has a class number or -1 per row and labels at least one row."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InvalidInput(f"y must have one label per row, shape ({rows},), got {labels.shape}.")
    if labels.dtype.kind not in "iu" or (labels < UNLABELLED).any():
        raise InvalidInput("y must be class numbers from 0, with -1 for unlabelled rows.")
    if not (labels != UNLABELLED).any():
        raise InvalidInput(NOTHING_ANSWERED)
    return labels.astype(np.int64)


def proba_from_margins(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the softmax of the decision values of a fitted classifier without probabilities, (rows, len(classes_)).

    It is not calibrated. 0 and 1 if the classifier does not have a decision value for each class.
    """
    classes = np.asarray(model.classes_)
    values = np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else np.empty((0, 0))
    if values.ndim == 1:
        values = np.column_stack([-values, values])
    last = model[-1] if isinstance(model, Pipeline) else model
    pairwise = len(classes) > 2 and getattr(last, "decision_function_shape", "ovr") != "ovr"
    if values.shape[1] == len(classes) and not pairwise:
        proba: NDArray[np.float64] = softmax(values, axis=1)
        return proba
    return (np.asarray(model.predict(X))[:, None] == classes[None, :]).astype(float)


ALL_NOISE = "counts must be positive somewhere: the noise exceeds every vote."


def require_counts(queries: ArrayLike, counts: ArrayLike, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (positions of queries, noisy counts of shape (queries, classes)), or refuse them."""
    positions, noisy = np.asarray(queries), np.asarray(counts, np.float64)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not len(positions):
        raise InvalidInput(f"queries must be positions in X, got {queries!r}.")
    if positions.min() < 0 or positions.max() >= rows:
        raise InvalidInput(f"queries must be positions from 0 to {rows - 1}.")
    if noisy.ndim != 2 or len(noisy) != len(positions) or noisy.shape[1] < 2 or not np.isfinite(noisy).all():
        raise InvalidInput(f"counts must be finite numbers (queries, classes), got shape {noisy.shape}.")
    return positions.astype(np.int64), noisy
