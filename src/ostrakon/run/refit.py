"""A student trained again from a finished release alone: no private data, no noise, no privacy cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.classes import require_order
from ostrakon.data.domain import Domain
from ostrakon.data.understood import Understood
from ostrakon.estimators.choices import make_student
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import require_exportable
from ostrakon.features.cells import CellFeatures
from ostrakon.features.representation import name_without_folder
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.options.options import ACCURACY, OF_COUNTS, ORDERED, is_auto
from ostrakon.planning.plan import Plan, levels_from
from ostrakon.run.inputs.tables import public_rows_again
from ostrakon.run.stages.estimates import STUDENT_WARNINGS, estimates_of, warnings_of
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.queries import Answers
from ostrakon.run.stages.sets import sets_of
from ostrakon.run.stages.student import fit_student
from ostrakon.run.statement import calibration_in_words, described
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.restored import RestoredStatement, statement_from
from ostrakon.statements.sentences import REFITTED
from ostrakon.statements.statement import Statement
from ostrakon.statements.versions import versions
from ostrakon.students.selection import Selection
from ostrakon.validation import InvalidInput

_RECIPE = ("public", "representation", "seed", "delta", "levels", "row")


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierRelease:
    """What a refit reads of a release.

    Parameters
    ----------
    statement, recipe : dict
        The content of `statement.json` and `refit.json`.
    asked : list of str, length queries
        Public rows (their numbers), or names of cells of columns, that were asked about.
    labels : list of str, length queries
        The label of each; empty for none.
    by_teachers : array of bool, shape (queries,)
        Whether the label came from the teachers, not from a student between two rounds.
    counts, moments : array of float or None
        The noisy counts, shape (queries, classes), and the noisy sums, shape (directions, classes).
    checksum : str
        SHA-256 of its manifest.
    """

    statement: Mapping[str, Any]
    recipe: Mapping[str, Any]
    asked: list[str]
    labels: list[str]
    by_teachers: NDArray[np.bool_]
    counts: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None
    checksum: str


def refit_student(release: EarlierRelease, public: Any, *, student: Any, objective: str = ACCURACY) -> FinishedRun:
    """Train a student again from a release.

    Parameters
    ----------
    release : EarlierRelease
    public : path or None
        The public table that the release was made with; None if its columns were described instead.
    student : str or estimator
        As for a run.
    objective : {"accuracy", "balanced", "log-loss", "ordered"}
        As for a run.

    Returns
    -------
    FinishedRun
        Its statement is that of the release, apart from what it says of the student.

    Raises
    ------
    InvalidInput
        For another public table, a student that cannot learn from what was released, and numbers that do not fit.

    Notes
    -----
    Guarantee: a function of the release and of public rows, so by post-processing the guarantee of the release covers
    it. With the options of a run the student is that of the run, to the last bit.
    """
    if objective in OF_COUNTS and release.counts is None:
        raise InvalidInput(
            f"objective must be {ACCURACY} or {ORDERED} where labels alone were released, got {objective!r}."
        )
    if not is_auto(student):
        require_exportable(make_student(student))
    try:
        return _refitted(release, statement_from(release.statement), public, student=student, objective=objective)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"refit.json must be as a run wrote it, and it cannot be read ({error!r}).") from error


def _refitted(
    release: EarlierRelease, statement: RestoredStatement, public: Any, *, student: Any, objective: str
) -> FinishedRun:
    recipe, domain = release.recipe, None
    description = recipe["public"].get("description")
    if (public is None) != (description is not None):
        raise InvalidInput(
            "public must be given: the public table that the release was made with."
            if description is None
            else "public cannot be given: the columns of this release were described, without public rows."
        )
    if description is None:
        X_public, choice = public_rows_again(public, recipe["public"]), recipe["representation"]
    else:
        domain = Domain.of(description["columns"], delimiter=description["delimiter"])
        X_public, choice = domain.examples(), CellFeatures(domain)
    view = view_of(X_public, choice, seed=recipe["seed"])
    if objective == ORDERED:
        require_order(statement.classes, statement.tuned.get("classes", ""))
    plan, answers = _plan(release, statement), _answers(release, statement)
    queries = np.arange(len(release.asked)) if domain is not None else np.array(release.asked, np.int64)
    if len(queries) and not (queries.min() >= 0 and queries.max() < len(view.public)):
        raise InvalidInput(f"The release asks about public rows that do not exist: there are {len(view.public)}.")
    learning = Learning(X_public=X_public, view=view, student=student, seed=recipe["seed"], objective=objective)
    learning.require_named(classes=plan.classes)
    selection = fit_student(learning, plan, answers, queries)
    form = RowForm.of(X_public, kinds={**(recipe["row"]["kinds"] or {}), **view.texts})
    seen = None if selection.chosen.takes_rows else view.representation
    of: Any = {"unit": statement.unit, "protects": statement.protects, "counted": True}
    sets = sets_of(plan, selection, learning, **of)
    return FinishedRun(
        plan=plan,
        statement=_restated(release, statement, plan, answers, learning, selection),
        student=ReleasedStudent(form, seen, selection.student, list(statement.classes), sets),
        queries=queries,
        cells=None if domain is None else domain.cell_names(),
        images=None,
        answers=answers,
        classes=statement.classes,
        measures=None,
        rows=view.rows_in_words(recipe["row"]["words"]),
        representation=name_without_folder(view.name),
        student_name=selection.chosen.name,
        agreement=selection.agreement,
        understood=Understood(
            facts=dict(recipe["understood"]["facts"]),
            warnings=tuple(recipe["understood"]["warnings"]),
            target=recipe["understood"]["target"],
        ),
        recipe={name: recipe[name] for name in _RECIPE if name in recipe},
        sample=None if domain is not None else learning.sample(),
    )


def _restated(
    release: EarlierRelease,
    statement: RestoredStatement,
    plan: Plan,
    answers: Answers,
    learning: Learning,
    selection: Selection,
) -> RestoredStatement:
    """The statement of the release with what there is to say of another student."""
    said = np.asarray(selection.student.predict(learning.rows(selection.chosen)))
    estimates = estimates_of(plan, answers, selection, said=said, unit=statement.unit, protects=statement.protects)
    kept = {name: how for name, how in statement.tuned.items() if name != "probabilities"}
    return replace(
        statement,
        estimates=estimates,
        remarks=(
            *warnings_of(
                plan,
                answers,
                selection,
                learning,
                said=said,
                labels=list(statement.classes),
                estimated=bool(estimates),
            ),
            *(remark for remark in statement.remarks if not remark.startswith(STUDENT_WARNINGS)),
            f"{REFITTED} (SHA-256 of the manifest of that release: {release.checksum}). Computing with released "
            "numbers costs no privacy (post-processing): the guarantee is that of the earlier release, and covers both "
            "together.",
        ),
        tuned={
            **kept,
            "student": described(selection),
            **calibration_in_words(selection, labels=answers.counts is None),
        },
        versions=versions(),
    )


def _plan(release: EarlierRelease, statement: Statement) -> Plan:
    """The plan of the run, as far as a student depends on it; what it cost is in the statement."""
    asked = statement.rounds[0]
    unknown = WorstCase(epsilon=np.inf, delta=release.recipe["delta"], basis="")
    bound = statement.guarantee if isinstance(statement.guarantee, WorstCase) else unknown
    return Plan(
        teachers=statement.teachers,
        classes=len(statement.classes),
        mechanism=asked.mechanism,
        interactive=False,
        queries=asked.queries,
        max_answers=asked.max_answers,
        delta=release.recipe["delta"],
        bound=bound,
        tuned=statement.tuned,
        levels=levels_from(release.recipe.get("levels", {})),
    )


def _answers(release: EarlierRelease, statement: Statement) -> Answers:
    numbers = {label: number for number, label in enumerate(statement.classes)} | {"": NO_ANSWER}
    if any(label not in numbers for label in release.labels):
        raise InvalidInput("labels.csv must hold the labels of the statement, and it holds another one.")
    taught = np.array([numbers[label] for label in release.labels], np.int64)
    labels = np.where(release.by_teachers, taught, NO_ANSWER)
    wanted = (statement.queries, len(statement.classes))
    for noisy, rows in ((release.counts, wanted[0]), (release.moments, None)):
        if noisy is None:
            continue
        if noisy.ndim != 2 or noisy.shape[1] != wanted[1] or rows not in (None, len(noisy)):
            raise InvalidInput(f"The noisy counts of the release must be {wanted} numbers, got {noisy.shape}.")
        if not np.isfinite(noisy).all():
            raise InvalidInput("The noisy counts and sums of the release must be finite numbers.")
    if len(taught) != wanted[0]:
        raise InvalidInput(f"labels.csv must have {wanted[0]} queries, as the statement says; got {len(taught)}.")
    return Answers(
        labels=labels,
        taught=taught,
        rounds=statement.rounds,
        secure=statement.noise_is_secure,
        counts=release.counts,
        moments=release.moments,
    )
