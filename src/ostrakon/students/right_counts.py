"""How often a student is right on the private records, from noisy counts of its errors.

Every private record adds one vote to one of two counts of its class, right or wrong, for the student that is released.
The counts get Gaussian noise of a known standard deviation, and the number of records is public, so that the intervals
are exact: they hold for every student and every kind of error, with no assumption on public rows.

Guarantee: a function of released numbers, so it costs no privacy beyond that of the counts.
Source: docs/mathematics.md O. Ratios: Fieller 1954. Mean of ratios: Zou and Donner 2008.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, Agreement, Recall
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import FloatArray

_MISS = 1 - CONFIDENCE
_SMALL = 6.0
"""A class of no more than this number of standard deviations of the noise on a count is small."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RightCounts:
    """Noisy counts of errors.

    Parameters
    ----------
    noisy : array of float, shape (classes, 2)
        Right and wrong predictions for the records of each class; one row if classes are counted together.
    sigma : float
        Standard deviation of the noise on each count, in votes; above 0.
    units : int
        Number of records or users; at least 1.
    counted : str
        What is counted, in words.

    Raises
    ------
    InvalidInput
        For counts of another shape or that are not finite, and numbers out of range.
    """

    noisy: FloatArray
    sigma: float
    units: int
    counted: str

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        whole("units", self.units, at_least=1)
        if self.noisy.ndim != 2 or self.noisy.shape[1] != 2 or not np.isfinite(self.noisy).all():
            raise InvalidInput(f"noisy must be finite counts of shape (classes, 2), got shape {self.noisy.shape}.")

    def accuracy(self) -> Agreement:
        """Return the share of right predictions with its interval."""
        share, sd = self._share(np.tile([1.0, 0.0], (len(self.noisy), 1)))
        half_width = _quantile(_MISS / 2) * sd
        return self._agreement("student", share, sd, share - half_width, share + half_width)

    def majority(self) -> Agreement | None:
        """Return the share of the most frequent class with its interval; None if classes are counted together.

        The lower end is the largest of the lower ends of all classes, which hold together; the upper end is the largest
        upper end, of which the one of the most frequent class suffices.
        """
        if len(self.noisy) == 1:
            return None
        shares, sds = np.array([self._share(self._one_class(label)) for label in range(len(self.noisy))]).T
        low = float((shares - _quantile(_MISS / 2 / len(shares)) * sds).max())
        high = float((shares + _quantile(_MISS / 2) * sds).max())
        return self._agreement("majority", float(shares.max()), float(sds[0]), low, high)

    def gain(self) -> tuple[float, float] | None:
        """Return by how much the accuracy exceeds the share of the most frequent class, and the standard deviation of
        that difference; None if classes are counted together.
        """
        if len(self.noisy) == 1:
            return None
        right = np.tile([1.0, 0.0], (len(self.noisy), 1))
        return min(self._share(right - self._one_class(label)) for label in range(len(self.noisy)))

    def better_than_majority(self) -> bool:
        """Return whether the student is right more often than every constant class, beyond the noise (one-sided).

        All of these tests must reject, so that none needs a correction (intersection-union test).
        """
        gain = self.gain()
        return gain is not None and gain[0] > _quantile(_MISS) * gain[1]

    def recalls(self, labels: Sequence[str], *, known: Sequence[int] | None = None) -> tuple[Recall, ...]:
        """Return ranges of the recall of every class, which hold together, and last of their mean; () if classes are
        counted together.

        known: the classes that the student can predict, by default all. With a single one, all recalls are exact.
        """
        if len(self.noisy) == 1:
            return ()
        if len(labels) != len(self.noisy):
            raise InvalidInput(f"labels must be {len(self.noisy)} classes, got {len(labels)}.")
        if known is not None and len(known) == 1:
            exact = [(label, float(number == known[0])) for number, label in enumerate(labels)]
            recalls = [*exact, (None, 1 / len(labels))]
            return tuple(Recall(label=label, counted=self.counted, low=share, high=share) for label, share in recalls)
        together, single = _quantile(_MISS / 2 / len(labels)), _quantile(_MISS / 2)
        ranges = [(label, *self._recall(row, together)) for label, row in zip(labels, self.noisy, strict=True)]
        return (
            *(Recall(label=label, counted=self.counted, low=low, high=high) for label, low, high in ranges),
            self._balanced_accuracy(single, together),
        )

    def _balanced_accuracy(self, single: float, together: float) -> Recall:
        """Return the range of the mean recall: distances of single ranges from their estimates add up as squares.

        Beside these, small classes count with the ends of their ranges that hold together, and a class whose range is
        unknown as 0 below and as 1 above: which classes are large enough depends on the noise, too. No end is clipped
        before, which would hide how far the noise may have moved the estimates.
        """
        low = high = below = above = 0.0
        for row in self.noisy:
            size = float(row.sum())
            if not self._is_known(row, together):
                ends = 0.0, 1.0
            elif size <= _SMALL * self.sigma:
                ends = self._fieller(row, together)
            else:
                recall, single_ends = float(row[0]) / size, self._fieller(row, single)
                below, above = below + (recall - single_ends[0]) ** 2, above + (single_ends[1] - recall) ** 2
                # The mean of 1/size over the noise exceeds 1/(mean size), and the errors of many classes add up.
                unbiased = 0.5 + 0.5 * float(row[0] - row[1]) * size / (size**2 + 2 * self.sigma**2)
                ends = unbiased, unbiased
            low, high = low + ends[0], high + ends[1]
        ends = np.clip(np.array([low - below**0.5, high + above**0.5]) / len(self.noisy), 0.0, 1.0).tolist()
        return Recall(label=None, counted=self.counted, low=ends[0], high=ends[1])

    def _is_known(self, row: FloatArray, z: float) -> bool:
        """Return whether Fieller's range for a class is an interval: its size exceeds its noise."""
        return float(row.sum()) > z * self.sigma * 2**0.5

    def _recall(self, row: FloatArray, z: float) -> tuple[float, float]:
        """Return the range of the recall of one class; all of 0 to 1 where it is unknown."""
        if not self._is_known(row, z):
            return 0.0, 1.0
        low, high = np.clip(self._fieller(row, z), 0.0, 1.0).tolist()
        return low, high

    def _fieller(self, row: FloatArray, z: float) -> tuple[float, float]:
        """Return the ends of all R with |right (1 - R) - R wrong| <= z sigma sqrt((1 - R)^2 + R^2)."""
        right, total, variance = float(row[0]), float(row.sum()), (z * self.sigma) ** 2
        square, half, constant = total**2 - 2 * variance, right * total - variance, right**2 - variance
        root = max(half**2 - square * constant, 0.0) ** 0.5
        return (half - root) / square, (half + root) / square

    def _one_class(self, label: int) -> FloatArray:
        """Return the weights of counts whose sum is the size of a class."""
        weights = np.zeros(self.noisy.shape)
        weights[label] = 1.0
        return weights

    def _share(self, weights: FloatArray) -> tuple[float, float]:
        """Return the sum of weights times counts per record, and its standard deviation.

        The noise of the sum of all counts is known, since their number is: as much of it is subtracted as helps.
        """
        middle = float(weights.mean())
        total = float((weights * self.noisy).sum()) - middle * (float(self.noisy.sum()) - self.units)
        return total / self.units, self.sigma * float(np.square(weights - middle).sum()) ** 0.5 / self.units

    def _agreement(self, of: str, share: float, sd: float, low: float, high: float) -> Agreement:
        low, share, high = np.clip([low, share, high], 0.0, 1.0).tolist()
        return Agreement(
            of="student" if of == "student" else "majority",
            against="private labels",
            counted=self.counted,
            share=share,
            sd=sd,
            low=low,
            high=high,
        )


def half_width_of_accuracy(sigma: float, *, units: int, classes: int) -> float:
    """Return half the width of the interval of the accuracy, which no count changes. sigma, units: of `RightCounts`."""
    none = np.zeros((classes if classes <= FEW_CLASSES else 1, 2))
    return _quantile(_MISS / 2) * RightCounts(noisy=none, sigma=sigma, units=units, counted="").accuracy().sd


def _quantile(miss: float) -> float:
    """Return how many standard deviations normal noise exceeds with probability `miss`."""
    return float(stats.norm.isf(miss))
