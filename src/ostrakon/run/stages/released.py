"""The fitted student behind all that raw rows go through, for each kind of target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ostrakon.data.quantity import Quantity
from ostrakon.export.released import ReleasedLabels, ReleasedQuantity, ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.sets import sets_of
from ostrakon.statements.statement import Protects, Unit
from ostrakon.students.prediction_intervals import PredictionIntervals
from ostrakon.students.selection import Selection


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
    sets = sets_of(plan, selection, learning, unit=unit, protects=protects, counted=counted)
    return kind(form, seen, selection.student, list(classes), sets)
