"""The fitted student behind all that raw rows go through, for each kind of target, with its sets of labels."""

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
from ostrakon.students.calibration import CalibratedStudent, tempered
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.students.prediction_sets import PredictionSets, UntaughtRows, in_sets, thresholds_of
from ostrakon.students.selection import Selection

_SIZED = 2000
"""Public rows, of all of them evenly, whose sets are counted."""


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
    """The student that predicts from raw rows of `form`.

    classes: labels; of a quantity, its ends. quantity: its range; None for other targets. counted: as of `Task`.
    intervals: of the estimates of a quantity, if the errors of this student were counted.
    """
    seen = None if selection.chosen.takes_rows else learning.view.representation
    if quantity is not None:
        return ReleasedQuantity(form, seen, selection.student, quantity, intervals)
    kind = ReleasedLabels if plan.target == "labels" else ReleasedStudent
    sets = _sets_of(plan, selection, learning, unit=unit, protects=protects, counted=counted)
    return kind(form, seen, selection.student, list(classes), sets)


def _sets_of(
    plan: Plan, selection: Selection, learning: Learning, *, unit: Unit, protects: Protects, counted: bool
) -> PredictionSets | None:
    """Sets of labels of the chosen student; None if nothing was held out, too few cells, or teachers were trained."""
    released, likely, index = selection.released, selection.proba, selection.cell_index
    if released is None or likely is None or index is None or len(released.counts) < FEWEST_QUERIES:
        return None
    if plan.trained or released.sigma2 is None:
        return None
    student = selection.student
    votes, of = counted_in_words(plan, unit=unit, protects=protects, counted=counted)
    rows = np.flatnonzero(np.isfinite(likely).all(axis=1) & (index >= 0))
    said = likely[rows]
    labels = said.argmax(axis=1)
    known = np.asarray(student.classes_, np.int64)
    if isinstance(student, CalibratedStudent):
        calibrated = np.zeros_like(said)
        calibrated[:, known] = tempered(said[:, known], student.temperature, student.offsets)
        said, labels = calibrated, known[student.decided(calibrated[:, known])]
    untaught = UntaughtRows(
        proba=said, labels=labels, cell_index=index[rows], counts=released.counts, sigma2=released.sigma2
    )
    thresholds = thresholds_of(untaught, votes=votes)
    public = learning.rows(selection.chosen)
    public = take_rows(public, np.unique(np.linspace(0, row_count(public) - 1, _SIZED).astype(np.int64)))
    probabilities, places = student.predict_proba(public), np.searchsorted(known, student.predict(public))
    sizes = {
        coverage: float(in_sets(probabilities, places, threshold).sum(axis=1).mean()) if threshold else plan.classes
        for coverage, threshold in thresholds.items()
    }
    return PredictionSets(thresholds=thresholds, sizes=sizes, of=of)
