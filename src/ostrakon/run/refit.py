"""A student trained again from a finished release alone: no private data, no noise, no privacy cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.classes import require_order
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.data.understood import Understood
from ostrakon.estimators.choices import is_images, make_student
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import require_exportable
from ostrakon.features.cells import CellFeatures
from ostrakon.features.representation import is_file_or_code, name_without_folder
from ostrakon.options.options import ACCURACY, BALANCED, OBJECTIVES, OF_COUNTS, ORDERED, is_auto
from ostrakon.planning.choose_mechanism import require_learnable
from ostrakon.planning.plan import Plan, levels_from
from ostrakon.run.inputs.again import EarlierPublic
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.corrections import corrected, with_rule
from ostrakon.run.stages.estimates import NOT_COPIED, STUDENT_WARNINGS, assess, right_counts_of
from ostrakon.run.stages.features import NO_ENCODER, View, view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.narrowing import histogram_rule, narrowed
from ostrakon.run.stages.other_targets import distilled
from ostrakon.run.stages.released import released_student
from ostrakon.run.stages.selected import as_sure_as_right, calibrated, released_counts
from ostrakon.run.stages.student import fit_student
from ostrakon.run.stages.student_errors import error_rule, estimates_compared, intervals_of, same_estimates
from ostrakon.run.statement import calibration_in_words, choice_in_words
from ostrakon.run.steps import FinishedRun, measure_on
from ostrakon.statements.restored import RestoredStatement, statement_from
from ostrakon.statements.sentences import NOT_COUNTED, REFITTED, UNCORRECTED, is_corrected
from ostrakon.statements.statement import Statement
from ostrakon.statements.versions import versions
from ostrakon.students.calibration import uncalibrated
from ostrakon.students.corrected_student import CorrectedStudent
from ostrakon.students.measures import AnyMeasures
from ostrakon.students.right_counts import RightCounts
from ostrakon.students.selection import Released, Selection
from ostrakon.validation import InvalidInput, quote
from ostrakon.votes import IntArray

OTHER_OBJECTIVE = "the errors of the earlier student, which had another objective"
"""The counted errors that decided the last temperature of another student."""
_RECIPE = ("public", "representation", "seed", "delta", "levels", "row", "corrected", "estimates")


@dataclass(frozen=True, kw_only=True, eq=False)
class EarlierRelease:
    """The parts of a release that a refit reads.

    Parameters
    ----------
    statement, recipe : dict
        The content of `statement.json` and `refit.json`.
    asked : list of str
        Public rows (their numbers), or names of cells of columns, that were asked about.
    labels, taught : array of int, shape (queries,)
        As of `Answers`.
    counts, moments, errors, corrections, histogram : array of float or None
        As of `Answers`.
    checksum : str
        SHA-256 of its manifest.
    """

    statement: Mapping[str, Any]
    recipe: Mapping[str, Any]
    asked: list[str]
    labels: IntArray
    taught: IntArray
    counts: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None
    errors: NDArray[np.float64] | None
    corrections: NDArray[np.float64] | None
    histogram: NDArray[np.float64] | None
    checksum: str


def refit_student(
    release: EarlierRelease,
    public: Any,
    *,
    student: Any,
    objective: str = ACCURACY,
    representation: str | None = None,
    test: Any = None,
) -> FinishedRun:
    """Train a student again from a release.

    Parameters
    ----------
    release : EarlierRelease
    public : path or None
        The public table, pictures or texts that the release was made with; None if its columns were described instead.
    student : str or estimator
        As for a run.
    objective : {"accuracy", "balanced", "log-loss", "ordered"}
        As for a run.
    representation : str, optional
        The encoder of the release with its folder, if that was a file or a function of the operator.
    test : path, optional
        Labelled rows, on which the new student is measured.

    Returns
    -------
    FinishedRun
        Its statement is that of the release, with new entries on the student.

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
            f"objective must be {ACCURACY} or {ORDERED} if only labels were released, got {objective!r}."
        )
    try:
        request = _Request(student=student, objective=objective, representation=representation, test=test)
        return _refit(release, statement_from(release.statement), public, request)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"The release must be as a run wrote it, and no student could be trained from it ({error!r})."
        ) from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Request:
    """The arguments of `refit_student`."""

    student: Any
    objective: str
    representation: str | None
    test: Any


