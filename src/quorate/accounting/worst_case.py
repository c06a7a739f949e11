"""The worst case: the smallest (epsilon, delta) that holds whatever the teachers vote."""

from __future__ import annotations

import math
from collections.abc import Iterator

from quorate.accounting.curve import DEFAULT_ORDERS, Curve
from quorate.accounting.epsilons import WorstCase
from quorate.accounting.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from quorate.accounting.pure_dp import pure_dp_epsilon
from quorate.checks import InvalidInput, fraction, whole
from quorate.mechanisms.base import Mechanism, TiedMechanism

__all__ = ["gaussian_dp_delta", "gaussian_dp_epsilon", "worst_case"]


def worst_case(
    mechanism: Mechanism,
    *,
    queries: int,
    delta: float,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
) -> WorstCase:
    """The smallest data-independent epsilon that any theorem here gives `queries` queries of `mechanism`.

    queries: how many the teachers are asked, refused ones included; they may be chosen adaptively.
    max_answers: the run stops, or refuses everything, once it has given this many answers. It must be fixed
    before any private vote is seen: the number of answers that a run happened to give is not such a cap.
    teachers, classes: public numbers; where both are given, bounds that need them are tried too.

    Guarantee: (epsilon, delta)-DP when one vote moves between two classes (or to or from "abstain") on every
    query, whatever the votes are. The minimum over several theorems is a guarantee because each of them is one
    and all depend on public numbers alone. `basis` names the one that won. Epsilon is inf where none applies.
    Errors: `InvalidInput` for counts that are not whole or a delta outside (0, 1).
    Source: MATH.md B.
    """
    delta = fraction("delta", delta)
    queries = whole("queries", queries)
    answers = queries if max_answers is None else min(queries, whole("max_answers", max_answers))
    teachers = None if teachers is None else whole("teachers", teachers, at_least=1)
    classes = None if classes is None else whole("classes", classes, at_least=2)
    if not isinstance(mechanism, Mechanism):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"mechanism must be one of quorate.mechanisms, got {mechanism!r}.")
    if queries == 0:
        return WorstCase(epsilon=0.0, delta=delta, basis="no query")
    best = WorstCase(epsilon=math.inf, delta=delta, basis="no bound holds for this mechanism")
    for epsilon, basis in _bounds(mechanism, queries=queries, answers=answers, delta=delta):
        # A NaN compares false and so can never become the bound.
        if epsilon >= 0 and epsilon < best.epsilon:
            best = WorstCase(epsilon=epsilon, delta=delta, basis=basis)
    return best


def _bounds(mechanism: Mechanism, *, queries: int, answers: int, delta: float) -> Iterator[tuple[float, str]]:
    direct = mechanism.direct_epsilon(queries=queries, delta=delta)
    if direct is not None:
        yield direct, f"direct theorem of {mechanism.name}"
    if isinstance(mechanism, TiedMechanism):
        return
    gaussian = mechanism.gaussian_dp()
    if gaussian is not None:
        check, answer = gaussian
        mu = math.sqrt(queries * check**2 + answers * answer**2)
        # An answer follows its own check, so the sum of squares along every path is at most this one.
        yield gaussian_dp_epsilon(mu, delta), "Gaussian DP, exact composition"
    pure = mechanism.pure_dp()
    if pure is not None:
        yield pure_dp_epsilon(pure, queries=queries, delta=delta), "pure DP, optimal composition"
    curve = queries * Curve(DEFAULT_ORDERS, mechanism.worst_case(DEFAULT_ORDERS))
    epsilon, order = curve.epsilon(delta=delta)
    yield epsilon, f"Rényi DP at order {order:g}, converted by Canonne, Kamath and Steinke"
