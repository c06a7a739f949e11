"""Calibration: the noise, or the threshold, for a target epsilon."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, cast

from scipy.special import ndtri_exp

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_independent.worst_case import run_mu, worst_case
from ostrakon.mechanisms.base import Mechanism, require_mechanism
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.numerics.inverse import least, least_of_power, most
from ostrakon.validation import InvalidInput, fraction, positive, whole

_DIGITS = 5

_TIGHT = 4e-4

_NEAR = 5e-3
"""How near adaptive composition is brought to the target, relative to it."""

_NEARBY = 1.1
"""Where the likely factor is within this one of 1, adaptive composition starts from the noise as given."""

_ROUGH = 0.01
"""How near a likely factor is brought to the target."""

_SEARCH: dict[str, Any] = {"growth": 4, "nearest": 1e-9, "furthest": 1e9}

_TRIES = 6
_GUESS = 0.9
"""How much less noise adaptive composition needs than the fast bounds, to begin with."""

_OF_LABELS, _OF_CHECKED_LABELS = 0.8075, 0.775
"""By adaptive composition labels cost about as much as their noisy counts with this share of mu."""

_POWER, _POWER_OF_CHECKED = 1.1, 1.02
"""Epsilon is about as this power of 1 / noise: of labels 1.07 to 1.15 from 0.1 to 4 at a delta of 1e-5, of checked
labels mostly 0.98 to 1.08.
"""


def calibrate(
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    queries: int,
    max_answers: int | None = None,
    teachers: int | None = None,
    classes: int | None = None,
    abstentions: bool = False,
) -> Mechanism:
    """Scale all noise of the mechanism by the smallest factor that keeps the worst case within `epsilon`.

    Parameters
    ----------
    mechanism : Mechanism
        The ratio of its noises stays, and so do parameters that are not noise (a threshold).
    epsilon : float, positive
    delta : float in (0, 1)
    queries, max_answers, teachers, classes, abstentions
        As for `worst_case`.

    Returns
    -------
    Mechanism
        With its parameters rounded to five digits, towards more noise.

    Raises
    ------
    InvalidInput
        If a run of this size would need more noise than votes (above one standard deviation per teacher); the message
        names the nearest settings that would not. Also if the mechanism has no guarantee or no noise to scale.

    Notes
    -----
    Guarantee: `worst_case(result, ..., adaptive=True)` with the same arguments is at most `epsilon`, and above it with
    1% less noise (0.1% where adaptive composition gives nothing).

    References
    ----------
    `worst_case`, inverted: first its fast bounds, then adaptive composition from there.

    Examples
    --------
    >>> from ostrakon.mechanisms import GNMax
    >>> quiet = calibrate(GNMax(sigma2=40), epsilon=0.55, delta=1e-5, queries=40)
    >>> worst_case(quiet, delta=1e-5, queries=40).epsilon <= 0.55
    True
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries = whole("queries", queries, at_least=1)
    teachers = None if teachers is None else whole("teachers", teachers, at_least=1)
    require_mechanism(mechanism)
    if not mechanism.releasable:
        raise InvalidInput(f"{mechanism.name} gives no guarantee that noise could be calibrated to.")
    if not mechanism.noise_parameters():
        raise InvalidInput(f"{mechanism.name} has no noise parameter to calibrate.")

    def cost(candidate: Mechanism, count: int = queries, *, adaptive: bool = False) -> float:
        return worst_case(
            candidate,
            queries=count,
            delta=delta,
            max_answers=max_answers,
            teachers=teachers,
            classes=classes,
            abstentions=abstentions,
            adaptive=adaptive,
        ).epsilon

    def at(factor: float) -> float:
        return cost(scaled(mechanism, factor))

    @functools.cache
    def adaptively(factor: float) -> float:
        return cost(scaled(mechanism, factor), adaptive=True)

    gaussian = mechanism.gaussian_dp()
    power = _POWER_OF_CHECKED if gaussian is not None and gaussian[0] else _POWER
    # Adaptive composition is for a known number of classes.
    factor = None
    if classes is not None:
        start = _likely_factor(mechanism, at, epsilon=epsilon, delta=delta, queries=queries, max_answers=max_answers)
        if teachers is not None and start * noise_deviation(mechanism) > teachers:
            _noisiest(mechanism, epsilon, queries=queries, teachers=teachers, cost=cost)
        factor = _least_adaptively(at, adaptively, epsilon, start, power=power)
    if factor is None:
        factor = least_of_power(at, epsilon, tolerance=_TIGHT, **_SEARCH)
        if factor == 0:
            raise InvalidInput(f"epsilon must be small enough to need noise, got {epsilon!r}.")
        if factor == math.inf:
            raise InvalidInput(f"epsilon must be reachable by {mechanism.name}, got {epsilon!r}: no noise is enough.")
        factor = tightened(adaptively, epsilon, factor, power=power)
    result = scaled(mechanism, factor)
    if teachers is not None and noise_deviation(result) > teachers:
        return _noisiest(mechanism, epsilon, queries=queries, teachers=teachers, cost=cost)
    return result


