"""The fitted student with its preprocessing of raw rows, for each kind of target, and its sets of labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ostrakon.data.quantity import Quantity
from ostrakon.export.released import ReleasedLabels, ReleasedQuantity, ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.estimates import FEWEST_QUERIES, counted_in_words
from ostrakon.run.stages.learning import Learning
from ostrakon.statements.statement import Protects, Unit
from ostrakon.students.calibration import CalibratedStudent
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.students.prediction_sets import PredictionSets, UntaughtRows, in_sets, thresholds_of
from ostrakon.students.selection import Selection

_SAMPLE = 2000
"""Number of evenly spaced public rows whose sets are measured."""


def released_student(
    plan: Plan,
    selection: Selection,
    learning: Learning,
    form: RowForm,
    *,
    classes: Sequence[Any],
    quantity: Quantity | None,
    unit: Unit,
    protects: Protects,
    counted: bool = True,
    intervals: PredictionIntervals | None = None,
) -> ReleasedStudent | ReleasedQuantity:
    """Return the student that predicts from raw rows of `form`.

    classes: labels; for a quantity, its ends. quantity: its range; None for other targets. counted: as in `Task`.
    intervals: of the estimates of a quantity, if the errors of this student were counted.
    """
    representation = None if selection.chosen.takes_rows else learning.view.representation
    if quantity is not None:
        clipped = quantity.part(plan.narrowed)
        return ReleasedQuantity(form, representation, selection.student, quantity, clipped, intervals)
    kind = ReleasedLabels if plan.target == "labels" else ReleasedStudent
    sets = _sets_of(plan, selection, learning, unit=unit, protects=protects, counted=counted)
    return kind(form, representation, selection.student, list(classes), sets)


def _sets_of(
    plan: Plan, selection: Selection, learning: Learning, *, unit: Unit, protects: Protects, counted: bool
) -> PredictionSets | None:
    """Return sets of labels of the chosen student; None with too few held-out cells, or with trained teachers."""
    released, proba, index = selection.released, selection.proba, selection.cell_index
    if released is None or proba is None or index is None or len(released.counts) < FEWEST_QUERIES:
        return None
    if plan.trained_by_owners or released.sigma2 is None:
        return None
    student = selection.student
    votes, of = counted_in_words(plan, unit=unit, protects=protects, counted=counted)
    rows = np.flatnonzero(np.isfinite(proba).all(axis=1) & (index >= 0))
    row_proba = proba[rows]
    labels = row_proba.argmax(axis=1)
    classes = np.asarray(student.classes_, np.int64)
    if isinstance(student, CalibratedStudent):
        calibrated = np.zeros_like(row_proba)
        calibrated[:, classes], positions = student.calibrated(row_proba[:, classes])
        row_proba, labels = calibrated, classes[positions]
    untaught = UntaughtRows(
        proba=row_proba, labels=labels, cell_index=index[rows], counts=released.counts, sigma2=released.sigma2
    )
    thresholds = thresholds_of(untaught, votes=votes)
    public = learning.rows(selection.chosen)
    public = take_rows(public, np.unique(np.linspace(0, row_count(public) - 1, _SAMPLE).astype(np.int64)))
    probabilities, positions = student.predict_proba(public), np.searchsorted(classes, student.predict(public))
    sizes = {
        coverage: float(in_sets(probabilities, positions, threshold).sum(axis=1).mean()) if threshold else plan.classes
        for coverage, threshold in thresholds.items()
    }
    return PredictionSets(thresholds=thresholds, sizes=sizes, of=of)
