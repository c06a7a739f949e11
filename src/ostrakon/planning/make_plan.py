"""Planning: choose the mechanism, set the other options from public sizes alone, price the run."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.data.consent import Consent
from ostrakon.data.domain import Domain
from ostrakon.data.target import Target
from ostrakon.estimators.choices import learns_sums
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms import BoundedGNMax, Mechanism
from ostrakon.mechanisms.registry import find
from ostrakon.options.options import AUTO, Options, is_auto
from ostrakon.planning.choices import BY_THE_OPERATOR, Choices, per_record_choices, trained_choices
from ostrakon.planning.choose_mechanism import (
    choose_mechanism,
    most_labels,
    needs_trained_teachers,
    require_learnable,
    require_sums_mechanism,
    trained_mechanism_for_labels,
)
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    OF_CORRECTIONS,
    OF_LABELS,
    OF_QUANTITIES,
    SUMS_BESIDE_COUNTS,
    SUMS_OF_EMBEDDINGS,
    SUMS_OF_TABLES,
    corrections_pay,
    share_of_errors,
)
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import Plan, shape
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput, fraction, quote

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
    images: bool = False,
    embedded: bool = False,
    domain: Domain | None = None,
    target: Target = "classes",
    consent: Consent | None = None,
) -> Plan:
    """Set the open options from public sizes alone, and price the run.

    units: private records or users. pool: public rows. images: whether rows are images. embedded: whether features are
    embeddings (`ostrakon.features.representation.is_embedded`), whose sums then get more of the budget. domain: the
    description of the columns, in place of public rows; else None. target: what is predicted. consent: the
    epsilons that levels of records allow, of which the largest is that of the run. Without an epsilon, and unless all
    of the noise is given, the noise is calibrated to an epsilon of 2: a single parameter does not silently weaken the
    guarantee.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, a student that learns from numbers that the mechanism does not release,
    an epsilon that is too small (with the nearest that is possible).
    """
    sizes: Any = {"units": units, "pool": pool, "classes": 2 if target == "quantity" else classes, "unit": unit}
    if consent is not None:
        options = _within_consent(options, consent, other=target != "classes" or domain is not None)
    teachers = target == "labels" and needs_trained_teachers(options)
    sums = target != "classes" and not teachers
    require_learnable(options.student, options.objective, target=target, sums=sums)
    if teachers:
        return labels_plan(options, labels=classes, units=units, pool=pool, unit=unit)
    if sums:
        require_sums_mechanism(options, unit, target=target)
        fixed: dict[str, Any] = {} if learns_sums(options.student) else {"moments": SUMS_BESIDE_COUNTS}
        if target == "quantity":
            return with_errors(
                options,
                lambda errors: per_record_plan(
                    per_record_choices(options, OF_QUANTITIES, **sizes, fixed={**fixed, "errors": errors})
                ),
                classes=None,
            )
        # The plan uses the form of votes with less noise; a given number of labels chooses between both.
        fixed["max_labels"] = most_labels(options, classes)
        parameters = {name: value for name, value in options.parameters.items() if name != "max_labels"}
        return per_record_plan(
            per_record_choices(replace(options, parameters=parameters), OF_LABELS, **sizes, fixed=fixed)
        )
    if domain is not None:
        return described_plan(options, domain, units=units, classes=classes, unit=unit)
    name = choose_mechanism(options, classes=classes, images=images, embedded=embedded)
    if consent is not None and (images or not find(name).per_record):
        raise InvalidInput(f"{_CONSENT_NEEDS}, got {name}{' for images' if images else ''}.")
    if find(name).per_record:
        shares = {"moments": SUMS_OF_EMBEDDINGS} if embedded and name == DEFAULT_MECHANISM else {}
        plan_with: Any = partial(_plan_of_classes, options, name, sizes, consent=consent)
        if name != DEFAULT_MECHANISM:
            return plan_with(shares=shares)
        # With images, the student may learn from their pixels, or have no probabilities.
        possible = is_auto(options.student) and classes <= FEW_CLASSES and consent is None and not images
        return with_corrections(options, plan_with, shares, possible=possible, classes=classes, embedded=embedded)
    choices = trained_choices(options, name, **sizes)
    try:
        return trained_plan(choices)
    except InvalidInput as refused:
        # No alternative for a mechanism that was named, as by `ostrakon plan`.
        named = options.mechanism != AUTO
        alternative = "" if named else _per_record_alternative(options, images=images, embedded=embedded, **sizes)
        raise InvalidInput(f"{refused}{alternative}") from None


def with_errors(options: Options, plan_with: Callable[[float], Plan], *, classes: int | None) -> Plan:
    """Return the plan with counts of the student's errors if a share is given or they say enough; else without.

    plan_with: from their share of the cost to the plan. classes: None for a quantity. Errors: as of `make_plan`.
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
    classes: int,
    embedded: bool,
) -> Plan:
    """Return the plan with a correction of the student if a share is given or it pays; else without.

    plan_with: from shares of the cost to the plan. possible: whether the student can be corrected. Errors: as of
    `make_plan`.
    """
    given, without = options.parameters, partial(plan_with, shares=shares)
    asked = given.get("corrections")
    # Beside noise that is given, more would be spent than asked for.
    settled = given.get("moments") is not None or (options.epsilon is None and given.get("sigma2") is not None)
    if not asked and (asked is not None or settled or not possible):
        return without()
    if not possible:
        raise InvalidInput(
            f"corrections must be 0 for a named student, images, more than {FEW_CLASSES} classes or levels of consent, "
            f"got {quote(asked)}."
        )
    share = fraction("corrections", asked) if asked else OF_CORRECTIONS
    moments = shares.get("moments", SUMS_OF_TABLES) * (1 - share)
    try:
        plan = plan_with(shares={"moments": moments, "corrections": share})
    except InvalidInput:
        if asked:
            raise
        return without()  # other given numbers leave nothing for them
    noise = plan.mechanism.correction_noise
    assert noise is not None
    pays = corrections_pay(noise, units=plan.teachers, classes=classes, embedded=embedded)
    return plan if asked or pays else without()


