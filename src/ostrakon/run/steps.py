"""The steps of a run, in their order: plan, features, queries, votes, noisy answers, student, statement."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.data.classes import require_order
from ostrakon.data.object_store import ObjectPath
from ostrakon.data.quantity import Quantity
from ostrakon.data.understood import Understood
from ostrakon.estimators.choices import is_images, require_choices
from ostrakon.export.released import ReleasedQuantity, ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.features.cells import CellFeatures
from ostrakon.features.representation import name_without_folder
from ostrakon.mechanisms.base import StatefulMechanism
from ostrakon.mechanisms.registry import find
from ostrakon.noise import secure_rng
from ostrakon.numerics.global_random import seeded
from ostrakon.options.options import AUTO, ORDERED, Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.progress import in_phase, showing
from ostrakon.run.budget import Budget, budget_of
from ostrakon.run.inputs.private_data import PrivateTable
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import NOTHING, Answers, answer_queries
from ostrakon.run.stages.corrections import corrected, correction_of
from ostrakon.run.stages.estimates import NOT_COPIED, right_counts_of
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.narrowing import HISTOGRAM, histogram_rule, narrowed, without_features
from ostrakon.run.stages.other_targets import distilled
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.released import released_student
from ostrakon.run.stages.selected import as_sure_as_right
from ostrakon.run.stages.student import fit_student
from ostrakon.run.stages.student_errors import (
    CORRECTIONS,
    ERRORS,
    Estimates,
    collect_sums,
    draw_sums,
    error_rule,
    estimates_compared,
    intervals_of,
    is_copied,
    predictions,
    same_estimates,
)
from ostrakon.run.stages.votes import collect, known_totals, require_engine_fits, sees_rows
from ostrakon.run.statement import make_statement
from ostrakon.run.storage import Storage
from ostrakon.statements.adjacency import with_trusted
from ostrakon.statements.statement import Statement
from ostrakon.students.measures import (
    AnyMeasures,
    Measures,
    measure_student,
    measures_of_labels,
    measures_of_quantity,
)
from ostrakon.students.selection import Selection
from ostrakon.teachers import TeacherStore
from ostrakon.teachers.corrections import CorrectionRule
from ostrakon.teachers.engines import LOCAL, on_engine
from ostrakon.teachers.errors import ErrorRule
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Moments, Votes

Say = Callable[[str], None]

PRIVATE = "depends on private values without noise: never to be published"


@dataclass(frozen=True, kw_only=True, eq=False)
class FinishedRun:
    """A finished run. Student, statement, labels and queries may be published; `measures` are for the trusted side.

    Parameters
    ----------
    plan : Plan
    statement : Statement
    student : ReleasedStudent or ReleasedQuantity
        Predicts labels (or estimates the quantity) from raw rows.
    queries : array of int, shape (queries,)
        Public rows that were asked about.
    cells : tuple of str or None
        Names of the cells of columns that `queries` are numbers of, in a run without public rows.
    images : array or None
        The rows of `queries` if they are images.
    answers : Answers
        Released labels and, where the mechanism releases them, noisy counts and sums.
    classes : tuple
    measures : AnyMeasures or None
        Of the student on the test rows.
    rows : str
        A description of a row of the student's input.
    representation, student_name : str
    agreement : dict
        For each candidate student, its agreement with held-out released answers; empty if one was named.
    understood : Understood
        How the files were read.
    recipe : dict or None
        The inputs of a refit besides the released numbers (`ostrakon.run.refit`); None if no refit is possible.
    budget : Budget or None
        The account that paid for the run, as it is now; None without a ledger.
    quantity : Quantity or None
        The range of the target, if it is a number.
    sample : DataFrame or array or None
        Some public rows of a table, for pictures of the student; None for rows of other kinds.
    paid_by_owners : bool
        Whether the owners of a study pay, from ledgers of their own that nobody else sees.
    """

    plan: Plan
    statement: Statement
    student: ReleasedStudent | ReleasedQuantity
    queries: IntArray
    cells: tuple[str, ...] | None
    images: NDArray[Any] | None
    answers: Answers
    classes: tuple[Any, ...]
    measures: AnyMeasures | None
    rows: str
    representation: str
    student_name: str
    agreement: dict[str, float]
    understood: Understood
    recipe: Mapping[str, Any] | None = None
    budget: Budget | None = None
    quantity: Quantity | None = None
    sample: Any = None
    paid_by_owners: bool = False

    @property
    def several(self) -> bool:
        """Whether rows may have several of the classes."""
        return self.statement.several

    @property
    def clipped(self) -> Quantity | None:
        """The part of the range to which values of a quantity were clipped; None for other targets."""
        return None if self.quantity is None else self.quantity.part(self.plan.narrowed)

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test rows, None without any, for a quantity and for several labels."""
        return self.measures.accuracy if isinstance(self.measures, Measures) else None


