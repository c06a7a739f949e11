"""Planning: what the options leave open is settled from public sizes alone, and priced."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import build_with_defaults, find
from ostrakon.mechanisms.synthetic_gnmax import SyntheticGNMax
from ostrakon.options.options import AUTO, GATE, WORST_CASE, Options, is_auto
from ostrakon.planning.defaults import (
    DEFAULT_MECHANISM,
    DEFAULT_OF_COUNTS,
    DEFAULT_OF_TEACHERS,
    MOST_OF_MOMENTS,
    default_size,
)
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import INTERACTIVE, Plan, first_round, shape
from ostrakon.planning.settled import (
    parameters_told,
    settled_delta,
    settled_epsilon,
    settled_queries,
    settled_teachers,
)
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput

_PER_RECORD = ("max_contributions", "moments", "marginals")
"""Parameters of mechanisms of per-record teachers."""


def make_plan(
    options: Options,
    *,
    units: int,
    pool: int,
    classes: int,
    unit: str = "record",
    images: bool = False,
    tables: int | None = None,
) -> Plan:
    """Settle what `options` leaves open, from public sizes alone, and price it.

    units: private records or users. pool: public rows. images: whether rows are images. tables: marginals that
    the public rows are drawn from; None: these are given. Where no epsilon is given and not all of the noise, the noise
    is calibrated to an epsilon of 2: a single parameter does not silently lift the guarantee.

    Errors: `InvalidInput` for more teachers than units, more queries than public rows, a delta of 1 / units or more,
    parameters that the mechanism does not have, a student that learns from what it does not release, an epsilon that
    cannot be kept (with the nearest that can).
    """
    tuned: dict[str, str] = {}
    if tables is not None:
        return _synthetic_plan(options, tables, units=units, pool=pool, classes=classes, unit=unit)
    if options.mechanism == SyntheticGNMax.name:
        raise InvalidInput(
            f"mechanism must be another than {SyntheticGNMax.name} where public rows are given: it pays for marginals "
            "of the private ones, from which public rows are drawn (synthetic)."
        )
    if options.mechanism == AUTO:
        options = dataclasses.replace(options, mechanism=auto_mechanism(options, classes=classes, images=images))
    if learns_moments(options) and options.mechanism != DEFAULT_MECHANISM:
        raise InvalidInput(
            f"student must be one that learns from what {options.mechanism} releases, got {options.student!r}, which "
            f"needs the sums of features of {DEFAULT_MECHANISM}."
        )
    if find(options.mechanism).per_record:
        return per_record_plan(options, units=units, pool=pool, classes=classes, unit=unit)
    teachers = settled_teachers(options, units, unit, tuned)
    delta = settled_delta(options, units, unit, tuned)
    mechanism = build_with_defaults(first_round(options.mechanism), teachers, options.parameters)
    epsilon = settled_epsilon(options, mechanism, tuned)
    max_answers = options.max_answers
    if options.queries is None:
        tuned["number of queries"] = "a default from the size of the public data and the epsilon"
        queries, cap = default_size(
            mechanism, pool=pool, epsilon=epsilon, delta=delta, classes=classes, max_answers=max_answers
        )
        max_answers = cap if options.guarantee == WORST_CASE else max_answers
    else:
        queries = settled_queries(options.queries, pool, tuned)
    interactive = options.mechanism == INTERACTIVE
    if interactive and options.guarantee == GATE:
        raise InvalidInput("A gate takes one batch of queries: interactive-gnmax, which asks in two rounds, has none.")
    sizes: dict[str, Any] = {"queries": queries, "delta": delta, "max_answers": max_answers}
    sizes |= shape(interactive, teachers=teachers, classes=classes)
    gate = _gate(options, mechanism, epsilon=epsilon, **sizes) if options.guarantee == GATE else None
    if gate is not None:
        mechanism = gate.mechanism
        tuned["gate"] = f"votes simulated with a share of {options.agreement:g} for the winner"
    elif epsilon is not None:
        try:
            mechanism = calibrate(mechanism, epsilon=epsilon, **sizes)
            _require_noise_below_votes(mechanism, teachers, epsilon=epsilon, queries=queries)
        except InvalidInput as refused:
            raise InvalidInput(
                _or_per_record(refused, options, units=units, pool=pool, classes=classes, unit=unit)
            ) from None
    tuned |= parameters_told(options, mechanism, epsilon)
    return Plan(
        teachers=teachers,
        classes=classes,
        mechanism=mechanism,
        interactive=interactive,
        queries=queries,
        max_answers=max_answers,
        delta=delta,
        bound=worst_case(mechanism, **sizes),
        tuned=tuned,
        gate=gate,
    )


def _synthetic_plan(options: Options, tables: int, *, units: int, pool: int, classes: int, unit: str) -> Plan:
    """The plan of a run that draws its public rows: per-record teachers, priced together with the marginals."""
    chosen = auto_mechanism(options, classes=classes) if options.mechanism == AUTO else options.mechanism
    if chosen not in (SyntheticGNMax.name, DEFAULT_MECHANISM, DEFAULT_OF_COUNTS):
        raise InvalidInput(
            f"synthetic rows are for per-record teachers, whose price is composed with that of the marginals, and not "
            f"for {chosen}: leave out mechanism, teachers, teacher, smooth, max-answers, a gate and the noise of other "
            "mechanisms."
        )
    if chosen == SyntheticGNMax.name:
        chosen = per_record_mechanism(options, classes=classes)
    fixed: dict[str, Any] = {"tables": tables} | ({"moments": 0.0} if chosen == DEFAULT_OF_COUNTS else {})
    options = dataclasses.replace(options, mechanism=SyntheticGNMax.name)
    return per_record_plan(options, units=units, pool=pool, classes=classes, unit=unit, fixed=fixed)


def learns_moments(options: Options) -> bool:
    """Whether the student that was named learns from sums of features."""
    named = options.student if isinstance(options.student, str) else type(options.student).__name__
    return named.partition(":")[0] in ("moments", "MomentLogistic", "MomentVote")


def per_record_mechanism(options: Options, *, classes: int = 2, images: bool = False) -> str:
    """The mechanism of per-record teachers where none is named: with sums of features where somebody learns from them.

    Of images nobody does, and of the students that can be named few; of many classes each has a sum of few records.
    """
    of_sums = learns_moments(options) or (is_auto(options.student) and not images and classes <= MOST_OF_MOMENTS)
    return DEFAULT_MECHANISM if of_sums else DEFAULT_OF_COUNTS


def auto_mechanism(options: Options, *, classes: int = 2, images: bool = False) -> str:
    """What the mechanism "auto" stands for: every record a teacher of its own, so that queries cost nothing each.

    Confident-GNMax wherever something is asked for that only trained teachers have: how many, a cap on answers, a gate,
    noise of other mechanisms, which they are, or that they are smoothed.
    """
    of_answers = options.max_answers is not None or options.guarantee != WORST_CASE
    of_noise = any(value is not None for name, value in options.parameters.items() if name not in _PER_RECORD)
    of_teachers = options.teachers is not None or not is_auto(options.teacher) or options.smooth
    trained = of_teachers or of_answers or of_noise
    return DEFAULT_OF_TEACHERS if trained else per_record_mechanism(options, classes=classes, images=images)


def _or_per_record(refused: InvalidInput, options: Options, *, units: int, pool: int, classes: int, unit: str) -> str:
    """What a refusal of trained teachers says: its own sentence, and what per-record teachers would do."""
    mechanism = per_record_mechanism(options, classes=classes)
    asked = Options(mechanism=mechanism, epsilon=options.epsilon, delta=options.delta)
    try:
        plan = per_record_plan(asked, units=units, pool=pool, classes=classes, unit=unit)
    except InvalidInput:
        return str(refused)
    return (
        f"{refused} Without trained teachers, {mechanism} asks {plan.queries} queries within epsilon "
        f"{round_up(plan.bound.epsilon):g}."
    )


def _gate(
    options: Options,
    mechanism: Mechanism,
    *,
    epsilon: float | None,
    queries: int,
    delta: float,
    max_answers: int | None,
    teachers: int,
    classes: int,
) -> Gate | None:
    """The gate for votes like the simulated ones, None where the worst case needs no more noise or epsilon."""
    if max_answers is not None:
        raise InvalidInput("max_answers cannot be combined with a gate, which answers a whole batch or refuses it.")
    # Votes of public numbers alone: what is drawn here is no noise.
    public = simulate_votes(
        np.random.default_rng(0), queries=queries, teachers=teachers, classes=classes, plurality=options.agreement
    )
    if epsilon is None:
        gate = Gate.plan(public, mechanism, delta=delta, pass_probability=0.95, prefix_price=0.01)
        worst = worst_case(mechanism, queries=queries, delta=delta, teachers=teachers, classes=classes)
        return gate if gate.certificate().epsilon < worst.epsilon else None
    chosen = choose_guarantee(public, mechanism, epsilon=epsilon, delta=delta)
    return chosen if isinstance(chosen, Gate) else None


def _require_noise_below_votes(mechanism: Mechanism, teachers: int, *, epsilon: float, queries: int) -> None:
    # `calibrate` refuses this itself, with the nearest settings, wherever it may be told the number of teachers.
    noise = mechanism.parameters().get("sigma2")
    if noise is not None and noise > teachers:
        raise InvalidInput(
            f"epsilon must leave noise below the votes: {epsilon!r} for {queries} queries needs noise of standard "
            f"deviation {noise:.4g} for {teachers} teachers; ask fewer queries, allow a larger epsilon or use more "
            "teachers."
        )
