"""The privacy curve of a release: its epsilons at other deltas, and the least error rates of every test."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from scipy.special import ndtr, ndtri

from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.validation import InvalidInput, fraction, non_negative, positive

ALPHAS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""False positive rates at which a statement says the least false negative rate."""

STATED_DELTAS = (
    *(float(f"{digit}e-{zeros}") for zeros in range(15, 2, -1) for digit in (1, 2, 5)),
    *(0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
)
"""The deltas at which a statement says epsilon."""

_SLACK = 1e-12
"""More than the error of a computed false negative rate."""


@dataclass(frozen=True, kw_only=True)
class PrivacyCurve:
    """Pairs (epsilon, delta) that all hold for one release, and its mu if the curve is that of a Gaussian.

    Parameters
    ----------
    points : tuple of (epsilon, delta)
        Increasing in delta. Epsilons are finite and at least 0, deltas strictly between 0 and 1.
    mu : float, optional
        The release is mu-Gaussian-DP. None: its curve is another one.

    Raises
    ------
    InvalidInput
        Without points, for points out of order or out of range, and unless mu is finite and above 0.

    Notes
    -----
    Guarantee: every pair holds in both directions between neighbours, so all bounds below do.

    References
    ----------
    Dong, Roth and Su 2022, Proposition 2.5 and Corollary 2.13.

    Examples
    --------
    >>> curve = PrivacyCurve(points=((1.0, 1e-5),))
    >>> round(curve.false_negatives(0.05), 4)
    0.8641
    """

    points: tuple[tuple[float, float], ...]
    mu: float | None = None

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidInput("A privacy curve must have at least one point, got none.")
        for epsilon, delta in self.points:
            non_negative("epsilon", epsilon)
            fraction("delta", delta)
        if any(left[1] >= right[1] for left, right in pairwise(self.points)):
            raise InvalidInput("The points of a privacy curve must increase in delta.")
        if self.mu is not None:
            positive("mu", self.mu)

    def guess(self, prior: float = 0.5) -> float:
        """Return the largest share of right guesses at which neighbour was used, as `membership_guess`."""
        best = membership_guess(self.points, prior=prior)
        if self.mu is None:
            return best
        # The best test of N(0, 1) against N(mu, 1) is a threshold.
        at = self.mu / 2 - math.log(prior / (1 - prior)) / self.mu
        right = prior * float(ndtr(self.mu - at)) + (1 - prior) * float(ndtr(at))
        return min(best, max(right + _SLACK, prior, 1 - prior))

    def false_negatives(self, alpha: float) -> float:
        """Return the least false negative rate of any test with the false positive rate alpha, in (0, 1), rounded
        downward.
        """
        alpha = fraction("alpha", alpha)
        rates = [0.0]
        for epsilon, delta in self.points:
            rates += [1 - delta - math.exp(min(epsilon, 700.0)) * alpha, math.exp(-epsilon) * (1 - delta - alpha)]
        if self.mu is not None:
            rates.append(float(ndtr(-float(ndtri(alpha)) - self.mu)))
        return max(0.0, max(rates) * (1 - _SLACK) - _SLACK)


def curve_of(pairs: Iterable[tuple[float, float]], *, mu: float | None = None) -> PrivacyCurve | None:
    """Return the curve through pairs in any order; those without a finite epsilon are left out. None if none is left.

    A pair is left out, too, if one with a smaller or equal delta has no larger epsilon and so implies it.
    """
    points: list[tuple[float, float]] = []
    for delta, epsilon in sorted((delta, epsilon) for epsilon, delta in pairs if math.isfinite(epsilon) and delta < 1):
        if not points or epsilon < points[-1][0]:
            points.append((epsilon, delta))
    return PrivacyCurve(points=tuple(points), mu=mu) if points else None
