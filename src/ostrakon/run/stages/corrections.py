"""The correction of the fitted student, by noisy sums of its errors on private records."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ostrakon.features.corrections import worth_correcting
from ostrakon.features.moments import MomentMap
from ostrakon.features.sums import SumMap
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import released_counts
from ostrakon.run.stages.votes import moment_map
from ostrakon.students.calibration import CalibratedStudent, tempered
from ostrakon.students.corrected_student import CorrectedStudent, bounded, of_all_classes
from ostrakon.students.quantity_student import QuantityRidge
from ostrakon.students.selection import Selection
from ostrakon.teachers.corrections import ClassCorrections, CorrectionRule, QuantityCorrections
from ostrakon.validation import InvalidInput
from ostrakon.votes import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class ErrorInputs:
    """What a correction needs of a row: the student's probabilities, and the directions that are summed.

    directions: of the released sums. classes: their number. Called with a fitted student and features of rows, it
    returns (rows, classes + directions).
    """

    directions: MomentMap
    classes: int

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.classes + self.directions.directions

    def __call__(self, student: Any, X: Any) -> FloatArray:
        proba = bounded(of_all_classes(student.predict_proba(X), student.classes_, self.classes))
        return np.column_stack([proba, self.directions.unrounded(X)])


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantityInputs:
    """What a correction of the student of a quantity needs of a row: its estimate, from -1 to 1, and its features.

    features: of the released sums. Called with a fitted student and features of rows, it returns (rows, 1 + features).
    """

    features: SumMap

    @property
    def width(self) -> int:
        """Number of columns."""
        return 1 + self.features.features

    def __call__(self, student: QuantityRidge, X: Any) -> FloatArray:
        features = self.features.unrounded(X)
        # Not clipped to the range, because the correction is added before that.
        return np.column_stack([(features * student.first_coef_).sum(axis=1), features])


def correction_of(
    plan: Plan, learning: Learning, queries: IntArray, student: Any
) -> tuple[CorrectionRule, ErrorInputs | QuantityInputs]:
    """Return how records add to the corrections of a fitted student, and what is needed of them, for a plan whose
    mechanism has `correction_noise`.
    """
    if plan.target == "quantity":
        return rule_of_quantity(student)
    directions = correction_directions(plan, learning, queries)
    return rule_of_classes(directions, plan.classes)


def rule_of_classes(directions: MomentMap, classes: int) -> tuple[CorrectionRule, ErrorInputs]:
    """Return the same of a student of classes. directions: that are summed."""
    sizes: dict[str, Any] = {"directions": directions, "classes": classes}
    return ClassCorrections(**sizes), ErrorInputs(**sizes)


def rule_of_quantity(student: QuantityRidge) -> tuple[CorrectionRule, QuantityInputs]:
    """Return the same of the student of a quantity, also of one that is corrected: of its first weights."""
    features = student.directions_
    return QuantityCorrections(features=features, scale=student.error_scale_), QuantityInputs(features=features)


def correction_directions(
    plan: Plan, learning: Learning, queries: IntArray, *, directions: int | None = None
) -> MomentMap:
    """Return the directions that are summed to correct a student of classes.

    directions: number of released ones; None: before they are released. Tables may have more than sums of features do,
    because the penalty of a correction is chosen by its likelihood. Earlier versions had as many.
    Errors: `InvalidInput` for another number.
    """
    sums, noise = moment_map(plan, learning.view, queries), plan.mechanism.correction_noise
    assert isinstance(sums, MomentMap)
    assert noise is not None
    public = learning.view.public
    worth = 0 if learning.view.embedded else worth_correcting(public, records=plan.teachers, noise=noise)
    most = max(sums.linear, worth)
    if directions not in (None, 1 + most, sums.directions):
        raise InvalidInput(f"The corrections must have {1 + most} directions for these public rows, got {directions}.")
    if most > sums.linear and directions != sums.directions:
        sums = MomentMap.of(public, most=most, classes=sums.classes)
    return sums


def corrected(
    selection: Selection,
    learning: Learning,
    plan: Plan,
    answers: Answers,
    queries: IntArray,
    *,
    totals: IntArray | None = None,
    labelled: Any = None,
) -> Selection:
    """Return the selection with the corrected student, and with corrected probabilities of held-out rows.

    totals: as in `released_counts`. labelled: a student whose rule for labels the corrected one gets; None: its own.
    """
    sigma, student, classes = plan.mechanism.correction_noise, selection.student, plan.classes
    assert sigma is not None
    assert answers.corrections is not None
    released = released_counts(learning, plan, answers, queries, totals=totals)
    if plan.target == "quantity":
        better = copy(student).fit_corrections(learning.view.public, released, answers.corrections, sigma=sigma)
        return replace(selection, student=better)
    directions = correction_directions(plan, learning, queries, directions=len(answers.corrections))
    rule = student if isinstance(student, CalibratedStudent) else None
    # Without its rule for labels, which comes last.
    base = student if rule is None else CalibratedStudent(rule.student, rule.temperature, rule.offsets)
    better = CorrectedStudent(base, directions)
    better.fit_corrections(learning.view.public, released, answers.corrections, sigma=sigma)
    last = with_rule(better, student if labelled is None else labelled)
    proba = selection.proba
    if proba is not None:
        known = np.asarray(student.classes_, np.int64)
        if rule is not None:
            proba = of_all_classes(tempered(proba[:, known], rule.temperature, rule.offsets), known, classes)
        proba = better.corrected(proba, learning.view.public)
    return replace(selection, student=last, proba=proba, out_of_fold=None, all_cells=None)


def with_rule(student: CorrectedStudent, labelled: Any) -> Any:
    """Return the corrected student with the rule for labels of `labelled`."""
    if not isinstance(labelled, CalibratedStudent) or (labelled.weights is None and not labelled.ordered):
        return student
    weights, classes = labelled.weights, len(student.classes_)
    weights = None if weights is None else of_all_classes(weights[None], labelled.classes_, classes)[0]
    return CalibratedStudent(student, 1.0, np.zeros(classes), weights, ordered=labelled.ordered)
