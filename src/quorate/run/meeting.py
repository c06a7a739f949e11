"""The steps that a run on disk and an estimator in memory share: from teachers' votes to a student and a statement."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from quorate.accounting.statement import Statement, round_up
from quorate.mechanisms import NO_ANSWER
from quorate.mechanisms.base import FloatArray
from quorate.public import build_graph, choose_queries
from quorate.run.noise_log import Log
from quorate.run.plan import Plan
from quorate.run.represent import View
from quorate.run.rounds import Answers, ask
from quorate.run.task import Task
from quorate.students.labelled import UNLABELLED
from quorate.votes import IntArray, Votes

TUNED_ALWAYS = {
    "representation": "the public data alone",
    "student": "the public data and the released labels alone",
}


def queries_of(view: View, queries: int, *, strategy: str, seed: int) -> IntArray:
    """The public rows to ask about, in the order they are asked; chosen on public data alone."""
    return choose_queries(
        strategy, pool=len(view.public), budget=queries, features=view.public, random_state=seed
    ).astype(np.int64)


def votes_on(teachers: Any, view: View, queries: IntArray, *, classes: int, smooth: bool, progress: bool) -> Votes:
    """What the teachers vote on the chosen public rows. Private.

    smooth: each teacher's predictions are first smoothed over the neighbour graph of the public rows: a function of
    that teacher and of public data, so the guarantee is the same.
    """
    if not smooth:
        return Votes.from_predictions(teachers.predict(view.public[queries], progress=progress), classes=classes)
    graph = build_graph(view.public)
    predictions = teachers.predict(view.public, progress=progress)
    return Votes.from_predictions(graph.smooth(predictions, classes=classes, rows=queries), classes=classes)


def meet(
    plan: Plan,
    votes: Votes,
    *,
    queries: IntArray,
    X_student: Any,
    fresh_student: Any,
    log: Log,
    rng: np.random.Generator,
) -> Answers:
    """Ask about the chosen public rows; between two rounds, a copy of the student says what it already knows."""

    def interim(answered: NDArray[Any], labels: IntArray, rest: NDArray[Any]) -> FloatArray:
        y = np.full(len(X_student), UNLABELLED, np.int64)
        y[queries[answered]] = labels
        student = clone(fresh_student).fit(X_student, y)
        known = student.predict_proba(X_student[queries[rest]])
        scores = np.zeros((len(rest), plan.classes))
        scores[:, np.asarray(student.classes_)] = known
        return scores / scores.sum(axis=1, keepdims=True)

    return ask(plan, votes, log=log, rng=rng, interim_scores=interim)


def student_labels(answers: Answers, queries: IntArray, pool: int) -> IntArray:
    """What the student learns from: one class number per public row, -1 where nobody asked or nobody answered."""
    y = np.full(pool, UNLABELLED, np.int64)
    y[queries] = np.where(answers.taught == NO_ANSWER, UNLABELLED, answers.taught)
    return y


def state(plan: Plan, answers: Answers, task: Task) -> Statement:
    """The statement of what was done; it claims the plan's bound where the bound may be claimed."""
    reason, remarks = _no_claim(plan)
    claimed = answers.secure and reason is None
    return Statement(
        guarantee=plan.guarantee if claimed else None,
        not_private=reason,
        remarks=(*remarks, *_gate_remarks(plan, answers)),
        noise_is_secure=answers.secure,
        rounds=answers.rounds,
        teachers=plan.teachers,
        classes=tuple(str(label) for label in task.classes),
        unit=task.private.unit,
        unit_column=task.private.unit_column,
        adjacency=task.private.adjacency,
        tuned={**plan.tuned, "classes": task.classes_from, **TUNED_ALWAYS},
        versions=versions(),
    )


def _gate_remarks(plan: Plan, answers: Answers) -> tuple[str, ...]:
    if plan.gate is None:
        return ()
    if answers.passed:
        return ("The gate passed: all queries were put to the mechanism.",)
    return (f"The gate refused: the first {plan.gate.prefix} queries alone were put to the mechanism.",)


def _no_claim(plan: Plan) -> tuple[str | None, tuple[str, ...]]:
    if plan.claimable and np.isfinite(plan.guarantee.epsilon):
        return None, ()
    if plan.claimable:
        return (
            f"This release is not differentially private: no epsilon holds for {plan.queries} queries of "
            f"{plan.mechanism.name} at delta {plan.delta:g}."
        ), ()
    reason = getattr(plan.mechanism, "warning", f"{plan.mechanism.name} has no guarantee that may be claimed.")
    remarks: list[str] = []
    if hasattr(plan.mechanism, "claimed_epsilon"):
        claimed = plan.mechanism.claimed_epsilon(queries=plan.queries, delta=plan.delta)
        remarks.append(f"Claimed by the authors of {plan.mechanism.name}, and not true: epsilon {claimed:.4g}.")
        remarks.append(
            f"Its true worst case at delta {plan.delta:g} is bounded by epsilon {round_up(plan.bound.epsilon):g}; "
            "this is too weak to count as a guarantee."
        )
    return reason, tuple(remarks)


def versions() -> dict[str, str]:
    """Versions of what made the release."""
    found = {"python": platform.python_version()}
    for name in ("quorate", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found
