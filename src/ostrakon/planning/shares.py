"""Shares of the cost for a histogram of the target, counts of the student's errors and its correction, where they say
enough.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms import BoundedGNMax
from ostrakon.options.options import Options
from ostrakon.planning.defaults import (
    OF_CORRECTIONS,
    SUMS_OF_TABLES,
    corrections_pay,
    share_of_errors,
    share_of_histogram,
)
from ostrakon.planning.plan import Plan
from ostrakon.validation import InvalidInput, fraction, quote


def with_histogram(options: Options, plan_with: Callable[[float], Plan]) -> Plan:
    """Return the plan of a quantity with a histogram if a share is given or it says enough; else without.

    plan_with: from its share of the cost to the plan. Errors: as of `make_plan`.
    """
    without, given = plan_with(0.0), options.parameters
    # Beside noise that is given, more would be spent than asked for.
    settled = options.epsilon is None and given.get("sigma2") is not None
    if given.get("histogram") is not None or settled:
        return without
    assert isinstance(without.mechanism, BoundedGNMax)
    share = share_of_histogram(without.mechanism.noise_for(1.0), units=without.teachers)
    if given.get("moments") is not None:
        share = min(share, (1 - fraction("moments", given["moments"])) / 4)
    try:
        return plan_with(share) if share else without
    except InvalidInput:
        return without  # other given shares leave nothing for it


def with_errors(
    options: Options, plan_with: Callable[[float], Plan], *, classes: int | None, corrections: float = 0.0
) -> Plan:
    """Return the plan with counts of the student's errors if a share is given or they say enough; else without.

    plan_with: from their share of the cost to the plan. classes: None for a quantity. corrections: share of the cost of
    a correction. Errors: as of `make_plan`.
    """
    without, given = plan_with(0.0), options.parameters
    if given.get("errors") is not None:
        return without  # the given share has priority
    if classes is not None and options.epsilon is None and given.get("sigma2") is not None:
        return without  # beside noise that is given, more would be spent than asked for
    assert isinstance(without.mechanism, BoundedGNMax)
    share = share_of_errors(without.mechanism.noise_for(1.0), units=without.teachers, classes=classes)
    if given.get("moments") is not None:
        share = min(share, (1 - fraction("moments", given["moments"])) / 2)
    if corrections:
        # Of the rest, sums of features have at most 0.8, and votes need a part.
        share = min(share, round(0.16 * (1 - corrections), 6))
    try:
        return plan_with(share) if share else without
    except InvalidInput:
        return without  # the given number of queries leaves nothing for them


def with_corrections(
    options: Options,
    plan_with: Callable[..., Plan],
    shares: dict[str, Any],
    *,
    possible: bool,
    classes: int | None,
    embedded: bool,
) -> Plan:
    """Return the plan with a correction of the student if a share is given or it pays; else without.

    plan_with: from shares of the cost to the plan. possible: whether the student can be corrected. classes: None
    for a quantity. Errors: as of `make_plan`.
    """
    given, without = options.parameters, partial(plan_with, **shares)
    asked = given.get("corrections")
    # Beside noise that is given, more would be spent than asked for.
    settled = given.get("moments") is not None or (options.epsilon is None and given.get("sigma2") is not None)
    if not asked and (asked is not None or settled or not possible):
        return without()
    if not possible:
        raise InvalidInput(
            f"corrections must be 0 for a named student, images or more than {FEW_CLASSES} classes, got {quote(asked)}."
        )
    share = fraction("corrections", asked) if asked else OF_CORRECTIONS
    moments = shares.get("moments", SUMS_OF_TABLES) * (1 - share)
    try:
        plan = plan_with(moments=moments, corrections=share)
    except InvalidInput:
        if asked:
            raise
        return without()  # other given numbers leave nothing for them
    noise = plan.mechanism.correction_noise
    assert noise is not None
    pays = corrections_pay(noise, units=plan.teachers, classes=classes, embedded=embedded)
    return plan if asked or pays else without()
