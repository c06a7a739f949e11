"""The worst case of a run in stages: several mechanisms one after another, and what an earlier release has cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import expit

from ostrakon.accounting.composition.adaptive import Family
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.composition.sum_of_discrete_gaussians import sum_of_discrete_gaussians_rdp
from ostrakon.accounting.data_independent.adaptive_bound import (
    BASIS,
    ORDERS,
    Steps,
    adaptive_profile,
    adaptive_steps,
    compose_steps,
    gaussian_step,
    grid_for,
)
from ostrakon.accounting.data_independent.worst_case import (
    GAUSSIAN,
    by_size,
    plain_bounds,
    run_mu,
    sizes_of,
    together_or_apart,
    worst_case,
    worst_case_curve,
)
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.rdp import Curve
from ostrakon.mechanisms.base import FloatArray, Mechanism, RunCost, require_mechanism
from ostrakon.mechanisms.rdp import rdp_of_pure_dp
from ostrakon.numerics.rounding import above, below, product_above, sum_above
from ostrakon.validation import InvalidInput, fraction, non_negative, quote, settle, whole

_RENYI = "Rényi DP of all stages together"
_PURE = "pure DP, the epsilons of all stages added"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a run asks of one mechanism before it goes on to the next.

    Parameters
    ----------
    mechanism : Mechanism
    queries : int
        At least 0.
    max_answers : int, optional
        The stage ends, or refuses everything, after this number of answers. Fixed before any private vote is seen.

    Raises
    ------
    InvalidInput
        For numbers that are not whole, or something else than a mechanism.
    """

    mechanism: Mechanism
    queries: int
    max_answers: int | None = None

    def __post_init__(self) -> None:
        require_mechanism(self.mechanism)
        settle(self, queries=whole)
        if self.max_answers is not None:
            settle(self, max_answers=whole)


@dataclass(frozen=True, kw_only=True)
class _Charge:
    """Bounds on one stage: its Rényi curve, and its mu and pure epsilon where it has them.

    They hold without a failure, an event that is equally likely on both sides. steps, steps_failure: the same for
    adaptive composition; None where no theorem applies.
    """

    curve: FloatArray
    mu: float | None
    pure: float | None
    failure: float
    steps: list[Steps] | None
    steps_failure: float


def worst_case_of_stages(
    stages: Sequence[Stage],
    *,
    delta: float,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
    earlier: WorstCase | None = None,
    effort: int = 1,
) -> WorstCase:
    """Return the smallest data-independent epsilon of a run that asks several mechanisms one after another.

    Parameters
    ----------
    stages : sequence of Stage
        In the order in which they are asked. Their order, numbers and mechanisms are fixed before any private vote is
        seen; the queries may be chosen adaptively.
    delta : float in (0, 1)
        For everything, the earlier release included.
    teachers, classes, abstentions
        As for `worst_case`, for all stages.
    earlier : WorstCase, optional
        What was released before from the same data, for the same neighbours. Only its epsilon and delta count.
    effort : int, at least 1
        As for `worst_case`.

    Returns
    -------
    WorstCase
        `basis` names the theorem. Epsilon is inf if none applies.

    Raises
    ------
    InvalidInput
        For no stage, mechanisms of different neighbours, and what `worst_case` refuses.

    Notes
    -----
    Guarantee: (epsilon, delta)-DP of all answers together, for the neighbours of `worst_case`. The recursion of
    adaptive composition takes the family of its stage at each step.

    References
    ----------
    docs/adaptive.md.

    Examples
    --------
    >>> from ostrakon.mechanisms import GNMax, LNMax
    >>> asked = [Stage(mechanism=GNMax(sigma2=40), queries=30), Stage(mechanism=LNMax(gamma=0.02), queries=20)]
    >>> worst_case_of_stages(asked, delta=1e-5, teachers=50, classes=2).epsilon < 0.7
    True
    """
    delta, effort = fraction("delta", delta), whole("effort", effort, at_least=1)
    asked = _checked(stages)
    shape: dict[str, Any] = {"teachers": teachers, "classes": classes, "abstentions": abstentions}
    if len(asked) == 1 and earlier is None:
        one = asked[0]
        sizes: dict[str, Any] = {"queries": one.queries, "max_answers": one.max_answers}
        return worst_case(one.mechanism, **sizes, **shape, delta=delta, adaptive=True, effort=effort)
    before = [] if earlier is None else [_charge_of_pair(earlier.epsilon, earlier.delta)]
    charges = [*before, *(_charge(one, delta=delta, effort=effort, **shape) for one in asked if one.queries)]
    if not charges:
        return WorstCase(epsilon=0.0, delta=delta, basis="no query")
    bound = _without_adaptive(charges, delta)
    epsilon = _adaptively(charges, bound.epsilon, delta, effort)
    return WorstCase(epsilon=epsilon, delta=delta, basis=BASIS) if epsilon < bound.epsilon else bound


