"""How many public rows a study asks about, under how much noise: from announced numbers and the epsilon alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.mechanisms.base import DEFAULT_NOISE
from ostrakon.mechanisms.summed_gnmax import SummedGNMax
from ostrakon.planning.defaults import default_per_record_queries, default_size
from ostrakon.planning.per_record_plan import require_votes_above_noise
from ostrakon.planning.settled import BY_THE_OPERATOR

QUERIES = "number of queries"
"""How `tuned` calls it."""


def for_everybody(
    shape: SummedGNMax,
    *,
    people: int,
    pool: int,
    classes: int,
    epsilon: float,
    delta: float,
    queries: int | None,
    tuned: dict[str, str],
) -> tuple[SummedGNMax, int]:
    """(the noise, the number of queries) where every person votes for themselves, at few public rows.

    shape: with any sigma2. people: announced. queries: as the coordinator asked, or None. tuned: is told what the
    number of queries was chosen on. Errors: `InvalidInput` for an epsilon that drowns the votes.
    """
    # All queries cost what `max_contributions` of them cost, however many they are.
    asked = pool if queries is None else queries
    mechanism: Any = calibrate(shape, epsilon=epsilon, queries=asked, delta=delta)
    tuned[QUERIES] = BY_THE_OPERATOR
    if queries is None:
        queries = default_per_record_queries(mechanism, units=people, pool=pool, classes=classes)
        tuned[QUERIES] = "chosen so that each query gets several times more votes than noise, from announced numbers"
    require_votes_above_noise(mechanism, units=people, queries=queries, delta=delta, unit="person")
    return mechanism, queries


def for_trained(
    shape: SummedGNMax,
    *,
    teachers: int,
    pool: int,
    classes: int,
    epsilon: float,
    delta: float,
    queries: int | None,
    tuned: dict[str, str],
) -> tuple[SummedGNMax, int]:
    """(the noise, the number of queries) where owners train `teachers` in all, each of which votes on every query.

    None: as many as noise of a fifth of the teachers pays for, as a run of trained teachers does. Other arguments and
    errors: as of `for_everybody`.
    """
    tuned[QUERIES] = BY_THE_OPERATOR
    if queries is None:
        loud: Any = replace(shape, sigma2=DEFAULT_NOISE * teachers, max_contributions=pool)
        sizes: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "classes": classes, "max_answers": None}
        queries, _ = default_size(loud, pool=pool, **sizes)
        tuned[QUERIES] = "chosen so that their noise is about a fifth of the teachers, from announced numbers"
    shape = replace(shape, max_contributions=queries)
    mechanism: Any = calibrate(shape, epsilon=epsilon, queries=queries, delta=delta, teachers=teachers)
    return mechanism, queries