def _refit(release: EarlierRelease, statement: RestoredStatement, public: Any, request: _Request) -> FinishedRun:
    recipe, student, objective = release.recipe, request.student, request.objective
    earlier = EarlierPublic.of(public, recipe["public"])
    domain, X_public = earlier.domain, earlier.X
    if domain is not None and not is_auto(student):
        raise InvalidInput(
            f"student cannot be chosen if the columns were described instead of public rows, got {quote(student)}: an "
            "additive model learns from the counts."
        )
    choice = _representation(recipe, request.representation) if domain is None else CellFeatures(domain)
    view = view_of(X_public, choice, seed=recipe["seed"])
    _require_encoder(statement, view)
    plan, answers = _plan_and_answers(release, statement)
    _require_able(release, statement, plan, student=student, objective=objective)
    queries = np.arange(len(release.asked)) if domain is not None else np.array(release.asked, np.int64)
    if len(queries) and not (queries.min() >= 0 and queries.max() < len(view.public)):
        raise InvalidInput(f"The release asks about public rows that do not exist: there are {len(view.public)}.")
    learning = Learning(X_public=X_public, view=view, student=student, seed=recipe["seed"], objective=objective)
    learning.require_named(plan)
    selection = fit_student(learning, plan, answers, queries)
    if answers.corrections is not None:
        selection = _corrected(selection, learning, plan, answers, queries, recipe.get("corrected", ()))
    selection = distilled(selection, learning)
    form = RowForm.of(X_public, kinds={**(recipe["row"]["kinds"] or {}), **view.texts})
    quantity = None if statement.quantity is None else Quantity.of(statement.quantity)
    classes = statement.classes if quantity is None else ENDS
    options: Any = {"quantity": quantity, "unit": statement.unit, "protects": statement.protects}
    # Errors of another student say nothing of this one.
    same = _is_same(selection, learning, queries, recipe.get("estimates", ()))
    known = answers if same else replace(answers, errors=None)
    right = right_counts_of(plan, answers, unit=statement.unit, protects=statement.protects)
    sure = _as_sure_as_right(
        selection, learning, plan, answers, queries, right, same=same, earlier=recipe.get("estimates", ())
    )
    counted = "" if sure is selection else "the student's errors" if same else OTHER_OBJECTIVE
    if quantity is not None:
        options["intervals"] = intervals_of(plan, known, quantity=quantity, unit=statement.unit)
    return FinishedRun(
        plan=plan,
        statement=_new_statement(release, statement, plan, known, learning, sure, counted=counted),
        student=released_student(plan, sure, learning, form, classes=classes, **options),
        queries=queries,
        cells=None if domain is None else domain.cell_names(),
        images=np.asarray(X_public)[queries] if is_images(X_public) else None,
        answers=answers,
        classes=classes,
        quantity=quantity,
        measures=None if request.test is None else _measured(earlier, statement, plan, view, sure, recipe, request),
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


def _corrected(
    selection: Selection,
    learning: Learning,
    plan: Plan,
    answers: Answers,
    queries: IntArray,
    earlier: Sequence[float],
) -> Selection:
    """Return the selection, corrected if its student is the one whose errors were summed, under any objective.

    An objective decides how probabilities are calibrated and become labels. The sums are those of the probabilities
    under the objective of the run, which are corrected; the labels follow from these by the objective of the refit.
    """
    others = OBJECTIVES if is_auto(learning.student) and plan.target == "classes" else ()
    for objective in (learning.objective, *(one for one in others if one != learning.objective)):
        first = selection
        if objective != learning.objective:
            first = fit_student(replace(learning, objective=objective), plan, answers, queries)
        if _is_same(first, learning, queries, earlier):
            return corrected(first, learning, plan, answers, queries, labelled=selection.student)
    return selection


def _as_sure_as_right(
    selection: Selection,
    learning: Learning,
    plan: Plan,
    answers: Answers,
    queries: IntArray,
    right: RightCounts | None,
    *,
    same: bool,
    earlier: Sequence[float],
) -> Selection:
    """Return the selection with a last temperature, if its student differs from the one whose errors were counted by
    the objective alone.

    The errors tell how sure its probabilities may be of the labels that were counted. same: whether it is that student.
    earlier: as of `_is_same`.
    """
    if right is None or learning.described or not hasattr(selection.student, "predict_proba"):
        return selection
    others = (
        () if same else _of_other_objectives(selection, learning, released_counts(learning, plan, answers, queries))
    )
    counted = selection if same else next((one for one in others if _is_same(one, learning, queries, earlier)), None)
    if counted is None:
        return selection
    return as_sure_as_right(selection, learning, plan, answers, queries, right, counted=counted.student)


def _of_other_objectives(selection: Selection, learning: Learning, released: Released) -> Iterator[Selection]:
    """Yield the selection with its student under the other objectives; a corrected one keeps its probabilities.

    Labels for which every class counts the same are not the likeliest ones. How sure the student is of them agrees with
    how often they are right if its mean probabilities are right, which a correction makes them; else a temperature
    makes the log loss worse about as often as better.
    """
    student = uncalibrated(selection.student)
    base = replace(
        selection, student=uncalibrated(student.student) if isinstance(student, CorrectedStudent) else student
    )
    for objective in OBJECTIVES:
        if objective != learning.objective and (objective != BALANCED or isinstance(student, CorrectedStudent)):
            other = calibrated(base, released, replace(learning, objective=objective))
            if isinstance(student, CorrectedStudent):
                other = replace(selection, student=with_rule(student, other.student))
            yield other


def _is_same(selection: Selection, learning: Learning, queries: IntArray, earlier: Sequence[float]) -> bool:
    """Return whether the student says of public rows what a student of the release said."""
    return same_estimates(estimates_compared(selection, learning, queries), earlier)


def _representation(recipe: Mapping[str, Any], given: str | None) -> str:
    """Return the representation of the release; `given` if it was a file or a function of the operator."""
    name = str(recipe["representation"])
    if given is None and is_file_or_code(name):
        raise InvalidInput(f"representation must be given: the release was made with {name}, which it does not hold.")
    if given is not None and name_without_folder(given) != name:
        raise InvalidInput(f"representation must be that of the release, {name}, got {name_without_folder(given)}.")
    return name if given is None else given


def _require_encoder(statement: RestoredStatement, view: View) -> None:
    """Refuse another encoder than that of the release, by its name and its checksums."""
    encoder, stated = view.representation.encoder, statement.tuned.get("encoder", "")
    current = encoder.in_words() if encoder is not None and encoder.frozen else ""
    earlier = "" if stated.startswith(NO_ENCODER) else stated
    earlier, current = (words.partition("; trained on: ")[0] for words in (earlier, current))
    if current != earlier:
        raise InvalidInput(f"The encoder must be that of the release ({earlier or 'none'}), got {current or 'none'}.")


def _measured(
    earlier: EarlierPublic,
    statement: RestoredStatement,
    plan: Plan,
    view: View,
    selection: Selection,
    recipe: Mapping[str, Any],
    request: _Request,
) -> AnyMeasures:
    """Measure the new student on the given labelled rows."""
    options: dict[str, Any] = {"classes": statement.classes, "several": statement.several}
    quantity = None if statement.quantity is None else Quantity.of(statement.quantity)
    target = recipe["understood"]["target"]
    X_test, y_test = earlier.labelled(request.test, target=target, quantity=quantity, **options)
    clipped = None if quantity is None else quantity.part(plan.narrowed)
    return measure_on(view, selection, X_test, y_test, objective=request.objective, quantity=clipped, **options)


def _require_able(
    release: EarlierRelease, statement: RestoredStatement, plan: Plan, *, student: Any, objective: str
) -> None:
    """Refuse a student that cannot learn from the release or be released, and an objective that does not fit."""
    require_learnable(student, objective, target=plan.target, sums=release.moments is not None)
    if not is_auto(student):
        require_exportable(make_student(student))
    if objective == ORDERED:
        require_order(statement.classes, statement.tuned.get("classes", ""))


def _new_statement(
    release: EarlierRelease,
    statement: RestoredStatement,
    plan: Plan,
    answers: Answers,
    learning: Learning,
    selection: Selection,
    *,
    counted: str,
) -> RestoredStatement:
    """Return the statement of the release with the entries of the new student.

    counted: as `errors_of` of `calibration_in_words`.
    """
    labels, unit, protects = list(statement.classes), statement.unit, statement.protects
    estimates, warnings = assess(plan, answers, selection, learning, labels=labels, unit=unit, protects=protects)
    kept = {name: how for name, how in statement.tuned.items() if name not in ("probabilities", "estimates")}
    calibration = calibration_in_words(selection, labels=answers.counts is None, errors_of=counted)
    uncorrected = answers.corrections is not None and not is_corrected(calibration)
    rows = "" if learning.described else " and public rows"
    # Those of an earlier refit are of its student.
    others = (*STUDENT_WARNINGS, UNCORRECTED, NOT_COUNTED)
    return replace(
        statement,
        estimates=estimates,
        remarks=(
            *warnings,
            *(remark for remark in statement.remarks if not remark.startswith(others)),
            *([UNCORRECTED] if uncorrected else []),
            *([NOT_COUNTED] if release.errors is not None and answers.errors is None else []),
            f"{REFITTED}{rows} alone (SHA-256 of the manifest of that release: {release.checksum}). Computing with "
            "released numbers costs no privacy (post-processing): the guarantee is that of the earlier release, and "
            "covers both together.",
        ),
        tuned={
            **kept,
            "student": choice_in_words(selection),
            **calibration,
        },
        versions=versions(),
    )


def _plan_and_answers(release: EarlierRelease, statement: RestoredStatement) -> tuple[Plan, Answers]:
    plan = _plan(release, statement)
    answers = _answers(release, statement, plan)
    if statement.quantity is not None:
        plan = narrowed(plan, answers, Quantity.of(statement.quantity).zero)
    part = None if plan.narrowed is None else Quantity.of(statement.quantity).part(plan.narrowed)
    clipped = part and (part.low, part.high)
    if statement.clipped != clipped:
        raise InvalidInput(
            f"The range of the release must be clipped to {_in_words(clipped)}, by its noisy histogram, and its "
            f"statement says {_in_words(statement.clipped)}."
        )
    return plan, answers


def _in_words(ends: tuple[float, float] | None) -> str:
    return "nothing" if ends is None else "{} to {}".format(*ends)


def _plan(release: EarlierRelease, statement: Statement) -> Plan:
    """Return the plan of the run, as far as a student depends on it; its cost is in the statement."""
    first_round, several = statement.rounds[0], len(statement.classes)
    by_teachers = statement.several and release.counts is None
    unknown = WorstCase(epsilon=np.inf, delta=release.recipe["delta"], basis="")
    bound = statement.guarantee if isinstance(statement.guarantee, WorstCase) else unknown
    return Plan(
        teachers=statement.teachers,
        classes=2 if by_teachers or statement.quantity is not None else several,
        mechanism=first_round.mechanism,
        interactive=False,
        queries=first_round.queries,
        max_answers=first_round.max_answers,
        delta=release.recipe["delta"],
        bound=bound,
        tuned=statement.tuned,
        levels=levels_from(release.recipe.get("levels", {})),
        labels=several if by_teachers else None,
    )


def _answers(release: EarlierRelease, statement: Statement, plan: Plan) -> Answers:
    several = plan.target == "labels" and plan.labels is None
    columns = (len(statement.classes) if several else plan.classes,)
    if several:
        # Votes for labels, or for and against them.
        columns = (*columns, 2 * columns[0])
    tables = {"noisy counts": release.counts, "noisy sums": release.moments, "noisy corrections": release.corrections}
    for name, noisy in tables.items():
        if noisy is None:
            continue
        rows = statement.queries if noisy is release.counts else len(noisy)
        if noisy.ndim != 2 or noisy.shape[1] not in columns or len(noisy) != rows:
            shape = (rows, columns[-1])
            raise InvalidInput(f"The {name} of the release must be {shape} numbers, got {noisy.shape}.")
        if not np.isfinite(noisy).all():
            raise InvalidInput("The noisy counts and sums of the release must be finite numbers.")
    none = plan.mechanism.error_noise is None or plan.tuned.get("errors") == NOT_COPIED
    bins = None if none else error_rule(plan).shape
    if bins != (None if release.errors is None else release.errors.shape):
        raise InvalidInput(f"The noisy counts of errors of the release must be {bins} numbers, as its statement says.")
    if release.errors is not None and not np.isfinite(release.errors).all():
        raise InvalidInput("The noisy counts of errors of the release must be finite numbers.")
    corrections, expected = release.corrections, plan.mechanism.correction_noise is not None
    fits = corrections is None or (corrections.ndim == 2 and corrections.shape[1] == plan.classes)
    if not fits or expected != (corrections is not None):
        which = f"a column for each of {plan.classes} classes" if expected else "none"
        raise InvalidInput(f"The noisy corrections of the release must be {which}, as its statement says.")
    if (plan.mechanism.histogram_noise is None) != (release.histogram is None):
        which = "given" if release.histogram is None else "absent"
        raise InvalidInput(f"The noisy histogram of the release must be {which}, as its statement says.")
    if release.histogram is not None:
        bins = histogram_rule(plan, Quantity.of(statement.quantity).zero).shape
        if release.histogram.shape != bins or not np.isfinite(release.histogram).all():
            raise InvalidInput(f"The noisy histogram of the release must be {bins} finite numbers.")
    if len(release.taught) != statement.queries:
        raise InvalidInput(
            f"The release must have {statement.queries} answers, as its statement says; got {len(release.taught)}."
        )
    return Answers(
        labels=release.labels,
        taught=release.taught,
        rounds=statement.rounds,
        secure=statement.noise_is_secure,
        counts=release.counts,
        moments=release.moments,
        errors=release.errors,
        corrections=release.corrections,
        histogram=release.histogram,
    )
