"""What can be said of the accuracy of the student from released numbers alone, and warnings."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ostrakon.accounting.estimates import NO_BETTER, UNDECIDED, Agreement, Of, Recall
from ostrakon.features.cells import CellFeatures
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import ACCURACY, BALANCED, ORDERED
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.queries import Answers
from ostrakon.statements.statement import Protects, Unit
from ostrakon.students.agreement_estimate import (
    HeldOut,
    better_than_majority,
    better_than_majority_of_answers,
    gained,
    noise_of_gain,
    with_private_labels,
    with_released_answers,
)
from ostrakon.students.recall_estimate import ClassSizes, recalls
from ostrakon.students.selection import Selection
from ostrakon.votes import IntArray

FEWEST_QUERIES = 50
"""Smallest number of cells with an estimate. With fewer, students trained without a fifth of them are worse than the
final one, and if not all are held out, a class may have much more or less than its share."""

MOST_RECALLS = 20
"""Classes up to which the recall of each is estimated: with more of them, ranges that hold together are wide."""
ONE_CLASS = "Warning: the student predicts one class alone, "
"""How the sentence on a student of one class begins."""
STUDENT_WARNINGS = ("Warning: the student ", NO_BETTER, UNDECIDED)
"""How the sentences of `_warnings` begin."""
_CLEAR = 2.0
"""Standard deviations of the noise on the votes of a class from which on they show it."""
_MUCH = 0.1
"""Noise above this share of the mean class hides which class is larger, if the released sizes are near each other."""
_FEW = 0.1
"""A student that predicts a class for less than this share of what the released numbers show misses most of them."""
_MANY = 3.0
"""A student that predicts a class for more than this multiple of what the released numbers show is mostly wrong."""
_NAMED = 5
"""Classes that a warning names."""
_NEARLY_ALL, _END = 0.98, 0.25
"""Share of public rows whose estimates are near one end of the range, and the part of the range that is near it."""


def judged(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    learning: Learning,
    *,
    labels: Sequence[str],
    unit: Unit,
    protects: Protects,
    counted: bool = True,
) -> tuple[tuple[Agreement | Recall, ...], tuple[str, ...]]:
    """What a statement says of how good the student is: estimates, and warnings. No estimate of a quantity, and none
    if rows may have several labels.

    labels: the classes. counted: as of `Task`.
    """
    warning = selection.compare_with_default()
    behind = (warning,) if warning else ()
    said = np.asarray(selection.student.predict(learning.rows(selection.chosen)))
    if plan.target == "quantity":
        return (), (*_at_one_end(said), *behind)
    if plan.target == "labels":
        return (), (*_one_answer(said, list(labels)), *behind)
    shared: dict[str, Any] = {"said": said, "unit": unit, "protects": protects, "counted": counted}
    estimates = _estimates(plan, answers, selection, **shared)
    by_class = _recalls(plan, answers, selection, labels=list(labels), **shared)
    of_warnings: dict[str, Any] = {"said": said, "labels": list(labels), "estimated": bool(estimates)}
    return (*estimates, *by_class), (*_warnings(plan, answers, selection, learning, **of_warnings), *behind)


def _estimates(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    *,
    said: IntArray,
    unit: Unit,
    protects: Protects,
    counted: bool,
) -> tuple[Agreement, ...]:
    """The agreement of the student and of the majority class, if enough queries were held out; else nothing.

    said: the student's class of every public row. Where that is one class, the student is judged as what always says
    it, not by the students that were taught without some cells. counted: as of `Task`.
    """
    tested = selection.out_of_fold
    # A vote of a trained teacher is about one row, not about its cell, and is not a private label.
    if tested is None or plan.trained:
        return ()
    if answers.counts is not None and len(tested.counts) < FEWEST_QUERIES:
        return ()
    judged: list[tuple[HeldOut, Of]] = [(tested, "student"), (tested, "majority")]
    if len(only := np.unique(said)) == 1:
        judged[0] = (tested.always(int(only[0])), "majority")
    if answers.counts is None:
        student, majority = (with_released_answers(cells, of=of) for cells, of in judged)
    else:
        votes, what = counted_in_words(plan, unit=unit, protects=protects, counted=counted)
        noise: Any = {"sigma2": _sigma2(answers), "votes": votes, "counted": what}
        student, majority = (with_private_labels(cells, of=of, **noise) for cells, of in judged)
    return () if student is None or majority is None else (replace(student, of="student"), majority)


def _recalls(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    *,
    said: IntArray,
    labels: list[str],
    unit: Unit,
    protects: Protects,
    counted: bool,
) -> tuple[Recall, ...]:
    """Recall by class and balanced accuracy, where noisy counts of enough cells were held out; else nothing."""
    tested, cells = selection.all_cells, selection.cells
    if tested is None or cells is None or plan.trained or len(tested.counts) < FEWEST_QUERIES:
        return ()
    if len(labels) > MOST_RECALLS or len(np.unique(said)) == 1:
        return ()
    what = counted_in_words(plan, unit=unit, protects=protects, counted=counted)[1]
    # Users may speak in several cells, or be of another class there.
    known = selection.sizes if unit == "record" and counted and not plan.levels else None
    sizes = None if known is None else ClassSizes(sizes=known[0], sigma=known[1])
    given: Any = {"sigma2": _sigma2(answers), "labels": labels, "counted": what, "sizes": sizes}
    return recalls(tested, cells.counted(said, len(labels)), **given)


def why_no_recalls(plan: Plan) -> str:
    """Why `judged` has no ranges of recall, if the student says several classes."""
    if not plan.per_record:
        return "teachers answered, and their answers are not private labels"
    if plan.classes > MOST_RECALLS:
        return f"ranges of more than {MOST_RECALLS} classes that hold together would be wide"
    return f"fewer than {FEWEST_QUERIES} cells have counts that a student was tried on without having learned from them"


def _warnings(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    learning: Learning,
    *,
    said: IntArray,
    labels: list[str],
    estimated: bool,
) -> tuple[str, ...]:
    """Sentences on a student that seems to have learned nothing, that perhaps has, or that misses a class."""
    predicted = np.bincount(said, minlength=len(labels))
    missed = _never_predicted(answers, selection, learning, predicted, labels)
    if np.count_nonzero(predicted) == 1:
        return missed
    missed = (
        *missed,
        *_hardly_predicted(answers, selection, learning, predicted, labels),
        *_predicted_too_often(answers, selection, learning, predicted, labels),
    )
    tested = selection.out_of_fold
    if tested is None:
        return missed
    sigma2 = None if answers.counts is None else _sigma2(answers)
    if sigma2 is None:
        better, known = better_than_majority_of_answers(tested), "released answers"
    else:
        better, known = better_than_majority(tested, sigma2=sigma2), "released counts"
    if better:
        return missed
    if gained(tested) > 0:
        why = "the range of the estimate is too wide" if estimated else "they are too few for an estimate"
        return (*missed, f"{UNDECIDED}: {why}. Labelled test rows would tell.")
    return (
        *missed,
        f"{NO_BETTER}{known} do not show that the student is right more often than a model that always predicts the "
        f"most frequent class; their noise (one standard deviation) is "
        f"{100 * noise_of_gain(tested, sigma2):.1f} points of accuracy. {_advice(plan, answers, learning)}",
    )


def _advice(plan: Plan, answers: Answers, learning: Learning) -> str:
    """What may help where a student is hardly better than the most frequent class."""
    advice = "More records, a larger epsilon or other columns may help"
    if not plan.per_record and not plan.trained:
        return f"{advice}, and so may the default, if every record is a teacher, instead of trained teachers."
    return f"{advice}{_balanced(answers, learning)}."


def _balanced(answers: Answers, learning: Learning) -> str:
    """What helps rare classes, where it is allowed and was not chosen."""
    if answers.counts is None or np.ndim(learning.X_public) != 2:
        return ""
    return {
        ACCURACY: "; if rare classes matter most, --objective balanced counts every class the same",
        ORDERED: "; a student of ordered classes says the middle of what it thinks possible, and so seldom the rare "
        "first or last class: its probabilities show these, and --objective balanced counts every class the same",
    }.get(learning.objective, "")


def _class_votes(answers: Answers, selection: Selection, classes: int) -> tuple[FloatArray, float, str]:
    """Votes for each class, their noise and what they are, from the least noisy numbers that were released."""
    if answers.counts is None:
        answered = answers.taught[answers.taught != NO_ANSWER]
        return np.bincount(answered, minlength=classes).astype(np.float64), 0.0, "answers"
    if selection.sizes is not None:
        return *selection.sizes, "sums"
    return answers.counts.sum(axis=0), _sigma2(answers) * len(answers.counts) ** 0.5, "counts"


def _never_predicted(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str]
) -> tuple[str, ...]:
    """A sentence on classes of no public row, with what the released numbers show of them; nothing without any."""
    never, row = np.flatnonzero(predicted == 0), _row(learning)
    if not len(never):
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    shown = votes[never] > _CLEAR * noise
    said = f"Warning: the student predicts {_named(never, labels)} for no {row}"
    if len(never) == len(labels) - 1:
        said = f"{ONE_CLASS}{labels[int(predicted.argmax())]!r}, for every {row}"
        if noise > max(float(votes.max() - votes.min()) / _CLEAR, _MUCH * abs(float(votes.mean()))):
            points = 100 * noise / max(float(votes.sum()), noise)
            return (
                f"{said}, and noise decides which one: the released {what} tell the share of a class to within "
                f"{points:.0f} points (one standard deviation), and the classes differ by less than twice that. More "
                "records or a larger epsilon would help.",
            )
    if not shown.any():
        cases = f"cases of {_named(never, labels)}"
        return (f"{said}, and the released {what} do not show {cases} either: noise would hide a few.",)
    share = float(votes[never[shown]].sum() / max(float(votes.sum()), 1e-12))
    rest = never[~shown]
    hidden = f", and none of {_named(rest, labels)}, of which noise would hide a few" if len(rest) else ""
    return (
        f"{said}, although the released {what} show about {share:.1%} of cases of {_named(never[shown], labels)}, "
        f"which it misses{hidden}{_balanced(answers, learning)}.",
    )


def _hardly_predicted(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str]
) -> tuple[str, ...]:
    """A sentence on classes of some public rows, but of far fewer than noisy counts or sums show; else nothing."""
    # Example rows have every cell equally often, and so not the classes as often as private ones.
    if answers.counts is None or _described(learning):
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    shown, given = (votes - _CLEAR * noise) / max(float(votes.sum()), 1e-12), predicted / predicted.sum()
    few = np.flatnonzero((predicted > 0) & (given < _FEW * shown))
    if not len(few):
        return ()
    share = float(votes[few].sum() / votes.sum())
    return (
        f"Warning: the student predicts {_named(few, labels)} for {given[few].sum():.1%} of the public rows, although "
        f"the released {what} show about {share:.1%} of such cases: it misses most of them"
        f"{_balanced(answers, learning)}.",
    )


def _predicted_too_often(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str]
) -> tuple[str, ...]:
    """A sentence on classes of far more public rows than noisy counts or sums show; else nothing."""
    if answers.counts is None or _described(learning) or learning.objective == BALANCED:
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    shown = np.maximum(votes + _CLEAR * noise, 0) / max(float(votes.sum()), 1e-12)
    # Of few rows chance alone may be the reason.
    given = (predicted - _CLEAR * np.sqrt(predicted)) / predicted.sum()
    many = np.flatnonzero(given > _MANY * shown)
    if not len(many) or votes.sum() <= 0:
        return ()
    share, rows = max(float(votes[many].sum() / votes.sum()), 0.0), predicted[many].sum() / predicted.sum()
    return (
        f"Warning: the student predicts {_named(many, labels)} for {rows:.1%} of the public rows, although the "
        f"released {what} show about {share:.1%} of such cases: most of these predictions are wrong, if public rows "
        "are like private ones.",
    )


def _one_answer(said: IntArray, labels: list[str]) -> tuple[str, ...]:
    """Sentences on labels that the student gives to no public row, or to every one. said: 0 or 1, (rows, labels)."""
    given = said.mean(axis=0)
    return tuple(
        f"Warning: the student predicts {_named(np.flatnonzero(given == share), labels)} for {rows} public row."
        for share, rows in ((0, "no"), (1, "every"))
        if (given == share).any()
    )


def _at_one_end(shares: FloatArray) -> tuple[str, ...]:
    """A sentence on a range whose middle is far from all estimates. shares: estimates, 0 to 1 in the range, (rows,)."""
    for end, from_end in (("lower", shares), ("upper", 1 - shares)):
        if np.quantile(from_end, _NEARLY_ALL) < _END:
            return (
                f"Warning: the student estimates nearly all public rows in the {end} quarter of the range. The errors "
                "would be smaller with a range whose middle is near these estimates.",
            )
    return ()


def _described(learning: Learning) -> bool:
    """Whether a description of the columns stands in for public rows."""
    return isinstance(learning.view.fitted, CellFeatures)


def _row(learning: Learning) -> str:
    """What the student was asked about."""
    return "example row of the described columns" if _described(learning) else "public row"


def _named(numbers: IntArray, labels: list[str]) -> str:
    """Classes in words, at most `_NAMED` of them.

    >>> _named(np.array([0, 2]), ["a", "b", "c"])
    "'a' or 'c'"
    """
    names = [repr(labels[number]) for number in numbers[:_NAMED]]
    if len(numbers) > _NAMED:
        names.append(f"{len(numbers) - _NAMED} other classes")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def counted_in_words(plan: Plan, *, unit: Unit, protects: Protects, counted: bool) -> tuple[int | None, str]:
    """(how many votes there are, None where that is not public; what one of them is)."""
    bound = plan.mechanism.contribution_bound or 1
    if plan.levels:
        return None, f"votes of private {unit}s, each counted with the weight of its level of consent"
    if counted and unit == "record":
        # A record has one row, which is nearest to one query.
        return plan.teachers, "private records" if protects == "records" else "records with private labels"
    if counted and bound == 1:
        return (
            plan.teachers,
            "private users, each counted once, by the most frequent class of its rows in its largest cell",
        )
    cells = "one cell" if bound == 1 else f"up to {bound} cells"
    return None, f"votes of private {unit}s in {cells} each, by the class that most rows of a {unit} there have"


def _sigma2(answers: Answers) -> float:
    return float(answers.rounds[0].mechanism.parameters()["sigma2"])
