"""The worst case: the smallest (epsilon, delta) that holds for all votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_independent.adaptive_bound import BASIS, adaptive_profile, label_costs
from ostrakon.accounting.data_independent.argmax_rdp import argmax_rdp
from ostrakon.accounting.data_independent.bisection import bisection_costs
from ostrakon.accounting.data_independent.noisy_max import AnswerLaw, answer_law
from ostrakon.accounting.data_independent.supremum import joint_supremum, two_class_costs
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Curve, require_orders
from ostrakon.mechanisms.base import FloatArray, Mechanism, NoisyArgmax, StatefulMechanism, require_mechanism
from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import Votes

GAUSSIAN = "Gaussian DP, exact composition"
BISECTION = "the supremum over the votes of each comparison"
JOINT, EXACT = "the joint supremum of check and label", "the exact supremum over two-class votes"
_GAIN_APART = 0.87
"""Adaptive composition of checks and labels apart leaves at least about this share of their Rényi bound."""
_MORE, _LITTLE_MORE = 1.2, 1.06
"""How much larger the Rényi bound of check and label together may be than that of each apart, to be tried; and from
where on each apart is tried, too, with three classes or more.
"""

__all__ = ["gaussian_dp_delta", "gaussian_dp_epsilon", "worst_case"]


def worst_case(
    mechanism: Mechanism,
    *,
    queries: int,
    delta: float,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
    adaptive: bool = False,
    effort: int = 1,
) -> WorstCase:
    """Return the smallest data-independent epsilon of `queries` queries of `mechanism`, over all theorems here.

    Parameters
    ----------
    mechanism : Mechanism
    queries : int, at least 1
        Queries that the teachers get, refused ones included. They may be chosen adaptively.
    delta : float in (0, 1)
    max_answers : int, optional
        The run stops, or refuses everything, after this number of answers. It must be fixed before any private vote is
        seen: the number of answers that a run happened to give is not such a cap.
    teachers, classes : int, optional
        Public numbers; some theorems need both.
    abstentions : bool
        Whether a teacher may abstain. False claims that every teacher votes on every query, and bounds may use it.
    adaptive : bool
        Whether to try adaptive composition too, which takes seconds and gives the smallest epsilons.
    effort : int, at least 1
        How much more work than for a plan adaptive composition may take, for a smaller bound.

    Returns
    -------
    WorstCase
        `basis` names the theorem. Epsilon is inf if none applies.

    Raises
    ------
    InvalidInput
        For counts that are not whole or a delta outside (0, 1).

    Notes
    -----
    Guarantee: (epsilon, delta)-DP when one vote moves between two classes (or to or from "abstain") on every query, for
    all votes. The minimum over several theorems is a guarantee because all of them are, and all depend on public
    numbers alone.

    References
    ----------
    docs/mathematics.md B.
    """
    at = worst_case_at(
        mechanism,
        queries=queries,
        max_answers=max_answers,
        teachers=teachers,
        classes=classes,
        abstentions=abstentions,
        adaptive=adaptive,
        effort=effort,
    )
    return at(delta)


def worst_case_at(
    mechanism: Mechanism,
    *,
    queries: int,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
    adaptive: bool = False,
    around: float | None = None,
    effort: int = 1,
) -> Callable[[float], WorstCase]:
    """Return `worst_case` as a function of delta; the slow part is computed once.

    Parameters, guarantee and errors are those of `worst_case`; the delta is checked at the call. around: the delta for
    which adaptive composition is computed; its profile serves other deltas, too. None: each delta by itself.
    """
    effort = whole("effort", effort, at_least=1)
    around = None if around is None else fraction("around", around)
    sizes = sizes_of(queries=queries, max_answers=max_answers, teachers=teachers, classes=classes)
    require_mechanism(mechanism)
    bounds = list(_bounds(mechanism, abstentions=abstentions, **sizes))

    def adaptively(centre: list[WorstCase], delta: float) -> tuple[float, bool]:
        """Return epsilon at delta, and whether adaptive composition is the smallest bound at the centre's delta."""
        epsilon = own = math.inf
        for capped in together_or_apart(mechanism, centre, two=sizes["classes"] == 2):
            if capped and own <= _GAIN_APART * min((one.epsilon for one in centre if not _is_joint(one)), default=0.0):
                continue
            profile = adaptive_profile(
                mechanism, **sizes, abstentions=abstentions, capped=capped, epsilon=centre[0].epsilon,
                delta=centre[0].delta, effort=effort,
            )  # fmt: skip
            if profile is not None:
                # A NaN compares false and so never becomes the bound.
                epsilon, own = (
                    min((one for one in (known, profile.epsilon(at)) if one >= 0), default=math.inf)
                    for known, at in ((epsilon, delta), (own, centre[0].delta))
                )
        return epsilon, own < centre[0].epsilon

    def at(delta: float) -> WorstCase:
        delta = fraction("delta", delta)
        if sizes["queries"] == 0:
            return WorstCase(epsilon=0.0, delta=delta, basis="no query")
        if not adaptive:
            return _worst_cases(bounds, delta)[0]
        centre = _worst_cases(bounds, delta if around is None else around)
        epsilon, decides = adaptively(centre, delta)
        if decides and around is not None and epsilon < math.inf:
            # At other deltas another bound is rarely below it, and slower.
            return WorstCase(epsilon=epsilon, delta=delta, basis=BASIS)
        known = centre if around is None else _worst_cases(bounds, delta)
        return WorstCase(epsilon=epsilon, delta=delta, basis=BASIS) if epsilon < known[0].epsilon else known[0]

    return at


