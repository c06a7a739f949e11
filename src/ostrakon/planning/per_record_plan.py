"""The plan of per-record teachers: the noise comes first, then the number of queries, which costs nothing."""

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
    """The priced plan. Errors: `InvalidInput` for an epsilon that is too small or too many queries."""
    mechanism, queries, delta = _calibrated(choices), choices.queries, choices.delta
    units, classes = choices.teachers, choices.classes
    levels, sources = _levels(choices, mechanism), dict(choices.sources)
    if levels:
        sources["weights"] = "the largest at which every level of consent keeps its epsilon"
    if queries is None:
        # How many records have which level is not public, so all levels count the same.
        weight = sum(level.weight for level in levels) / (len(levels) * STEPS) if levels else 1
        votes = math.ceil(units * weight)
        queries = default_per_record_queries(mechanism, units=votes, pool=choices.pool, classes=classes)
    # The cells of one column share the votes of all units, so a column counts as one query.
    shared = queries if choices.columns is None else choices.columns
    require_votes_above_noise(mechanism, units=units, queries=shared, delta=delta, unit=choices.unit)
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
    """The mechanism with its noise; where sums will be centred over the classes for certain, it says so."""

    def with_noise(mechanism: Mechanism) -> Mechanism:
        if choices.epsilon is None:
            return mechanism
        # All queries cost as much as `max_contributions` of them, so price the whole pool. The noise that the votes
        # tolerate depends on the number of queries, which is chosen and checked later.
        asked = choices.pool if choices.queries is None else choices.queries
        return calibrate(mechanism, epsilon=choices.epsilon, queries=asked, delta=choices.delta)

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
    """The levels of consent with their weights; () without any."""
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
            + _what_would_do(mechanism, units=units, queries=queries, delta=delta, unit=unit)
            + "."
        )


def _what_would_do(mechanism: Mechanism, *, units: int, queries: int, delta: float, unit: str) -> str:
    """A larger epsilon, fewer queries, or more units that would lift the votes above the noise."""
    votes_in_all = units * (mechanism.contribution_bound or 1)
    noise = mechanism.vote_noise or 0.0
    enough = scaled(mechanism, votes_in_all / queries / noise)
    # Four digits, rounded up: the named setting must work.
    epsilon = float(f"{worst_case(enough, queries=queries, delta=delta).epsilon * 1.001:.4g}")
    fewer = int(votes_in_all / noise)
    remedies = [f"an epsilon of {epsilon:g}"]
    if FEWEST_PER_RECORD <= fewer < queries and queries > (mechanism.contribution_bound or 1):
        remedies.append(f"{fewer} queries at this one")
    return f"{', '.join(remedies)} or {math.ceil(units * noise * queries / votes_in_all)} {unit}s"
