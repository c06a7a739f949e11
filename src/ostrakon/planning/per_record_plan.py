"""The plan of per-record teachers: the noise comes first, then the number of queries, which costs nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ostrakon.accounting.calibration.noise import calibrate, scaled
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.data.domain import Domain
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.bounded_gnmax import REPLACED
from ostrakon.mechanisms.registry import build_with_defaults, require_own
from ostrakon.options.options import AUTO, WORST_CASE, Options, is_auto
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    FEWEST_PER_RECORD,
    OF_QUANTITIES,
    default_per_record_queries,
)
from ostrakon.planning.plan import Plan
from ostrakon.planning.settled import parameter_sources, settled_delta, settled_epsilon, settled_queries
from ostrakon.validation import InvalidInput, shown

PAIRS = 0.3
"""Share of the cost for counts of pairs of columns; chosen on Adult and eight small tables."""
WORTH = 30
"""Records for each standard deviation of the noise on a cell of a pair, below which pairs are not counted."""
_OF_CELLS = (DEFAULT_MECHANISM, DEFAULT_OF_COUNTS)
_OF_PUBLIC_ROWS = ("mechanism", "queries", "teacher", "student", "representation", "query_strategy", "smooth")


def per_record_plan(
    options: Options, *, units: int, pool: int, classes: int, unit: str, fixed: Mapping[str, Any]
) -> Plan:
    """The plan of a mechanism that makes every unit a teacher (see `ostrakon.planning.make_plan.make_plan`).

    fixed: parameters that follow from public numbers, unless they are given.
    """
    refuse_teacher_options(teacher=options.teacher, smooth=options.smooth)
    name = options.mechanism
    for other, default in (("teachers", None), ("max_answers", None), ("guarantee", WORST_CASE)):
        if getattr(options, other) != default:
            raise InvalidInput(
                f"{other} cannot be chosen for {name}, where every {unit} votes and all queries together have one "
                f"price, got {getattr(options, other)!r}."
            )
    tuned = {"number of teachers": f"one for every {unit}, which makes the number of {unit}s public"}
    delta = settled_delta(options, units, unit, tuned)
    following: dict[str, Any] = {"neighbours": options.neighbours or REPLACED, **fixed}
    mechanism = build_with_defaults(name, units, {**following, **require_own(name, options.parameters)})
    epsilon = settled_epsilon(options, mechanism, tuned)
    sizes: dict[str, Any] = {"delta": delta, "teachers": units, "classes": classes}
    queries = None if options.queries is None else settled_queries(options.queries, pool, tuned)
    if epsilon is not None:
        # All queries cost as much as `max_contributions` of them, so price the whole pool. The noise that the votes
        # tolerate depends on the number of queries, which is chosen and checked below.
        asked = pool if queries is None else queries
        mechanism = calibrate(mechanism, epsilon=epsilon, queries=asked, delta=delta)
    if queries is None:
        tuned["number of queries"] = (
            f"chosen so that each query gets several times more votes than noise, from the number of {unit}s"
        )
        queries = default_per_record_queries(mechanism, units=units, pool=pool, classes=classes)
    # The cells of one column share the votes of all units, so a column counts as one query.
    shared = following.get("max_contributions", queries)
    require_votes_above_noise(mechanism, units=units, queries=shared, delta=delta, unit=unit)
    tuned |= parameter_sources(options, mechanism, epsilon)
    return Plan(
        teachers=units,
        classes=classes,
        mechanism=mechanism,
        interactive=False,
        queries=queries,
        max_answers=None,
        delta=delta,
        bound=worst_case(mechanism, queries=queries, **sizes),
        tuned=tuned,
    )


def additive_plan(options: Options, domain: Domain, *, units: int, classes: int, unit: str) -> Plan:
    """The plan of a run without public rows: every record votes on one cell of each described column.

    Errors: `InvalidInput` for options that belong to public rows or to trained teachers.
    """
    defaults = Options()
    for name in _OF_PUBLIC_ROWS:
        given = getattr(options, name)
        if given != getattr(defaults, name) and not (name == "mechanism" and given in _OF_CELLS):
            raise InvalidInput(
                f"{name} cannot be chosen where the columns are described instead of public rows, got {shown(given)}: "
                f"every {unit} votes on cells of the columns, and an additive model learns from the counts."
            )
    bound = options.parameters.get("max_contributions")
    if bound not in (None, len(domain.names)):
        raise InvalidInput(f"max_contributions must be {len(domain.names)}, one for each column, got {shown(bound)}.")
    cells = sum(domain.sizes)

    def planned(mechanism: str) -> Plan:
        fixed = {
            "max_contributions": len(domain.names),
            **({"moments": PAIRS} if mechanism == DEFAULT_MECHANISM else {}),
        }
        asked = dataclasses.replace(options, mechanism=mechanism, queries=cells)
        plan = per_record_plan(asked, units=units, pool=cells, classes=classes, unit=unit, fixed=fixed)
        return dataclasses.replace(plan, tuned={**plan.tuned, "number of queries": "the number of described cells"})

    if not domain.pairs and options.mechanism != DEFAULT_MECHANISM:
        return planned(DEFAULT_OF_COUNTS)
    if not domain.pairs:
        raise InvalidInput(f"mechanism must be {DEFAULT_OF_COUNTS} where no pairs of columns are counted.")
    if options.mechanism != AUTO:
        return planned(options.mechanism)
    with_pairs = planned(DEFAULT_MECHANISM)
    noise = with_pairs.mechanism.moment_noise
    assert noise is not None
    worth = units >= WORTH * noise * math.sqrt(len(domain.pairs)) or options.parameters.get("moments") is not None
    return with_pairs if worth else planned(DEFAULT_OF_COUNTS)


def quantity_plan(options: Options, *, units: int, pool: int, unit: str) -> Plan:
    """The plan of a run whose target is a quantity: every record is a teacher.

    Errors: `InvalidInput` for options that belong to classes.
    """
    for name in ("mechanism", "student"):
        given = getattr(options, name)
        if not is_auto(given) and not (name == "mechanism" and given == OF_QUANTITIES):
            raise InvalidInput(
                f"{name} cannot be chosen where the target is a quantity, got {shown(given)}: every {unit} adds to "
                f"sums by {OF_QUANTITIES}, and ridge regression learns from them."
            )
    asked = dataclasses.replace(options, mechanism=OF_QUANTITIES)
    return per_record_plan(asked, units=units, pool=pool, classes=2, unit=unit, fixed={})


def require_votes_above_noise(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> None:
    """Refuse a number of queries at which a query gets fewer votes than the noise's standard deviation.

    The message names settings that are possible.
    """
    votes_per_unit, noise = mechanism.contribution_bound or 1, mechanism.vote_noise or 0.0
    if units * votes_per_unit < noise * queries:
        raise InvalidInput(
            f"queries must be few enough for their votes to exceed the noise: {units} {unit}s vote on "
            f"{votes_per_unit} of {queries} queries, under noise of standard deviation "
            f"{noise:.4g}; the nearest reachable settings are "
            + _what_would_do(mechanism, units=units, queries=queries, delta=delta, unit=unit)
            + "."
        )


def refuse_teacher_options(*, teacher: Any, smooth: bool) -> None:
    """Refuse options of trained teachers for per-record teachers."""
    if not is_auto(teacher) or smooth:
        given = "smooth" if is_auto(teacher) else "teacher"
        raise InvalidInput(f"{given} cannot be chosen for per-record teachers: every record votes for itself.")


def _what_would_do(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> str:
    """A larger epsilon, fewer queries, or more units that would lift the votes above the noise."""
    votes_in_all = units * (mechanism.contribution_bound or 1)
    noise = mechanism.vote_noise or 0.0
    enough = scaled(mechanism, votes_in_all / queries / noise)
    # Four digits, rounded up: the named setting must work.
    epsilon = float(f"{worst_case(enough, queries=queries, delta=delta).epsilon * 1.001:.4g}")
    fewer = int(votes_in_all / noise)
    remedies = [f"an epsilon of {epsilon:g}"]
    if FEWEST_PER_RECORD <= fewer < queries and queries > (mechanism.contribution_bound or 1):
        remedies.append(f"{fewer} queries at this one")
    return f"{', '.join(remedies)} or {math.ceil(units * noise * queries / votes_in_all)} {unit}s"
