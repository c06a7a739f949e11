"""A run, stage by stage: each stage reads what it has already left on the disk, or does its work and leaves it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.statement import Statement
from ostrakon.data.checksummed import Damaged, array_from, npy, read_checksummed, write_checksummed
from ostrakon.data.files import private_folder, write_atomically
from ostrakon.mechanisms.base import StatefulMechanism
from ostrakon.mechanisms.registry import is_per_record
from ostrakon.noise import secure_rng
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.task import Task
from ostrakon.run.learning import Learning
from ostrakon.run.noise_log import NoiseLog
from ostrakon.run.settings.defaults import AUTO
from ostrakon.run.settings.learners import is_auto, make_student, require_choices
from ostrakon.run.settings.plan import Plan, Request, auto_mechanism, make_plan, plan_from
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.queries import Answers
from ostrakon.run.stages.student import answer_queries, fit_student, make_statement, versions
from ostrakon.run.stages.votes import collect, queries_of, refuse_teacher_options, votes_from
from ostrakon.students.export import require_exportable
from ostrakon.students.released import ReleasedStudent
from ostrakon.students.row_form import RowForm
from ostrakon.teachers import TeacherStore
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import Votes

VOTES = "votes.npy"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a run is made of.

    teacher, student, representation: names or estimators (see `ostrakon.run.settings.learners`).

    queries: how the public rows to ask about are chosen (see `ostrakon.public.choose_queries`). smooth: smooth each
    teacher's predictions over the neighbour graph of the public rows.

    seed: of data splitting and models only, never of noise. n_jobs: workers, as in joblib.
    """

    request: Request = field(default_factory=Request)
    teacher: Any = AUTO
    student: Any = AUTO
    representation: Any = AUTO
    queries: str = "representatives"
    smooth: bool = False
    seed: int = 0
    n_jobs: int | None = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A finished run. Publishable: student, statement, labels, queries. `accuracy` (on the test rows) and the
    folder's private/ are for eyes on the trusted side.

    student: predicts labels from raw rows; rows: what such a row is, in words. queries: public rows that were asked
    about. answers: released labels. agreement: of each candidate student with held-out released answers, by name;
    empty where one was named.
    """

    folder: Path
    plan: Plan
    statement: Statement
    student: Any
    queries: NDArray[np.int64]
    answers: Answers
    classes: tuple[Any, ...]
    accuracy: float | None
    test_rows: int
    rows: str
    representation: str
    student_name: str
    agreement: dict[str, float]


Say = Callable[[str], None]


def run(
    folder: str | os.PathLike[str],
    task: Task,
    recipe: Recipe,
    *,
    asked: dict[str, Any] | None = None,
    rng: np.random.Generator | None = None,
    progress: bool = False,
    say: Say = lambda stage: None,
) -> Outcome:
    """Do, or finish, the run in `folder`: everything but writing `release/` (`ostrakon.report.release.publish`).

    asked: what the user typed, as run.toml keeps it and a resumed run compares it. rng: None for the cryptographic
    noise source; an ordinary generator is for tests and marks the statement "not private". say: told each stage.

    Guarantee: killed at any moment and called again with the same arguments, it goes on from what is on the disk;
    no teacher is trained twice and no vote is noised twice (see `ostrakon.run.noise_log`).
    Errors: `InvalidInput` for a folder of another run, other data, settings that cannot be kept.
    """
    whole("seed", recipe.seed)
    require_choices(teacher=recipe.teacher, student=recipe.student)
    asked = _asked(recipe) if asked is None else asked
    with RunFolder(folder).opened() as home:
        home.refuse_other_run(asked, task.fingerprints)
        plan = _settled(home, task, recipe, asked)
        say("Learning features from the public data")
        view = _view(home, task, recipe)
        if not is_auto(recipe.student):
            require_exportable(make_student(recipe.student, seed=recipe.seed))
        queries = queries_of(view, plan.queries, strategy=recipe.queries, seed=recipe.seed)
        say(
            f"Collecting the votes of {plan.teachers} per-record teachers"
            if plan.per_record
            else f"Training {plan.teachers} teachers"
        )
        votes = _votes(home, task, recipe, plan, view, queries, progress=progress)
        say(f"Asking {plan.queries} queries")
        noise = NoiseLog(home.private / "noise", marks=home.marks)
        learning = Learning(X_public=task.X_public, view=view, student=recipe.student, seed=recipe.seed)
        answers = answer_queries(
            plan, votes, queries=queries, learning=learning, log=noise, rng=secure_rng() if rng is None else rng
        )
        _write_data_dependent_cost(home.private / "data_dependent_cost.json", plan, answers, votes)
        say("Training the student")
        selection = fit_student(learning, plan, answers, queries)
        statement = make_statement(plan, answers, task, selection)
        labels = [str(label) for label in task.classes]
        student, raw = selection.student, selection.chosen.takes_rows
        form = RowForm.of(task.X_public, kinds=task.kinds)
        released = ReleasedStudent(form, None if raw else view.representation, student, labels)
        # In doubles, as the released student computes.
        X_test = task.X_test if raw or task.X_test is None else np.asarray(view.transform(task.X_test), np.float64)
        accuracy = _evaluate(home.private / "evaluation.json", student, X_test, task.y_test)
        return Outcome(
            folder=home.path,
            plan=plan,
            statement=statement,
            student=released,
            queries=queries,
            answers=answers,
            classes=task.classes,
            accuracy=accuracy,
            test_rows=0 if task.y_test is None else len(task.y_test),
            rows=task.rows,
            representation=view.name,
            student_name=selection.chosen.name,
            agreement=selection.agreement,
        )


def _asked(recipe: Recipe) -> dict[str, Any]:
    request = recipe.request
    named = {
        "teacher": recipe.teacher,
        "student": recipe.student,
        "representation": recipe.representation,
        "queries_strategy": recipe.queries,
        "smooth": recipe.smooth,
        "teachers": request.teachers,
        "mechanism": request.mechanism,
        **request.parameters,
        "queries": request.queries,
        "max_answers": request.max_answers,
        "epsilon": request.epsilon,
        "delta": request.delta,
        "guarantee": request.guarantee,
        "agreement": request.agreement,
        "seed": recipe.seed,
    }
    plain = (str, int, float)
    return {
        key: value if isinstance(value, plain) else repr(value) for key, value in named.items() if value is not None
    }


def _settled(home: RunFolder, task: Task, recipe: Recipe, asked: dict[str, Any]) -> Plan:
    held = home.read()
    if held is not None:
        plan = plan_from(held["settled"], classes=len(task.classes))
        epsilon = recipe.request.epsilon
        if epsilon is not None and plan.claimable and plan.guarantee.epsilon > epsilon:
            raise InvalidInput(
                f"{home.description} must keep within epsilon {epsilon:g} as asked, but what it settles costs "
                f"{plan.guarantee.epsilon:.6g}: it was changed; restore it or start a new run in a new folder."
            )
        return plan
    data = task.private
    if is_per_record(recipe.request.mechanism):
        refuse_teacher_options(teacher=recipe.teacher, smooth=recipe.smooth)
    plan = make_plan(
        recipe.request,
        units=data.units,
        pool=task.pool,
        classes=len(task.classes),
        unit=data.unit,
        auto=auto_mechanism(recipe.request, trained=not is_auto(recipe.teacher) or recipe.smooth),
    )
    home.write(
        {"asked": asked, "settled": plan.as_dict(), "versions": versions(), "fingerprints": dict(task.fingerprints)}
    )
    return plan


def _view(home: RunFolder, task: Task, recipe: Recipe) -> View:
    # Kept, because an encoder may have trained for minutes; pickled, which only private/ may hold.
    path = home.private / "representation.joblib"
    held = _whole(path, what="representation", belongs=home.identity)
    if held is not None:
        return joblib.load(io.BytesIO(held))
    view = view_of(task.X_public, recipe.representation, seed=recipe.seed)
    if view.fitted is not None:
        buffer = io.BytesIO()
        joblib.dump(view, buffer)
        write_checksummed(path, buffer.getbuffer(), what="representation", belongs=home.identity)
    return view


def _votes(
    home: RunFolder, task: Task, recipe: Recipe, plan: Plan, view: View, queries: Any, *, progress: bool
) -> Votes:
    path = home.private / VOTES
    # Of these queries, seen this way: a row of other votes would be another question's answer.
    belongs = {"run": home.identity, "queries": fingerprint_of(queries), "features": fingerprint_of(view.public)}
    held = _whole(path, what="votes", belongs=belongs)
    if held is None:
        # Collected again where they are damaged: the noise log refuses them, should they not be the same ones.
        votes, _ = collect(
            plan,
            task.private,
            view,
            queries,
            teacher=recipe.teacher,
            smooth=recipe.smooth,
            seed=recipe.seed,
            n_jobs=recipe.n_jobs,
            progress=progress,
            store=None if plan.per_record else TeacherStore(private_folder(home.private / "teachers")),
            folder=home.private / "shards",
        )
        held = bytes(npy(votes.counts))
        write_checksummed(path, held, what="votes", belongs=belongs)
    return votes_from(plan, array_from(held))


def _whole(path: Path, *, what: str, belongs: Any) -> bytes | None:
    """What a whole file of this run holds; None where there is none, or a damaged or foreign one: it is made again."""
    try:
        held = read_checksummed(path, what=what)
    except Damaged:
        return None
    return held.payload if held is not None and held.belongs == belongs else None


def _write_data_dependent_cost(path: Path, plan: Plan, answers: Answers, votes: Votes) -> None:
    """The data-dependent cost, for eyes on the trusted side. The cap on answers is not credited."""
    content: dict[str, Any] = {"notice": "depends on the private votes: not a guarantee, never to be published"}
    if not isinstance(plan.mechanism, StatefulMechanism):
        start, total = 0, None
        for asked in answers.rounds:
            curve = exact_curve(votes[start : start + asked.queries], asked.mechanism)
            total = curve if total is None else total + curve
            start += asked.queries
        assert total is not None
        epsilon, order = total.epsilon(delta=plan.delta)
        content |= {"epsilon": epsilon if np.isfinite(epsilon) else "infinite", "order": order, "delta": plan.delta}
    _note(path, content)


def _evaluate(path: Path, student: Any, X_test: Any, y_test: Any) -> float | None:
    if y_test is None:
        return None
    accuracy = float(np.mean(student.predict(X_test) == y_test))
    _note(path, {"accuracy": accuracy, "test_rows": len(y_test)})
    return accuracy


def _note(path: Path, content: dict[str, Any]) -> None:
    """Leave a file for people to read; one that already says so stays, and one that was damaged does not."""
    text = (json.dumps(content, indent=2) + "\n").encode()
    if not path.is_file() or path.read_bytes() != text:
        write_atomically(path, text)
