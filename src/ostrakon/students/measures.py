"""Measures of a student on labelled test rows, including those of rare classes."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, hamming_loss, log_loss, roc_auc_score

from ostrakon.data.quantity import rounded
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray, IntArray

BINS = 15
"""Number of equally wide ranges of confidence in the calibration error."""
_LARGE = 0.1
"""Larger calibration errors, beyond chance, cause a warning."""
_NAMED = 10
"""Largest number of classes whose recall is printed; of more, those with the lowest."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What was measured on labelled test rows.

    Parameters
    ----------
    rows : int
        Number of test rows.
    accuracy, balanced_accuracy : float in [0, 1]
        Share of rows that are predicted right; the mean of the recalls of the classes that the test rows have.
    most_frequent : float in [0, 1]
        Share of the test rows that have their most frequent class: the accuracy of always predicting it.
    recall : tuple of (str, float or None)
        For each class, its name and the share of its test rows that are predicted right; None without any.
    auc : float or None
        Area under the ROC curve. With more than two classes, the mean over one class against the rest. None if the test
        rows are all of one class.
    average_precision : float or None
        Of the class that is rarest in the test rows if there are two classes, else the mean over classes.
    precision_of : str or None
        Which class that is; None for a mean.
    log_loss : float
        Mean negative logarithm of the probability of the right class, in nats.
    calibration_error : float in [0, 1]
        Expected calibration error: the mean distance between the probability of the likeliest class and how often that
        class is right, over `BINS` equally wide ranges of the probability.
    rank_error, rank_error_of_median : float or None
        Mean number of ranks between the predicted and the right class; the same if the median class of the test rows
        were always predicted. None unless the classes are ordered.
    """

    rows: int
    accuracy: float
    balanced_accuracy: float
    most_frequent: float
    recall: tuple[tuple[str, float | None], ...]
    auc: float | None
    average_precision: float | None
    precision_of: str | None
    log_loss: float
    calibration_error: float
    rank_error: float | None = None
    rank_error_of_median: float | None = None

    @property
    def caution(self) -> str:
        """A warning of a large calibration error, in words; empty without one.

        A student whose calibration error is not large gets one in at most one of twenty samples of test rows, if these
        are independent (many rows of few users are not): chance adds sqrt(BINS / rows) / 2 at most to the mean
        (Jensen), and 1.22 / sqrt(rows) in one sample (McDiarmid 1989).
        """
        chance = (BINS**0.5 / 2 + (math.log(20) / 2) ** 0.5) / self.rows**0.5
        if self.calibration_error <= _LARGE + chance:
            return ""
        off = f"differ from how often it is right by {100 * self.calibration_error:.1f} points on average"
        return f"the student's probabilities {off}: use its classes, but not its probabilities"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `recall` by class."""
        return {**asdict(self), "recall": dict(self.recall)}

    def in_words(self) -> dict[str, str]:
        """Return the printed form of each measure except the accuracy, by name."""
        recalls = [(name, share) for name, share in self.recall if share is not None]
        shown = recalls if len(recalls) <= _NAMED else sorted(recalls, key=lambda entry: entry[1])[:_NAMED]
        recall = ", ".join(f"{name!r} {share:.1%}" for name, share in shown)
        absent = [name for name, share in self.recall if share is None]
        of = "" if self.precision_of is None else f" of {self.precision_of!r}"
        ranks = {}
        if self.rank_error is not None:
            ranks = {"Mean rank error": f"{self.rank_error:.3f} (always the median: {self.rank_error_of_median:.3f})"}
        return {
            **ranks,
            "Balanced accuracy": f"{self.balanced_accuracy:.1%}",
            "Recall by class": recall
            + ("" if len(shown) == len(recalls) else f" (the lowest of {len(recalls)})")
            + (f" (no test rows of {', '.join(absent[:_NAMED])})" if absent else ""),
            "AUC": _number(self.auc),
            "Average precision": _number(self.average_precision) + of,
            "Log loss": f"{self.log_loss:.3f}",
            "Calibration error": f"{self.calibration_error:.1%}",
        }


@dataclass(frozen=True, kw_only=True)
class QuantityMeasures:
    """What was measured of estimates of a quantity on test rows.

    Parameters
    ----------
    rows : int
        Number of test rows.
    r2 : float or None
        Share of the variance that is explained, at most 1, below 0 if the mean of the test rows would do better; None
        if all of them have one value.
    mean_absolute_error : float
        In the unit of the quantity.
    mean_absolute_deviation : float
        The same of the median of the test rows, the best constant.
    """

    rows: int
    r2: float | None
    mean_absolute_error: float
    mean_absolute_deviation: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def in_words(self) -> dict[str, str]:
        """Return the printed form of each measure, by name."""
        error, deviation = self.mean_absolute_error, self.mean_absolute_deviation
        useless = " (not better than always the mean)" if self.r2 is not None and self.r2 <= 0 else ""
        return {
            "R2": _number(self.r2) + useless,
            "Mean absolute error": f"{rounded(error)} (always the median: {rounded(deviation)})",
        }


