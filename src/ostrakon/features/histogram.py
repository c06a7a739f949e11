"""The part of a quantity's range that holds most values, from a noisy histogram of them."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import STEPS

_BINS, _RATIOS = (16, 32, 64), (100, 400)
"""Numbers of bins, and the numbers of records for each standard deviation of the noise from which there are more."""
_WIDTHS, _DEVIATIONS = 16, 2.5
"""Number of normal distributions for each mean; standard deviations on each side of the mean that are kept."""
COARSE = 0.06
"""Noise on a bin, as a share of the records, beyond which the histogram says nothing."""
_OUTSIDE, _NOISE = 0.005, 0.7
"""Share of the records, and standard deviations of the noise, that may seem to be beyond an end. Chosen on generated
quantities: see benchmarks/README.md.
"""


def bins_of(units: int, noise: float) -> int:
    """Return the number of bins of equal width for a noisy histogram.

    Parameters
    ----------
    units : int
        Number of records or users, at least 1.
    noise : float
        Standard deviation of the noise on each bin, in votes; above 0.

    Notes
    -----
    Guarantee: a function of public numbers.

    Examples
    --------
    >>> [bins_of(units, 30.0) for units in (1000, 5000, 20_000)]
    [16, 32, 64]
    """
    ratio = whole("units", units, at_least=1) / positive("noise", noise)
    return _BINS[int(np.searchsorted(_RATIOS, ratio, side="right"))]


def narrowed_range(noisy: ArrayLike, *, units: int, noise: float) -> tuple[int, int]:
    """Return the part of the range to which values are clipped, in whole steps of 1/1024 of the range.

    Parameters
    ----------
    noisy : array of float, shape (bins,) or (bins, 1)
        Noisy number of values in each bin of equal width, in votes.
    units, noise
        As of `bins_of`.

    Returns
    -------
    tuple of (int, int)
        Its ends, from 0 to 1024.

    Raises
    ------
    InvalidInput
        For another number of bins, and for numbers that are not finite.

    Notes
    -----
    The normal distribution that is nearest to the histogram gives the ends, which then move outwards while more values
    seem to be beyond them than the noise explains. Under too much noise, it is the whole range.

    Guarantee: a function of released numbers, so it costs no privacy beyond that of the histogram.

    Examples
    --------
    >>> counts = np.zeros(16); counts[3:6] = 300, 600, 300
    >>> narrowed_range(counts, units=1200, noise=20.0)
    (161, 415)
    """
    counts, bins = np.asarray(noisy, np.float64).ravel(), bins_of(units, noise)
    if counts.shape != (bins,) or not np.isfinite(counts).all():
        raise InvalidInput(f"noisy must be {bins} finite numbers, got {np.shape(noisy)}.")
    if noise > COARSE * units:
        return 0, STEPS
    # The number of units is known.
    counts = counts - (counts.sum() - units) / bins
    edges = np.linspace(0, 1, bins + 1)
    means, deviations = np.meshgrid(np.linspace(0, 1, 2 * bins + 1), np.geomspace(0.25 / bins, 0.5, _WIDTHS))
    below = stats.norm.cdf((edges - means[..., None]) / deviations[..., None])
    below[..., 0], below[..., -1] = 0, 1
    errors = np.square(units * np.diff(below) - counts).sum(axis=-1)
    mean, deviation = (grid.ravel()[errors.argmin()] for grid in (means, deviations))
    ends = np.clip([mean - _DEVIATIONS * deviation, mean + _DEVIATIONS * deviation], 0, 1)
    # Numbers of values below the lower, and above the upper edge of each bin.
    beyond = np.cumsum(counts)
    allowed = _OUTSIDE * units + _NOISE * noise * np.sqrt(edges[1:] * (1 - edges[1:]) * bins)
    low, high = int(ends[0] * bins), int(np.ceil(ends[1] * bins))
    first, last = low, high
    while first and beyond[first - 1] > allowed[first - 1]:
        first -= 1
    while last < bins and units - beyond[last - 1] > allowed[last - 1]:
        last += 1
    kept = ends[0] if first == low else edges[first], ends[1] if last == high else edges[last]
    return int(np.floor(kept[0] * STEPS)), int(np.ceil(kept[1] * STEPS))
