"""How sure a rehearsed accuracy is: what repetitions, finite held-out rows and a smaller pool add to it.

Setting. Each of R repetitions plays the whole run on another split of the public rows and gives an accuracy a[r] on h
held-out rows. The real run is one more draw, on rows of the same kind.

Spread. The a[r] differ by noise, split and held-out rows; s^2 is their variance, taken to be no smaller than what h
held-out rows alone give, p (1 - p) / h: with few repetitions it may look smaller by chance. One more draw differs from
the mean of R by s^2 (1 + 1 / R).
All repetitions share one table, whose D rows that were ever held out are themselves a draw: p (1 - p) / D.
Where the accuracy is to be measured on T rows, that adds p (1 - p) / T.
The interval is the mean, plus and minus Student's t of R - 1 degrees of freedom times the root of the sum.

A smaller pool. Rehearsals have fewer public rows, and fewer different records behind the private part, than the real
run. What half of both gives less, g >= 0 (with its own standard error), is taken once more for every doubling that the
real run is larger: the upper end is raised by so much. Gains shrink as rows grow, so this is generous, and the lower
end stays: more public rows do not harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from ostrakon.validation import InvalidInput, finite, fraction, whole

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The accuracy of a student, forecast: a number, and the interval in which one run's accuracy should lie.

    epsilon, mechanism: of the offer. accuracies: of the repetitions. held: held-out rows of each. distinct: rows that
    were ever held out. halved: accuracies of the same repetitions with half of the pool and of the private part.
    doublings: how often the rehearsal's pool would have to be doubled to be the real one's.
    """

    epsilon: float
    mechanism: str
    accuracies: tuple[float, ...]
    held: int
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

    @property
    def accuracy(self) -> float:
        """The mean of the repetitions."""
        return float(np.mean(self.accuracies))

    def interval(self, *, test_rows: int | None = None, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """(low, high) for the accuracy of one real run.

        test_rows: on how many rows it will be measured; None: its accuracy on all rows of the kind.
        """
        level = fraction("confidence", confidence)
        repetitions = len(self.accuracies)
        # As if one row more were right and one wrong: none wrong of few is no proof of none.
        share = (self.accuracy * self.distinct + 1) / (self.distinct + 2)
        of_rows = share * (1 - share)
        spread = max(float(np.var(self.accuracies, ddof=1)), of_rows / self.held)
        variance = spread * (1 + 1 / repetitions) + of_rows / self.distinct
        if test_rows is not None:
            variance += of_rows / whole("test_rows", test_rows, at_least=1)
        half = float(stats.t.ppf((1 + level) / 2, repetitions - 1)) * math.sqrt(variance)
        return max(0.0, self.accuracy - half), min(1.0, self.accuracy + half + self.larger_pool)

    @property
    def larger_pool(self) -> float:
        """By how much the upper end is raised, because the real pool is larger."""
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
