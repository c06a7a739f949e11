"""From released answers to the student of a quantity, and to that of several labels of a row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ostrakon.estimators.choices import learns_sums
from ostrakon.estimators.registry import in_words
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import is_auto
from ostrakon.planning.plan import Plan
from ostrakon.progress import in_phase
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.compared import ADVICE
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import released_counts, selected
from ostrakon.students.by_label import StudentByLabel, constant_student
from ostrakon.students.label_student import LabelRidge, thresholds_of
from ostrakon.students.labelled import NOTHING_ANSWERED
from ostrakon.students.quantity_student import SUMS, QuantityRidge
from ostrakon.students.selection import Candidate, Released, Selection
from ostrakon.students.share_student import ShareStudent
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

_RIDGE = "with penalties{} that were chosen on these sums alone"
_HALF, _EXPLAINED = 0.5, 0.5
"""The threshold of a probability; the least share of the default's variance that needs no warning."""
_STUDENT_OF_ANSWERS, _WHY = "logistic", "the default where trained teachers answer on several labels"


def fit_quantity(learning: Learning, released: Released) -> Selection:
    """Fit ridge regression to the sums of a quantity."""
    return _ridge_selection(QuantityRidge(), learning, released)


def fit_labels(learning: Learning, plan: Plan, answers: Answers, queries: IntArray) -> Selection:
    """Fit ridge regression to the sums of labels; with trained teachers, a classifier for each label."""
    if plan.labels is None:
        return _ridge_selection(LabelRidge(), learning, released_counts(learning, plan, answers, queries))
    auto = is_auto(learning.student)
    # Each label has few answers: choosing among students on these was worse.
    logistic = replace(learning, student=_STUDENT_OF_ANSWERS) if auto else learning
    selection = _by_label(logistic, _answers_by_label(answers, queries, plan.labels))
    return replace(selection, how=_WHY if auto else "")


def distilled(selection: Selection, learning: Learning) -> Selection:
    """Return the selection with the named student, which learns what the student of sums says of the public rows.

    Unchanged if no other student is named, or the student did not learn from sums of a quantity or of labels. Named
    students that learned from noisy sums by cell were far worse: see benchmarks/README.md.
    """
    source = selection.student
    if learns_sums(learning.student) or not isinstance(source, QuantityRidge | LabelRidge):
        return selection
    public = learning.view.public
    [candidate] = learning.candidates(counts=True, classes=2, queries=len(public))
    said = source.predict(public) if isinstance(source, QuantityRidge) else source.predict_proba(public)
    shares = said.reshape(len(public), -1)
    copies: list[Any] = [clone(candidate.student) for _ in shares.T]
    students = [copy.fit_shares(public, column) for copy, column in zip(copies, shares.T, strict=True)]
    student: ShareStudent | StudentByLabel
    if isinstance(source, QuantityRidge):
        student = ShareStudent(students[0], source)
        learned = student.predict(public)[:, None]
    else:
        student = StudentByLabel(students, np.full(len(students), _HALF), source.rates_, source)
        learned = student.predict_proba(public)
        student.thresholds = thresholds_of(learned, source.rates_)
    warning = _warning(candidate.name, shares, learned)
    return replace(selection, chosen=candidate, student=student, how="", compare_with_default=lambda: warning)


def _warning(name: str, said: FloatArray, learned: FloatArray) -> str:
    """Return a warning if the named student explains little of what the default says of public rows; else empty."""
    variance, left = np.square(said - said.mean(axis=0)).sum(), np.square(said - learned).sum()
    if left <= (1 - _EXPLAINED) * variance:
        return ""
    return (
        f"Warning: the student {name} explains about {max(1 - left / variance, 0):.0%} of how the estimates of the "
        f"default student, {in_words(SUMS)}, differ between public rows.{ADVICE}"
    )


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


def _by_label(learning: Learning, parts: Sequence[Released]) -> Selection:
    """Fit a student for each label to the answers of trained teachers."""
    selections = list[Selection]()
    for number, part in enumerate(parts, 1):
        with in_phase(f"label {number} of {len(parts)}"):
            selections.append(_fit_label(learning, part))
    names = Counter(selection.chosen.name for selection in selections)
    name = ", ".join(f"{in_words(name)} for {labels} of {len(parts)} labels" for name, labels in names.items())
    first = max(selections, key=lambda selection: selection.chosen.takes_rows).chosen
    chosen = replace(first, name=next(iter(names)) if len(names) == 1 else name)
    student = StudentByLabel([selection.student for selection in selections], np.full(len(parts), _HALF))
    return Selection(chosen=chosen, student=student, agreement={})


def _fit_label(learning: Learning, released: Released) -> Selection:
    """Fit the student of one label; a constant if all its answers are equal."""
    totals = released.counts.sum(axis=0)
    if released.sigma2 is None and not totals.all():
        student = constant_student(learning.view.public, totals)
        return Selection(chosen=Candidate(name="a constant", student=student), student=student, agreement={})
    return selected(learning, released, classes=2)
