"""Defaults that depend on public numbers alone: how many teachers, how many queries, how much noise, which delta."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ostrakon.accounting.calibration.noise import NOISE_FIELDS
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.mechanisms import MECHANISMS, BoundedGNMax, Mechanism
from ostrakon.validation import InvalidInput, fraction, whole

TEACHERS_GRID = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
ROWS_PER_TEACHER = 100
DEFAULT_EPSILON = 2.0
AUTO = "auto"
DEFAULT_MECHANISM = "confident-gnmax"
MOST_QUERIES = 1000
MOST_PER_RECORD = 1280
"""As many representatives as clusters are made in eight stages of 10, 20, 40, …; more take minutes to find."""
SIGNAL_TO_NOISE = 5
"""Votes on a query, in standard deviations of their noise, where every unit has a voice."""


def default_teachers(units: int) -> int:
    """The largest of 5, 10, 25, 50, … 5000 that leaves about a hundred records (or users) to a teacher.

    The grid is coarse so that the number of teachers, which is public, says little about the number of records.

    >>> default_teachers(32_561), default_teachers(700)
    (250, 5)
    """
    units = whole("units", units, at_least=1)
    fitting = [count for count in TEACHERS_GRID if count * ROWS_PER_TEACHER <= units]
    return max(fitting, default=min(units, TEACHERS_GRID[0]))


def default_delta(units: int) -> float:
    """The largest power of ten below 1 / units, at most 1e-5.

    >>> default_delta(32_561), default_delta(100_000), default_delta(2_000_000)
    (1e-05, 1e-06, 1e-07)
    """
    units = whole("units", units, at_least=1)
    return min(1e-5, float(f"1e-{len(str(units))}"))


def require_delta(delta: Any, units: int, unit: str = "record") -> float:
    """`delta`, refused unless it is below 1 / units: above it, publishing one whole record could pass as private."""
    delta = fraction("delta", delta)
    if not delta < 1 / units:
        raise InvalidInput(
            f"delta must be below 1 divided by the number of {unit}s in the private data, got {delta!r} "
            f"(the default, {default_delta(units):g}, would do)."
        )
    return delta


def default_mechanism(name: str, teachers: int, given: dict[str, float | None]) -> Mechanism:
    """The mechanism of that name with what is `given`, and for the rest proportions of the number of teachers.

    Threshold 0.7 N, sigma1 0.8 N, sigma2 0.2 N for N teachers: noise that leaves a lead of half the votes legible.
    Laplace and exponential noise have the same standard deviation as that sigma2. The interactive mechanism comes
    as its first round, which is Confident-GNMax.

    Errors: `InvalidInput` for an unknown name or a parameter that the mechanism does not have, naming its option.
    """
    teachers = whole("teachers", teachers, at_least=1)
    told = {key: value for key, value in given.items() if value is not None}
    if name == "interactive-gnmax":
        refuse_foreign(name, told)
        name = "confident-gnmax"
    return build_mechanism(name, {**_defaults(name, teachers, told), **told})


def build_mechanism(name: str, parameters: dict[str, Any]) -> Mechanism:
    """The mechanism of that name from its parameters; those that are None count as not given.

    Errors: `InvalidInput` naming the command-line option that is missing, foreign or out of range.
    """
    told = {key: value for key, value in parameters.items() if value is not None}
    fields = refuse_foreign(name, told)
    kind: Any = MECHANISMS[name]
    missing = [key for key, field in fields.items() if key not in told and _is_required(field)]
    if missing:
        raise InvalidInput(f"{name} needs {', '.join(option(key) for key in missing)}.")
    try:
        return kind(**told)
    except InvalidInput as error:
        # The mechanism names its field; whoever types a command knows it as an option.
        named = next((key for key in sorted(told, key=len, reverse=True) if str(error).startswith(f"{key} ")), None)
        raise InvalidInput(str(error) if named is None else option(named) + str(error)[len(named) :]) from None


def refuse_foreign(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The fields of the mechanism of that name; refused where `parameters` has another one."""
    if name not in MECHANISMS:
        raise InvalidInput(f"--mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}.")
    kind: Any = MECHANISMS[name]
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    foreign = [key for key in parameters if key not in fields]
    if foreign:
        known = ", ".join(option(key) for key in fields if key != "scores")
        raise InvalidInput(f"{option(foreign[0])} is no parameter of {name}, which takes {known}.")
    return fields


