"""From the votes to the released answers, and from those to a fitted student."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ostrakon.features.cells import CellFeatures
from ostrakon.features.moments import MomentMap
from ostrakon.features.rowwise import take_rows
from ostrakon.mechanisms import NO_ANSWER, LabelsGNMax, QuantityGNMax
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import ACCURACY, BALANCED, OF_COUNTS, ORDERED
from ostrakon.planning.plan import Plan
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.queries import Answers, ask
from ostrakon.run.stages.votes import moment_map, pair_map
from ostrakon.students.additive import ADDITIVE, AdditiveLogistic
from ostrakon.students.answered_labels import ANSWERS, AnsweredLabels
from ostrakon.students.calibration import (
    CalibratedStudent,
    agreeing_offsets,
    class_shares,
    class_totals,
    temperature_of,
)
from ostrakon.students.label_student import LabelRidge
from ostrakon.students.labelled import NOTHING_ANSWERED
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Released, Selection, select
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

GATE_REFUSED = (
    "The gate must find that the teachers agree, and it did not: nothing is released, and the refusal itself has cost "
    "its epsilon; take the worst case, which needs no agreement, or data on which teachers agree."
)


def answer_queries(
    plan: Plan,
    votes: Votes,
    *,
    queries: IntArray,
    learning: Learning,
    log: Log,
    rng: np.random.Generator,
) -> Answers:
    """Ask about the chosen public rows; between two rounds, a student says what it already knows."""

    def interim(answered: NDArray[Any], labels: IntArray, rest: NDArray[Any]) -> FloatArray:
        released = Released(queries=queries[answered], counts=np.eye(plan.classes)[labels])
        candidate = learning.interim(classes=plan.classes, queries=len(answered))
        rows = learning.rows(candidate)
        student = released.fit_student(clone(candidate.student), rows)
        known = student.predict_proba(take_rows(rows, queries[rest]))
        scores = np.zeros((len(rest), plan.classes))
        scores[:, np.asarray(student.classes_)] = known
        return scores / scores.sum(axis=1, keepdims=True)

    return ask(plan, votes, log=log, rng=rng, interim_scores=interim)


def fit_student(
    learning: Learning, plan: Plan, answers: Answers, queries: IntArray, *, totals: IntArray | None = None
) -> Selection:
    """A student fitted on what was released: the one that was named, or the best of several on the released answers.

    totals: as of `released_counts`.
    """
    if plan.labels is not None:
        rows = learning.view.public
        student = AnsweredLabels().fit(take_rows(rows, queries), answers.taught.reshape(-1, plan.labels))
        return Selection(chosen=Candidate(name=ANSWERS, student=AnsweredLabels()), student=student, agreement={})
    if isinstance(plan.mechanism, QuantityGNMax):
        student = LabelRidge() if isinstance(plan.mechanism, LabelsGNMax) else QuantityRidge()
        return _of_sums(student, learning, plan, answers, queries)
    if isinstance(learning.view.fitted, CellFeatures):
        return _additive(learning, plan, answers, queries, learning.view.fitted)
    if answers.counts is not None:
        released = released_counts(learning, plan, answers, queries, totals=totals)
    else:
        answered = np.flatnonzero(answers.taught != NO_ANSWER)
        if not len(answered):
            raise InvalidInput(GATE_REFUSED if answers.passed is False else NOTHING_ANSWERED)
        one_vote = np.eye(plan.classes)[answers.taught[answered]]
        released = Released(queries=queries[answered], counts=one_vote)
    candidates = learning.candidates(
        counts=answers.counts is not None,
        moments=answers.moments is not None,
        classes=plan.classes,
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
    return calibrated(replace(selection, totals=class_totals(released)), released, learning)


def calibrated(selection: Selection, released: Released, learning: Learning) -> Selection:
    """The selection with calibrated probabilities and, for balanced or ordered classes, with other labels.

    Probabilities change if a temperature is clearly better than none on the rows that were held out; where every
    class is to count the same, or probabilities matter, they also agree with the shares of the classes. What was held
    out says nothing of balanced decisions or of medians, so it is dropped.
    """
    student, likely, own = selection.student, selection.likely, selection.own
    if not hasattr(student, "predict_proba"):
        return selection
    temperature = 1.0 if likely is None or own is None else temperature_of(likely, own, released)
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
    own_labels = weights is None and not ordered
    return replace(selection, student=with_other, held=selection.held if own_labels else None)


def _additive(learning: Learning, plan: Plan, answers: Answers, queries: IntArray, features: CellFeatures) -> Selection:
    """The additive model of a run without public rows."""
    assert answers.counts is not None
    pairs, noise, moments = pair_map(plan, features.domain), plan.mechanism.moment_noise, None
    if answers.moments is not None and noise is not None and pairs is not None:
        moments = ReleasedMoments(sums=answers.moments, sigma=noise, records=plan.teachers, directions=pairs)
    sigma2 = plan.mechanism.parameters()["sigma2"]
    released = Released(queries=queries, counts=answers.counts, sigma2=sigma2, moments=moments)
    student = AdditiveLogistic(features.domain.sizes, features.domain.ranges, random_state=learning.seed)
    chosen = Candidate(name=ADDITIVE, student=student)
    selection = Selection(chosen=chosen, student=released.fit_student(student, learning.view.public), agreement={})
    # Its probabilities agree with the released sizes of the classes already.
    weights = 1 / class_shares(released) if learning.objective == BALANCED else None
    ordered = learning.objective == ORDERED
    if weights is None and not ordered:
        return selection
    other = CalibratedStudent(selection.student, 1.0, np.zeros(plan.classes), weights, ordered=ordered)
    return replace(selection, student=other)


def _of_sums(
    student: QuantityRidge | LabelRidge, learning: Learning, plan: Plan, answers: Answers, queries: IntArray
) -> Selection:
    """Ridge regression from the sums of a quantity, or of several labels."""
    released = released_counts(learning, plan, answers, queries)
    chosen = Candidate(name=SUMS, student=student)
    return Selection(chosen=chosen, student=released.fit_student(chosen.student, learning.view.public), agreement={})


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
