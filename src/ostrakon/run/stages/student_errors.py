"""Errors of the fitted student, counted on private records: intervals of a quantity, and the accuracy on classes."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from joblib import parallel_config

from ostrakon.data.object_store import StoredFolder
from ostrakon.data.quantity import Quantity
from ostrakon.export.student_files import require_exportable
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.features.rowwise import in_blocks, independent_rows, take_rows
from ostrakon.mechanisms.base import FloatArray
from ostrakon.numerics.global_random import seeded
from ostrakon.numerics.threads import on_one_thread
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.private_data import PrivateData
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import Answers, rounded_draw
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.votes import rows_of, transform_of
from ostrakon.statements.statement import Unit
from ostrakon.students.calibration import CalibratedStudent
from ostrakon.students.prediction_intervals import PredictionIntervals, edges_of, half_widths_of
from ostrakon.students.selection import Selection
from ostrakon.teachers.corrections import CorrectionRule
from ostrakon.teachers.errors import ErrorRule, ErrorSizes, RightAndWrong
from ostrakon.teachers.gathering import sum_contributions
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS, IntArray, Moments

CORRECTIONS, ERRORS = "corrections", "errors"
"""Names of the sums over private records that depend on a student: fields of `Answers`."""
_COMPARED, _EQUAL = 50, 1e-6
"""Most public rows on which students are compared; largest difference of equal ones, of probabilities or shares of the
range."""


def error_rule(plan: Plan) -> ErrorRule:
    """Return how records add to the counts of errors of a plan whose mechanism has `error_noise`."""
    if plan.target == "quantity":
        assert plan.mechanism.error_noise is not None
        edges = edges_of(plan.teachers, plan.mechanism.error_noise)
        return ErrorSizes(edges=edges, span=plan.narrowed or (0, FINE_STEPS))
    return RightAndWrong(classes=plan.classes, by_class=plan.classes <= FEW_CLASSES)


def collect_sums(
    plan: Plan,
    private: PrivateData,
    rule: ErrorRule | CorrectionRule,
    estimates: Callable[[Any], Any],
    *,
    seed: int,
    folder: Path | StoredFolder | None = None,
    progress: bool = False,
) -> Moments:
    """Sum over all records what they add, by `rule`, to corrections of the student or to counts of its errors. Private.

    Parameters
    ----------
    plan : Plan
    private : PrivateData
    rule : ErrorRule or CorrectionRule
    estimates : callable
        From raw rows to what the rule needs of the student, independently for every row (`Estimates`).
    seed : int
    folder : optional
        Where pieces of the private table are kept.
    progress : bool

    Notes
    -----
    Guarantee: what a record adds depends on that record and on what was released before.
    """
    rows = rows_of(private, estimates, seed=seed, folder=folder)
    sums = sum_contributions(rows, rule, units=plan.teachers, progress=progress, label=rule.label)
    return Moments(sums.counts, teachers=plan.teachers)


def draw_sums(name: str, plan: Plan, answers: Answers, sums: Moments, *, log: Log, rng: np.random.Generator) -> Answers:
    """Return `answers` with the noisy sums that it calls `name`, drawn once."""
    draw = rounded_draw(f"noisy {name}", getattr(plan.mechanism, f"noisy_{name}"), plan.mechanism)
    drawn, secure = log.draw(f"{name}-1", sums, draw, rng)
    return replace(answers, **{name: drawn / STEPS, "secure": answers.secure and secure})


def predictions(student: Any, X: Any) -> FloatArray:
    """Return what a student says of rows, (rows, 1): shares of the range, or numbers of classes."""
    return np.asarray(student.predict(X), np.float64)[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """A function from raw rows to what a student says of them, by default `predictions`.

    student: fitted. transform: from rows to its features; None: it takes the rows. rows: batch size. known: whether the
    student could be released and has no code from elsewhere. Of any other one a copy is asked about every row, because
    it may use other rows of a batch, or remember them; where it fails, the numbers are missing (NaN). says: from a
    student and its input to numbers, (rows, `says.width`), or one number without that attribute.
    Guarantee: the estimate of a row depends on that row alone, to the last bit.
    """

    student: Any
    transform: Callable[[Any], Any] | None
    rows: int
    known: bool = True
    says: Callable[[Any, Any], FloatArray] = predictions

    @classmethod
    def of(
        cls,
        student: Any,
        transform: Callable[[Any], Any] | None,
        *,
        seen: Any,
        says: Callable[[Any, Any], FloatArray] = predictions,
    ) -> "Estimates":
        """Return the estimates of a student. seen: its input for the public rows."""
        if not _is_known(student):
            return cls(student=student, transform=transform, rows=1, known=False, says=says)
        # Classes of a few public rows hide rounding, which decides the class of other rows.
        asked = getattr(student, "predict_proba", student.predict) if says is predictions else partial(says, student)
        with _in_one_order():
            rows = independent_rows(asked, _student_input(seen, transform))
        return cls(student=student, transform=transform, rows=rows, says=says)

    @classmethod
    def chosen(
        cls,
        selection: Selection,
        learning: Learning,
        folder: Any,
        cache: dict[str, Any],
        says: Callable[[Any, Any], FloatArray] = predictions,
    ) -> "Estimates":
        """Return the estimates of the chosen student. folder: as in `collect_sums`. cache: as of `transform_of`."""
        features_folder = folder.with_name("features") if isinstance(folder, Path) else None
        transform = None if selection.chosen.takes_rows else transform_of(learning.view, features_folder, cache)
        return cls.of(selection.student, transform, seen=learning.rows(selection.chosen), says=says)

    def __call__(self, X: Any) -> FloatArray:
        """Return the estimates for X."""
        seen = _student_input(X if self.transform is None else self.transform(X), self.transform)
        with _in_one_order():
            parts = in_blocks(self._predict, seen, rows=self.rows, label="Estimating")
        return np.concatenate(parts) if parts else np.zeros((0, 1))

    def _predict(self, rows: Any) -> FloatArray:
        if self.known:
            return self.says(self.student, rows)
        missing = np.full((1, getattr(self.says, "width", 1)), np.nan)
        # A row's random numbers depend on that row alone, and differ from those of other rows.
        with seeded(crc32(repr(np.asarray(rows).tolist()).encode())):
            try:
                said = self.says(deepcopy(self.student), rows)
            except Exception:  # of code from elsewhere: it depends on a private row, so it must not end the run
                return missing
        return said if said.shape == missing.shape else missing


def is_copied(student: Any) -> bool:
    """Return whether `Estimates` can ask a fitted student: a function of released numbers."""
    if _is_known(student):
        return True
    try:
        deepcopy(student)
    except Exception:  # whatever its code raises
        return False
    return True


def _is_known(student: Any) -> bool:
    """Return whether a student can be released, and no part of it is a function or class from elsewhere."""
    try:
        require_exportable(student)
    except InvalidInput:
        return False
    parts = [student, *getattr(student, "get_params", dict)().values()]
    code = [part for part in parts if callable(part) or hasattr(part, "predict")]
    return all(type(part).__module__.startswith(("sklearn.", "ostrakon.")) for part in code)


@contextmanager
def _in_one_order() -> Generator[None]:
    """Fix the order of sums: the number of threads changes the rounding of products, and a forest with jobs adds its
    trees as they finish.
    """
    with on_one_thread(), parallel_config(backend="sequential"):
        yield


def _student_input(X: Any, transform: Callable[[Any], Any] | None) -> Any:
    """Return features in doubles, as in the released student; raw rows unchanged."""
    return X if transform is None else np.asarray(X, np.float64)


def intervals_of(plan: Plan, answers: Answers, *, quantity: Quantity, unit: Unit) -> PredictionIntervals | None:
    """Return the intervals of the student; None if its errors were not counted."""
    noise = plan.mechanism.error_noise
    if answers.errors is None or noise is None:
        return None
    shares = half_widths_of(answers.errors, units=plan.teachers, noise=noise)
    part, widest = quantity.part(plan.narrowed), quantity.high - quantity.low
    widths = {coverage: (part.high - part.low) * share if share < 1 else widest for coverage, share in shares.items()}
    of = "private records" if unit == "record" else "rows of private users, where every user counts the same"
    return PredictionIntervals(half_widths=widths, of=of)


def estimates_compared(selection: Selection, learning: Learning, queries: IntArray) -> list[float]:
    """Return what a student says of some public rows, which identifies it: probabilities if it has any.

    Also how these become classes, which the objective decides.
    """
    rows = take_rows(learning.rows(selection.chosen), queries[:_COMPARED])
    seen, student = rows if selection.chosen.takes_rows else np.asarray(rows, np.float64), selection.student
    of_rows = getattr(student, "predict_proba", student.predict)
    with seeded(0):
        said = np.round(np.asarray(of_rows(seen), np.float64), 9).ravel()[: _COMPARED * 2].tolist()
    if isinstance(student, CalibratedStudent):
        weights = [] if student.weights is None else np.round(student.weights, 9).tolist()
        said += [*weights, float(student.ordered)]
    return said


def same_estimates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two students are equal by `estimates_compared`."""
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=0, atol=_EQUAL, equal_nan=True))