def option(parameter: str) -> str:
    """The command-line option of a mechanism's parameter."""
    return "--" + parameter.replace("_", "-")


def default_size(
    mechanism: Mechanism, *, pool: int, epsilon: float | None, delta: float, classes: int, max_answers: int | None
) -> tuple[int, int | None]:
    """(queries, cap on answers): at most 1,000 queries and the pool, at least ten per class where the pool has them.

    With an epsilon to keep: as many as `mechanism`, at the default proportions of noise, answers within it. Where
    queries may be refused, twice as many are asked as are answered: a check costs little, and asking stops at the cap.
    """
    most = min(pool, MOST_QUERIES)
    if epsilon is None or not mechanism.releasable or not has_noise(mechanism):
        return most, max_answers
    checks = mechanism.gaussian_dp()
    spare = 2 if checks is not None and checks[0] > 0 and max_answers is None else 1

    def size(answers: int) -> tuple[int, int | None]:
        return min(pool, spare * answers), (answers if spare > 1 else max_answers)

    least, beyond = min(pool, 10 * classes), most + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        queries, cap = size(middle)
        fits = worst_case(mechanism, queries=queries, delta=delta, max_answers=cap).epsilon <= epsilon
        least, beyond = (middle, beyond) if fits else (least, middle)
    return size(least)


def default_per_record_queries(mechanism: BoundedGNMax, *, units: int, pool: int, classes: int) -> int:
    """Queries for per-record teachers: so many that the votes on each are about five times its noise.

    Five times did best on simulated tables (benchmarks/adult_representatives.py --rehearse); at least ten per class.

    >>> default_per_record_queries(BoundedGNMax(sigma2=5.3), units=32_561, pool=8_140, classes=2)
    1228
    >>> default_per_record_queries(BoundedGNMax(sigma2=50), units=32_561, pool=8_140, classes=2)
    130
    """
    heard = int(units * mechanism.max_contributions / (SIGNAL_TO_NOISE * mechanism.sigma2))
    return min(pool, MOST_PER_RECORD, max(heard, 10 * classes))


def has_noise(mechanism: Mechanism) -> bool:
    """Whether the mechanism has noise parameters that can be calibrated to an epsilon."""
    return any(name in NOISE_FIELDS for name in mechanism.parameters())


def _is_required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _defaults(name: str, teachers: int, given: dict[str, float]) -> dict[str, float]:
    sigma2 = 0.2 * teachers
    laplace = {"gamma": math.sqrt(2) / sigma2}
    gumbel = {"epsilon_per_query": 2 * math.pi / (math.sqrt(6) * sigma2)}
    confident = {"threshold": 0.7 * teachers, "sigma1": 0.8 * teachers, "sigma2": sigma2}
    by_name: dict[str, dict[str, float]] = {
        "lnmax": laplace,
        "gnmax": {"sigma2": sigma2},
        # Not in proportion to anything: it is calibrated, or given.
        "bounded-gnmax": {"sigma2": 10.0},
        "confident-gnmax": confident,
        "exponential": gumbel,
        "permute-and-flip": gumbel,
        "screened-exponential": {"threshold": 0.6 * teachers, "sigma1": 0.1 * teachers, **gumbel},
        "immutable": {"constant": 0.4 * teachers, **({} if "sigma2" in given else laplace)},
    }
    return by_name.get(name, {})
