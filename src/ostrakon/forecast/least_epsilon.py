"""The least epsilon at which a requested accuracy is forecast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ostrakon.forecast.interval import Forecast
from ostrakon.validation import InvalidInput, fraction


@dataclass(frozen=True, kw_only=True)
class LeastEpsilon:
    """The least epsilon with a forecast of at least `accuracy`.

    Parameters
    ----------
    accuracy : float
    epsilon, mechanism : optional
        The least epsilon and its mechanism; None if no epsilon that was tried reaches the accuracy.
    best : tuple of (float, str, float)
        (epsilon, mechanism, accuracy) of the highest forecast.
    """

    accuracy: float
    epsilon: float | None
    mechanism: str | None
    best: tuple[float, str, float]

    @property
    def sentence(self) -> str:
        """The result in words."""
        epsilon, mechanism, best = self.best
        target = f"{100 * self.accuracy:.10g}%"
        if self.epsilon is None:
            return (
                f"None of the epsilons that were tried is forecast to reach an accuracy of {target}; "
                f"the best is {best:.1%}, with {mechanism} at epsilon {epsilon:g}."
            )
        return (
            f"An accuracy of {target} is forecast from epsilon {self.epsilon:.3g} on, with "
            f"{self.mechanism}; a single run may still be below it."
        )


def least_epsilon(forecasts: Sequence[Forecast], accuracy: float) -> LeastEpsilon:
    """Return the least epsilon whose forecast reaches `accuracy`, by interpolation between tried epsilons.

    For each mechanism the forecast is first made monotone: at an epsilon it is the smallest of the forecasts there and
    at all larger ones, so that a lucky small epsilon does not decide. Forecasts are rounded as printed, to tenths of a
    percent. Between two epsilons the accuracy rises linearly in the logarithm of epsilon, and
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
    target = fraction("accuracy", accuracy)
    if not forecasts:
        raise InvalidInput("accuracy needs at least one forecast to be looked for in, got none.")
    best = (0.0, "", -1.0)
    candidates: list[tuple[float, str]] = []
    for mechanism in dict.fromkeys(forecast.mechanism for forecast in forecasts):
        # Rounded as printed, so that the printed best accuracy can be requested.
        points = sorted(
            (forecast.epsilon, round(forecast.mean, 3)) for forecast in forecasts if forecast.mechanism == mechanism
        )
        reached = [min(share for _, share in points[index:]) for index in range(len(points))]
        if reached[-1] > best[2]:
            best = (points[reached.index(reached[-1])][0], mechanism, reached[-1])
        first = next((index for index, share in enumerate(reached) if share >= target), None)
        if first is None:
            continue
        epsilon = points[first][0]
        if first > 0 and reached[first] > reached[first - 1]:
            position = (target - reached[first - 1]) / (reached[first] - reached[first - 1])
            low, high = math.log(points[first - 1][0]), math.log(epsilon)
            epsilon = min(epsilon, _up(math.exp(low + position * (high - low))))
        candidates.append((epsilon, mechanism))
    epsilon, mechanism = min(candidates, default=(None, None))
    return LeastEpsilon(accuracy=target, epsilon=epsilon, mechanism=mechanism, best=best)


def _up(value: float) -> float:
    """Return the value rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")
