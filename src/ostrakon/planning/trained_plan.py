"""The plan of trained teachers: their number, the queries, then the least noise within epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.bounded_gnmax import REPLACED
from ostrakon.mechanisms.registry import build_with_defaults
from ostrakon.options.options import GATE, WORST_CASE, Options
from ostrakon.planning.choose_mechanism import per_record_mechanism
from ostrakon.planning.defaults import default_size
from ostrakon.planning.per_record_plan import per_record_plan
from ostrakon.planning.plan import INTERACTIVE, Plan, first_round, shape
from ostrakon.planning.settled import (
    parameter_sources,
    settled_delta,
    settled_epsilon,
    settled_queries,
    settled_teachers,
)
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput


def trained_plan(options: Options, *, units: int, pool: int, classes: int, unit: str) -> Plan:
    """The plan of a mechanism whose teachers are trained (see `ostrakon.planning.make_plan.make_plan`)."""
    if options.neighbours == REPLACED:
        raise InvalidInput(
            f"neighbours cannot be {REPLACED} with trained teachers, whose epsilon is for one {unit} added or removed: "
            "the statement has a second epsilon for one replaced."
        )
    tuned: dict[str, str] = {}
    teachers = settled_teachers(options, units, unit, tuned)
    delta = settled_delta(options, units, unit, tuned)
    mechanism = build_with_defaults(first_round(options.mechanism), teachers, options.parameters)
    epsilon = settled_epsilon(options, mechanism, tuned)
    queries, max_answers = _size(options, mechanism, epsilon, tuned, pool=pool, delta=delta, classes=classes)
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
    tuned |= parameter_sources(options, mechanism, epsilon)
    return Plan(
        teachers=teachers,
        classes=classes,
        mechanism=mechanism,
        interactive=interactive,
        queries=queries,
        max_answers=max_answers,
        delta=delta,
        bound=worst_case(mechanism, **sizes, adaptive=True),
        tuned=tuned,
        gate=gate,
    )


def _size(
    options: Options,
    mechanism: Mechanism,
    epsilon: float | None,
    tuned: dict[str, str],
    *,
    pool: int,
    delta: float,
    classes: int,
) -> tuple[int, int | None]:
    """(queries, cap on answers)."""
    if options.queries is not None:
        return settled_queries(options.queries, pool, tuned), options.max_answers
    tuned["number of queries"] = "a default from the size of the public data and the epsilon"
    queries, cap = default_size(
        mechanism, pool=pool, epsilon=epsilon, delta=delta, classes=classes, max_answers=options.max_answers
    )
    return queries, cap if options.guarantee == WORST_CASE else options.max_answers


def _or_per_record(refused: InvalidInput, options: Options, *, units: int, pool: int, classes: int, unit: str) -> str:
    """The error message for trained teachers, with the epsilon that per-record teachers would need."""
    mechanism = per_record_mechanism(options, classes=classes)
    asked = Options(mechanism=mechanism, epsilon=options.epsilon, delta=options.delta)
    try:
        plan = per_record_plan(asked, units=units, pool=pool, classes=classes, unit=unit, fixed={})
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
    """The gate for votes like the simulated ones; None if the worst case needs no more noise or epsilon."""
    if max_answers is not None:
        raise InvalidInput("max_answers cannot be combined with a gate, which answers a whole batch or refuses it.")
    # Simulated from public numbers alone: these draws are not noise of the release.
    public = simulate_votes(
        np.random.default_rng(0), queries=queries, teachers=teachers, classes=classes, plurality=options.agreement
    )
    if epsilon is None:
        gate = Gate.plan(public, mechanism, delta=delta, pass_probability=0.95, prefix_price=0.01)
        worst = worst_case(mechanism, queries=queries, delta=delta, teachers=teachers, classes=classes, adaptive=True)
        return gate if gate.certificate().epsilon < worst.epsilon else None
    chosen = choose_guarantee(public, mechanism, epsilon=epsilon, delta=delta)
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
