"""The guarantee of one release under several definitions of neighbouring data sets."""

import math
from dataclasses import dataclass
from typing import Any

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case_at
from ostrakon.accounting.epsilons import Gated, WorstCase
from ostrakon.mechanisms.base import Mechanism, Relation
from ostrakon.validation import whole


@dataclass(frozen=True, kw_only=True)
class Adjacent:
    """The (epsilon, delta)-DP of a release under one definition of neighbours.

    Parameters
    ----------
    relation : {"add-remove", "replace", "take-out", "labels"}
    neighbours : str
        When two data sets are neighbours, in one sentence.
    epsilon : float
        At least 0; inf if unknown.
    delta : float
        In (0, 1).
    """

    relation: Relation
    neighbours: str
    epsilon: float
    delta: float


def replaced_record(
    guarantee: WorstCase | Gated,
    mechanism: Mechanism,
    *,
    queries: int,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
) -> tuple[float, float]:
    """Return the guarantee for a change of two teachers, from that for a change of one.

    Parameters
    ----------
    guarantee : WorstCase or Gated
        For a change of one teacher.
    mechanism : Mechanism
    queries, max_answers, teachers, classes
        Those of `worst_case` that gave the guarantee.

    Returns
    -------
    tuple of float
        (epsilon, delta). The delta is that of a worst case, and larger for a gate. Inf if no theorem gives a delta
        below 1.

    Notes
    -----
    It prices the replacement of a record whose content decides its teacher: the old record leaves one teacher and the
    new record joins another.

    Guarantee: the smaller of two theorems for a worst case, at its own delta: a mu-Gaussian-DP run is 2 mu-Gaussian-DP
    for two teachers; an (e, d)-DP run is (2 e, (1 + exp e) d)-DP. For a gate only the second, at its larger delta.

    References
    ----------
    Group privacy of Gaussian DP (Dong, Roth and Su 2022); the definition of (e, d)-DP, applied twice.
    """
    if isinstance(guarantee, Gated):
        delta = _group_delta(guarantee.epsilon, guarantee.delta)
        return (2 * guarantee.epsilon, delta) if delta < 1 else (math.inf, guarantee.delta)
    queries, delta = whole("queries", queries), guarantee.delta
    epsilon, part = guarantee.epsilon, delta
    best = math.inf
    sizes: dict[str, Any] = {"max_answers": max_answers, "teachers": teachers, "classes": classes}
    at = worst_case_at(mechanism, queries=queries, **sizes, adaptive=True, around=delta)
    # Reduce the delta of one step until the two steps together fit into the whole delta.
    for _ in range(8):
        if not math.isfinite(epsilon) or epsilon > 300:
            break
        if _group_delta(epsilon, part) <= delta:
            best = 2 * epsilon
            break
        part = delta / (1 + math.exp(epsilon)) * (1 - 1e-3)
        epsilon = at(part).epsilon
    tied = mechanism.run_cost(queries=queries) if queries else None
    if tied is not None and tied.mu is not None and tied.failure == 0:
        best = min(best, gaussian_dp_epsilon(2 * tied.mu, delta))
    gaussian = mechanism.gaussian_dp()
    if gaussian is not None:
        check, answer = gaussian
        answers = queries if max_answers is None else min(queries, max_answers)
        mu = 2 * math.sqrt(queries * check**2 + answers * answer**2)
        best = min(best, gaussian_dp_epsilon(mu, delta))
    return best, delta


def _group_delta(epsilon: float, delta: float) -> float:
    return (1 + math.exp(min(epsilon, 700.0))) * delta
