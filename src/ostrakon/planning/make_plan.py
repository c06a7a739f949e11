"""Planning: choose the mechanism, set the other options from public sizes alone, price the run."""

from dataclasses import replace
from functools import partial
from typing import Any

from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.target import Target
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms.quantity_gnmax import QuantityGNMax
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import AUTO, Options, is_auto
from ostrakon.planning.choices import per_record_choices, trained_choices
from ostrakon.planning.choose_mechanism import (
    choose_mechanism,
    most_labels,
    needs_trained_teachers,
    require_learnable,
    require_sums_mechanism,
)
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    LINEAR,
    LINEAR_OF_FEW,
    LINEAR_OF_MANY,
    OF_LABELS,
    OF_QUANTITIES,
    SUMS_OF_MANY,
    SUMS_OF_MANY_LABELS,
    linear_share,
)
from ostrakon.planning.described_plan import described_plan
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.row_kind import TABLE, RowKind
from ostrakon.planning.shares import with_corrections, with_errors, with_histogram
from ostrakon.planning.trained_plan import labels_plan, trained_plan
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput, quote

_CONSENT_NEEDS = (
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
    kind: RowKind = TABLE,
    domain: Domain | None = None,
    target: Target = "classes",
    consent: Consent | None = None,
) -> Plan:
    """Set the open options from public sizes alone, and price the run.

    units: private records or users. pool: public rows. kind: of the public rows. domain: the
    description of the columns, in place of public rows; else None. target: what is predicted. consent: the
    epsilons that levels of records allow, of which the largest is that of the run. Without an epsilon, and unless all
    of the noise is given, the noise is calibrated to an epsilon of 2: a single parameter does not silently weaken the
    guarantee.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, a student that learns from numbers that the mechanism does not release,
    an epsilon that is too small (with the nearest that is possible).
    """
    if consent is not None:
        options = _within_consent(options, consent, other=target != "classes" or domain is not None)
    sizes: dict[str, Any] = {"units": units, "pool": pool, "classes": classes, "unit": unit}
    trained = target == "labels" and needs_trained_teachers(options)
    sums = target != "classes" and not trained
    require_learnable(options.student, options.objective, target=target, sums=sums)
    if sums:
        require_sums_mechanism(options, unit, target=target)
        return (_plan_of_quantity if target == "quantity" else _plan_of_labels)(options, sizes, kind)
    if trained:
        return labels_plan(options, labels=classes, units=units, pool=pool, unit=unit)
    if domain is not None:
        return described_plan(options, domain, units=units, classes=classes, unit=unit)
    name = choose_mechanism(options, classes=classes, kind=kind)
    if find(name).per_record and not (kind.images and consent is not None):
        return _plan_of_classes(options, name, sizes, kind=kind, consent=consent)
    if consent is not None:
        raise InvalidInput(f"{_CONSENT_NEEDS}, got {name}{' for images' if kind.images else ''}.")
    try:
        return trained_plan(trained_choices(options, name, **sizes))
    except InvalidInput as refused:
        # No alternative for a mechanism that was named, as by `ostrakon plan`.
        named = options.mechanism != AUTO
        alternative = "" if named else _per_record_alternative(options, kind=kind, **sizes)
        raise InvalidInput(f"{refused}{alternative}") from None


def _plan_of_quantity(options: Options, sizes: dict[str, Any], kind: RowKind) -> Plan:
    """Return the plan of a quantity, whose votes are split between both ends of the range."""
    ends: dict[str, Any] = {**sizes, "classes": 2}
    linear = LINEAR_OF_FEW if kind.many else LINEAR

    def plan_with(moments: float, histogram: float, **shares: float) -> Plan:
        fixed = {"moments": round(moments - histogram, 4), "histogram": histogram, **shares, "linear": linear}
        return per_record_plan(per_record_choices(options, OF_QUANTITIES, **ends, fixed=fixed))

    def plan_with_errors(histogram: float, shares: dict[str, float]) -> Plan:
        given = partial(plan_with, histogram=histogram, **shares)
        of_corrections = shares.get("corrections", 0.0)
        return with_errors(options, lambda errors: given(errors=errors), classes=None, corrections=of_corrections)

    def plan_with_histogram(**shares: float) -> Plan:
        return with_histogram(options, partial(plan_with_errors, shares=shares))

    plan = with_corrections(
        options, plan_with_histogram, {"moments": SUMS_OF_MANY}, possible=True, classes=None, embedded=False
    )
    assert isinstance(plan.mechanism, QuantityGNMax)
    if kind.many or options.parameters.get("linear") is not None:
        return plan
    # The share of linear features does not change the price.
    linear = linear_share(plan.mechanism.noise_for(1.0), units=plan.teachers)
    return replace(plan, mechanism=replace(plan.mechanism, linear=linear))


