"""The plan of a run without public rows: every record votes on one cell of each described column."""

from __future__ import annotations

import math

from ostrakon.data.domain import Domain
from ostrakon.options.options import AUTO, Options
from ostrakon.planning.choices import per_record_choices
from ostrakon.planning.defaults import DEFAULT_MECHANISM, DEFAULT_OF_COUNTS
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import Plan
from ostrakon.validation import InvalidInput, shown

PAIRS = 0.3
"""Share of the cost for counts of pairs of columns; chosen on Adult and eight small tables."""
WORTH = 30
"""Records for each standard deviation of the noise on a cell of a pair, below which pairs are not counted."""
_OF_CELLS = (DEFAULT_MECHANISM, DEFAULT_OF_COUNTS)
_OF_PUBLIC_ROWS = ("mechanism", "queries", "teacher", "student", "representation", "query_strategy", "smooth")


def described_plan(options: Options, domain: Domain, *, units: int, classes: int, unit: str) -> Plan:
    """The plan with counts of pairs of columns, where these are asked for or exceed their noise; else without.

    Errors: `InvalidInput` for options that belong to public rows or to trained teachers.
    """
    columns, cells = len(domain.names), sum(domain.sizes)
    _refuse_other_options(options, columns, unit)

    def planned(mechanism: str) -> Plan:
        fixed = {"max_contributions": columns, **({"moments": PAIRS} if mechanism == DEFAULT_MECHANISM else {})}
        sizes = {"units": units, "pool": cells, "classes": classes, "columns": columns}
        return per_record_plan(per_record_choices(options, mechanism, **sizes, unit=unit, fixed=fixed))

    if not domain.pairs:
        if options.mechanism == DEFAULT_MECHANISM:
            raise InvalidInput(f"mechanism must be {DEFAULT_OF_COUNTS} where no pairs of columns are counted.")
        return planned(DEFAULT_OF_COUNTS)
    if options.mechanism != AUTO:
        return planned(options.mechanism)
    with_pairs = planned(DEFAULT_MECHANISM)
    noise = with_pairs.mechanism.moment_noise
    assert noise is not None
    worth = units >= WORTH * noise * math.sqrt(len(domain.pairs)) or options.parameters.get("moments") is not None
    return with_pairs if worth else planned(DEFAULT_OF_COUNTS)


def _refuse_other_options(options: Options, columns: int, unit: str) -> None:
    defaults = Options()
    for name in _OF_PUBLIC_ROWS:
        given = getattr(options, name)
        if given != getattr(defaults, name) and not (name == "mechanism" and given in _OF_CELLS):
            raise InvalidInput(
                f"{name} cannot be chosen where the columns are described instead of public rows, got {shown(given)}: "
                f"every {unit} votes on cells of the columns, and an additive model learns from the counts."
            )
    bound = options.parameters.get("max_contributions")
    if bound not in (None, columns):
        raise InvalidInput(f"max_contributions must be {columns}, one for each column, got {shown(bound)}.")
