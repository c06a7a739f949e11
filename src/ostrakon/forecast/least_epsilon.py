"""The least epsilon at which a wanted accuracy is forecast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ostrakon.forecast.interval import Forecast
from ostrakon.validation import InvalidInput, fraction


@dataclass(frozen=True, kw_only=True)
class LeastEpsilon:
    """What gives `accuracy`.

    Parameters
    ----------
    accuracy : float
    epsilon, mechanism : optional
        The least epsilon that gives it, None if none of those that were tried does.
    best : tuple of (float, str, float)
        (epsilon, mechanism, accuracy) of the highest accuracy that can be asked for.
    """

    accuracy: float
    epsilon: float | None
    mechanism: str | None
    best: tuple[float, str, float]

    @property
    def sentence(self) -> str:
        """The same in words."""
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
    """The least epsilon whose forecast reaches `accuracy`, by interpolation between the epsilons that were tried.

    Along each mechanism the forecast is first made monotone from above: at an epsilon it counts as the least of the
    forecasts there and at all larger ones, so that a lucky small epsilon does not decide. Forecasts count as they are
    printed, in tenths of a percent. Between two epsilons the accuracy rises linearly in the logarithm of epsilon, and
    the result is rounded up to three digits. Nothing is claimed below the smallest epsilon that was tried. Monotone: a
    higher accuracy never needs less.

    Parameters
    ----------
    forecasts : sequence of Forecast
        At least one.
    accuracy : float
        In (0, 1).

    Raises
    ------
    InvalidInput
        For an accuracy out of range or no forecast.
    """
    wanted = fraction("accuracy", accuracy)
    if not forecasts:
        raise InvalidInput("accuracy needs at least one forecast to be looked for in, got none.")
    best = (0.0, "", -1.0)
    candidates: list[tuple[float, str]] = []
    for mechanism in dict.fromkeys(one.mechanism for one in forecasts):
        # As tables and sentences print it: what is printed as the best can be asked for.
        line = sorted((one.epsilon, round(one.mean, 3)) for one in forecasts if one.mechanism == mechanism)
        reached = [min(share for _, share in line[index:]) for index in range(len(line))]
        if reached[-1] > best[2]:
            best = (line[reached.index(reached[-1])][0], mechanism, reached[-1])
        at = next((index for index, share in enumerate(reached) if share >= wanted), None)
        if at is None:
            continue
        epsilon = line[at][0]
        if at > 0 and reached[at] > reached[at - 1]:
            part = (wanted - reached[at - 1]) / (reached[at] - reached[at - 1])
            low, high = math.log(line[at - 1][0]), math.log(epsilon)
            epsilon = min(epsilon, _up(math.exp(low + part * (high - low))))
        candidates.append((epsilon, mechanism))
    epsilon, mechanism = min(candidates, default=(None, None))
    return LeastEpsilon(accuracy=wanted, epsilon=epsilon, mechanism=mechanism, best=best)


def _up(value: float) -> float:
    """Rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")
