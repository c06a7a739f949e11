"""Calibration under a gate: how much noise a target epsilon needs where the votes are expected to agree."""

from __future__ import annotations

import math

import numpy as np

from ostrakon.accounting.calibration.noise import calibrate, noise_deviation, scaled
from ostrakon.accounting.gate.gate import Gate
from ostrakon.mechanisms.base import Mechanism
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
    """A gate for all these queries within `epsilon`, on the mechanism with its noise scaled by the smallest factor.

    Arguments as `Gate.plan`; mechanism: its shape, as in `calibrate`. `gate.mechanism` is the scaled one.

    Guarantee: `gate.certificate().epsilon <= epsilon`; within 0.2% of the least such noise as far as the search finds.
    Errors: `InvalidInput` for plain `Votes`, and where even noise of one standard deviation per teacher is not enough.
    """
    target, delta = positive("epsilon", epsilon), fraction("delta", delta)

    def plan(factor: float) -> tuple[Gate, float]:
        gate = Gate.plan(
            public_votes,
            scaled(mechanism, factor),
            delta=delta,
            pass_probability=pass_probability,
            prefix_price=prefix_price,
        )
        return gate, gate.certificate().epsilon

    loudest = public_votes.teachers / noise_deviation(mechanism)
    gate, reached = plan(1.0)
    if reached <= target:
        high, under = 1.0, reached
        low = 0.5
        while True:
            quieter, over = plan(low)
            if over > target:
                break
            gate, high, under = quieter, low, over
            low /= 2
            if low < 1e-6:
                raise InvalidInput(f"epsilon must be small enough to need noise, got {epsilon!r}.")
    else:
        low, over = 1.0, reached
        while True:
            high = min(low * 2, loudest)
            gate, under = plan(high)
            if under <= target:
                break
            if high >= loudest:
                raise InvalidInput(
                    f"epsilon must leave the votes audible: {epsilon!r} for {public_votes.queries} gated queries needs "
                    f"more noise than one standard deviation per teacher ({public_votes.teachers}); there epsilon is "
                    f"{under:.3g}. Ask fewer queries, or train more teachers."
                )
            low, over = high, under
    while high / low > 1 + _TIGHT:
        share = math.log(over / target) / math.log(over / under) if over > under else 0.5
        aim = low * (high / low) ** float(np.clip(share, 0.05, 0.95)) * (1 + _TIGHT / 4)
        middle = float(np.clip(aim, low * (1 + _TIGHT / 4), high / (1 + _TIGHT / 4)))
        quieter, found = plan(middle)
        if found <= target:
            gate, high, under = quieter, middle, found
            if found > target * (1 - _TIGHT):
                break
        else:
            low, over = middle, found
    return gate


def choose_guarantee(
    public_votes: PublicVotes,
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    pass_probability: float = 0.95,
    prefix_price: float = 0.01,
    max_answers: int | None = None,
) -> Gate | Mechanism:
    """The gate where it needs less noise for `epsilon` than the worst case does; else the calibrated mechanism.

    Public votes decide, so the choice itself costs nothing. A gate that saves less than 2% is not worth its refusals.
    Errors: as `calibrate`, where neither reaches epsilon.
    """

    def plain() -> Mechanism:
        return calibrate(
            mechanism,
            epsilon=epsilon,
            delta=delta,
            queries=public_votes.queries,
            max_answers=max_answers,
            teachers=public_votes.teachers,
            classes=public_votes.classes,
            abstentions=public_votes.abstentions,
        )

    try:
        gate = calibrate_gate(
            public_votes,
            mechanism,
            epsilon=epsilon,
            delta=delta,
            pass_probability=pass_probability,
            prefix_price=prefix_price,
        )
    except InvalidInput:
        return plain()
    try:
        worst = plain()
    except InvalidInput:
        return gate
    return gate if noise_deviation(gate.mechanism) * _GAIN < noise_deviation(worst) else worst