def likely_price(mechanism: Mechanism, *, queries: int, max_answers: int | None, delta: float) -> float | None:
    """Estimate the epsilon of labels by adaptive composition, to start searches; None for noise of another kind."""
    mu = run_mu(mechanism, queries=queries, max_answers=max_answers)
    gaussian = mechanism.gaussian_dp()
    if mu is None or gaussian is None:
        return None
    return gaussian_dp_epsilon((_OF_CHECKED_LABELS if gaussian[0] else _OF_LABELS) * mu, delta)


def _likely_factor(mechanism: Mechanism, fast: Callable[[float], float], *, epsilon: float, **run: Any) -> float:
    """Estimate the factor that adaptive composition needs; inf or 0 if none is near. fast: without composition."""

    def likely(factor: float) -> float:
        price = likely_price(scaled(mechanism, factor), **run)
        return fast(factor / _GUESS) if price is None else price

    start = least_of_power(likely, epsilon, tolerance=_ROUGH, **_SEARCH)
    return 1.0 if 1 / _NEARBY < start < _NEARBY else start


def _least_adaptively(
    fast: Callable[[float], float], cost: Callable[[float], float], epsilon: float, start: float, *, power: float
) -> float | None:
    """Return the least factor where adaptive composition decides, as of `calibrate`; else None.

    fast, cost: without adaptive composition and with it.
    """
    least = tightened(cost, epsilon, math.inf, start=start, power=power) if 0 < start < math.inf else math.inf
    return least if least < math.inf and epsilon * (1 - _NEAR) <= cost(least) < fast(least) else None


def tightened(
    cost: Callable[[float], float], epsilon: float, factor: float, *, near: float = _NEAR, start: float | None = None,
    power: float = _POWER,
) -> float:  # fmt: skip
    """Return the least factor within `epsilon` of a cost that takes seconds, from one that is known to be within it (or
    inf).

    start: where to begin; None: a little below `factor`. power: about that of 1 / factor by which the cost grows.

    Guarantee: the cost was computed at the result and is at most epsilon, unless the result is `factor` itself; it
    stops within `near` of epsilon, relative to it.
    """
    aim, within = factor * _GUESS if start is None else start, factor
    over: float = 0.0
    before: tuple[float, float] | None = None
    for _ in range(_TRIES):
        value = cost(aim)
        if not 0 < value < math.inf:
            break
        if value <= epsilon:
            within = aim
            if value >= epsilon * (1 - near):
                break
        else:
            over = aim
        if before is not None and value != before[1]:
            slope = math.log(value / before[1]) / math.log(before[0] / aim)
            power = min(max(slope, 0.5), 4.0)
        before = aim, value
        aim *= (value / (epsilon * (1 - near / 5))) ** (1 / power)
        if not over < aim < within * (1 - 1e-5):
            aim = within - (within - over) / 8
    return within


def _noisiest(mechanism: Mechanism, epsilon: float, *, queries: int, teachers: int, cost: Any) -> Mechanism:
    """Return the mechanism with one standard deviation of noise per teacher, refused if that is above `epsilon`."""
    noisiest = scaled(mechanism, teachers / noise_deviation(mechanism) / (1 + 1e-4))
    least = cost(noisiest, queries, adaptive=True)
    if least <= epsilon:
        return noisiest
    few = most(lambda count: cost(noisiest, count) <= epsilon, at_least=0, below=queries)
    asked, fewer = (f"{count} {'query' if count == 1 else 'queries'}" for count in (queries, few))
    raise InvalidInput(
        f"epsilon must be at least {_up(least, 3):g} for {asked} of {teachers} teachers with noise of at most "
        f"{teachers} votes, got {epsilon:g}{f' (enough for {fewer})' if few else ''}; "
        "fewer queries or more teachers need less."
    )


