"""The uncertainty of a rehearsal: from repetitions, finite held-out rows and a smaller pool.

Below, R is the number of repetitions, sigma the standard deviation of the accuracy between runs, p the accuracy, h the
number of rows held out by one repetition, D that of rows held out by any, T that of the test rows of the real run, and
g the loss with half of the pool. Other measures are taken as draws of one Gaussian. Source: docs/mathematics.md P.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, stdtrit

from ostrakon.data.quantity import rounded
from ostrakon.data.target import Target
from ostrakon.validation import InvalidInput, finite, fraction, whole

CONFIDENCE = 0.95
ACCURACY, ABSOLUTE_ERROR = "accuracy", "mean absolute error"
MEASURES: dict[Target, tuple[str, ...]] = {
    "classes": (ACCURACY,),
    "quantity": ("R2", ABSOLUTE_ERROR),
    "labels": ("macro F1", "micro F1", "AUC"),
}
"""Forecast measures of each target."""
_BOUNDS = {"R2": (-math.inf, 1.0), ABSOLUTE_ERROR: (0.0, math.inf)}
_SIGMAS = (np.arange(1000) + 0.5) / 2000


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A forecast of the accuracy of a student, or of another measure, with an interval for a single run.

    Parameters
    ----------
    epsilon, mechanism
        Of the offer.
    measure : str
        One of `MEASURES`.
    scores : tuple of float
        Of the repetitions, at least two. An accuracy, an F1 and an AUC are in [0, 1], an R2 is at most 1.
    holdout : int
        Held-out rows of each repetition.
    distinct : int
        Number of different rows that were held out in any repetition.
    halved : tuple of float
        Scores of the same repetitions with half of the pool and of the private part.
    doublings : float
        Number of doublings from the rehearsal's pool to the real one.

    Raises
    ------
    InvalidInput
        For fewer than two repetitions, and scores that the measure cannot have.
    """

    epsilon: float
    mechanism: str
    measure: str = ACCURACY
    scores: tuple[float, ...]
    holdout: int
    distinct: int
    halved: tuple[float, ...]
    doublings: float

    def __post_init__(self) -> None:
        if len(self.scores) < 2 or len(self.halved) != len(self.scores):
            raise InvalidInput(
                f"scores must be of at least 2 repetitions, each with a halved one, got {len(self.scores)} and "
                f"{len(self.halved)}."
            )
        low, high = bounds_of(self.measure)
        for score in (*self.scores, *self.halved):
            if not low <= finite("scores", score) <= high:
                raise InvalidInput(f"scores must lie between {low:g} and {high:g}, got {score!r}.")
        whole("held", self.holdout, at_least=1)
        whole("distinct", self.distinct, at_least=1)

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return float(np.mean(self.scores))

    def interval(self, *, test_rows: int | None = None, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return (low, high) for one real run.

        test_rows: number of test rows of the run; None: an infinite number. Other measures are assumed to vary as
        between repetitions, that is on as many rows as these hold out.
        """
        level, mean, shift = fraction("confidence", confidence), self.mean, self.larger_pool
        if self.measure == ACCURACY:
            # One right and one wrong row are added, so that few rows without errors do not give a share of 1.
            share = (mean * self.distinct + 1) / (self.distinct + 2)
            row_variance = share * (1 - share)
            measured = row_variance / self.distinct
            if test_rows is not None:
                measured += row_variance / whole("test_rows", test_rows, at_least=1)
            half = _half_width(np.asarray(self.scores), row_variance / self.holdout, measured, level)
        else:
            repetitions = len(self.scores)
            quantile = float(stdtrit(repetitions - 1, (1 + level) / 2))
            half = quantile * float(np.std(self.scores, ddof=1)) * math.sqrt(1 + 1 / repetitions)
        minimum, maximum = bounds_of(self.measure)
        lowered, raised = (shift, 0.0) if self.measure == ABSOLUTE_ERROR else (0.0, shift)
        return max(minimum, mean - half - lowered), min(maximum, mean + half + raised)

    def in_words(self) -> str:
        """Return the mean and the interval.

        >>> Forecast(epsilon=1, mechanism="quantity-gnmax", measure="R2", scores=(0.5, 0.6), halved=(0.5, 0.6),
        ...          holdout=50, distinct=100, doublings=1.0).in_words()
        '0.550 (-0.550 to 1.000)'
        """
        low, high = self.interval()
        if self.measure == ACCURACY:
            return f"{self.mean:.1%} ({low:.0%} to {high:.0%})"
        return "{} ({} to {})".format(*(format_score(self.measure, score) for score in (self.mean, low, high)))

    @property
    def larger_pool(self) -> float:
        """The amount by which the better end is moved because the real pool is larger."""
        gains = np.subtract(self.scores, self.halved) * (-1 if self.measure == ABSOLUTE_ERROR else 1)
        gain = float(gains.mean() + np.std(gains, ddof=1) / math.sqrt(len(gains)))
        return max(0.0, gain) * self.doublings

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        low, high = self.interval()
        return {
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            self.measure: self.mean,
            "low": low,
            "high": high,
            "confidence": CONFIDENCE,
            "repetitions": len(self.scores),
            "raised_for_larger_pool": self.larger_pool,
        }


def bounds_of(measure: str) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure."""
    return _BOUNDS.get(measure, (0.0, 1.0))


def format_score(measure: str, score: float) -> str:
    """Return the printed form of a score: an accuracy in percent, an error of a quantity in three digits."""
    if measure == ABSOLUTE_ERROR:
        return rounded(score, digits=3)
    return f"{score:.1%}" if measure == ACCURACY else f"{score:.3f}"


def _half_width(accuracies: np.ndarray, known: float, measured: float, level: float) -> float:
    """Return half the interval of the mixture. known, measured: variances from h held-out rows, and from D and T."""
    repetitions = len(accuracies)
    square = float(np.var(accuracies, ddof=1)) * (repetitions - 1)
    variance = np.square(_SIGMAS) + known
    log_likelihood = -(repetitions - 1) / 2 * np.log(variance) - square / (2 * variance)
    weights = np.exp(log_likelihood - log_likelihood.max())
    weights /= weights.sum()
    deviations = np.sqrt(np.square(_SIGMAS) * (1 + 1 / repetitions) + measured)

    def excess(half: float) -> float:
        return float(weights @ ndtr(-half / deviations)) - (1 - level) / 2

    half: Any = brentq(excess, 0.0, 10.0)
    return float(half)
