"""Given values or their defaults from public numbers; `tuned` records what each was chosen on."""

from __future__ import annotations

from ostrakon.mechanisms import Mechanism
from ostrakon.options.options import Options
from ostrakon.planning.defaults import DEFAULT_EPSILON, default_delta, default_teachers, require_delta
from ostrakon.planning.plan import SIZE_IS_PUBLIC
from ostrakon.validation import InvalidInput

DEFAULT_PROPORTION = "a default in proportion to the number of teachers"
BY_THE_OPERATOR = "given by the operator"


def settled_delta(options: Options, units: int, unit: str, tuned: dict[str, str]) -> float:
    """The delta, below 1 / units."""
    if options.delta is None:
        tuned["delta"] = f"a power of ten below 1 / number of {unit}s{SIZE_IS_PUBLIC}"
        return default_delta(units)
    tuned["delta"] = BY_THE_OPERATOR
    return require_delta(options.delta, units, unit)


def settled_queries(queries: int, pool: int, tuned: dict[str, str]) -> int:
    """The given number of public rows to label."""
    tuned["number of queries"] = BY_THE_OPERATOR
    if queries > pool:
        raise InvalidInput(f"queries must be at most {pool}, the number of public rows, got {queries}.")
    return queries


def settled_teachers(options: Options, units: int, unit: str, tuned: dict[str, str]) -> int:
    """The number of teachers to train."""
    if options.teachers is None:
        tuned["number of teachers"] = f"a coarse default from the number of {unit}s{SIZE_IS_PUBLIC}"
        return default_teachers(units)
    if options.teachers > units:
        raise InvalidInput(f"teachers must be at most {units}, the number of private {unit}s, got {options.teachers}.")
    tuned["number of teachers"] = BY_THE_OPERATOR
    return options.teachers


def settled_epsilon(options: Options, mechanism: Mechanism, tuned: dict[str, str]) -> float | None:
    """The epsilon of the run: the given one, else the default, unless all noise is given or cannot be scaled."""
    if options.epsilon is not None:
        tuned["epsilon"] = BY_THE_OPERATOR
        return options.epsilon
    noise = mechanism.noise_parameters()
    if not mechanism.releasable or all(options.parameters.get(name) is not None for name in noise):
        return None
    tuned["epsilon"] = f"the default, {DEFAULT_EPSILON:g}"
    return DEFAULT_EPSILON


def parameter_sources(options: Options, mechanism: Mechanism, epsilon: float | None) -> dict[str, str]:
    """Names of parameters → the sources of their values, equal sources together."""
    by_source: dict[str, list[str]] = {}
    for name, value in mechanism.parameters().items():
        if value is None:
            continue
        given = options.neighbours if name == "neighbours" else options.parameters.get(name)
        scaled = epsilon is not None and name in mechanism.noise_parameters()
        if given is None:
            source = "a default" if mechanism.per_record else DEFAULT_PROPORTION
        else:
            source = f"{BY_THE_OPERATOR}{f' as {given:g}' if scaled else ''}"
        if scaled:
            source += f"; then the noise was made as small as epsilon {epsilon:g} allows, from public numbers alone"
        by_source.setdefault(source, []).append(name)
    return {", ".join(names): source for source, names in by_source.items()}
