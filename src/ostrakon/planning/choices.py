"""From options and public numbers to choices: every default is set here, and its source is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ostrakon.data.consent import Consent
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.bounded_gnmax import REPLACED
from ostrakon.mechanisms.registry import build_with_defaults, require_own
from ostrakon.options.options import GATE, WORST_CASE, Options, is_auto
from ostrakon.planning.defaults import DEFAULT_EPSILON, default_delta, default_size, default_teachers, require_delta
from ostrakon.planning.plan import DESCRIBED_CELLS, DIGITS_ARE_PUBLIC, INTERACTIVE, SIZE_IS_PUBLIC, first_round
from ostrakon.validation import InvalidInput

DEFAULT_PROPORTION = "a default in proportion to the number of teachers"
BY_THE_OPERATOR = "given by the operator"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The inputs of a plan. All are set except, with per-record teachers, the number of queries.

    mechanism: with the given noise, or noise in the default proportions. epsilon: the noise is then scaled to it; None:
    the noise stays. teachers: with per-record teachers, all units. queries: None if they follow from the noise.
    columns: number of described columns, whose cells share the votes; None with public rows. consent: the epsilons that
    levels of records allow; `epsilon` is the largest. agreement: of simulated votes, for a gate; None without one.
    sources, parameter_sources: parameter → the basis of its choice.
    """

    mechanism: Mechanism
    interactive: bool = False
    epsilon: float | None
    delta: float
    teachers: int
    classes: int
    pool: int
    queries: int | None
    max_answers: int | None = None
    agreement: float | None = None
    columns: int | None = None
    consent: Consent | None = None
    unit: str
    sources: Mapping[str, str]
    parameter_sources: Mapping[str, str]


