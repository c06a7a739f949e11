"""What every student has in common: labels with -1 for unlabelled, and few of them."""

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
    """`y` as integers, refused unless it has one class number or -1 per row and labels at least one row."""
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise InvalidInput(f"y must have one label per row, shape ({rows},), got {labels.shape}.")
    if labels.dtype.kind not in "iu" or (labels < UNLABELLED).any():
        raise InvalidInput("y must be class numbers from 0, with -1 for unlabelled rows.")
    if not (labels != UNLABELLED).any():
        raise InvalidInput(NOTHING_ANSWERED)
    return labels.astype(np.int64)


def of_margins(model: Any, X: Any) -> NDArray[np.float64]:
    """Probabilities of a fitted classifier that has none, (rows, len(classes_)): the softmax of its decision values.

    They are not calibrated. 0 and 1 where it has no decision value for each class either.
    """
    classes = np.asarray(model.classes_)
    values = np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else np.empty((0, 0))
    if values.ndim == 1:
        values = np.column_stack([-values, values])
    last = model[-1] if isinstance(model, Pipeline) else model
    of_pairs = len(classes) > 2 and getattr(last, "decision_function_shape", "ovr") != "ovr"
    if values.shape[1] == len(classes) and not of_pairs:
        likely: NDArray[np.float64] = softmax(values, axis=1)
        return likely
    return (np.asarray(model.predict(X))[:, None] == classes[None, :]).astype(float)


ALL_NOISE = "counts must be positive somewhere: the noise exceeds every vote."


def require_counts(queries: ArrayLike, counts: ArrayLike, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(positions among the rows, noisy counts of shape (queries, classes)), refused where they do not fit."""
    places, noisy = np.asarray(queries), np.asarray(counts, np.float64)
    if places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
        raise InvalidInput(f"queries must be positions in X, got {queries!r}.")
    if places.min() < 0 or places.max() >= rows:
        raise InvalidInput(f"queries must be positions from 0 to {rows - 1}.")
    if noisy.ndim != 2 or len(noisy) != len(places) or noisy.shape[1] < 2 or not np.isfinite(noisy).all():
        raise InvalidInput(f"counts must be finite numbers (queries, classes), got shape {noisy.shape}.")
    return places.astype(np.int64), noisy