def measures_of_quantity(estimated: ArrayLike, y: ArrayLike) -> QuantityMeasures:
    """Measure estimates against the values `y` of test rows, both (rows,).

    >>> measures_of_quantity([1.0, 2.0, 4.0, 8.0], [1.0, 2.0, 2.0, 9.0]).in_words()
    {'R2': '0.878', 'Mean absolute error': '0.75 (always the median: 2)'}
    """
    actual, estimates = np.asarray(y, np.float64), np.asarray(estimated, np.float64)
    if not np.isfinite(estimates).all():
        raise InvalidInput("The student's estimates must be finite numbers.")
    spread = float(np.square(actual - actual.mean()).sum())
    return QuantityMeasures(
        rows=len(actual),
        r2=1 - float(np.square(actual - estimates).sum()) / spread if spread > 0 else None,
        mean_absolute_error=float(np.abs(actual - estimates).mean()),
        mean_absolute_deviation=float(np.abs(actual - np.median(actual)).mean()),
    )


@dataclass(frozen=True, kw_only=True)
class LabelMeasures:
    """What was measured on test rows that may have several labels.

    Parameters
    ----------
    rows : int
        Number of test rows.
    macro_f1, micro_f1 : float in [0, 1]
        The mean of the F1 of all labels; the F1 of all (row, label) pairs together.
    subset_accuracy, hamming_loss : float in [0, 1]
        Share of rows of which every label is right; share of pairs that are wrong.
    auc : float or None
        The mean of the areas under the ROC curves of the labels that some test rows have and others do not.
    log_loss : float
        The mean of the log losses of all labels.
    macro_f1_of_all, micro_f1_of_all : float in [0, 1]
        The same of a model that gives every label to every row.
    by_label : tuple of (str, float, float or None)
        For each label, its name, its F1 and its AUC.
    """

    rows: int
    macro_f1: float
    micro_f1: float
    subset_accuracy: float
    hamming_loss: float
    auc: float | None
    log_loss: float
    macro_f1_of_all: float
    micro_f1_of_all: float
    by_label: tuple[tuple[str, float, float | None], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `by_label` by name."""
        return {**asdict(self), "by_label": {name: {"f1": f1, "auc": auc} for name, f1, auc in self.by_label}}

    def in_words(self) -> dict[str, str]:
        """Return the printed form of each measure, by name."""
        ranked = self.by_label if len(self.by_label) <= _NAMED else sorted(self.by_label, key=_area)[:_NAMED]
        areas = ", ".join(f"{name} {_number(auc)}" for name, _, auc in ranked)
        return {
            "Macro F1": f"{self.macro_f1:.3f} (always every label: {self.macro_f1_of_all:.3f})",
            "Micro F1": f"{self.micro_f1:.3f} (always every label: {self.micro_f1_of_all:.3f})",
            "All labels right": f"{self.subset_accuracy:.1%} of rows",
            "Hamming loss": f"{self.hamming_loss:.3f}",
            "AUC": _number(self.auc),
            "Log loss": f"{self.log_loss:.3f}",
            "AUC by label": areas + ("" if len(ranked) == len(self.by_label) else " (the lowest)"),
        }


def _area(one: tuple[str, float, float | None]) -> float:
    return 1.0 if one[2] is None else one[2]


def measures_of_labels(likely: FloatArray, predicted: ArrayLike, y: ArrayLike, names: Sequence[Any]) -> LabelMeasures:
    """Measure probabilities and predictions of labels against `y`, all (rows, labels).

    >>> y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    >>> measures_of_labels(y * 0.5, [[1, 0], [0, 1], [1, 0], [0, 0]], y, ["a", "b"]).in_words()["Macro F1"]
    '0.833 (always every label: 0.667)'
    """
    right, said = np.asarray(y, np.int64), np.asarray(predicted, np.int64)

    def f1(average: Any, given: IntArray = said) -> Any:
        # The F1 of a label without rows or predictions is 0.
        settings: dict[str, Any] = {"average": average, "zero_division": 0}
        return f1_score(right, given, **settings)

    scores: FloatArray = f1(None)
    losses = [log_loss(right[:, at], likely[:, at], labels=[0, 1]) for at in range(right.shape[1])]
    mixed = (right.min(axis=0) == 0) & (right.max(axis=0) == 1)
    areas = [float(roc_auc_score(right[:, at], likely[:, at])) if mixed[at] else None for at in range(right.shape[1])]
    values = [area for area in areas if area is not None]
    return LabelMeasures(
        rows=len(right),
        macro_f1=float(scores.mean()),
        micro_f1=float(f1("micro")),
        subset_accuracy=float(accuracy_score(right, said)),
        hamming_loss=float(hamming_loss(right, said)),
        auc=float(np.mean(values)) if values else None,
        log_loss=float(np.mean(losses)),
        macro_f1_of_all=float(f1("macro", np.ones_like(right))),
        micro_f1_of_all=float(f1("micro", np.ones_like(right))),
        by_label=tuple((str(name), float(score), area) for name, score, area in zip(names, scores, areas, strict=True)),
    )


AnyMeasures = Measures | LabelMeasures | QuantityMeasures
"""Measures of a student of classes, of several labels or of a quantity."""


def measure_student(student: Any, X: Any, y: ArrayLike, classes: Sequence[Any], *, ordered: bool = False) -> Measures:
    """Measure a student that predicts class numbers on rows whose class numbers are `y`.

    Parameters
    ----------
    student : fitted classifier
        Has `predict`, `predict_proba` and `classes_`, in class numbers.
    X : array or frame
        Test rows as the student takes them.
    y : array of int, shape (rows,)
        Numbers of their classes, from 0.
    classes : sequence
        Names of all classes.
    ordered : bool
        Whether they stand in their order, so that ranks are measured.

    Notes
    -----
    A row whose probabilities are not finite counts as if all classes were equally likely.
    """
    likely = np.zeros((len(np.asarray(y)), len(classes)))
    likely[:, np.asarray(student.classes_, np.int64)] = student.predict_proba(X)
    return measures_of(likely, np.asarray(student.predict(X), np.int64), y, classes, ordered=ordered)


def measures_of(
    likely: FloatArray, predicted: ArrayLike, y: ArrayLike, classes: Sequence[Any], *, ordered: bool = False
) -> Measures:
    """Measure probabilities (rows, classes) and predicted class numbers (rows,) against `y`; see `measure_student`.

    >>> found = measures_of(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), [0, 1, 0], [0, 1, 1], ["no", "yes"])
    >>> found.recall, found.auc, round(found.calibration_error, 3)
    ((('no', 1.0), ('yes', 0.5)), 1.0, 0.4)
    """
    right, said = np.asarray(y, np.int64), np.asarray(predicted, np.int64)
    # Probabilities that are not finite, such as from the centroid of a class without rows, count as chance.
    known = np.isfinite(likely).all(axis=1) & (likely.sum(axis=1) > 0)
    likely = np.where(known[:, None], likely, 1.0)
    likely = likely / likely.sum(axis=1, keepdims=True)
    numbers = np.arange(len(classes))
    present = np.bincount(right, minlength=len(classes))
    recalls = np.bincount(right[said == right], minlength=len(classes)) / np.maximum(present, 1)
    ranked = np.flatnonzero((present > 0) & (present < len(right)))
    # With two classes the rarer one; with more, each class against the others.
    ranked = ranked[present[ranked].argmin()][None] if len(classes) == 2 and len(ranked) else ranked
    areas = [float(roc_auc_score(right == one, likely[:, one])) for one in ranked]
    precisions = [float(average_precision_score(right == one, likely[:, one])) for one in ranked]
    return Measures(
        rows=len(right),
        accuracy=float(np.mean(said == right)),
        balanced_accuracy=float(np.mean(recalls[present > 0])),
        most_frequent=float(present.max() / len(right)),
        recall=tuple(
            (str(name), float(share) if rows else None)
            for name, share, rows in zip(classes, recalls, present, strict=True)
        ),
        auc=float(np.mean(areas)) if areas else None,
        average_precision=float(np.mean(precisions)) if precisions else None,
        precision_of=str(classes[int(ranked[0])]) if len(classes) == 2 and len(ranked) else None,
        log_loss=float(log_loss(right, likely, labels=numbers)),
        calibration_error=calibration_error(likely, right),
        rank_error=float(np.abs(right - said).mean()) if ordered else None,
        rank_error_of_median=float(np.abs(right - np.median(right)).mean()) if ordered else None,
    )


def calibration_error(likely: FloatArray, y: ArrayLike) -> float:
    """Return the expected calibration error of probabilities (rows, classes), see `Measures`."""
    confidence = likely.max(axis=1)
    gap = confidence - (likely.argmax(axis=1) == np.asarray(y))
    ranges = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(ranges, gap)).sum() / len(confidence))


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