@dataclass(kw_only=True, eq=False)
class RunContext:
    """The common state of all steps of a run. Some steps replace `task` and `budget`."""

    task: Task
    options: Options
    storage: Storage
    rng: np.random.Generator
    progress: bool
    say: Say
    engine: str
    budget: Budget | None = None
    compared: dict[str, list[float]] = dataclasses.field(default_factory=dict[str, list[float]])
    """What students whose errors were summed say of public rows: the "corrected" one, and that of the "estimates"."""
    features: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """Private features of a frozen encoder in a run without a folder, which two steps use."""

    @cached_property
    def log(self) -> Log:
        """The log of drawn noise; opened after the plan is settled."""
        return self.storage.log()


def run_steps(
    task: Task,
    options: Options,
    storage: Storage,
    *,
    rng: np.random.Generator | None = None,
    progress: bool = False,
    say: Say = lambda stage: None,
    engine: str = LOCAL,
) -> FinishedRun:
    """Do, or finish, a run; results in `storage` are not computed again.

    Parameters
    ----------
    task : Task
    options : Options
    storage : Storage
    rng : numpy.random.Generator, optional
        None for the cryptographic noise source. An ordinary generator is for tests; the statement then says "not
        private".
    progress : bool
    say : callable
        Receives one sentence at the start of each step.
    engine : str
        Where teachers are trained and asked (`ostrakon.teachers.engines`); "local" uses the joblib backend that is set.

    Raises
    ------
    InvalidInput
        For settings that cannot be met, a run that does not fit into its ledger, and where no query was answered.

    Notes
    -----
    Guarantee: as `FinishedRun.statement` says.
    """
    require_choices(teacher=options.teacher, student=options.student, representation=options.representation)
    with storage.opened(), showing(progress):
        context = RunContext(
            task=task,
            options=options,
            storage=storage,
            rng=secure_rng() if rng is None else rng,
            progress=progress,
            say=say,
            engine=engine,
        )
        plan = settle_plan(context)
        if task.outside:
            storage.note("outside_public_range", lambda: {"notice": PRIVATE, "shares": dict(task.outside)})
        say("Learning features from the public data" if task.domain is None else "Cutting columns into cells")
        choice = options.representation if task.domain is None else CellFeatures(task.domain)
        with in_phase("public rows" if task.private.protects == "records" else "all rows"):
            view = storage.view(lambda: view_of(task.X_public, choice, seed=options.seed))
        learning = Learning(
            X_public=task.X_public,
            view=view,
            student=options.student,
            seed=options.seed,
            objective=options.objective,
        )
        learning.require_named(plan)
        queries = queries_of(view, plan.rows, strategy=options.query_strategy, seed=options.seed)
        first = draw_histogram(context, plan)
        plan = narrowed(plan, first, None if task.quantity is None else task.quantity.zero)
        votes = collect_votes(context, plan, view, queries)
        add_trusted_parties(context)
        answers = draw_answers(context, plan, votes, queries, learning, first)
        say("Training the student")
        totals = known_totals(task.private, view, queries) if answers.counts is not None else None
        with seeded(options.seed):
            selection = fit_student(learning, plan, answers, queries, totals=totals)
        if plan.mechanism.correction_noise is not None:
            rule, says = correction_of(plan, learning, queries, selection.student)
            fitted = queries, answers, learning, selection
            answers = ask_student(context, CORRECTIONS, rule, plan, *fitted, says=says)
            selection = corrected(selection, learning, plan, answers, queries, totals=totals)
        with seeded(options.seed):
            selection = distilled(selection, learning)
        if plan.mechanism.error_noise is not None:
            plan, answers, selection = count_errors(context, plan, queries, answers, learning, selection)
        return finish(context, plan, queries, answers, learning, selection)