def _checked(stages: Sequence[Stage]) -> list[Stage]:
    asked = list(stages)
    if not asked or not all(isinstance(one, Stage) for one in asked):
        raise InvalidInput(f"stages must be one Stage or more, got {quote(stages)}.")
    relations = {one.mechanism.relation: one.mechanism.name for one in asked}
    if len(relations) > 1:
        both = " and ".join(f"{name} ({relation})" for relation, name in relations.items())
        raise InvalidInput(f"stages must be for the same neighbours, got {both}.")
    return asked


def _without_adaptive(charges: list[_Charge], delta: float) -> WorstCase:
    """Return the smallest bound without adaptive composition."""
    remaining = _remaining(delta, [one.failure for one in charges])
    bounds: list[tuple[float, str]] = []
    if remaining > 0:
        curve = Curve(ORDERS, np.sum([one.curve for one in charges], axis=0))
        epsilon, order = curve.epsilon(delta=remaining)
        bounds.append((epsilon, f"{_RENYI} at order {order:g}, converted by Canonne, Kamath and Steinke"))
        mus = [one.mu for one in charges if one.mu is not None]
        if len(mus) == len(charges):
            mu = math.sqrt(above(sum((Fraction(x) ** 2 for x in mus), Fraction(0)))) * (1 + 1e-15)
            bounds.append((gaussian_dp_epsilon(mu, remaining), GAUSSIAN))
    pure = [one.pure for one in charges if one.pure is not None]
    if remaining >= 0 and len(pure) == len(charges):
        bounds.append((sum_above(pure), _PURE))
    return by_size(bounds, delta)[0]


def _adaptively(charges: list[_Charge], known: float, delta: float, effort: int) -> float:
    """Return the epsilon by adaptive composition of all steps; inf where there are none, a stage is without a theorem,
    or it would take too long.
    """
    remaining = _remaining(delta, [one.steps_failure for one in charges])
    steps = [step for one in charges for step in one.steps or ()]
    if not remaining > 0 or not steps or any(one.steps is None for one in charges):
        return math.inf
    queries = sum(one.queries for one in steps)
    outcomes = sum(one.queries * one.outcomes for one in steps) / queries
    grid = grid_for(queries=queries, outcomes=outcomes, epsilon=known, delta=remaining, effort=effort)
    profile = None if grid is None else compose_steps(steps, grid)
    epsilon = math.inf if profile is None else profile.epsilon(remaining)
    return epsilon if epsilon >= 0 else math.inf


def _remaining(delta: float, failures: list[float]) -> float:
    """Return what failures leave of delta, rounded downward; less than 0 if they exceed it."""
    return below(Fraction(delta) - sum(map(Fraction, failures)))


def _charge_of_pair(epsilon: float, delta: float) -> _Charge:
    """Return the charge of pure DP outside an event of probability delta (Kairouz, Oh and Viswanath 2015)."""
    failure = 0.0 if delta == 0 else fraction("delta of the earlier release", delta)
    return _tied(RunCost(epsilon=non_negative("epsilon of the earlier release", epsilon), checks=1, failure=failure))