def plain_bounds(mechanism: Mechanism, delta: float, **sizes: Any) -> list[WorstCase]:
    """Return all bounds without adaptive composition, the smallest first. sizes: of `sizes_of`, and `abstentions`."""
    return _worst_cases(list(_bounds(mechanism, **sizes)), delta)


def _worst_cases(bounds: list[_Bound], delta: float) -> list[WorstCase]:
    return by_size((bound(delta) for bound in bounds), delta)


def by_size(bounds: Iterable[tuple[float, str]], delta: float) -> list[WorstCase]:
    """Return (epsilon, basis) at one delta as worst cases, the smallest first; without any, an infinite one."""
    none = WorstCase(epsilon=math.inf, delta=delta, basis="no bound holds")
    every = [WorstCase(epsilon=epsilon, delta=delta, basis=basis) for epsilon, basis in bounds]
    # A NaN compares false and so never becomes the bound.
    return sorted((one for one in every if one.epsilon >= 0), key=lambda one: one.epsilon) or [none]


def worst_case_curve(
    mechanism: Mechanism,
    orders: FloatArray,
    *,
    queries: int,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
) -> Curve:
    """Return the smallest data-independent RDP curve of the whole run over all theorems here, at `orders`.

    orders: increasing, above 1. Other arguments: those of `worst_case`. inf means unknown.

    Guarantee: at every order a bound on the Rényi divergence of the run, for the neighbours of `worst_case`. The least
    of several bounds is a bound, order by order.
    Errors: `InvalidInput` for counts that are not whole, or a mechanism whose run has no curve because its queries
    depend on each other (see `Mechanism.run_cost`).
    Source: docs/mathematics.md B.
    """
    orders = require_orders(orders)
    sizes = sizes_of(queries=queries, max_answers=max_answers, teachers=teachers, classes=classes, fewest=1)
    if isinstance(mechanism, StatefulMechanism):
        raise InvalidInput(f"{mechanism.name} must be charged by its run_cost: its queries are tied.")
    votes = {name: sizes[name] for name in ("queries", "teachers", "classes")}
    best = label_costs(mechanism, orders, **votes, abstentions=abstentions)
    for curve, _ in _curves(mechanism, abstentions=abstentions, **sizes):
        # A NaN compares false and so never becomes the bound.
        values = curve(orders)
        best = np.where((values >= 0) & (values < best), values, best)
    return Curve(orders, best)


def worst_case_of(
    votes: Votes, mechanism: Mechanism, *, delta: float, max_answers: int | None = None, adaptive: bool = False,
    effort: int = 1,
) -> WorstCase:  # fmt: skip
    """Return `worst_case` for the queries, teachers and classes of these votes; only their shape is used.

    A number of classes that was read off private predictions is ignored: another teacher may name one more.
    """
    return worst_case(
        mechanism,
        queries=votes.queries,
        delta=delta,
        max_answers=max_answers,
        teachers=votes.teachers,
        classes=votes.classes if votes.classes_are_public else None,
        abstentions=votes.abstentions,
        adaptive=adaptive,
        effort=effort,
    )