def settle_plan(context: RunContext) -> Plan:
    """Return the plan, from storage or made now; set `context.budget`."""

    def settled() -> Plan:
        plan = plan_of(context.task, context.options)
        require_engine_fits(context.engine, context.task.private, described=context.task.domain is not None)
        with on_engine(context.engine):
            pass  # Fail early if no worker is connected.
        # Checked before the plan is stored, so that the same folder can be used with a smaller request.
        context.budget = budget_of(plan, context.task, context.options, context.storage)
        return plan

    plan = context.storage.plan(settled)
    require_engine_fits(context.engine, context.task.private, described=context.task.domain is not None)
    if context.budget is None:
        context.budget = budget_of(plan, context.task, context.options, context.storage)
    return plan


def draw_histogram(context: RunContext, plan: Plan) -> Answers | None:
    """Return the noisy histogram of a quantity, paid for and drawn once; None if the plan has none."""
    if plan.mechanism.histogram_noise is None:
        return None
    assert context.task.quantity is not None
    rule = histogram_rule(plan, context.task.quantity.zero)
    context.say(rule.label)

    def counted(folder: Any) -> Moments:
        options: Any = {"seed": context.options.seed, "folder": folder, "progress": context.progress}
        with on_engine(context.engine), in_phase("private rows"):
            if (workers := sees_rows(plan, context.task.private)) is not None:
                context.storage.keep_engine(workers)
            return collect_sums(plan, context.task.private, rule, without_features, **options)

    sums = context.storage.errors(HISTOGRAM, plan, [], counted)
    if context.budget is not None:
        context.budget.reserve()
    answers = draw_sums(HISTOGRAM, plan, NOTHING, sums, log=context.log, rng=context.rng)
    if context.budget is not None:
        context.budget.settle(answers, part=HISTOGRAM)
    return answers


def collect_votes(context: RunContext, plan: Plan, view: View, queries: IntArray) -> Votes:
    """Return the teachers' votes, from storage or collected now. Private."""
    task, storage = context.task, context.storage
    context.say(
        f"Collecting the votes of {plan.teachers:,} {'' if plan.trained_by_owners else 'per-record '}teachers"
        if plan.mechanism.per_record
        else f"Training {plan.teachers:,} teachers"
    )

    def collected(store: TeacherStore | None, folder: Any) -> tuple[Votes, Any]:
        options: Any = {"store": store, "folder": folder, "progress": context.progress, "engine": context.engine}
        options["cache"] = context.features
        with on_engine(context.engine):
            if (workers := sees_rows(plan, task.private)) is not None:
                # Stored before they read rows, so that a resumed run states it, too.
                storage.keep_engine(workers)
            return collect(plan, task.private, view, queries, context.options, **options)

    with in_phase("private rows"):
        return storage.votes(plan, view, queries, collected)


def add_trusted_parties(context: RunContext) -> None:
    """Add all parties that saw private rows, besides the operator, to the trust model of `context.task`."""
    task, storage = context.task, context.storage
    stored_table = isinstance(task.private, PrivateTable) and isinstance(task.private.tables.private.path, ObjectPath)
    trusted = with_trusted(
        task.trust_model, engines=storage.engines(), store=storage.store_in_words(), stored_table=stored_table
    )
    context.task = dataclasses.replace(task, trust_model=trusted)


