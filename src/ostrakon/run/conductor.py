"""The one order of a run: plan, features, queries, votes, noisy answers, student, statement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.data.understood import Understood
from ostrakon.estimators.choices import is_images, require_choices, sees_images
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.features.synthetic import require_mbi, tables_of
from ostrakon.mechanisms.base import StatefulMechanism
from ostrakon.noise import secure_rng
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.run.budget import Budget, budget_of
from ostrakon.run.inputs.private_data import PrivateTable
from ostrakon.run.inputs.task import Task
from ostrakon.run.remote import with_private_table, with_store
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.pool import with_synthetic_pool
from ostrakon.run.stages.queries import Answers
from ostrakon.run.stages.student import answer_queries, fit_student, make_statement
from ostrakon.run.stages.votes import collect, known_totals, queries_of, refuse_unspread, sees_rows
from ostrakon.run.storage import Place
from ostrakon.statements.statement import Statement
from ostrakon.teachers import TeacherStore
from ostrakon.teachers.engines import LOCAL, on_engine, with_engines
from ostrakon.votes import Votes

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Finished:
    """A finished run. Publishable: student, statement, labels, queries. `accuracy` (on the test rows) is for eyes on
    the trusted side.

    student: predicts labels from raw rows; rows: what such a row is, in words. queries: public rows that were asked
    about; images: those rows themselves, where they are images, else None. pool: all public rows, where the run drew
    them, else None. answers: released labels. agreement: of each candidate student with held-out released answers, by
    name; empty where one was named. understood: what was understood of the files. budget: of the account in a ledger
    that paid for it, as it is now; None without one.
    """

    plan: Plan
    statement: Statement
    student: ReleasedStudent
    queries: NDArray[np.int64]
    pool: Any
    images: NDArray[Any] | None
    answers: Answers
    classes: tuple[Any, ...]
    accuracy: float | None
    test_rows: int
    rows: str
    representation: str
    student_name: str
    agreement: dict[str, float]
    understood: Understood
    budget: Budget | None = None


def conduct(
    task: Task,
    options: Options,
    place: Place,
    *,
    rng: np.random.Generator | None = None,
    progress: bool = False,
    say: Say = lambda stage: None,
    engine: str = LOCAL,
) -> Finished:
    """Do, or finish, a run: whatever `place` already keeps is not made again.

    rng: None for the cryptographic noise source; an ordinary generator is for tests and marks the statement "not
    private". say: told each stage. engine: where teachers are trained and asked (`ostrakon.teachers.engines`); where it
    is `local`, on the joblib backend that is set. Guarantee: what `Finished.statement` says.
    Errors: `InvalidInput` for settings that cannot be kept, a run that does not fit into its ledger, and where no query
    was answered.
    """
    require_choices(teacher=options.teacher, student=options.student, representation=options.representation)
    if task.synthetic is not None:
        require_mbi()
    with place.opened():
        budget: Budget | None = None

        def settled() -> Plan:
            nonlocal budget
            made = plan_of(task, options)
            refuse_unspread(engine, task.private)
            with on_engine(engine):
                pass  # Nobody may be there: said before features are learned.
            # Before the plan is kept: a run that does not fit may ask for less in the same folder.
            budget = budget_of(made, task, options, place)
            return made

        plan = place.plan(settled)
        refuse_unspread(engine, task.private)
        budget = budget_of(plan, task, options, place) if budget is None else budget
        noise, log, pool_is_secure = secure_rng() if rng is None else rng, place.log(), True
        if task.synthetic is not None:
            say(f"Drawing {task.pool:,} public rows from noisy marginals")
            if budget is not None:
                budget.reserve()
            task, pool_is_secure = with_synthetic_pool(
                task,
                task.synthetic,
                plan,
                seed=options.seed,
                log=log,
                rng=noise,
                folder=place.shards(),
                paid=None if budget is None else budget.settle_marginals,
            )
        say("Learning features from the public data")
        view = place.view(lambda: view_of(task.X_public, options.representation, seed=options.seed))
        queries = queries_of(view, plan.queries, strategy=options.queries_strategy, seed=options.seed)
        say(
            f"Collecting the votes of {plan.teachers} {'' if plan.trained else 'per-record '}teachers"
            if plan.mechanism.per_record
            else f"Training {plan.teachers} teachers"
        )

        def cast(store: TeacherStore | None, folder: Any) -> tuple[Votes, Any]:
            kept: Any = {"store": store, "folder": folder}
            with on_engine(engine):
                if (workers := sees_rows(plan, task.private)) is not None:
                    # Before they see anything: a resumed run says so, too, wherever it goes on.
                    place.keep_engine(workers)
                return collect(plan, task.private, view, queries, options, progress=progress, engine=engine, **kept)

        votes = place.votes(plan, view, queries, cast)
        say(f"Asking {plan.queries} queries")
        trusted = with_store(with_engines(task.trust_model, place.engines()), place.stored())
        if isinstance(task.private, PrivateTable):
            trusted = with_private_table(trusted, task.private.tables.private.path)
        task = dataclasses.replace(task, trust_model=trusted)
        learning = Learning(X_public=task.X_public, view=view, student=options.student, seed=options.seed)
        if budget is not None:
            budget.reserve()
        answers = answer_queries(plan, votes, queries=queries, learning=learning, log=log, rng=noise)
        answers = dataclasses.replace(answers, secure=answers.secure and pool_is_secure)
        if budget is not None:
            budget.settle(answers)
        place.note("data_dependent_cost", lambda: _data_dependent_cost(plan, answers, votes))
        say("Training the student")
        totals = known_totals(task.private, view, queries) if answers.counts is not None else None
        selection = fit_student(learning, plan, answers, queries, totals=totals)
        raw = selection.chosen.takes_rows
        form = RowForm.of(task.X_public, kinds={**(task.kinds or {}), **view.texts}, names=task.names)
        released = ReleasedStudent(form, None if raw else view.representation, selection.student, list(task.classes))
        accuracy = None
        if task.y_test is not None:
            # In doubles, as the released student computes.
            X_test = task.X_test if raw else np.asarray(view.transform(task.X_test), np.float64)
            accuracy = float(np.mean(selection.student.predict(X_test) == task.y_test))
            found = {"accuracy": accuracy, "test_rows": len(task.y_test)}
            place.note("evaluation", lambda: found)
        return Finished(
            plan=plan,
            statement=make_statement(plan, answers, task, selection, learning, trained_on=options.trained_on),
            student=released,
            queries=queries,
            pool=None if task.synthetic is None else task.X_public,
            images=np.asarray(task.X_public)[queries] if is_images(task.X_public) else None,
            answers=answers,
            classes=task.classes,
            accuracy=accuracy,
            test_rows=0 if task.y_test is None else len(task.y_test),
            rows=view.rows_in_words(task.rows),
            representation=view.name,
            student_name=selection.chosen.name,
            agreement=selection.agreement,
            understood=task.understood,
            budget=budget,
        )


def plan_of(task: Task, options: Options) -> Plan:
    """The plan of a run on `task` (see `ostrakon.planning.make_plan.make_plan`)."""
    data = task.private
    return make_plan(
        options,
        units=data.units,
        pool=task.pool,
        classes=len(task.classes),
        unit=data.unit,
        images=sees_images(task.X_public, options.representation),
        tables=None if task.synthetic is None else len(tables_of(task.synthetic.sizes)),
    )


def _data_dependent_cost(plan: Plan, answers: Answers, votes: Votes) -> dict[str, Any]:
    """The data-dependent cost, for eyes on the trusted side. The cap on answers is not credited."""
    content: dict[str, Any] = {"notice": "depends on the private votes: not a guarantee, never to be published"}
    if isinstance(plan.mechanism, StatefulMechanism):
        return content
    start, total = 0, None
    for asked in answers.rounds:
        curve = exact_curve(votes[start : start + asked.queries], asked.mechanism)
        total = curve if total is None else total + curve
        start += asked.queries
    assert total is not None
    epsilon, order = total.epsilon(delta=plan.delta)
    return content | {"epsilon": epsilon if np.isfinite(epsilon) else "infinite", "order": order, "delta": plan.delta}
