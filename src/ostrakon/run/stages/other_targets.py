"""From released answers to the student of a quantity, and to that of several labels of a row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ostrakon.estimators.choices import learns_sums
from ostrakon.estimators.registry import in_words
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import is_auto
from ostrakon.planning.plan import Plan
from ostrakon.progress import in_phase
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.compared import compare_label_student, compare_quantity_student, out_of_fold_proba
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import released_counts, selected
from ostrakon.students.by_label import StudentByLabel, constant_student
from ostrakon.students.label_student import LabelRidge, released_rates, thresholds_of, votes_on_labels
from ostrakon.students.labelled import NOTHING_ANSWERED
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Released, Selection
from ostrakon.students.share_student import HIGH, ShareStudent
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

_RIDGE = "with penalties{} that were chosen on these sums alone"
_HALF = 0.5
_STUDENT_OF_ANSWERS, _WHY = "logistic", "the default where trained teachers answer on several labels"


def fit_quantity(learning: Learning, released: Released) -> Selection:
    """Fit ridge regression to the sums of a quantity, or the named classifier to split votes."""
    if learns_sums(learning.student):
        return _ridge_selection(QuantityRidge(), learning, released)
    selection = selected(learning, replace(released, moments=None), classes=2)
    comparison = partial(compare_quantity_student, learning, released, selection)
    return Selection(
        chosen=selection.chosen, student=ShareStudent(selection.student), agreement={}, compare_with_default=comparison
    )


def fit_labels(learning: Learning, plan: Plan, answers: Answers, queries: IntArray) -> Selection:
    """Fit ridge regression to the sums of labels; or, if named or with trained teachers, a classifier for each
    label."""
    if plan.labels is not None:
        auto = is_auto(learning.student)
        # Each label has few answers: choosing among students on these was worse.
        logistic = replace(learning, student=_STUDENT_OF_ANSWERS) if auto else learning
        selection = _by_label(logistic, _answers_by_label(answers, queries, plan.labels))
        return replace(selection, how=_WHY if auto else "")
    released = released_counts(learning, plan, answers, queries)
    if learns_sums(learning.student):
        return _ridge_selection(LabelRidge(), learning, released)
    votes = np.stack(votes_on_labels(learning.view.public, released)[::-1], axis=2)
    parts = [replace(released, counts=votes[:, label], moments=None) for label in range(votes.shape[1])]
    selection = _by_label(learning, parts, rates=released_rates(released.moments))
    return replace(selection, compare_with_default=partial(compare_label_student, learning, released, votes, selection))


def _ridge_selection(student: QuantityRidge | LabelRidge, learning: Learning, released: Released) -> Selection:
    chosen, thresholds = (
        Candidate(name=SUMS, student=student),
        ", thresholds and curves of probabilities" if isinstance(student, LabelRidge) else "",
    )
    fitted = released.fit_student(student, learning.view.public)
    return Selection(chosen=chosen, student=fitted, agreement={}, how=_RIDGE.format(thresholds))


def _answers_by_label(answers: Answers, queries: IntArray, labels: int) -> list[Released]:
    """Return the answers of trained teachers for each label. Errors: `InvalidInput` if there are none."""
    taught = answers.taught.reshape(-1, labels)
    if (taught == NO_ANSWER).all():
        raise InvalidInput(NOTHING_ANSWERED)
    positions = [np.flatnonzero(column != NO_ANSWER) for column in taught.T]
    return [
        Released(queries=queries[rows], counts=np.eye(2)[column[rows]])
        for rows, column in zip(positions, taught.T, strict=True)
    ]


def _by_label(learning: Learning, parts: Sequence[Released], *, rates: FloatArray | None = None) -> Selection:
    """Fit a student for each label.

    rates: the released share of records with each label, which sets thresholds; None: thresholds of one half.
    """
    selections = list[Selection]()
    for number, part in enumerate(parts, 1):
        with in_phase(f"label {number} of {len(parts)}"):
            selections.append(_fit_label(learning, part))
    names = Counter(selection.chosen.name for selection in selections)
    name = ", ".join(f"{in_words(name)} for {labels} of {len(parts)} labels" for name, labels in names.items())
    first = max(selections, key=lambda selection: selection.chosen.takes_rows).chosen
    chosen = replace(first, name=next(iter(names)) if len(names) == 1 else name)
    probabilities = [proba for selection in selections if (proba := out_of_fold_proba(selection)) is not None]
    proba_of_labels = np.stack(probabilities, axis=1)[:, :, HIGH] if len(probabilities) == len(parts) else None
    student = StudentByLabel([selection.student for selection in selections], np.full(len(parts), _HALF), rates)
    if rates is not None:
        student.thresholds = thresholds_of(student.predict_proba(learning.rows(chosen)), rates)
    return Selection(chosen=chosen, student=student, agreement={}, proba=proba_of_labels, cells=selections[0].cells)


def _fit_label(learning: Learning, released: Released) -> Selection:
    """Fit the student of one label; a constant if all its answers are equal."""
    totals = released.counts.sum(axis=0)
    if released.sigma2 is None and not totals.all():
        student = constant_student(learning.view.public, totals)
        return Selection(chosen=Candidate(name="a constant", student=student), student=student, agreement={})
    return selected(learning, released, classes=2)