def draw_answers(
    context: RunContext, plan: Plan, votes: Votes, queries: IntArray, learning: Learning, first: Answers | None
) -> Answers:
    """Pay for the noisy answers, draw them once, and settle; store the data-dependent cost for the trusted side.

    first: what was drawn before them.
    """
    context.say(f"Adding noise to {plan.queries:,} counts" if plan.described else f"Asking {plan.queries:,} queries")
    if context.budget is not None:
        context.budget.reserve()
    answers = answer_queries(plan, votes, queries=queries, learning=learning, log=context.log, rng=context.rng)
    if first is not None:
        answers = dataclasses.replace(answers, histogram=first.histogram, secure=answers.secure and first.secure)
    if context.budget is not None:
        # A later draw depends on a student that learns from these answers.
        more = plan.mechanism.error_noise is not None or plan.mechanism.correction_noise is not None
        context.budget.settle(answers, part="answers" if more else None)
    context.storage.note("data_dependent_cost", lambda: _data_dependent_cost(plan, answers, votes))
    return answers


def ask_student(
    context: RunContext,
    name: str,
    rule: ErrorRule | CorrectionRule,
    plan: Plan,
    queries: IntArray,
    answers: Answers,
    learning: Learning,
    selection: Selection,
    *,
    says: Callable[[Any, Any], Any] = predictions,
) -> Answers:
    """Return the answers with the noisy sums `name` of what private records add by `rule`, drawn once and settled.

    says: what the rule needs of the fitted student, as of `Estimates`.
    """
    context.say(rule.label)
    now = estimates_compared(selection, learning, queries)
    # Stored before any record is counted: whether a resumed run may go on must not depend on the counts.
    number = 2 if name == ERRORS and plan.mechanism.correction_noise is not None else 1
    compared = context.log.keep(f"student-{number}", lambda: np.asarray(now)).tolist()
    if not same_estimates(now, compared):
        raise InvalidInput(
            "The student differs from the one that this run fitted before it stopped, so its errors would be others; "
            "resume on the machine and with the versions that began the run, or start a new run."
        )
    context.compared["estimates" if name == ERRORS else "corrected"] = compared

    def collected(folder: Any) -> Moments:
        options: Any = {"seed": context.options.seed, "folder": folder, "progress": context.progress}
        with on_engine(context.engine), in_phase("private rows"):
            estimates = Estimates.chosen(selection, learning, folder, context.features, says=says)
            return collect_sums(plan, context.task.private, rule, estimates, **options)

    sums = context.storage.errors(name, plan, compared, collected)
    answers = draw_sums(name, plan, answers, sums, log=context.log, rng=context.rng)
    if context.budget is not None:
        more = name == CORRECTIONS and plan.mechanism.error_noise is not None
        context.budget.settle(answers, part=name if more else None)
    return answers


def count_errors(
    context: RunContext, plan: Plan, queries: IntArray, answers: Answers, learning: Learning, selection: Selection
) -> tuple[Plan, Answers, Selection]:
    """Count the errors of the student, and fit its last temperature to them."""
    if not is_copied(selection.student):
        if context.budget is not None:
            context.budget.settle(answers)
        # Paid for, because whether it can be copied may depend on what was released.
        return dataclasses.replace(plan, tuned={**plan.tuned, "errors": NOT_COPIED}), answers, selection
    answers = ask_student(context, ERRORS, error_rule(plan), plan, queries, answers, learning, selection)
    private = context.task.private
    right = right_counts_of(plan, answers, unit=private.unit, protects=private.protects)
    return plan, answers, as_sure_as_right(selection, learning, plan, answers, queries, right)


def finish(
    context: RunContext, plan: Plan, queries: IntArray, answers: Answers, learning: Learning, selection: Selection
) -> FinishedRun:
    """Measure the student on the test rows, if there are any, and write the statement."""
    task, view = context.task, learning.view
    form = RowForm.of(task.X_public, kinds={**(task.kinds or {}), **view.texts}, names=task.names)
    recipe = recipe_of(plan, task, context.options, view)
    if recipe is not None:
        recipe |= context.compared
    released = released_student(
        plan,
        selection,
        learning,
        form,
        classes=task.classes,
        quantity=task.quantity,
        unit=task.private.unit,
        protects=task.private.protects,
        counted=task.counted,
        intervals=None
        if task.quantity is None
        else intervals_of(plan, answers, quantity=task.quantity, unit=task.private.unit),
    )
    return FinishedRun(
        plan=plan,
        statement=make_statement(plan, answers, task, selection, learning, trained_on=context.options.trained_on),
        student=released,
        queries=queries,
        cells=None if task.domain is None else task.domain.cell_names(),
        images=np.asarray(task.X_public)[queries] if is_images(task.X_public) else None,
        answers=answers,
        classes=task.classes,
        measures=measure(context, plan, view, selection),
        rows=view.rows_in_words(task.rows),
        representation=name_without_folder(view.name),
        student_name=selection.chosen.name,
        agreement=selection.agreement,
        understood=task.understood,
        recipe=recipe,
        budget=context.budget,
        quantity=task.quantity,
        sample=None if task.domain is not None else learning.sample(),
    )