def _plan_of_labels(options: Options, sizes: dict[str, Any], kind: RowKind) -> Plan:
    """Return the plan of rows with several labels, for the form of votes with less noise."""
    many = {"moments": SUMS_OF_MANY_LABELS, "linear": LINEAR_OF_MANY}
    fixed = {"max_labels": most_labels(options, sizes["classes"]), **(many if kind.many else {"linear": LINEAR})}
    # A given number of labels only chooses between both forms.
    parameters = {name: value for name, value in options.parameters.items() if name != "max_labels"}
    return per_record_plan(per_record_choices(replace(options, parameters=parameters), OF_LABELS, **sizes, fixed=fixed))


def _plan_of_classes(
    options: Options, name: str, sizes: dict[str, Any], *, kind: RowKind, consent: Consent | None
) -> Plan:
    """Return the plan of per-record teachers of classes with public rows. name: of the mechanism."""

    def plan_with(**shares: float) -> Plan:
        choices = per_record_choices(options, name, **sizes, fixed=shares)
        return per_record_plan(replace(choices, consent=consent))

    def plan_with_errors(**shares: float) -> Plan:
        numbers: dict[str, Any] = {"classes": sizes["classes"], "corrections": shares.get("corrections", 0.0)}
        return with_errors(options, lambda errors: plan_with(**shares, errors=errors), **numbers)

    shares = {"moments": SUMS_OF_MANY} if kind.many and name == DEFAULT_MECHANISM else {}
    if consent is not None:
        for parameter in ("errors", "corrections"):
            if given := options.parameters.get(parameter):
                raise InvalidInput(f"{parameter} must be 0 for records with levels of consent, got {quote(given)}.")
        return plan_with(**shares, errors=0.0)
    if name != DEFAULT_MECHANISM:
        return plan_with_errors(**shares)
    # With images, the student may learn from their pixels, or have no probabilities.
    possible = is_auto(options.student) and sizes["classes"] <= FEW_CLASSES and not kind.images
    return with_corrections(
        options,
        plan_with_errors,
        shares,
        possible=possible,
        classes=sizes["classes"],
        embedded=kind.embedded,
    )


def _within_consent(options: Options, consent: Consent, *, other: bool) -> Options:
    """Return the options with the largest epsilon of consent. other: whether target or columns are of another kind.

    Errors: `InvalidInput` for these, and for another epsilon beside it.
    """
    if other:
        raise InvalidInput(f"{_CONSENT_NEEDS}, got a target or columns of another kind.")
    if options.epsilon is not None:
        raise InvalidInput(
            f"epsilon cannot be given with consent, whose largest epsilon, {consent.epsilon:g}, is that of the run; "
            f"got {options.epsilon:g}."
        )
    return replace(options, epsilon=consent.epsilon)


def _per_record_alternative(options: Options, **sizes: Any) -> str:
    """Return a sentence on the epsilon of per-record teachers, after the refusal of trained ones; empty if refused."""
    try:
        defaults = Options(epsilon=options.epsilon, delta=options.delta, student=options.student)
        plan = make_plan(defaults, **sizes)
    except InvalidInput:
        return ""
    epsilon = round_up(plan.bound.epsilon)
    return f" Without trained teachers, {plan.mechanism.name} asks {plan.queries} queries within epsilon {epsilon:g}."
