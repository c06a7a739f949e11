"""A student of classes from what was released: candidates tried on it, the best one fitted, and calibrated."""

from dataclasses import replace

import numpy as np

from ostrakon.features.moments import MomentMap
from ostrakon.options.options import ACCURACY, BALANCED, OF_COUNTS, ORDERED
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.queries import Answers
from ostrakon.run.stages.votes import moment_map
from ostrakon.students.agreement_estimate import HeldOut
from ostrakon.students.calibration import (
    CalibratedStudent,
    agreeing_offsets,
    class_shares,
    class_sizes,
    temperature_of,
    tempered,
)
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.selection import Released, Selection, select
from ostrakon.votes import IntArray


def selected(learning: Learning, released: Released, *, classes: int) -> Selection:
    """The student that was named, or the best of several on the released answers, with calibrated probabilities."""
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
    """The selection with calibrated probabilities and, for balanced or ordered classes, with other labels.

    Probabilities change if a temperature is clearly better than none on the rows that were held out; where every
    class is to count the same, or probabilities matter, they also agree with the shares of the classes. What was held
    out then has the labels that follow from the probabilities there.
    """
    student, likely, own = selection.student, selection.proba, selection.cell_index
    if not hasattr(student, "predict_proba"):
        return selection
    # Released labels are those of most teachers, and often of clear rows alone: they do not show how often the class of
    # a row varies, and probabilities that are sharpened by them are too sure.
    inner = next((getattr(student, name) for name in ("estimator_", "machine_") if hasattr(student, name)), student)
    least = 1.0 if released.sigma2 is None and hasattr(inner, "predict_proba") else 0.0
    temperature = 1.0 if likely is None or own is None else temperature_of(likely, own, released, least=least)
    known = np.asarray(student.classes_, np.int64)
    offsets, weights = np.zeros(len(known)), None
    if learning.objective in OF_COUNTS:
        shares = class_shares(released)[known]
        shares = shares / shares.sum()
        offsets = agreeing_offsets(student.predict_proba(learning.rows(selection.chosen)), shares, temperature)
        weights = 1 / shares if learning.objective == BALANCED else None
    ordered = learning.objective == ORDERED
    if temperature == 1.0 and learning.objective == ACCURACY:
        return selection
    with_other = CalibratedStudent(student, temperature, offsets, weights, ordered=ordered)
    if weights is None and not ordered:
        return replace(selection, student=with_other)
    return replace(selection, student=with_other, out_of_fold=None, all_cells=_decided(selection, with_other))


def _decided(selection: Selection, student: CalibratedStudent) -> HeldOut | None:
    """What was held out with the labels that `student` gives to the probabilities there; None where rows lack them."""
    tested, likely, cells = selection.all_cells, selection.proba, selection.cells
    if tested is None or likely is None or cells is None or len(student.offsets) != likely.shape[1]:
        return None
    likely = tempered(likely, student.temperature, student.offsets)
    counted = cells.counted(student.decided(likely), likely.shape[1])
    return replace(tested, predicted=counted[:2], query_predictions=counted[2], mean_proba=cells.mean(likely))


def released_counts(
    learning: Learning, plan: Plan, answers: Answers, queries: IntArray, *, totals: IntArray | None = None
) -> Released:
    """The noisy counts of a run, and the noisy sums of features beside them where its mechanism releases those.

    totals: how many votes there are on each query in truth, where that is public: noisy counts are moved onto them,
    which takes the part of their noise away that their sum shows.
    """
    assert answers.counts is not None
    counts = answers.counts
    if totals is not None:
        counts = counts + ((totals - counts.sum(axis=1)) / plan.classes)[:, None]
    moments, noise, directions = None, plan.mechanism.moment_noise, moment_map(plan, learning.view, queries)
    if answers.moments is not None and noise is not None and directions is not None:
        records = plan.teachers
        if plan.levels and isinstance(directions, MomentMap):
            # Their number by level is private; the noisy sums of the constant say what they weigh together.
            records = max(1, round(float(answers.moments[0].sum()) / directions.constant))
        moments = ReleasedMoments(sums=answers.moments, sigma=noise, records=records, directions=directions)
    sigma2 = plan.mechanism.parameters()["sigma2"]
    return Released(queries=queries, counts=counts, sigma2=sigma2, moments=moments)
