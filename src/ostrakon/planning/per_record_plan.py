"""The plan of per-record teachers: first the noise, then the number of queries, which costs nothing."""

import math
from dataclasses import replace

from ostrakon.accounting.calibration.noise import calibrate, scaled
from ostrakon.accounting.consent import Level, levels_within
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.features.moments import is_centred, worth_their_noise
from ostrakon.mechanisms import Mechanism, MomentGNMax
from ostrakon.planning.choices import Choices
from ostrakon.planning.defaults import FEWEST_PER_RECORD, default_per_record_queries
from ostrakon.planning.plan import Plan
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


def per_record_plan(choices: Choices) -> Plan:
    """Return the priced plan. Errors: `InvalidInput` for an epsilon that is too small or too many queries."""
    mechanism, queries, delta = _calibrated(choices), choices.queries, choices.delta
    units, classes = choices.teachers, choices.classes
    levels, sources = _levels(choices, mechanism), dict(choices.sources)
    if levels:
        sources["weights"] = "the largest at which every level of consent keeps its epsilon"
    if queries is None:
        # The numbers of records by level are not public, so all levels count the same.
        weight = sum(level.weight for level in levels) / (len(levels) * STEPS) if levels else 1
        votes = math.ceil(units * weight)
        queries = default_per_record_queries(mechanism, units=votes, pool=choices.pool, classes=classes)
    # The cells of one column share the votes of all units, so a column counts as one query.
    effective_queries = queries if choices.columns is None else choices.columns
    require_votes_above_noise(mechanism, units=units, queries=effective_queries, delta=delta, unit=choices.unit)
    return Plan(
        teachers=units,
        classes=classes,
        mechanism=mechanism,
        interactive=False,
        queries=queries,
        max_answers=None,
        delta=delta,
        bound=worst_case(mechanism, queries=queries, delta=delta, teachers=units, classes=classes),
        tuned={**sources, **choices.parameter_sources},
        levels=levels,
    )


def _calibrated(choices: Choices) -> Mechanism:
    """Return the mechanism with its noise, and with centred sums if it is certain that they are centred."""

    def with_noise(mechanism: Mechanism) -> Mechanism:
        if choices.epsilon is None:
            return mechanism
        # The cost does not depend on the number of queries, so price the whole pool; that number is chosen later.
        queries = choices.pool if choices.queries is None else choices.queries
        return calibrate(mechanism, epsilon=choices.epsilon, queries=queries, delta=choices.delta)

    mechanism = choices.mechanism
    if type(mechanism) is MomentGNMax:
        mechanism = replace(mechanism, centred_classes=None)
        if choices.columns is None and choices.consent is None and choices.classes >= 2:
            centred = with_noise(replace(mechanism, centred_classes=choices.classes))
            noise = centred.moment_noise
            assert noise is not None
            if is_centred(choices.classes, 1 + worth_their_noise(choices.teachers, noise)):
                return centred
    return with_noise(mechanism)


def _levels(choices: Choices, mechanism: Mechanism) -> tuple[Level, ...]:
    """Return the levels of consent with their weights; () without any."""
    if choices.consent is None:
        return ()
    cost = mechanism.run_cost(queries=choices.pool if choices.queries is None else choices.queries)
    assert cost is not None
    return levels_within(choices.consent.epsilons, cost, delta=choices.delta)


def require_votes_above_noise(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> None:
    """Refuse a number of queries at which a query gets fewer votes than the noise's standard deviation.

    The message names settings that are possible.
    """
    votes_per_unit, noise = mechanism.contribution_bound or 1, mechanism.vote_noise or 0.0
    if units * votes_per_unit < noise * queries:
        raise InvalidInput(
            f"queries must be few enough for their votes to exceed the noise: {units} {unit}s vote on "
            f"{votes_per_unit} of {queries} queries, under noise of standard deviation "
            f"{noise:.4g}; the nearest reachable settings are "
            + _possible_settings(mechanism, units=units, queries=queries, delta=delta, unit=unit)
            + "."
        )


def _possible_settings(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> str:
    """Return a larger epsilon, fewer queries, or more units at which the votes exceed the noise, in words."""
    votes = units * (mechanism.contribution_bound or 1)
    noise = mechanism.vote_noise or 0.0
    larger = scaled(mechanism, votes / queries / noise)
    # Four digits, rounded up: the named setting must work.
    epsilon = float(f"{worst_case(larger, queries=queries, delta=delta).epsilon * 1.001:.4g}")
    fewer = int(votes / noise)
    remedies = [f"an epsilon of {epsilon:g}"]
    if FEWEST_PER_RECORD <= fewer < queries and queries > (mechanism.contribution_bound or 1):
        remedies.append(f"{fewer} queries at this one")
    return f"{', '.join(remedies)} or {math.ceil(units * noise * queries / votes)} {unit}s"