def run_mu(mechanism: Mechanism, *, queries: int, max_answers: int | None = None) -> float | None:
    """Return the mu at which the histograms behind a whole run are Gaussian-DP; None for a mechanism without such a
    query.

    queries, max_answers: as of `worst_case`. An answer follows its own check, so the sum of squares along every path is
    at most this one. Errors: `InvalidInput` for counts that are not whole.
    Source: Dong, Roth and Su 2019 (composition); docs/mathematics.md B.
    """
    sizes = sizes_of(queries=queries, max_answers=max_answers)
    gaussian = mechanism.gaussian_dp()
    if gaussian is None:
        return None
    check, answer = gaussian
    return math.sqrt(sizes["queries"] * check**2 + sizes["answers"] * answer**2)


def gaussian_curve(mechanism: Mechanism, basis: str, *, queries: int, max_answers: int | None = None) -> float | None:
    """Return the mu of a run whose worst case is that of a Gaussian at every delta; None where `basis` is another
    theorem.

    basis: of `worst_case`. Other arguments: those that it was computed with.
    Errors: `InvalidInput` for counts that are not whole.
    """
    queries = sizes_of(queries=queries, max_answers=max_answers)["queries"]
    tied = mechanism.run_cost(queries=queries) if queries else None
    if tied is not None and basis == _whole_run(mechanism):
        return tied.mu if tied.failure == 0 else None
    return run_mu(mechanism, queries=queries, max_answers=max_answers) if basis == GAUSSIAN else None


def _whole_run(mechanism: Mechanism) -> str:
    return f"the whole run of {mechanism.name}"


def together_or_apart(mechanism: Mechanism, known: list[WorstCase], *, two: bool) -> list[bool]:
    """Return how to compose adaptively: False for check and label together, True for each apart, with a cap on answers.

    Adaptive composition gains more where they are together, most with three classes or more, so that both are tried
    where that Rényi bound is a little larger. two: whether there are two classes.
    """
    if mechanism.gaussian_dp() is None or any(one.basis.startswith(BISECTION) for one in known):
        return [False]
    together = [_is_joint(one) for one in known]
    best, apart = (
        min((one.epsilon for one, is_ in zip(known, together, strict=True) if is_ == kind), default=math.inf)
        for kind in (True, False)
    )
    return [False] * (best <= _MORE * apart < math.inf) + [True] * (not best <= (1.0 if two else _LITTLE_MORE) * apart)


def _is_joint(one: WorstCase) -> bool:
    return one.basis.startswith((JOINT, EXACT))


def sizes_of(
    *,
    queries: int,
    max_answers: int | None,
    teachers: int | None = None,
    classes: int | None = None,
    fewest: int = 0,
) -> dict[str, Any]:
    """Return the checked sizes of a run; `answers` is the most that it gives."""
    queries = whole("queries", queries, at_least=fewest)
    return {
        "queries": queries,
        "answers": queries if max_answers is None else min(queries, whole("max_answers", max_answers)),
        "teachers": None if teachers is None else whole("teachers", teachers, at_least=1),
        "classes": None if classes is None else whole("classes", classes, at_least=2),
    }


_Bound = Callable[[float], tuple[float, str]]
"""From delta to epsilon, and the theorem that gives it."""


def _bounds(
    mechanism: Mechanism,
    *,
    queries: int,
    answers: int,
    teachers: int | None,
    classes: int | None,
    abstentions: bool,
) -> Iterator[_Bound]:
    if queries == 0:
        return
    tied = mechanism.run_cost(queries=queries)
    if tied is not None:
        yield lambda delta: (run_epsilon(tied, delta=delta), _whole_run(mechanism))
    if isinstance(mechanism, StatefulMechanism):
        return
    mu = run_mu(mechanism, queries=queries, max_answers=answers)
    if mu is not None:
        yield lambda delta: (gaussian_dp_epsilon(mu, delta), GAUSSIAN)
    pure = mechanism.pure_dp()
    if pure is not None:
        yield lambda delta: (pure_dp_epsilon(pure, queries=queries, delta=delta), "pure DP, optimal composition")
    for curve, basis in _curves(
        mechanism, queries=queries, answers=answers, teachers=teachers, classes=classes, abstentions=abstentions
    ):
        yield partial(_of_curve, curve, {}, basis)


