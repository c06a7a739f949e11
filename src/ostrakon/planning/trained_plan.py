"""The plan of trained teachers: their number and the queries are chosen; the least noise within epsilon follows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import Mechanism
from ostrakon.planning.choices import Choices
from ostrakon.planning.plan import Plan, shape
from ostrakon.validation import InvalidInput


def trained_plan(choices: Choices) -> Plan:
    """The priced plan. Errors: `InvalidInput` for an epsilon that is too small (with the nearest that is possible)."""
    mechanism, queries, delta = choices.mechanism, choices.queries, choices.delta
    assert queries is not None
    sizes: dict[str, Any] = {"queries": queries, "delta": delta, "max_answers": choices.max_answers}
    sizes |= shape(choices.interactive, teachers=choices.teachers, classes=choices.classes)
    of_gate: dict[str, str] = {}
    gate = None if choices.agreement is None else _gate(choices, choices.agreement, queries)
    if gate is not None:
        mechanism = gate.mechanism
        of_gate["gate"] = f"votes simulated with a share of {choices.agreement:g} for the winner"
    elif choices.epsilon is not None:
        mechanism = calibrate(mechanism, epsilon=choices.epsilon, **sizes)
        _require_noise_below_votes(mechanism, choices.teachers, epsilon=choices.epsilon, queries=queries)
    return Plan(
        teachers=choices.teachers,
        classes=choices.classes,
        mechanism=mechanism,
        interactive=choices.interactive,
        queries=queries,
        max_answers=choices.max_answers,
        delta=delta,
        bound=worst_case(mechanism, **sizes, adaptive=True),
        tuned={**choices.sources, **of_gate, **choices.parameter_sources},
        gate=gate,
    )


def _gate(choices: Choices, agreement: float, queries: int) -> Gate | None:
    """The gate for votes like the simulated ones; None if the worst case needs no more noise or epsilon."""
    delta = choices.delta
    sizes: dict[str, Any] = {"teachers": choices.teachers, "classes": choices.classes, "queries": queries}
    # Simulated from public numbers alone: these draws are not noise of the release.
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
