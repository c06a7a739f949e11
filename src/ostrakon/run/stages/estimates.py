"""What may be said of how good the student is, from released numbers alone, and what must be said loudly."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostrakon.accounting.estimates import Agreement
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.queries import Answers
from ostrakon.students.agreement_estimate import (
    better_than_majority,
    better_than_majority_of_answers,
    with_private_labels,
    with_released_answers,
)
from ostrakon.students.selection import Selection

FEWEST_QUERIES = 50
"""Cells below which nothing is said: students taught without a fifth of so few are poorer than the one that is kept,
and of fewer, where not all are held out, one class may have much more or less than its share."""


def estimates_of(plan: Plan, answers: Answers, task: Task, selection: Selection) -> tuple[Agreement, ...]:
    """The student's agreement and the majority class's, where enough was held out from students; else nothing."""
    held = selection.held
    # What trained teachers say of one row is no private label, nor is it said of the row's cell.
    if held is None or plan.trained:
        return ()
    if answers.counts is not None and len(held.counts) < FEWEST_QUERIES:
        return ()
    if answers.counts is None:
        return with_released_answers(held, of="student"), with_released_answers(held, of="majority")
    votes, counted = _counted(plan, task)
    noise: Any = {"sigma2": _sigma2(answers), "votes": votes, "counted": counted}
    student, majority = (with_private_labels(held, of=of, **noise) for of in ("student", "majority"))
    return () if student is None or majority is None else (student, majority)


def warnings_of(answers: Answers, selection: Selection, said: Any, labels: list[str]) -> tuple[str, ...]:
    """Sentences on a student that learned next to nothing. said: its class of every public row."""
    first = int(np.asarray(said)[0])
    if (np.asarray(said) == first).all():
        return (f"Warning: the student predicts {labels[first]!r} for every public row.",)
    held = selection.held
    if held is None:
        return ()
    if answers.counts is None:
        better, known = better_than_majority_of_answers(held), "released answers"
    else:
        better, known = better_than_majority(held, sigma2=_sigma2(answers)), "released counts"
    if better:
        return ()
    return (
        f"Warning: on held-out {known} the student did not clearly beat a model that always predicts the most frequent "
        "class; the data may be too small or too noisy to tell. More records, a larger epsilon or other columns may "
        "help.",
    )


def _counted(plan: Plan, task: Task) -> tuple[int | None, str]:
    """(how many votes there are, None where that is not public; what one of them is)."""
    bound = plan.mechanism.contribution_bound or 1
    if not task.counted:
        return (
            None,
            f"votes of private users in up to {bound} cells each, by the class that most of its rows there have",
        )
    if task.private.unit == "record":
        # A record has one row, which is nearest to one query.
        return plan.teachers, "private records" if task.private.protects == "records" else "records with private labels"
    if bound == 1:
        return plan.teachers, "private users, each by the class that most of its rows have in the cell where most are"
    return None, f"votes of private users in up to {bound} cells each, by the class that most of its rows there have"


def _sigma2(answers: Answers) -> float:
    return float(answers.rounds[0].mechanism.parameters()["sigma2"])
