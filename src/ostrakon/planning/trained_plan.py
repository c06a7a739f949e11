"""The plan of trained teachers: the number of answers determines the noise, or a gate does."""

from dataclasses import replace
from typing import Any

import numpy as np

from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.mechanisms import Mechanism
from ostrakon.options.options import Options
from ostrakon.planning.choices import BY_THE_OPERATOR, Choices, trained_choices
from ostrakon.planning.choose_mechanism import trained_mechanism_for_labels
from ostrakon.planning.plan import Plan, shape
from ostrakon.validation import InvalidInput


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
