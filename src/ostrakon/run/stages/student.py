"""From votes to released answers, and from these to a fitted student."""

from dataclasses import replace
from functools import partial

import numpy as np

from ostrakon.features.cells import CellFeatures
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.options.options import BALANCED, ORDERED
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.compared import compare_with_default
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.other_targets import fit_labels, fit_quantity
from ostrakon.run.stages.selected import released_counts, selected
from ostrakon.run.stages.votes import pair_map
from ostrakon.students.additive import ADDITIVE, AdditiveLogistic
from ostrakon.students.calibration import CalibratedStudent, class_shares
from ostrakon.students.labelled import NOTHING_ANSWERED
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.selection import Candidate, Released, Selection
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

GATE_REFUSED = (
    "The gate must find that the teachers agree, and it did not: nothing is released, and this run has cost an epsilon "
    "of {:.4g}. Another run costs more; --guarantee worst-case needs no agreement (in Python guarantee='worst-case')."
)


def fit_student(
    learning: Learning, plan: Plan, answers: Answers, queries: IntArray, *, totals: IntArray | None = None
) -> Selection:
    """Fit the named student, or the best of several candidates, on what was released.

    totals: as in `released_counts`.
    """
    if plan.target == "quantity":
        return fit_quantity(learning, released_counts(learning, plan, answers, queries))
    if plan.target == "labels":
        return fit_labels(learning, plan, answers, queries)
    if isinstance(learning.view.fitted, CellFeatures):
        return _additive(learning, plan, answers, queries, learning.view.fitted)
    if answers.counts is not None:
        released = released_counts(learning, plan, answers, queries, totals=totals)
    else:
        answered = np.flatnonzero(answers.taught != NO_ANSWER)
        if not len(answered):
            refused = GATE_REFUSED.format(plan.guarantee.epsilon)
            raise InvalidInput(refused if answers.passed is False else NOTHING_ANSWERED)
        one_vote = np.eye(plan.classes)[answers.taught[answered]]
        released = Released(queries=queries[answered], counts=one_vote)
    selection = selected(learning, released, classes=plan.classes)
    return replace(selection, compare_with_default=partial(compare_with_default, learning, released, selection))


def _additive(learning: Learning, plan: Plan, answers: Answers, queries: IntArray, features: CellFeatures) -> Selection:
    """Fit the additive model of a run without public rows."""
    assert answers.counts is not None
    pairs, noise, moments = pair_map(plan, features.domain), plan.mechanism.moment_noise, None
    if answers.moments is not None and noise is not None and pairs is not None:
        moments = ReleasedMoments(sums=answers.moments, sigma=noise, records=plan.teachers, directions=pairs)
    sigma2 = plan.mechanism.parameters()["sigma2"]
    released = Released(queries=queries, counts=answers.counts, sigma2=sigma2, moments=moments)
    student = AdditiveLogistic(features.domain.sizes, features.domain.ranges, random_state=learning.seed)
    selection = Selection(
        chosen=Candidate(name=ADDITIVE, student=student),
        student=released.fit_student(student, learning.view.public),
        agreement={},
        how="the student of runs without public rows",
    )
    # Its probabilities already agree with the released class sizes.
    weights = 1 / class_shares(released) if learning.objective == BALANCED else None
    ordered = learning.objective == ORDERED
    if weights is None and not ordered:
        return selection
    calibrated = CalibratedStudent(selection.student, 1.0, np.zeros(plan.classes), weights, ordered=ordered)
    return replace(selection, student=calibrated)
