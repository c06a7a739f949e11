"""Estimates of the accuracy of the student from released numbers alone, and warnings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, NO_BETTER, UNDECIDED, Agreement, Of, Recall
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.options import ACCURACY, BALANCED, ORDERED
from ostrakon.planning.choices import BY_THE_OPERATOR
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.learning import Learning
from ostrakon.statements.statement import FOR_OPERATOR, Protects, Unit
from ostrakon.students.agreement_estimate import better_than_majority_of_answers, gained, with_released_answers
from ostrakon.students.right_counts import RightCounts
from ostrakon.students.selection import Selection
from ostrakon.votes import IntArray

FEWEST_QUERIES = 50
"""Smallest number of cells from which sets of labels are estimated. With fewer, students trained without a fifth of
them are worse than the final one."""
OTHER_STUDENT = "errors were counted for the student of the earlier release, not for this one"
"""Why a student has no estimate, or no intervals, although noisy counts of errors were released."""
NOT_COPIED = "errors were not counted, because the student of the run cannot be copied"
"""The entry "errors" of `tuned` then, and why no student of such a release has an estimate or intervals."""
ONE_CLASS = "Warning: the student predicts one class alone, "
"""Start of the warning about a student that predicts one class."""
STUDENT_WARNINGS = ("Warning: the student ", NO_BETTER, UNDECIDED, "Warning: the held-out ")
"""Starts of the sentences of `_warnings`; the last one is of earlier versions."""
_OF_USERS = " A user counts here by the class that most of its rows in a cell have."
"""The sentence that follows shares of classes if users are counted."""
_DEVIATIONS = 2.0
"""Votes show a class if they exceed this number of standard deviations of their noise."""
_LARGE_NOISE = 0.1
"""Noise above this share of the mean class hides which class is larger, if the released sizes are near each other."""
_FEW = 0.1
"""A student that predicts a class for less than this share of what the released numbers show misses most of them."""
_MANY = 3.0
"""A student that predicts a class for more than this multiple of what the released numbers show is mostly wrong."""
_MAX_NAMED = 5
"""Largest number of classes that a warning names."""
_MORE = "more records, a larger epsilon or other columns may help"
_NEARLY_ALL, _END = 0.98, 0.25
"""Share of public rows whose estimates are near one end of the range, and the part of the range that is near it."""


def assess(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    learning: Learning,
    *,
    labels: Sequence[str],
    unit: Unit,
    protects: Protects,
) -> tuple[tuple[Agreement | Recall, ...], tuple[str, ...]]:
    """Return estimates of the student's accuracy, and warnings, for a statement.

    Quantities and several labels have no estimates. labels: the classes.
    """
    warning = selection.compare_with_default()
    comparison = (warning,) if warning else ()
    predictions = np.asarray(selection.student.predict(learning.rows(selection.chosen)))
    if plan.target == "quantity":
        # A part of the range was chosen by the values themselves.
        one_sided = () if plan.narrowed else _one_sided_estimates(predictions)
        return (), (*one_sided, *comparison)
    if plan.target == "labels":
        return (), (*_constant_labels(predictions, list(labels)), *comparison)
    right = right_counts_of(plan, answers, unit=unit, protects=protects)
    estimates: tuple[Agreement | Recall, ...] = ()
    if right is not None:
        majority = right.majority()
        recalls = right.recalls(labels, known=selection.student.classes_)
        estimates = (right.accuracy(), *(() if majority is None else (majority,)), *recalls)
    elif answers.counts is None and not plan.trained_by_owners and selection.out_of_fold is not None:
        # A vote of a trained teacher is not a private label.
        both: tuple[Of, ...] = ("student", "majority")
        estimates = tuple(with_released_answers(selection.out_of_fold, of=of) for of in both)
    by_user = _OF_USERS if unit == "user" and answers.counts is not None else ""
    options: dict[str, Any] = {"predictions": predictions, "labels": list(labels), "by_user": by_user}
    warnings = _warnings(plan, answers, selection, learning, **options, right=right)
    return estimates, (*warnings, *comparison)


def right_counts_of(plan: Plan, answers: Answers, *, unit: Unit, protects: Protects) -> RightCounts | None:
    """Return the noisy counts of errors of a student of classes; None if there are none for this student."""
    noise = plan.mechanism.error_noise
    if answers.errors is None or noise is None or plan.target != "classes":
        return None
    counted = "private records" if protects == "records" else "records with private labels"
    if unit == "user":
        counted = "rows of private users, where every user counts the same"
    return RightCounts(noisy=answers.errors, sigma=noise, units=plan.teachers, counted=counted)


def why_no_estimate(tuned: Mapping[str, str], *, counted: bool, per_record: bool) -> str:
    """Return the reason why `assess` has no estimate of the accuracy on private records.

    tuned: of the plan. counted: whether errors were counted, of another student. per_record: whether every record is a
    teacher.
    """
    basis = {name: source for names, source in tuned.items() for name in names.split(", ")}
    reasons = {
        "the student's errors on private records are counted with per-record teachers only": not per_record,
        NOT_COPIED: basis.get("errors") == NOT_COPIED,
        OTHER_STUDENT: counted,
        "several owners take part": "owners_per_person" in basis,
        "records have levels of consent": "weights" in basis,
        "the noise was given instead of an epsilon": "epsilon" not in basis,
        "errors=0 was given": basis.get("errors") == BY_THE_OPERATOR,
        "too few records for this epsilon and the given number of queries": basis.get("number of queries")
        == BY_THE_OPERATOR,
    }
    return next((reason for reason, applies in reasons.items() if applies), "too few records for this epsilon")


def why_no_intervals(tuned: Mapping[str, str]) -> str:
    """Return the reason why a student of a quantity has no intervals, although its run paid for counts of errors."""
    return NOT_COPIED if tuned.get("errors") == NOT_COPIED else OTHER_STUDENT


def why_no_recalls(estimates: Iterable[Any]) -> str:
    """Return why no recalls are estimated beside the accuracy; empty if they are, or if neither is."""
    known = [one for one in estimates if isinstance(one, Recall) or getattr(one, "against", None) == "private labels"]
    together = bool(known) and not any(isinstance(one, Recall) for one in known)
    return f"none: errors are counted together for more than {FEW_CLASSES} classes" if together else ""


def _warnings(
    plan: Plan,
    answers: Answers,
    selection: Selection,
    learning: Learning,
    *,
    predictions: IntArray,
    labels: list[str],
    by_user: str,
    right: RightCounts | None,
) -> tuple[str, ...]:
    """Return warnings about a student that is not clearly better than the majority class, or misses a class.

    by_user: how users are counted, a sentence that follows shares of classes; empty for records. right: counts of right
    predictions; without them, held-out released numbers tell.
    """
    predicted = np.bincount(predictions, minlength=len(labels))
    shown = (answers, selection, learning, predicted, labels, by_user)
    missed = _never_predicted(*shown)
    tested, gain = selection.out_of_fold, None if right is None else right.gain()
    if np.count_nonzero(predicted) == 1:
        share = f"{1 / len(labels):.1%}"
        chance = f" If it does so for private rows, too, its balanced accuracy is {share}, and a wider range is noise."
        parts = [one.partition(FOR_OPERATOR) for one in missed]
        return missed if gain is None else tuple(f"{said}{chance}{mark}{advice}" for said, mark, advice in parts)
    missed = (*missed, *_hardly_predicted(*shown), *_predicted_too_often(*shown))
    if learning.objective == BALANCED and right is not None and gain is not None:
        return (*missed, *_no_better_by_class(right, labels))
    if right is not None and gain is not None:
        better = right.better_than_majority()
    elif tested is None:
        return missed
    elif answers.counts is None:
        better, gain = better_than_majority_of_answers(tested), gained(tested, None)
    else:
        gain = gained(tested, _sigma2(answers))
        better = gain[0] > float(stats.norm.isf(1 - CONFIDENCE)) * gain[1]
    if better:
        return missed
    if gain[0] > 0:
        return (*missed, f"{UNDECIDED}: their noise is too large. Labelled test rows would tell.")
    return (
        *missed,
        f"{NO_BETTER} that the student is right more often than a model that always predicts the most frequent class; "
        f"their noise (one standard deviation) is {100 * gain[1]:.1f} points of "
        f"accuracy.{_advice(plan, answers, learning)}",
    )


def _no_better_by_class(right: RightCounts, labels: list[str]) -> tuple[str, ...]:
    """Return a warning about a student for which all classes count the same; empty if it is better than one class."""
    *_, mean = right.recalls(labels)
    if mean.low > 1 / len(labels):
        return ()
    always = f"that the student's balanced accuracy is above that of one class for every row, {1 / len(labels):.1%}"
    return (f"{NO_BETTER} {always}.{FOR_OPERATOR}{_MORE}.",)


def _advice(plan: Plan, answers: Answers, learning: Learning) -> str:
    """Return advice for a student that is hardly better than the most frequent class."""
    if not plan.per_record and not plan.trained_by_owners:
        return (
            f"{FOR_OPERATOR}{_MORE}, and so may the default, if every record is a teacher, instead of trained teachers."
        )
    return _for_rare(answers, learning, _MORE)


def _for_rare(answers: Answers, learning: Learning, *advice: str) -> str:
    """Return advice, and that for rare classes if the objective can still be changed; empty without any."""
    changed = answers.counts is not None and np.ndim(learning.X_public) == 2
    rare = {
        ACCURACY: "if rare classes matter most, the objective balanced counts all classes the same",
        ORDERED: "a student of ordered classes predicts the median of its probabilities, so it seldom predicts the "
        "rare first or last class: its probabilities show them, and the objective balanced counts all classes the same",
    }.get(learning.objective)
    said = "; ".join([*advice, *([rare] if rare and changed else [])])
    return f"{FOR_OPERATOR}{said}." if said else ""


def _class_votes(answers: Answers, selection: Selection, classes: int) -> tuple[FloatArray, float, str]:
    """Return the least noisy released votes for each class, their noise and their kind."""
    if answers.counts is None:
        answered = answers.taught[answers.taught != NO_ANSWER]
        return np.bincount(answered, minlength=classes).astype(np.float64), 0.0, "answers"
    if selection.sizes is not None:
        return *selection.sizes, "sums"
    return answers.counts.sum(axis=0), _sigma2(answers) * len(answers.counts) ** 0.5, "counts"


def _never_predicted(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str], by_user: str
) -> tuple[str, ...]:
    """Return a warning about classes that are never predicted, with their released shares; () without any."""
    never, row = np.flatnonzero(predicted == 0), _row_in_words(learning)
    if not len(never):
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    large = votes[never] > _DEVIATIONS * noise
    warning = f"Warning: the student predicts {_names(never, labels)} for no {row}"
    if len(never) == len(labels) - 1:
        warning = f"{ONE_CLASS}{labels[int(predicted.argmax())]!r}, for every {row}"
        if noise > max(float(votes.max() - votes.min()) / _DEVIATIONS, _LARGE_NOISE * abs(float(votes.mean()))):
            points = 100 * noise / max(float(votes.sum()), noise)
            return (
                f"{warning}, and noise decides which one: the released {what} tell the share of a class to within "
                f"{points:.0f} points (one standard deviation), and the classes differ by less than twice "
                f"that.{FOR_OPERATOR}more records or a larger epsilon would help.",
            )
    if not large.any():
        cases = f"cases of {_names(never, labels)}"
        return (f"{warning}, and the released {what} do not show {cases} either: noise would hide a few.",)
    share = float(votes[never[large]].sum() / max(float(votes.sum()), 1e-12))
    rest = never[~large]
    hidden = f", and none of {_names(rest, labels)}, of which noise would hide a few" if len(rest) else ""
    return (
        f"{warning}, although the released {what} show about {share:.1%} of cases of {_names(never[large], labels)}, "
        f"which it misses{hidden}.{by_user}{_for_rare(answers, learning)}",
    )


def _hardly_predicted(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str], by_user: str
) -> tuple[str, ...]:
    """Return a warning about classes that are predicted far less often than noisy counts or sums show; else ()."""
    # Example rows have every cell equally often, so their class shares are not those of private rows.
    if answers.counts is None or learning.described:
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    least, rates = (votes - _DEVIATIONS * noise) / max(float(votes.sum()), 1e-12), predicted / predicted.sum()
    few = np.flatnonzero((predicted > 0) & (rates < _FEW * least))
    if not len(few):
        return ()
    share = float(votes[few].sum() / votes.sum())
    return (
        f"Warning: the student predicts {_names(few, labels)} for {rates[few].sum():.1%} of the public rows, although "
        f"the released {what} show about {share:.1%} of such cases: it misses most of "
        f"them.{by_user}{_for_rare(answers, learning)}",
    )


def _predicted_too_often(
    answers: Answers, selection: Selection, learning: Learning, predicted: IntArray, labels: list[str], by_user: str
) -> tuple[str, ...]:
    """Return a warning about classes that are predicted far more often than noisy counts or sums show; else ()."""
    if answers.counts is None or learning.described or learning.objective == BALANCED:
        return ()
    votes, noise, what = _class_votes(answers, selection, len(labels))
    most = np.maximum(votes + _DEVIATIONS * noise, 0) / max(float(votes.sum()), 1e-12)
    # With few rows the reason may be chance.
    rates = (predicted - _DEVIATIONS * np.sqrt(predicted)) / predicted.sum()
    many = np.flatnonzero(rates > _MANY * most)
    if not len(many) or votes.sum() <= 0:
        return ()
    share, rows = max(float(votes[many].sum() / votes.sum()), 0.0), predicted[many].sum() / predicted.sum()
    return (
        f"Warning: the student predicts {_names(many, labels)} for {rows:.1%} of the public rows, although the "
        f"released {what} show about {share:.1%} of such cases: most of these predictions are wrong, if public rows "
        f"are like private ones.{by_user}",
    )


def _constant_labels(predictions: IntArray, labels: list[str]) -> tuple[str, ...]:
    """Return warnings about labels that are predicted for no public row or for all. predictions: (rows, labels)."""
    rates = predictions.mean(axis=0)
    return tuple(
        f"Warning: the student predicts {_names(np.flatnonzero(rates == share), labels)} for {rows} public row."
        for share, rows in ((0, "no"), (1, "every"))
        if (rates == share).any()
    )


def _one_sided_estimates(shares: FloatArray) -> tuple[str, ...]:
    """Return a warning about a range whose middle is far from all estimates.

    shares: estimates, 0 to 1 in the range, (rows,).
    """
    for end, from_end in (("lower", shares), ("upper", 1 - shares)):
        if np.quantile(from_end, _NEARLY_ALL) < _END:
            return (
                f"Warning: the student estimates nearly all public rows in the {end} quarter of the range."
                f"{FOR_OPERATOR}if the range is much wider than the values, choose a narrower one, which makes errors "
                "smaller; if values may lie beyond this end, widen it.",
            )
    return ()


def _row_in_words(learning: Learning) -> str:
    """Return the name of the rows for which the student predicts."""
    return "example row of the described columns" if learning.described else "public row"


def _names(numbers: IntArray, labels: list[str]) -> str:
    """Return classes in words, at most `_MAX_NAMED` of them.

    >>> _names(np.array([0, 2]), ["a", "b", "c"])
    "'a' or 'c'"
    """
    names = [repr(labels[number]) for number in numbers[:_MAX_NAMED]]
    if len(numbers) > _MAX_NAMED:
        names.append(f"{len(numbers) - _MAX_NAMED} other classes")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def counted_in_words(plan: Plan, *, unit: Unit, protects: Protects, counted: bool) -> tuple[int | None, str]:
    """Return (the number of votes, None if it is not public; the description of a vote)."""
    bound = plan.mechanism.contribution_bound or 1
    if plan.levels:
        return None, f"votes of private {unit}s, each counted with the weight of its level of consent"
    if counted and unit == "record":
        # A record has one row, which is nearest to one query.
        return plan.teachers, "private records" if protects == "records" else "records with private labels"
    if counted and bound == 1:
        return (
            plan.teachers,
            "private users, each counted once, by the most frequent class of its rows near one public row",
        )
    cells = "one cell" if bound == 1 else f"up to {bound} cells"
    return None, f"votes of private {unit}s in {cells} each, by the class that most rows of a {unit} there have"


def _sigma2(answers: Answers) -> float:
    return float(answers.rounds[0].mechanism.parameters()["sigma2"])