def measure(context: RunContext, plan: Plan, view: View, selection: Selection) -> AnyMeasures | None:
    """Measure the student on the test rows, and store the measures for the trusted side; None without test rows."""
    task = context.task
    if task.y_test is None:
        return None
    clipped = None if task.quantity is None else task.quantity.part(plan.narrowed)
    target_options: Any = {"quantity": clipped, "several": task.target == "labels"}
    objective = context.options.objective
    measures = measure_on(
        view, selection, task.X_test, task.y_test, classes=task.classes, objective=objective, **target_options
    )
    context.storage.note("evaluation", measures.as_dict)
    return measures


def measure_on(
    view: View,
    selection: Selection,
    X_test: Any,
    y_test: Any,
    *,
    classes: Sequence[Any],
    quantity: Quantity | None,
    several: bool,
    objective: str,
) -> AnyMeasures:
    """Measure the student on raw test rows. quantity: the range of its estimates. several: whether rows may have
    several labels.
    """
    student = selection.student
    # The released student computes in doubles, too.
    with in_phase("test rows"):
        features = X_test if selection.chosen.takes_rows else np.asarray(view.transform(X_test), np.float64)
    if several:
        return measures_of_labels(student.predict_proba(features), student.predict(features), y_test, classes)
    if quantity is None:
        return measure_student(student, features, y_test, classes, ordered=objective == ORDERED)
    return measures_of_quantity(quantity.values(student.predict(features)), y_test)


def recipe_of(plan: Plan, task: Task, options: Options, view: View) -> dict[str, Any] | None:
    """Return the public inputs of a refit besides released numbers and public rows; None if no refit is possible.

    A refit reads the public rows from their file again and computes their features again.
    """
    if (
        task.source is None
        or not isinstance(options.representation, str)
        or plan.interactive
        or plan.gate is not None
        or plan.trained_by_owners
        or not task.counted
    ):
        return None
    return {
        "public": dict(task.source),
        "representation": name_without_folder(options.representation),
        "seed": options.seed,
        "delta": plan.delta,
        **({"levels": {level.name: level.weight for level in plan.levels}} if plan.levels else {}),
        "row": {"kinds": task.kinds, "words": task.rows},
    }


def plan_of(task: Task, options: Options) -> Plan:
    """Return the plan of a run on `task` (see `ostrakon.planning.make_plan.make_plan`)."""
    data = task.private
    if options.objective == ORDERED and task.target == "classes":
        require_order(task.classes, task.classes_from)
    elif options.mechanism != AUTO and find(options.mechanism).ranked and task.target != "labels":
        raise InvalidInput(
            f"mechanism {options.mechanism} needs classes with an order: choose objective {ORDERED} and list the "
            "classes from low to high."
        )
    plan = make_plan(
        options,
        units=data.units,
        pool=task.pool,
        classes=len(task.classes),
        unit=data.unit,
        kind=TABLE if task.domain is not None else RowKind.of(task.X_public, options.representation),
        domain=task.domain,
        target=task.target,
        consent=task.consent,
    )
    if data.protects == "labels" and plan.mechanism.relation == "take-out":
        raise InvalidInput(
            "neighbours must be replaced if only labels are protected: no record is removed, and a label changes; "
            "got 'removed'."
        )
    return plan


def _data_dependent_cost(plan: Plan, answers: Answers, votes: Votes) -> dict[str, Any]:
    """Return the data-dependent cost, for the trusted side only, without the effect of a cap on answers."""
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
