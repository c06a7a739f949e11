"""Choice of the mechanism from public numbers alone, and checks of the other options."""

import math
from dataclasses import replace
from typing import Any

from ostrakon.data.labels import MOST_OF_TEACHERS
from ostrakon.data.target import Target
from ostrakon.estimators.choices import OTHER_TARGETS, require_student
from ostrakon.features.labels import is_limited
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import ACCURACY, AUTO, OF_COUNTS, ORDERED, WORST_CASE, Options, is_auto
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    DEFAULT_OF_TEACHERS,
    OF_LABELS,
    OF_QUANTITIES,
)
from ostrakon.planning.plan import INTERACTIVE
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.validation import InvalidInput, quote, whole

_PER_RECORD = ("max_contributions", "moments", "corrections", "errors")
"""Parameters of mechanisms of per-record teachers."""
_STUDENTS_OF_SUMS = ("moments", "gaussian-process", "MomentLogistic", "MomentVote", "GaussianProcessStudent")
"""Students that learn from sums of features by class."""
_NEEDS = {
    OF_QUANTITIES: "a quantity as the target: give its public range",
    OF_LABELS: "rows with several labels: give their columns, --target a,b,c, or --classes a;b;c for cells such as a;b",
}


def learns_moments(options: Options) -> bool:
    """Return whether the named student learns from sums of features."""
    named = options.student if isinstance(options.student, str) else type(options.student).__name__
    return named.partition(":")[0] in _STUDENTS_OF_SUMS


def per_record_mechanism(options: Options, *, classes: int = 2, kind: RowKind = TABLE) -> str:
    """Return the default mechanism of per-record teachers: with sums of features if a student learns from them.

    No student for images does, and few named students; with many classes each sum has few records, and helps for
    embeddings alone.
    """
    sums_help = kind.embedded or classes <= FEW_CLASSES
    with_sums = learns_moments(options) or (is_auto(options.student) and not kind.images and sums_help)
    return DEFAULT_MECHANISM if with_sums else DEFAULT_OF_COUNTS


def auto_mechanism(options: Options, *, classes: int = 2, kind: RowKind = TABLE) -> str:
    """Return the mechanism for "auto": every record is a teacher, so that the number of queries costs nothing.

    Confident-GNMax if an option needs trained teachers: their number or kind, a cap on answers, a gate, noise of other
    mechanisms, or smoothing.
    """
    answer_options = options.max_answers is not None or options.guarantee != WORST_CASE
    noise_options = any(value is not None for name, value in options.parameters.items() if name not in _PER_RECORD)
    teacher_options = options.teachers is not None or not is_auto(options.teacher) or options.smooth
    trained = teacher_options or answer_options or noise_options
    if trained:
        return DEFAULT_OF_TEACHERS
    return per_record_mechanism(options, classes=classes, kind=kind)


def choose_mechanism(options: Options, *, classes: int, kind: RowKind) -> str:
    """Return the name of the mechanism for classes and public rows.

    Errors: `InvalidInput` for a student that learns from what it does not release, or an objective that needs counts.
    """
    name = options.mechanism
    if name == AUTO:
        name = auto_mechanism(options, classes=classes, kind=kind)
    if name in _NEEDS:
        raise InvalidInput(f"mechanism {name} needs {_NEEDS[name]}.")
    if learns_moments(options) and name != DEFAULT_MECHANISM:
        raise InvalidInput(
            f"student must be one that learns from what {name} releases, got {options.student!r}, which "
            f"needs the sums of features of {DEFAULT_MECHANISM}."
        )
    if options.objective in OF_COUNTS and (kind.images or not find(name).releases_counts):
        raise InvalidInput(
            f"objective must be {ACCURACY} or {ORDERED} for images, and for mechanisms that release labels alone, as "
            f"those of trained teachers do, got {options.objective!r}: the others need noisy counts, which "
            f"{DEFAULT_MECHANISM} releases, and features."
        )
    return name


def needs_trained_teachers(options: Options) -> bool:
    """Return whether options of teachers or of their mechanisms need trained teachers for rows with several labels."""
    if options.mechanism != AUTO:
        return not find(options.mechanism).per_record
    declared = find(OF_LABELS).declared()
    noise_options = any(value is not None for name, value in options.parameters.items() if name not in declared)
    return noise_options or auto_mechanism(replace(options, parameters={})) == DEFAULT_OF_TEACHERS


def trained_mechanism_for_labels(options: Options, labels: int) -> str:
    """Return the mechanism of trained teachers of several labels. Errors: `InvalidInput` for options that do not
    fit."""
    if labels > MOST_OF_TEACHERS:
        raise InvalidInput(
            f"classes must be at most {MOST_OF_TEACHERS} labels for trained teachers, got {labels}: without options of "
            "teachers, every record votes, and there may be more."
        )
    for name, allowed in (("guarantee", WORST_CASE), ("smooth", False)):
        given = getattr(options, name)
        if given != allowed:
            raise InvalidInput(
                f"{name} must be {allowed} for trained teachers of rows with several labels, got {quote(given)}; for "
                "others run once for each label."
            )
    if options.mechanism == INTERACTIVE:
        raise InvalidInput(f"mechanism {INTERACTIVE} cannot be used if rows have several labels.")
    return DEFAULT_OF_TEACHERS if options.mechanism == AUTO else options.mechanism


def require_sums_mechanism(options: Options, unit: str, *, target: Target) -> None:
    """Refuse a named mechanism that does not release the sums of a quantity, or of several labels."""
    name = OF_LABELS if target == "labels" else OF_QUANTITIES
    if options.mechanism not in (AUTO, name):
        raise InvalidInput(
            f"mechanism must be {name} if {OTHER_TARGETS[target]}, got {options.mechanism!r}: every {unit} adds to its "
            "sums."
        )


def require_learnable(student: Any, objective: str, *, target: Target, sums: bool) -> None:
    """Refuse a student or an objective that does not fit the target.

    sums: whether noisy sums of a quantity, or of several labels, are released.
    """
    if target in OTHER_TARGETS and objective != ACCURACY:
        instead = " For others run once for each label." if target == "labels" else ""
        raise InvalidInput(f"objective must be {ACCURACY} if {OTHER_TARGETS[target]}, got {objective!r}.{instead}")
    require_student(student, target=target, sums=sums)


def most_labels(options: Options, labels: int) -> int:
    """Return the parameter max_labels of `LabelsGNMax`, for the form of votes with less noise, from public numbers.

    It is the given one, or the square root of the number of labels, rounded up; all labels if votes on all have less
    noise.
    Errors: `InvalidInput` for more than there are.
    """
    given = options.parameters.get("max_labels")
    most = math.isqrt(labels - 1) + 1 if given is None else whole("max_labels", given, at_least=1)
    if most > labels:
        raise InvalidInput(f"max_labels must be at most {labels}, the number of labels, got {most}.")
    return most if is_limited(labels, most) else labels
