"""Planning: choose the mechanism, settle the other options from public sizes alone, price the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import Options
from ostrakon.planning.choices import per_record_choices, trained_choices
from ostrakon.planning.choose_mechanism import choose_mechanism, most_labels, per_record_mechanism, require_sums_options
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    OF_LABELS,
    OF_QUANTITIES,
    SUMS_OF_EMBEDDINGS,
)
from ostrakon.planning.described_plan import described_plan
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.trained_plan import trained_plan
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput

_FOR_CONSENT = (
    f"consent is for {DEFAULT_MECHANISM} and {DEFAULT_OF_COUNTS} on tables of classes with public rows, where every "
    "record votes for itself and its vote can be scaled"
)


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
    labels: bool = False,
    consent: Consent | None = None,
) -> Plan:
    """Settle the open options from public sizes alone, and price the run.

    units: private records or users. pool: public rows. images: whether rows are images. embedded: whether features are
    embeddings (`ostrakon.features.representation.is_embedded`), whose sums then get more of the budget. domain: the
    description of the columns, where there are no public rows; else None. quantity: whether the target is one. labels:
    whether rows may have several of the classes. consent: the epsilons that levels of records allow, of which the
    largest is that of the run. Without an epsilon, and unless all of the noise is given, the noise is
    calibrated to an epsilon of 2: a single parameter does not silently weaken the guarantee.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, a student that learns from numbers that the mechanism does not release,
    an epsilon that is too small (with the nearest that is possible).
    """
    sizes: Any = {"units": units, "pool": pool, "classes": 2 if quantity else classes, "unit": unit}
    if consent is not None:
        options = _within_consent(options, consent, other=quantity or labels or domain is not None)
    if quantity or labels:
        require_sums_options(options, unit, several=labels)
        fixed = {"max_labels": most_labels(options, classes)} if labels else {}
        # The plan has the form of votes that is less noisy; a given number chooses between them.
        own = {name: value for name, value in options.parameters.items() if name not in fixed}
        asked, name = replace(options, parameters=own), OF_LABELS if labels else OF_QUANTITIES
        return per_record_plan(per_record_choices(asked, name, **sizes, fixed=fixed))
    if domain is not None:
        return described_plan(options, domain, units=units, classes=classes, unit=unit)
    name = choose_mechanism(options, classes=classes, images=images, embedded=embedded)
    if consent is not None and (images or not find(name).per_record):
        raise InvalidInput(f"{_FOR_CONSENT}, got {name}{' for images' if images else ''}.")
    if find(name).per_record:
        of_sums = {"moments": SUMS_OF_EMBEDDINGS} if embedded and name == DEFAULT_MECHANISM else {}
        return per_record_plan(replace(per_record_choices(options, name, **sizes, fixed=of_sums), consent=consent))
    choices = trained_choices(options, name, **sizes)
    try:
        return trained_plan(choices)
    except InvalidInput as refused:
        raise InvalidInput(f"{refused}{_per_record_instead(options, **sizes)}") from None


def _within_consent(options: Options, consent: Consent, *, other: bool) -> Options:
    """The options with the largest epsilon of consent. other: whether the target, or the columns, are of another kind.

    Errors: `InvalidInput` for these, and for another epsilon beside it.
    """
    if other:
        raise InvalidInput(f"{_FOR_CONSENT}, got a target or columns of another kind.")
    if options.epsilon is not None:
        raise InvalidInput(
            f"epsilon cannot be given with consent, whose largest epsilon, {consent.epsilon:g}, is that of the run; "
            f"got {options.epsilon:g}."
        )
    return replace(options, epsilon=consent.epsilon)


def _per_record_instead(options: Options, **sizes: Any) -> str:
    """A sentence with what per-record teachers would need, after the refusal of trained ones; else nothing."""
    name = per_record_mechanism(options, classes=sizes["classes"])
    asked = Options(epsilon=options.epsilon, delta=options.delta)
    try:
        plan = per_record_plan(per_record_choices(asked, name, **sizes, fixed={}))
    except InvalidInput:
        return ""
    epsilon = round_up(plan.bound.epsilon)
    return f" Without trained teachers, {name} asks {plan.queries} queries within epsilon {epsilon:g}."