def _charge(
    stage: Stage, *, delta: float, effort: int, teachers: int | None, classes: int | None, abstentions: bool
) -> _Charge:
    mechanism = stage.mechanism
    shape: dict[str, Any] = {"teachers": teachers, "classes": classes, "abstentions": abstentions}
    asked: dict[str, Any] = {"queries": stage.queries, "max_answers": stage.max_answers}
    steps = _label_steps(stage, delta=delta, effort=effort, **shape)
    cost = mechanism.run_cost(queries=stage.queries)
    if cost is not None:
        tied = _tied(cost)
        if steps is None:
            return tied
        return _Charge(curve=tied.curve, mu=tied.mu, pure=tied.pure, failure=tied.failure, steps=steps, steps_failure=0)
    curve = worst_case_curve(mechanism, ORDERS, **asked, **shape).values
    mu, pure = run_mu(mechanism, **asked), mechanism.pure_dp()
    if mu is not None:
        curve = np.minimum(curve, ORDERS * mu**2 / 2 * (1 + 1e-14))
        steps = [gaussian_step(mu)] if steps is None else steps
    if pure is not None and steps is None:
        steps = [_response(pure, stage.queries)]
    every = None if pure is None else product_above(stage.queries, pure)
    return _Charge(curve=curve, mu=mu, pure=every, failure=0.0, steps=steps, steps_failure=0.0)


def _tied(cost: RunCost) -> _Charge:
    """Return the charge of a run whose queries depend on each other."""
    curve, steps = np.full(len(ORDERS), math.inf), None
    mu = pure = None
    if cost.mu is not None and math.isfinite(cost.mu):
        mu, curve, steps = cost.mu, ORDERS * cost.mu**2 / 2 * (1 + 1e-14), [gaussian_step(cost.mu)] if cost.mu else []
    elif cost.shares is not None:
        curve = sum_of_discrete_gaussians_rdp(cost.shares, ORDERS)
    elif cost.epsilon is not None and math.isfinite(cost.epsilon):
        checks = max(1, cost.checks)
        pure, curve = product_above(checks, cost.epsilon), checks * rdp_of_pure_dp(ORDERS, cost.epsilon) * (1 + 1e-12)
        steps = [_response(cost.epsilon, checks)]
    return _Charge(curve=curve, mu=mu, pure=pure, failure=cost.failure, steps=steps, steps_failure=cost.failure)


def _response(epsilon: float, steps: int) -> Steps:
    """Return steps that are each epsilon-DP: randomized response is the worst one."""
    p = np.array([[expit(epsilon), expit(-epsilon)]])
    return Steps.of(Family(p=p, q=p[:, ::-1].copy()), steps)


def _label_steps(
    stage: Stage, *, delta: float, effort: int, teachers: int | None, classes: int | None, abstentions: bool
) -> list[Steps] | None:
    """Return the stage's labels as steps; check and label together or apart, whichever is cheaper by itself."""
    sizes = sizes_of(queries=stage.queries, max_answers=stage.max_answers, teachers=teachers, classes=classes)
    known = plain_bounds(stage.mechanism, delta, abstentions=abstentions, **sizes)
    forms = together_or_apart(stage.mechanism, known, two=classes == 2)

    def alone(capped: bool) -> float:
        profile = adaptive_profile(
            stage.mechanism, **sizes, abstentions=abstentions, capped=capped, epsilon=known[0].epsilon, delta=delta,
            effort=effort,
        )  # fmt: skip
        return math.inf if profile is None else profile.epsilon(delta)

    capped = min(forms, key=alone) if len(forms) > 1 else forms[0]
    bounds = adaptive_steps(stage.mechanism, **sizes, abstentions=abstentions, capped=capped, effort=effort)
    return next(iter(bounds), None)