def scaled(mechanism: Mechanism, factor: float, *, digits: int | None = _DIGITS) -> Mechanism:
    """Return the mechanism with its noise scaled by `factor`, rounded to `digits` digits towards more noise (None: not
    rounded).
    """
    declared = mechanism.declared()
    changes = {
        name: _up(value * factor, digits) if declared[name].noise > 0 else _down(value / factor, digits)
        for name, value in mechanism.noise_parameters().items()
    }
    return dataclasses.replace(cast(Any, mechanism), **changes)


def noise_deviation(mechanism: Mechanism) -> float:
    """Return the standard deviation of the vote noise, in votes; of the threshold test's noise if votes get none."""
    noise = mechanism.vote_noise
    return max(mechanism.noise_parameters().values()) if noise is None else noise


def _up(value: float, digits: int | None) -> float:
    if digits is None:
        return value
    decimals = digits - 1 - math.floor(math.log10(value))
    rounded = round(value, decimals)
    return rounded if rounded >= value else round(rounded + 10.0**-decimals, decimals)


def _down(value: float, digits: int | None) -> float:
    if digits is None:
        return value
    decimals = digits - 1 - math.floor(math.log10(value))
    rounded = round(value, decimals)
    return rounded if rounded <= value else round(rounded - 10.0**-decimals, decimals)


def propose_test_release_within(
    *, epsilon: float, delta: float, queries: int, teachers: int | None = None, classes: int | None = None,
    abstentions: bool = False,
) -> ProposeTestRelease:  # fmt: skip
    """Return the mechanism that keeps `queries` queries within (epsilon, delta): the lower threshold of Laplace and
    Gaussian.

    teachers, classes, abstentions: as for `worst_case`. With both numbers, adaptive composition lowers noise and
    threshold, within 0.5% of epsilon. Half of delta pays for failures, half for the checks, before that.
    Errors: `InvalidInput` for an epsilon that is not above 0, a delta outside (0, 1), less than one query.

    >>> propose_test_release_within(epsilon=1.0, delta=1e-5, queries=15).sigma1 is None
    False
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries = whole("queries", queries, at_least=1)
    log_share = math.log(delta) - math.log(2) - math.log(queries)

    def gaussian(sigma: float) -> ProposeTestRelease:
        return ProposeTestRelease(threshold=-float(ndtri_exp(log_share)) * sigma * (1 + 1e-9), sigma1=sigma)

    def laplace(scale: float) -> ProposeTestRelease:
        return ProposeTestRelease(
            threshold=-(log_share + math.log(2)) * scale * (1 + 1e-9), epsilon_per_query=1 / scale
        )

    def fitted(form: Callable[[float], ProposeTestRelease]) -> ProposeTestRelease:
        def cost(scale: float) -> float:
            return run_epsilon(form(scale).run_cost(queries=queries), delta=delta)

        def adaptively(factor: float) -> float:
            sizes: dict[str, Any] = {"queries": queries, "teachers": teachers, "classes": classes}
            return worst_case(
                form(scale * factor), **sizes, delta=delta, abstentions=abstentions, adaptive=True
            ).epsilon

        scale = least(cost, epsilon, start=1.0, tolerance=1e-6)
        return form(scale * tightened(adaptively, epsilon, 1.0)) if teachers and classes else form(scale)

    return min((fitted(gaussian), fitted(laplace)), key=lambda mechanism: mechanism.threshold)


def sparse_vector_within(*, epsilon: float, delta: float, queries: int, refusals: int = 1) -> SparseVector:
    """Return the run of `queries` queries within (epsilon, delta): equal shares of epsilon; all of delta pays for
    failures.

    Errors: as `propose_test_release_within`, and for less than one refusal.
    """
    epsilon, delta = positive("epsilon", epsilon), fraction("delta", delta)
    queries, refusals = whole("queries", queries, at_least=1), whole("refusals", refusals, at_least=1)
    share = epsilon / refusals / 2 * (1 - 1e-12)

    def at(threshold: float) -> SparseVector:
        return SparseVector(threshold=threshold, refusals=refusals, epsilon1=share, epsilon2=share)

    def failure(threshold: float) -> float:
        return at(threshold).failure(queries=queries)

    return at(least(failure, delta, start=1.0, tolerance=1e-9))
