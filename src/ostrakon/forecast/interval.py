"""The uncertainty of a rehearsed accuracy: from repetitions, finite held-out rows and a smaller pool.

Below, R is the number of repetitions, sigma the deviation of the accuracy from run to run, p the accuracy, h the rows
held out by one repetition, D those ever held out, T those that measure the real run, and g what half of the pool gives
less. Source: docs/mathematics.md P.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from ostrakon.validation import InvalidInput, finite, fraction, whole

CONFIDENCE = 0.95
_SIGMAS = (np.arange(1000) + 0.5) / 2000


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The accuracy of a student, forecast: a number, and an interval for the accuracy of one run.

    Parameters
    ----------
    epsilon, mechanism
        Of the offer.
    accuracies : tuple of float
        Of the repetitions, in [0, 1]; at least two.
    holdout : int
        Held-out rows of each repetition.
    distinct : int
        Different rows that were held out in any repetition.
    halved : tuple of float
        Accuracies of the same repetitions with half of the pool and of the private part.
    doublings : float
        Number of doublings from the rehearsal's pool to the real one.

    Raises
    ------
    InvalidInput
        For fewer than two repetitions, and accuracies outside [0, 1].
    """

    epsilon: float
    mechanism: str
    accuracies: tuple[float, ...]
    holdout: int
    distinct: int
    halved: tuple[float, ...]
    doublings: float

    def __post_init__(self) -> None:
        if len(self.accuracies) < 2 or len(self.halved) != len(self.accuracies):
            raise InvalidInput(
                f"accuracies must be of at least 2 repetitions, each with a halved one, got {len(self.accuracies)} and "
                f"{len(self.halved)}."
            )
        for share in (*self.accuracies, *self.halved):
            if not 0 <= finite("accuracies", share) <= 1:
                raise InvalidInput(f"accuracies must lie between 0 and 1, got {share!r}.")
        whole("held", self.holdout, at_least=1)
        whole("distinct", self.distinct, at_least=1)

    @property
    def accuracy(self) -> float:
        """The mean of the repetitions."""
        return float(np.mean(self.accuracies))

    def interval(self, *, test_rows: int | None = None, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """(low, high) for the accuracy of one real run.

        test_rows: on how many rows it will be measured; None: its accuracy on all rows of the kind.
        """
        level = fraction("confidence", confidence)
        # One right and one wrong row are added: no error among few rows does not prove that there is none.
        share = (self.accuracy * self.distinct + 1) / (self.distinct + 2)
        of_row = share * (1 - share)
        measured = of_row / self.distinct
        if test_rows is not None:
            measured += of_row / whole("test_rows", test_rows, at_least=1)
        half = _half_width(np.asarray(self.accuracies), of_row / self.holdout, measured, level)
        return max(0.0, self.accuracy - half), min(1.0, self.accuracy + half + self.larger_pool)

    @property
    def larger_pool(self) -> float:
        """The amount by which the upper end is raised because the real pool is larger."""
        gains = np.subtract(self.accuracies, self.halved)
        gain = float(gains.mean() + np.std(gains, ddof=1) / math.sqrt(len(gains)))
        return max(0.0, gain) * self.doublings

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        low, high = self.interval()
        return {
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "accuracy": self.accuracy,
            "low": low,
            "high": high,
            "confidence": CONFIDENCE,
            "repetitions": len(self.accuracies),
            "raised_for_larger_pool": self.larger_pool,
        }


def _half_width(accuracies: np.ndarray, known: float, measured: float, level: float) -> float:
    """Half the interval of the mixture. known, measured: variances by held-out rows; by D and T."""
    repetitions = len(accuracies)
    square = float(np.var(accuracies, ddof=1)) * (repetitions - 1)
    variance = np.square(_SIGMAS) + known
    likely = -(repetitions - 1) / 2 * np.log(variance) - square / (2 * variance)
    weights = np.exp(likely - likely.max())
    weights /= weights.sum()
    deviations = np.sqrt(np.square(_SIGMAS) * (1 + 1 / repetitions) + measured)

    def beyond(half: float) -> float:
        return float(weights @ ndtr(-half / deviations)) - (1 - level) / 2

    half: Any = brentq(beyond, 0.0, 10.0)
    return float(half)
