"""Planning: settles open options from public sizes alone, and prices the run."""

from __future__ import annotations

import dataclasses
from typing import Any

from ostrakon.data.domain import Domain
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import ACCURACY, AUTO, Options
from ostrakon.planning.choose_mechanism import auto_mechanism, learns_moments
from ostrakon.planning.defaults import DEFAULT_MECHANISM, OF_QUANTITIES, SUMS_OF_EMBEDDINGS
from ostrakon.planning.per_record_plan import additive_plan, per_record_plan, quantity_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.trained_plan import trained_plan
from ostrakon.validation import InvalidInput


def make_plan(
    options: Options,
    *,
    units: int,
    pool: int,
    classes: int,
    unit: str = "record",
    images: bool = False,
    embedded: bool = False,
    domain: Domain | None = None,
    quantity: bool = False,
) -> Plan:
    """Settle the open options from public sizes alone, and price the run.

    units: private records or users. pool: public rows. images: whether rows are images. embedded: whether features are
    embeddings (`ostrakon.features.representation.is_embedded`), whose sums then get more of the budget. domain: the
    description of the columns, where there are no public rows; else None. quantity: whether the target is one.
    Without an epsilon, and unless all of the
    noise is given, the noise is calibrated to an epsilon of 2: a single parameter does not silently weaken the
    guarantee.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, a student that learns from numbers that the mechanism does not release,
    an epsilon that is too small (with the nearest that is possible).
    """
    if quantity:
        if options.objective != ACCURACY:
            raise InvalidInput(f"objective must be {ACCURACY} for a quantity, got {options.objective!r}.")
        return quantity_plan(options, units=units, pool=pool, unit=unit)
    if options.mechanism == OF_QUANTITIES:
        raise InvalidInput(f"mechanism {OF_QUANTITIES} needs a quantity as the target: give its public range.")
    if domain is not None:
        return additive_plan(options, domain, units=units, classes=classes, unit=unit)
    if options.mechanism == AUTO:
        options = dataclasses.replace(options, mechanism=auto_mechanism(options, classes=classes, images=images))
    if learns_moments(options) and options.mechanism != DEFAULT_MECHANISM:
        raise InvalidInput(
            f"student must be one that learns from what {options.mechanism} releases, got {options.student!r}, which "
            f"needs the sums of features of {DEFAULT_MECHANISM}."
        )
    if options.objective != ACCURACY and (images or not find(options.mechanism).releases_counts):
        raise InvalidInput(
            f"objective must be {ACCURACY} where students learn from images or from labels alone, got "
            f"{options.objective!r}: the others need noisy counts, which {DEFAULT_MECHANISM} releases, and features."
        )
    sizes: Any = {"units": units, "pool": pool, "classes": classes, "unit": unit}
    if not find(options.mechanism).per_record:
        return trained_plan(options, **sizes)
    of_sums = {"moments": SUMS_OF_EMBEDDINGS} if embedded and options.mechanism == DEFAULT_MECHANISM else {}
    return per_record_plan(options, **sizes, fixed=of_sums)
