"""The way back: the least epsilon at which a wanted accuracy is forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ostrakon.forecast.interval import Forecast
from ostrakon.validation import InvalidInput, fraction


@dataclass(frozen=True, kw_only=True)
class LeastEpsilon:
    """What would give `accuracy`.

    epsilon, mechanism: the least that does, None where none of those that were tried does. best: the highest forecast
    that was found, as (epsilon, mechanism, accuracy). sentence: the same in words.
    """

    accuracy: float
    epsilon: float | None
    mechanism: str | None
    best: tuple[float, str, float]

    @property
    def sentence(self) -> str:
        """What to do, or that nothing tried would do, with the best of it."""
        epsilon, mechanism, best = self.best
        if self.epsilon is None:
            return (
                f"None of the epsilons that were tried is forecast to reach an accuracy of {self.accuracy:.1%}; the "
                f"best is {best:.1%}, with {mechanism} at epsilon {epsilon:g}."
            )
        return (
            f"An accuracy of {self.accuracy:.1%} is forecast from epsilon {self.epsilon:.3g} on, with "
            f"{self.mechanism}; a single run may still be below it."
        )


def least_epsilon(forecasts: Sequence[Forecast], accuracy: float) -> LeastEpsilon:
    """The least epsilon whose forecast reaches `accuracy`, between those that were tried by interpolation.

    Along each mechanism the forecast is first made monotone from above: at an epsilon it counts as the least of what is
    forecast there and at all larger ones, so that a lucky small epsilon does not decide. Between two epsilons it rises
    evenly in the logarithm, and what is found is rounded up to three digits. Below the smallest that was tried nothing
    is claimed. Monotone: a higher accuracy never needs less.
    Errors: `InvalidInput` for an accuracy outside (0, 1) or no forecast.

    Source: isotonic from above; the convention of this module.
    """
    wanted = fraction("accuracy", accuracy)
    if not forecasts:
        raise InvalidInput("accuracy needs at least one forecast to be looked for in, got none.")
    best = max(forecasts, key=lambda one: one.accuracy)
    found: list[tuple[float, str]] = []
    for mechanism in dict.fromkeys(one.mechanism for one in forecasts):
        line = sorted((one.epsilon, one.accuracy) for one in forecasts if one.mechanism == mechanism)
        reached = [min(share for _, share in line[place:]) for place in range(len(line))]
        at = next((place for place, share in enumerate(reached) if share >= wanted), None)
        if at is None:
            continue
        epsilon = line[at][0]
        if at > 0 and reached[at] > reached[at - 1]:
            part = (wanted - reached[at - 1]) / (reached[at] - reached[at - 1])
            low, high = math.log(line[at - 1][0]), math.log(epsilon)
            epsilon = min(epsilon, _up(math.exp(low + part * (high - low))))
        found.append((epsilon, mechanism))
    epsilon, mechanism = min(found, default=(None, None))
    return LeastEpsilon(
        accuracy=wanted, epsilon=epsilon, mechanism=mechanism, best=(best.epsilon, best.mechanism, best.accuracy)
    )


def _up(value: float) -> float:
    """Rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")
