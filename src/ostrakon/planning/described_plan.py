"""The plan of a run without public rows: every record votes on cells of described columns, and on pairs of them."""

import math
from typing import Any

from ostrakon.data.domain import Domain
from ostrakon.options.options import AUTO, Options
from ostrakon.planning.choices import per_record_choices
from ostrakon.planning.defaults import DEFAULT_MECHANISM, DEFAULT_OF_COUNTS
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.shares import with_errors
from ostrakon.validation import InvalidInput, quote

PAIRS = 0.3
"""Share of the cost for counts of pairs of columns; chosen on Adult and eight small tables."""
LEAST_FOR_PAIRS = 30
"""Smallest number of records for each standard deviation of the noise on a cell of a pair."""
_CELL_MECHANISMS = (DEFAULT_MECHANISM, DEFAULT_OF_COUNTS)
_PUBLIC_ROW_OPTIONS = ("mechanism", "queries", "teacher", "student", "representation", "query_strategy", "smooth")


def described_plan(options: Options, domain: Domain, *, units: int, classes: int, unit: str) -> Plan:
    """Return the plan with counts of pairs of columns if these are requested or exceed their noise; else without.

    Errors: `InvalidInput` for options that belong to public rows or to trained teachers.
    """
    columns, cells = len(domain.names), sum(domain.sizes)
    _refuse_other_options(options, columns, unit)

    def plan_with(mechanism: str) -> Plan:
        fixed = {"max_contributions": columns, **({"moments": PAIRS} if mechanism == DEFAULT_MECHANISM else {})}
        sizes: Any = {"units": units, "pool": cells, "classes": classes, "columns": columns, "unit": unit}
        return with_errors(
            options,
            lambda errors: per_record_plan(
                per_record_choices(options, mechanism, **sizes, fixed={**fixed, "errors": errors})
            ),
            classes=classes,
        )

    if not domain.pairs:
        if options.mechanism == DEFAULT_MECHANISM:
            raise InvalidInput(f"mechanism must be {DEFAULT_OF_COUNTS} where no pairs of columns are counted.")
        return plan_with(DEFAULT_OF_COUNTS)
    if options.mechanism != AUTO:
        return plan_with(options.mechanism)
    with_pairs = plan_with(DEFAULT_MECHANISM)
    noise = with_pairs.mechanism.moment_noise
    assert noise is not None
    keep_pairs = (
        units >= LEAST_FOR_PAIRS * noise * math.sqrt(len(domain.pairs)) or options.parameters.get("moments") is not None
    )
    return with_pairs if keep_pairs else plan_with(DEFAULT_OF_COUNTS)


def _refuse_other_options(options: Options, columns: int, unit: str) -> None:
    defaults = Options()
    for name in _PUBLIC_ROW_OPTIONS:
        given = getattr(options, name)
        if given != getattr(defaults, name) and not (name == "mechanism" and given in _CELL_MECHANISMS):
            raise InvalidInput(
                f"{name} cannot be chosen if the columns are described instead of public rows, got {quote(given)}: "
                f"every {unit} votes on cells of the columns, and an additive model learns from the counts."
            )
    corrections = options.parameters.get("corrections")
    if corrections:
        raise InvalidInput(f"corrections must be 0 if the columns are described, got {quote(corrections)}.")
    bound = options.parameters.get("max_contributions")
    if bound not in (None, columns):
        raise InvalidInput(f"max_contributions must be {columns}, one for each column, got {quote(bound)}.")