def trained_choices(
    options: Options, name: str, *, units: int, pool: int, classes: int, unit: str, labels: int = 1
) -> Choices:
    """Return the choices for trained teachers and the mechanism called `name`.

    labels: number of queries for each public row, one for each label that it may have.

    Errors: see `ostrakon.planning.make_plan.make_plan`.
    """
    if options.neighbours == REPLACED:
        raise InvalidInput(
            f"neighbours cannot be {REPLACED} with trained teachers, whose epsilon is for one {unit} added or removed: "
            "the statement has a second epsilon for one replaced."
        )
    gated = options.guarantee == GATE
    sources: dict[str, str] = {}
    teachers = _teachers(options, units, unit, sources)
    delta = _delta(options, units, unit, sources)
    mechanism = build_with_defaults(first_round(name), teachers, options.parameters)
    epsilon = _epsilon(options, mechanism, sources)
    queries, max_answers = _queries(options, pool, sources), options.max_answers
    if queries is None:
        sources["number of queries"] = "a default from the size of the public data and the epsilon"
        sizes: Any = {"pool": pool * labels, "epsilon": epsilon, "delta": delta}
        queries, cap = default_size(mechanism, **sizes, classes=classes, max_answers=max_answers)
        max_answers = max_answers if gated else cap
        queries = max(1, queries // labels) * labels
    else:
        queries *= labels
    if gated and name == INTERACTIVE:
        raise InvalidInput("A gate takes one batch of queries: interactive-gnmax, which asks in two rounds, has none.")
    if gated and max_answers is not None:
        raise InvalidInput("max_answers cannot be combined with a gate, which answers a whole batch or refuses it.")
    return Choices(
        mechanism=mechanism,
        interactive=name == INTERACTIVE,
        epsilon=epsilon,
        delta=delta,
        teachers=teachers,
        classes=classes,
        pool=pool,
        queries=queries,
        max_answers=max_answers,
        agreement=options.agreement if gated else None,
        unit=unit,
        sources=sources,
        parameter_sources=_parameter_sources(options, mechanism, epsilon),
    )


def per_record_choices(
    options: Options,
    name: str,
    *,
    units: int,
    pool: int,
    classes: int,
    unit: str,
    fixed: Mapping[str, Any],
    columns: int | None = None,
) -> Choices:
    """Return the choices for a mechanism (`name`) with every unit as a teacher.

    fixed: parameters that follow from public numbers, unless they are given. columns: see `Choices`.
    Errors: see `ostrakon.planning.make_plan.make_plan`.
    """
    refuse_teacher_options(teacher=options.teacher, smooth=options.smooth)
    for option, default in (("teachers", None), ("max_answers", None), ("guarantee", WORST_CASE)):
        if getattr(options, option) != default:
            raise InvalidInput(
                f"{option} cannot be chosen for {name}, where every {unit} votes and all queries together have one "
                f"price, got {getattr(options, option)!r}."
            )
    sources = {"number of teachers": f"one for every {unit}, which makes the number of {unit}s public"}
    delta = _delta(options, units, unit, sources)
    defaults = {"neighbours": options.neighbours or REPLACED, **fixed}
    mechanism = build_with_defaults(name, units, {**defaults, **require_own(name, options.parameters)})
    epsilon = _epsilon(options, mechanism, sources)
    queries = pool if columns is not None else _queries(options, pool, sources)
    if columns is not None:
        sources["number of queries"] = DESCRIBED_CELLS
    elif queries is None:
        sources["number of queries"] = (
            f"chosen so that every row asked about gets several times more votes than noise, from the number of {unit}s"
        )
    return Choices(
        mechanism=mechanism,
        epsilon=epsilon,
        delta=delta,
        teachers=units,
        classes=classes,
        pool=pool,
        queries=queries,
        columns=columns,
        unit=unit,
        sources=sources,
        parameter_sources=_parameter_sources(options, mechanism, epsilon),
    )


def refuse_teacher_options(*, teacher: Any, smooth: bool) -> None:
    """Refuse options of trained teachers for per-record teachers."""
    if not is_auto(teacher) or smooth:
        option = "smooth" if is_auto(teacher) else "teacher"
        raise InvalidInput(
            f"{option} cannot be chosen where every record is a teacher of its own and votes for itself."
        )


def _delta(options: Options, units: int, unit: str, sources: dict[str, str]) -> float:
    if options.delta is None:
        sources["delta"] = f"the largest power of ten below 1 / number of {unit}s{DIGITS_ARE_PUBLIC}"
        return default_delta(units)
    sources["delta"] = BY_THE_OPERATOR
    return require_delta(options.delta, units, unit)


def _queries(options: Options, pool: int, sources: dict[str, str]) -> int | None:
    """Return the given number of public rows to label, None if it is not given."""
    if options.queries is None:
        return None
    sources["number of queries"] = BY_THE_OPERATOR
    if options.queries > pool:
        raise InvalidInput(f"queries must be at most {pool}, the number of public rows, got {options.queries}.")
    return options.queries


def _teachers(options: Options, units: int, unit: str, sources: dict[str, str]) -> int:
    if options.teachers is None:
        sources["number of teachers"] = f"a coarse default from the number of {unit}s{SIZE_IS_PUBLIC}"
        return default_teachers(units)
    if options.teachers > units:
        raise InvalidInput(f"teachers must be at most {units}, the number of private {unit}s, got {options.teachers}.")
    sources["number of teachers"] = BY_THE_OPERATOR
    return options.teachers


def _epsilon(options: Options, mechanism: Mechanism, sources: dict[str, str]) -> float | None:
    """Return the given epsilon, else the default; None if all noise is given or cannot be scaled."""
    if options.epsilon is not None:
        sources["epsilon"] = BY_THE_OPERATOR
        return options.epsilon
    noise = mechanism.noise_parameters()
    if not mechanism.releasable or all(options.parameters.get(name) is not None for name in noise):
        return None
    sources["epsilon"] = f"the default, {DEFAULT_EPSILON:g}"
    return DEFAULT_EPSILON


def _parameter_sources(options: Options, mechanism: Mechanism, epsilon: float | None) -> dict[str, str]:
    """Return names of parameters → the source of their values; parameters with equal sources share a key."""
    by_source: dict[str, list[str]] = {}
    # A given 0 may be left out of the parameters.
    for name, value in {**mechanism.parameters(), **options.parameters}.items():
        if value is None:
            continue
        given = options.neighbours if name == "neighbours" else options.parameters.get(name)
        scaled = epsilon is not None and name in mechanism.noise_parameters()
        if given is None and scaled and mechanism.per_record:
            source = f"noise of the votes, as small as epsilon {epsilon:g} allows, from public numbers alone"
            scaled = False
        elif given is None:
            source = "a default, from public facts alone" if mechanism.per_record else DEFAULT_PROPORTION
        else:
            source = f"{BY_THE_OPERATOR}{f' as {given:g}' if scaled else ''}"
        if scaled:
            source += f"; then the noise was made as small as epsilon {epsilon:g} allows, from public numbers alone"
        by_source.setdefault(source, []).append(name)
    return {
        ", ".join(names): source if len(names) == 1 else source.replace("a default", "defaults")
        for source, names in by_source.items()
    }
