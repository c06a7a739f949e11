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

    epsilon, mechanism: the least that does, None where none of those that were tried does. best: the highest accuracy
    that can be asked for, as (epsilon, mechanism, accuracy). sentence: the same in words.
    """

    accuracy: float
    epsilon: float | None
    mechanism: str | None
    best: tuple[float, str, float]

    @property
    def sentence(self) -> str:
        """What to do, or that nothing tried would do, with the best of it."""
        epsilon, mechanism, best = self.best
        wanted = f"{100 * self.accuracy:.10g}%"
        if self.epsilon is None:
            return (
                f"None of the epsilons that were tried is forecast to reach an accuracy of {wanted}; "
                f"the best is {best:.1%}, with {mechanism} at epsilon {epsilon:g}."
            )
        return (
            f"An accuracy of {wanted} is forecast from epsilon {self.epsilon:.3g} on, with "
            f"{self.mechanism}; a single run may still be below it."
        )


def least_epsilon(forecasts: Sequence[Forecast], accuracy: float) -> LeastEpsilon:
    """The least epsilon whose forecast reaches `accuracy`, between those that were tried by interpolation.

    Along each mechanism the forecast is first made monotone from above: at an epsilon it counts as the least of what is
    forecast there and at all larger ones, so that a lucky small epsilon does not decide. Forecasts count as they are
    printed, in tenths of a percent. Between two epsilons it rises evenly in the logarithm, and what is found is rounded
    up to three digits. Below the smallest that was tried nothing is claimed. Monotone: a higher accuracy never needs
    less.
    Errors: `InvalidInput` for an accuracy outside (0, 1) or no forecast.

    Source: isotonic from above; the convention of this module.
    """
    wanted = fraction("accuracy", accuracy)
    if not forecasts:
        raise InvalidInput("accuracy needs at least one forecast to be looked for in, got none.")
    best = (0.0, "", -1.0)
    found: list[tuple[float, str]] = []
    for mechanism in dict.fromkeys(one.mechanism for one in forecasts):
        # As tables and sentences print it: what is printed as the best can be asked for.
        line = sorted((one.epsilon, round(one.accuracy, 3)) for one in forecasts if one.mechanism == mechanism)
        reached = [min(share for _, share in line[place:]) for place in range(len(line))]
        if reached[-1] > best[2]:
            best = (line[reached.index(reached[-1])][0], mechanism, reached[-1])
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
    return LeastEpsilon(accuracy=wanted, epsilon=epsilon, mechanism=mechanism, best=best)


def _up(value: float) -> float:
    """Rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")
