"""Intervals of a quantity with a stated coverage, from noisy counts of the student's errors.

Every private record adds one to the bin of its error |quantity - estimate|, for the student that is released. With z[i]
the noisy count of bin i of B, n records and noise of standard deviation sigma, the number of errors in the first k bins
is estimated by z[1] + ... + z[k] - k/B (z[1] + ... + z[B] - n), whose variance is sigma^2 k (1 - k/B), since n is
public. Edges are tested from the largest one downwards, until a lower bound of that number, at 95% confidence, is below
the coverage; the half-width is the last edge that passed. So the probability of a half-width that is too small is at
most 5%, although many are tested (fixed sequence testing).

The bound covers the noise and the sampling of the records, with variance c (1 - c) n at a coverage of c. It holds for
every distribution of errors.

Guarantee: a function of released numbers, so it costs no privacy beyond that of the counts.
Source: Bates et al. 2021 (thresholds by a bound on the risk).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ostrakon.accounting.estimates import CONFIDENCE, TOO_LITTLE
from ostrakon.data.quantity import Quantity, rounded
from ostrakon.students.prediction_sets import COVERAGES
from ostrakon.validation import positive, whole
from ostrakon.votes import STEPS, FloatArray

_HALVINGS, _MAX_BINS = 8, 12
"""Halvings of a part of the range down to the smallest bin; largest number of bins per halving."""


@dataclass(frozen=True, kw_only=True)
class PredictionIntervals:
    """Half-widths of intervals around the estimates of a student.

    Parameters
    ----------
    half_widths : dict of float to float
        Half-width for each coverage, in the unit of the quantity; the width of the range if the noise allows no shorter
        intervals.
    of : str
        What is covered, such as "private records".
    """

    half_widths: dict[float, float]
    of: str

    def in_words(self, quantity: Quantity) -> str:
        """Return the meaning, the widths and the confidence of the intervals in words.

        >>> intervals = PredictionIntervals(half_widths={0.8: 4.25, 0.9: 7.5}, of="private records")
        >>> intervals.in_words(Quantity(low=0, high=50)).split(". ")[0]
        'On private records the estimate is wrong by at most 4.25 at coverage 0.8, 7.5 at 0.9'
        """
        return (
            f"On {self.of} the estimate is wrong by at most {self.widths_in_words(quantity)}. A coverage of 0.9 means: "
            f"on at least 90% of them; a value outside {quantity.low:.10g} to {quantity.high:.10g} counts as the "
            "nearer of these two. `predict_interval(rows, coverage=0.9)` gives these intervals around the estimates. "
            "The coverage was estimated from noisy counts of the student's "
            f"errors, with an allowance for their noise: it holds in {CONFIDENCE:.0%} of runs. New rows like the "
            "private ones are covered nearly as often. It is a mean over all rows: where values vary more, fewer are "
            "covered."
        )

    def widths_in_words(self, quantity: Quantity) -> str:
        """Return the half-width for each coverage in words.

        >>> PredictionIntervals(half_widths={0.8: 4.25, 0.9: 50.0}, of="").widths_in_words(Quantity(low=0, high=50))
        '4.25 at coverage 0.8, the whole range at 0.9 (large errors, few data or much noise)'
        """
        full_range = quantity.high - quantity.low
        widths = [rounded(width) if width < full_range else "the whole range" for width in self.half_widths.values()]
        words = ", ".join(
            f"{width} at {'coverage ' if not number else ''}{coverage:g}"
            for number, (coverage, width) in enumerate(zip(self.half_widths, widths, strict=True))
        )
        wide = any(width >= full_range for width in self.half_widths.values())
        return f"{words} (large errors, {TOO_LITTLE})" if wide else words


def edges_of(units: int, noise: float) -> FloatArray:
    """Return the largest error of each bin as a share of the part of the range to which values were clipped, (bins,).

    Parameters
    ----------
    units : int
        Number of records or users, at least 1.
    noise : float
        Standard deviation of the noise on each count, in votes; above 0.

    Returns
    -------
    array of float, shape (bins,)
        A geometric sequence up to 1, with more bins for more records. The last bin has all larger errors, too.

    Notes
    -----
    Guarantee: a function of public numbers. With more bins the sums have more noise; with fewer bins half-widths are
    rounded up by more. The number of bins was chosen on normal errors.

    Examples
    --------
    >>> len(edges_of(300, 20.0)), len(edges_of(30_000, 20.0))
    (9, 97)
    """
    ratio = whole("units", units, at_least=1) / positive("noise", noise)
    bins_per_halving = int(np.clip(round(np.sqrt(ratio) / 3), 1, _MAX_BINS))
    return 2.0 ** (np.arange(-_HALVINGS * bins_per_halving, 1) / bins_per_halving)


def half_widths_of(noisy: ArrayLike, *, units: int, noise: float) -> dict[float, float]:
    """Return the half-width for each of `COVERAGES` as a share of the part of the range to which values were clipped.

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
        At most 1, which means: the width of the range. Half a step of 1/1024 of the part is added, because quantities
        are rounded to whole steps, at least 1,024 of them in the part.
    """
    counts, edges = np.asarray(noisy, np.float64).ravel(), edges_of(units, noise)
    bins = np.arange(1, len(edges) + 1)
    share = (np.cumsum(counts) - bins / len(bins) * (counts.sum() - units)) / units
    variance = noise**2 * bins * (1 - bins / len(bins)) / units**2
    half_widths: dict[float, float] = {}
    for coverage in COVERAGES:
        margin = stats.norm.ppf(CONFIDENCE) * np.sqrt(variance + coverage * (1 - coverage) / units)
        # Sums of huge numbers are not finite, and do not pass.
        failed = np.flatnonzero(~(share[:-1] - coverage >= margin[:-1]))
        edge = failed[-1] + 1 if len(failed) else 0
        half_widths[coverage] = 1.0 if edge == len(edges) - 1 else min(float(edges[edge]) + 0.5 / STEPS, 1.0)
    return half_widths
