"""Calibration under a gate: the noise for a target epsilon if the votes are expected to agree."""

import functools
import math

from ostrakon.accounting.calibration.noise import calibrate, noise_deviation, scaled, tightened
from ostrakon.accounting.gate.gate import Gate, Unbounded
from ostrakon.accounting.gate.search import require_public
from ostrakon.mechanisms.base import Mechanism
from ostrakon.numerics.inverse import least_of_power
from ostrakon.validation import InvalidInput, fraction, positive
from ostrakon.votes import PublicVotes

_TIGHT = 2e-3
_GAIN = 1.02


def calibrate_gate(
    public_votes: PublicVotes,
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    pass_probability: float = 0.95,
    prefix_price: float = 0.01,
) -> Gate:
    """Return a gate for all these queries within `epsilon`, on the mechanism with its noise scaled by the smallest
    factor.

    Parameters are those of `Gate.plan` and `calibrate`. `gate.mechanism` is the scaled mechanism.

    Guarantee: `gate.certificate().epsilon <= epsilon`; within 0.2% of the least noise that the search can reach (by
    profiles: 0.5% of epsilon).
    Errors: `InvalidInput` for plain `Votes`, and if noise of one standard deviation per teacher is not enough.
    """
    target, delta = positive("epsilon", epsilon), fraction("delta", delta)

    plans: dict[float, tuple[Gate, float]] = {}

    def reached(factor: float, *, adaptive: bool = False) -> float:
        try:
            gate = Gate.plan(
                public_votes,
                scaled(mechanism, factor),
                delta=delta,
                pass_probability=pass_probability,
                prefix_price=prefix_price,
                adaptive=adaptive,
            )
        except Unbounded:
            return math.inf
        plans[factor] = gate, gate.certificate().epsilon
        return plans[factor][1]

    noisiest = public_votes.teachers / noise_deviation(mechanism)
    factor = least_of_power(reached, target, tolerance=_TIGHT, growth=2, nearest=1e-6, furthest=noisiest)
    if factor == 0:
        raise InvalidInput(f"epsilon must be small enough to need noise, got {epsilon!r}.")
    if factor == math.inf:
        raise InvalidInput(
            f"epsilon must leave noise below the votes: {epsilon!r} for {public_votes.queries} gated queries needs "
            f"more noise than one standard deviation per teacher ({public_votes.teachers}); there epsilon is "
            f"{plans[max(plans)][1] if plans else math.inf:.3g}. Ask fewer queries, or train more teachers."
        )
    reached(factor, adaptive=True)
    if plans[factor][0].grid is not None:
        factor = tightened(functools.partial(reached, adaptive=True), target, factor)
    return plans[factor][0]


def choose_guarantee(
    public_votes: PublicVotes,
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
) -> Gate | Mechanism:
    """Return a gate if it needs less noise for `epsilon` than the worst case; else the calibrated mechanism.

    Parameters
    ----------
    public_votes : PublicVotes
        Votes of the shape of the private ones; the choice is made on them.
    mechanism : Mechanism
        As for `calibrate`.
    epsilon : float, positive
    delta : float in (0, 1)

    Returns
    -------
    Gate or Mechanism
        The gate, if it saves at least 2% of the noise.

    Raises
    ------
    InvalidInput
        For plain `Votes`; as `calibrate`, if neither reaches epsilon.

    Notes
    -----
    Guarantee: the result is (epsilon, delta)-DP for all private votes. The choice depends on public votes alone and
    costs nothing.

    References
    ----------
    docs/mathematics.md B and D6.
    """
    require_public(public_votes)

    def plain() -> Mechanism:
        return calibrate(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            queries=public_votes.queries,
            teachers=public_votes.teachers,
            classes=public_votes.classes,
            abstentions=public_votes.abstentions,
        )

    try:
        gate = calibrate_gate(public_votes, mechanism, epsilon=epsilon, delta=delta)
    except InvalidInput:
        return plain()
    try:
        worst = plain()
    except InvalidInput:
        return gate
    return gate if noise_deviation(gate.mechanism) * _GAIN < noise_deviation(worst) else worst