def _plan_of_classes(
    options: Options,
    name: str,
    sizes: dict[str, Any],
    *,
    shares: dict[str, float],
    consent: Consent | None,
) -> Plan:
    """Return the plan of per-record teachers with public rows. shares: of the cost, unless they are given."""

    def plan_with(errors: float) -> Plan:
        choices = per_record_choices(options, name, **sizes, fixed={**shares, "errors": errors})
        return per_record_plan(replace(choices, consent=consent))

    if consent is None:
        return with_errors(options, plan_with, classes=sizes["classes"])
    if options.parameters.get("errors"):
        given = quote(options.parameters["errors"])
        raise InvalidInput(f"errors must be 0 for records with levels of consent, got {given}.")
    return plan_with(0.0)


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


def trained_plan(choices: Choices) -> Plan:
    """Return the priced plan. Errors: `InvalidInput` for an epsilon that is too small (with the nearest that is
    possible)."""
    mechanism, queries, delta = choices.mechanism, choices.queries, choices.delta
    assert queries is not None
    sizes: dict[str, Any] = {"queries": queries, "delta": delta, "max_answers": choices.max_answers}
    sizes |= shape(choices.interactive, teachers=choices.teachers, classes=choices.classes)
    gate_source: dict[str, str] = {}
    gate = None if choices.agreement is None else _gate(choices, choices.agreement, queries)
    if gate is not None:
        mechanism = gate.mechanism
        gate_source["gate"] = f"votes simulated with a share of {choices.agreement:g} for the winner"
    elif choices.epsilon is not None:
        try:
            mechanism = calibrate(mechanism, epsilon=choices.epsilon, **sizes)
            _require_noise_below_votes(mechanism, choices.teachers, epsilon=choices.epsilon, queries=queries)
        except InvalidInput as refused:
            given = choices.sources["number of teachers"] == BY_THE_OPERATOR
            by_default = f" teachers is {choices.teachers} by default, from the number of {choices.unit}s."
            raise InvalidInput(f"{refused}{'' if given else by_default}") from None
    return Plan(
        teachers=choices.teachers,
        classes=choices.classes,
        mechanism=mechanism,
        interactive=choices.interactive,
        queries=queries,
        max_answers=choices.max_answers,
        delta=delta,
        bound=worst_case(mechanism, **sizes, adaptive=True),
        tuned={**choices.sources, **gate_source, **choices.parameter_sources},
        gate=gate,
    )


def labels_plan(options: Options, *, labels: int, units: int, pool: int, unit: str) -> Plan:
    """Return the plan of trained teachers for rows with several labels.

    Every label of a public row is a query with two classes, for and against it. A record moves one vote on each, so
    they are priced like other queries.
    """
    name = trained_mechanism_for_labels(options, labels)
    choices = trained_choices(options, name, units=units, pool=pool, classes=2, unit=unit, labels=labels)
    return replace(trained_plan(choices), labels=labels)


def _gate(choices: Choices, agreement: float, queries: int) -> Gate | None:
    """Return the gate for votes like the simulated ones; None if the worst case needs no more noise or epsilon."""
    delta = choices.delta
    sizes: dict[str, Any] = {"teachers": choices.teachers, "classes": choices.classes, "queries": queries}
    # Simulated from public numbers alone, so the seed may be fixed.
    public = simulate_votes(np.random.default_rng(0), plurality=agreement, **sizes)
    if choices.epsilon is None:
        gate = Gate.plan(public, choices.mechanism, delta=delta, pass_probability=0.95, prefix_price=0.01)
        worst = worst_case(choices.mechanism, delta=delta, **sizes, adaptive=True)
        return gate if gate.certificate().epsilon < worst.epsilon else None
    chosen = choose_guarantee(public, choices.mechanism, epsilon=choices.epsilon, delta=delta)
    return chosen if isinstance(chosen, Gate) else None


def _require_noise_below_votes(mechanism: Mechanism, teachers: int, *, epsilon: float, queries: int) -> None:
    # `calibrate` refuses this itself, with the nearest settings, if it knows the number of teachers.
    noise = mechanism.parameters().get("sigma2")
    if noise is not None and noise > teachers:
        raise InvalidInput(
            f"epsilon must leave noise below the votes: {epsilon!r} for {queries} queries needs noise of standard "
            f"deviation {noise:.4g} for {teachers} teachers; ask fewer queries, allow a larger epsilon or use more "
            "teachers."
        )


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
