"""Intervals of a quantity with a stated coverage, from noisy counts of how far the student is off.

Every private record adds one to the bin of its error |quantity - estimate|, for the student that is released. With z[i]
the noisy count of bin i of B, n records and noise of deviation sigma, the number of errors in the first k bins is
estimated by z[1] + ... + z[k] - k/B (z[1] + ... + z[B] - n), whose variance is sigma^2 k (1 - k/B), since n is public.
The half-width is the upper edge of the smallest bin up to which a lower bound of that number, at 95% confidence, is at
least the coverage: edges are tried from the largest one on, until the first one that fails. So the probability of
taking one that is too small is at most 5%, although many are tried (fixed sequence testing).

The bound allows for the noise and for the records being a draw from those that may come, c (1 - c) n at a coverage of
c. It holds for every law of errors.

Guarantee: a function of released numbers, so it costs no privacy beyond that of the counts.
Source: Bates et al. 2021 (thresholds by a bound on the risk).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE
from ostrakon.data.quantity import Quantity
from ostrakon.students.prediction_sets import COVERAGES
from ostrakon.validation import positive, whole
from ostrakon.votes import STEPS, FloatArray

_HALVINGS, _FINEST = 8, 12
"""How often the range is halved until the smallest bin; largest number of bins to a halving."""


@dataclass(frozen=True, kw_only=True)
class PredictionIntervals:
    """What turns the estimates of a student into intervals.

    Parameters
    ----------
    half_widths : dict of float to float
        For each coverage, how far an interval reaches on both sides of the estimate, in the unit of the quantity; the
        width of the whole range if the noise allows no shorter intervals.
    of : str
        What is covered, in words, such as "private records".
    """

    half_widths: dict[float, float]
    of: str

    def in_words(self, quantity: Quantity) -> str:
        """What the intervals hold, how wide they are, and how this is known.

        >>> intervals = PredictionIntervals(half_widths={0.8: 4.25, 0.9: 50.0}, of="private records")
        >>> intervals.in_words(Quantity(low=0, high=50)).split(". ")[1]
        'On each side of the estimate: 4.25 at coverage 0.8, the whole range at 0.9'
        """
        everything = quantity.high - quantity.low
        widths = [f"{width:.4g}" if width < everything else "the whole range" for width in self.half_widths.values()]
        numbers = ", ".join(
            f"{width} at {'coverage ' if not number else ''}{coverage:g}"
            for number, (coverage, width) in enumerate(zip(self.half_widths, widths, strict=True))
        )
        return (
            "`predict_interval(rows, coverage=0.9)` gives every row an interval around the estimate, which holds the "
            f"value of at least 90% of the {self.of}; a value outside the range counts as the end of the range. "
            f"On each side of the estimate: {numbers}. The coverage was estimated from noisy counts of the student's "
            f"errors, with an allowance for their noise: it holds in {CONFIDENCE:.0%} of runs. New rows like the "
            "private ones are covered nearly as often. It is a mean over all rows: where values vary more, fewer are "
            "covered."
        )


def edges_of(units: int, noise: float) -> FloatArray:
    """The largest error of each bin, as a share of the range, (bins,): up to 1, finer with more records.

    Parameters
    ----------
    units : int
        Number of records or users, at least 1.
    noise : float
        Standard deviation of the noise on each count, in votes; above 0.

    Returns
    -------
    array of float, shape (bins,)
        Each edge is the same multiple of the one before.

    Notes
    -----
    Guarantee: a function of public numbers. A sum over more bins has more noise, and with fewer bins half-widths are
    rounded up by more. The number of bins was chosen on normal errors.

    Examples
    --------
    >>> len(edges_of(300, 20.0)), len(edges_of(30_000, 20.0))
    (9, 97)
    """
    ratio = whole("units", units, at_least=1) / positive("noise", noise)
    finer = int(np.clip(round(np.sqrt(ratio) / 3), 1, _FINEST))
    return 2.0 ** (np.arange(-_HALVINGS * finer, 1) / finer)


def half_widths_of(noisy: ArrayLike, *, units: int, noise: float) -> dict[float, float]:
    """The half-width of each of `COVERAGES`, as a share of the range.

    Parameters
    ----------
    noisy : array of float, shape (bins,) or (bins, 1)
        Noisy counts of errors in the bins of `edges_of`, in votes.
    units : int
        Number of records or users.
    noise : float
        Standard deviation of the noise on each count, in votes.

    Returns
    -------
    dict of float to float
        1 if the noise allows nothing shorter. Half a step of 1/1024 is added to others, because quantities were
        rounded to whole steps.
    """
    counts, edges = np.asarray(noisy, np.float64).ravel(), edges_of(units, noise)
    bins = np.arange(1, len(edges) + 1)
    share = (np.cumsum(counts) - bins / len(bins) * (counts.sum() - units)) / units
    variance = noise**2 * bins * (1 - bins / len(bins)) / units**2
    chosen: dict[float, float] = {}
    for coverage in COVERAGES:
        least = stats.norm.ppf(CONFIDENCE) * np.sqrt(variance + coverage * (1 - coverage) / units)
        failed = np.flatnonzero(share[:-1] - coverage < least[:-1])
        smallest = failed[-1] + 1 if len(failed) else 0
        chosen[coverage] = 1.0 if smallest == len(edges) - 1 else min(float(edges[smallest]) + 0.5 / STEPS, 1.0)
    return chosen