_CurveAt = Callable[[FloatArray], FloatArray]


def _curves(
    mechanism: Mechanism,
    *,
    queries: int,
    answers: int,
    teachers: int | None,
    classes: int | None,
    abstentions: bool,
) -> Iterator[tuple[_CurveAt, str]]:
    """Yield RDP curves of the whole run, as functions of the orders."""
    yield lambda a: queries * mechanism.worst_case(a), f"the worst case of {mechanism.name}"
    comparison = None if classes is None else mechanism.comparison(classes)
    if comparison is not None and classes is not None:
        if teachers is not None and not abstentions:
            yield lambda a: answers * bisection_costs(comparison, a, teachers=teachers, classes=classes), BISECTION
        return
    m = 3 if classes is None else classes  # the bound for three classes holds for any number
    form = mechanism.noisy_argmax(Votes(np.array([[1] + [0] * (m - 1)])))
    gaussian = mechanism.gaussian_dp()
    if form is not None and form.noise == "gaussian" and gaussian is not None:
        check, answer = gaussian
        yield (
            lambda a: queries * a * check**2 / 2 + answers * argmax_rdp(answer, a, classes=m),
            "released labels alone, without counts of votes",
        )
    if teachers is None or classes is None:
        return
    if classes == 2 and not abstentions and form is not None and _no_offsets(form):
        yield (
            lambda a: queries * two_class_costs(mechanism, a, teachers=teachers).max(axis=1),
            EXACT,
        )
        return
    law = answer_law(mechanism, teachers=teachers, classes=classes)
    if law is not None and law.threshold_test is not None:
        yield (
            lambda a: queries * _joint_costs(law, tuple(a.tolist()), abstentions=abstentions),
            JOINT,
        )


@lru_cache(maxsize=256)
def _joint_costs(law: AnswerLaw, orders: tuple[float, ...], *, abstentions: bool) -> FloatArray:
    """Return the cost of one query, whatever the number of queries, which a plan looks for."""
    return joint_supremum(law, orders, abstentions=abstentions)


def _no_offsets(form: NoisyArgmax) -> bool:
    return form.threshold_test is None or form.threshold_test.offsets is None


def _of_curve(curve: _CurveAt, costs: dict[int, float], basis: str, delta: float) -> tuple[float, str]:
    epsilon, order = _best_order(curve, costs, delta)
    return epsilon, f"{basis}, Rényi DP at order {order:g}, converted by Canonne, Kamath and Steinke"


def _best_order(curve: _CurveAt, costs: dict[int, float], delta: float) -> tuple[float, float]:
    """Return (epsilon, order): the smallest over the orders tried. Any order is valid: a coarse search cannot
    undershoot.

    costs: those already computed, by index of the order; new ones are added.
    """
    known: dict[int, float] = {}
    by_conversion = Curve(DEFAULT_ORDERS, np.zeros(len(DEFAULT_ORDERS))).epsilons(delta=delta)

    def may_be_best(index: int) -> bool:
        # A divergence does not fall with its order.
        smaller = (costs[i] for i in known if i < index and math.isfinite(costs[i]))
        return not by_conversion[index] + max(smaller, default=0.0) > min(known.values(), default=math.inf)

    def look(indices: list[int]) -> None:
        wanted = sorted({i for i in indices if 0 <= i < len(DEFAULT_ORDERS) and may_be_best(i)} - known.keys())
        new = [index for index in wanted if index not in costs]
        if new:
            costs.update(zip(new, curve(DEFAULT_ORDERS[new]).tolist(), strict=True))
        if wanted:
            one = Curve(DEFAULT_ORDERS[wanted], np.array([costs[index] for index in wanted]))
            known.update(zip(wanted, np.maximum(0.0, one.epsilons(delta=delta)).tolist(), strict=True))

    # Orders that are often the best come first: their epsilon rules out many others.
    look([24, 48, 84])
    look(list(range(0, len(DEFAULT_ORDERS), 12)))
    for step in (4, 1):
        for _ in range(3):
            best = min(known, key=lambda i: known[i])
            look([best - 2 * step, best - step, best + step, best + 2 * step])
    best = min(known, key=lambda i: known[i])
    return known[best], float(DEFAULT_ORDERS[best])
