"""The student of classes: candidates are compared on the released answers, the best one is fitted and calibrated."""

from dataclasses import replace
from typing import Any

import numpy as np

from ostrakon.features.moments import MomentMap
from ostrakon.options.options import BALANCED, OF_COUNTS, ORDERED
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.votes import moment_map
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.students.calibration import (
    CalibratedStudent,
    agreeing_offsets,
    class_shares,
    class_sizes,
    shares_differ,
    temperature_of,
    temperature_of_accuracy,
)
from ostrakon.students.corrected_student import CorrectedStudent
from ostrakon.students.moment_students import ReleasedMoments, records_by_row
from ostrakon.students.right_counts import RightCounts
from ostrakon.students.selection import Released, Selection, select
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray


def selected(learning: Learning, released: Released, *, classes: int) -> Selection:
    """Return the named student, or the best of several on the released answers, with calibrated probabilities."""
    candidates = learning.candidates(
        counts=released.sigma2 is not None,
        moments=released.moments is not None,
        classes=classes,
        queries=len(released.queries),
    )
    selection = select(
        candidates,
        learning.X_public,
        learning.view.public,
        released,
        # A network takes a minute: with images one part in five is held out, once.
        tried=1 if learning.sees_images and any(candidate.takes_rows for candidate in candidates) else None,
        seed=learning.seed,
    )
    return calibrated(replace(selection, sizes=class_sizes(released)), released, learning)


def calibrated(selection: Selection, released: Released, learning: Learning) -> Selection:
    """Return the selection with calibrated probabilities and, for balanced or ordered classes, other labels.

    Probabilities change if a temperature is clearly better than none on held-out rows. For balanced classes they also
    agree with the class shares, and for the log loss if the shares differ from theirs by more than the noise.
    Out-of-fold labels then follow from the out-of-fold probabilities.
    """
    student, proba, cell_index = selection.student, selection.proba, selection.cell_index
    if not hasattr(student, "predict_proba"):
        return selection
    # Released labels are majority votes, often on clear rows alone, and hide how classes vary within a row:
    # probabilities that they sharpen are overconfident.
    estimator = next((getattr(student, name) for name in ("estimator_", "machine_") if hasattr(student, name)), student)
    least = 1.0 if released.sigma2 is None and hasattr(estimator, "predict_proba") else 0.0
    temperature = (
        1.0 if proba is None or cell_index is None else temperature_of(proba, cell_index, released, least=least)
    )
    classes = np.asarray(student.classes_, np.int64)
    offsets, weights = np.zeros(len(classes)), None
    if learning.objective in OF_COUNTS:
        rows = student.predict_proba(learning.rows(selection.chosen))
        shares = class_shares(released)[classes]
        shares = shares / shares.sum()
        if learning.objective == BALANCED or shares_differ(rows, classes, released):
            offsets = agreeing_offsets(rows, shares, temperature)
        weights = 1 / shares if learning.objective == BALANCED else None
    ordered = learning.objective == ORDERED
    if temperature == 1.0 and not offsets.any() and weights is None and not ordered:
        return selection
    recalibrated = CalibratedStudent(student, temperature, offsets, weights, ordered=ordered)
    if weights is None and not ordered:
        return replace(selection, student=recalibrated)
    return replace(selection, student=recalibrated, out_of_fold=None, all_cells=_relabelled(selection, recalibrated))


def _relabelled(selection: Selection, student: CalibratedStudent) -> HeldOut | None:
    """Return out-of-fold predictions with the labels of `student` for these probabilities; None without them."""
    tested, proba, cells = selection.all_cells, selection.proba, selection.cells
    if tested is None or proba is None or cells is None or len(student.offsets) != proba.shape[1]:
        return None
    return replace(tested, predicted=cells.counted(student.calibrated(proba)[1], proba.shape[1]))


def as_sure_as_right(
    selection: Selection,
    learning: Learning,
    plan: Plan,
    answers: Answers,
    queries: IntArray,
    right: RightCounts | None,
    *,
    counted: Any = None,
) -> Selection:
    """Return the selection with probabilities that agree with noisy counts of its student's errors; labels stay.

    counted: the student whose errors were counted (`right`); None: this one. The selection is unchanged without counts,
    without public rows, and for balanced classes, whose labels are not the likeliest ones.
    """
    student = selection.student
    if right is None or learning.described or learning.objective == BALANCED or not hasattr(student, "predict_proba"):
        return selection
    weights = records_by_row(learning.view.public, released_counts(learning, plan, answers, queries), right.units)
    rows, classes, accuracy = learning.rows(selection.chosen), np.asarray(student.classes_), right.accuracy()
    labels = np.searchsorted(classes, (student if counted is None else counted).predict(rows))
    proba, offsets = student.predict_proba(rows), np.zeros(len(classes))
    temperature = temperature_of_accuracy(proba, labels, weights, share=accuracy.share, sd=accuracy.sd)
    before = student.student if isinstance(student, CorrectedStudent) else student
    if isinstance(before, CalibratedStudent) and before.offsets.any():
        offsets = agreeing_offsets(proba, None, temperature)
    return replace(selection, student=CalibratedStudent(student, temperature, offsets))


def released_counts(
    learning: Learning, plan: Plan, answers: Answers, queries: IntArray, *, totals: IntArray | None = None
) -> Released:
    """Return the noisy counts of a run, and its noisy sums of features if its mechanism releases them.

    totals: the exact number of votes on each query, if public: noisy counts are shifted to these sums, which removes a
    part of their noise.
    """
    assert answers.counts is not None
    counts = answers.counts
    if totals is not None:
        counts = counts + ((totals - counts.sum(axis=1)) / plan.classes)[:, None]
    moments, noise, directions = None, plan.mechanism.moment_noise, moment_map(plan, learning.view, queries)
    if answers.moments is not None and noise is not None and directions is not None:
        if len(answers.moments) != directions.directions:
            raise InvalidInput(
                f"The noisy sums of features must have {directions.directions} lines for these public rows, got "
                f"{len(answers.moments)}."
            )
        records = plan.teachers
        if plan.levels and isinstance(directions, MomentMap):
            # Their number by level is private; the noisy sums of the constant estimate their total weight.
            records = max(1, round(float(answers.moments[0].sum()) / directions.constant))
        moments = ReleasedMoments(sums=answers.moments, sigma=noise, records=records, directions=directions)
    sigma2 = plan.mechanism.parameters()["sigma2"]
    return Released(queries=queries, counts=counts, sigma2=sigma2, moments=moments)
