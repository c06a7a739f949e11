"""The part of a quantity's range that holds most values, from a noisy histogram of them."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import FINE_STEPS, FloatArray, IntArray

_BINS, _RATIOS = (16, 32, 64), (100, 400)
"""Numbers of bins of equal width, and the numbers of records for each standard deviation of the noise from which there
are more."""
_HALVINGS = 10
"""Of the bins beside 0."""
_WIDTHS, _DEVIATIONS = 16, 2.5
"""Number of normal distributions for each mean; standard deviations on each side of the mean that are kept."""
COARSE = 0.06
"""Noise on a bin, as a share of the records, beyond which the histogram says nothing."""
_OUTSIDE, _NOISE = 0.005, 0.7
"""Largest share of the records, and standard deviations of the noise, that may seem to be beyond an end. Chosen on
generated quantities: see benchmarks/README.md.
"""
_SURE = 2.5
"""Standard deviations of the noise that suffice for any width."""
_ZEROS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""Shares of the records whose value may be exactly 0."""


def bin_edges(units: int, noise: float, zero: int | None) -> IntArray:
    """Return the edges of the bins of a noisy histogram.

    Parameters
    ----------
    units : int
        Number of records or users, at least 1.
    noise : float
        Standard deviation of the noise on each bin, in votes; above 0.
    zero : int or None
        The position of 0 in the range (`Quantity.zero`); None if 0 is outside.

    Returns
    -------
    array of int, shape (bins + 1,)
        In whole steps of 1/2^30 of the range. There are 16, 32 or 64 bins of equal width; beside 0 they are halved
        again and again, because quantities are often near 0 in a range that is far too wide.

    Notes
    -----
    Guarantee: a function of public numbers.

    Examples
    --------
    >>> [len(bin_edges(units, 30.0, None)) - 1 for units in (1000, 5000, 20_000)]
    [16, 32, 64]
    >>> bin_edges(1000, 30.0, 0)[:4].tolist()
    [0, 65536, 131072, 262144]
    """
    ratio = whole("units", units, at_least=1) / positive("noise", noise)
    width = FINE_STEPS // _BINS[int(np.searchsorted(_RATIOS, ratio, side="right"))]
    edges = np.arange(0, FINE_STEPS + 1, width)
    if zero is None:
        return edges
    near = width >> np.arange(1, _HALVINGS + 1)
    # All edges are multiples of the smallest width, so no bin is narrower.
    middle = round(zero / near[-1]) * near[-1]
    edges = np.unique(np.concatenate([edges, middle - near, [middle], middle + near]))
    return edges[(edges >= 0) & (edges <= FINE_STEPS)]


def narrowed_range(noisy: ArrayLike, *, units: int, noise: float, zero: int | None) -> tuple[int, int]:
    """Return the part of the range to which values are clipped, in whole steps of 1/2^30 of the range.

    Parameters
    ----------
    noisy : array of float, shape (bins,) or (bins, 1)
        Noisy number of values in each bin of `bin_edges`, in votes.
    units, noise, zero
        As of `bin_edges`.

    Returns
    -------
    tuple of (int, int)
        Its ends, from 0 to 2^30, more than 1,024 steps apart.

    Raises
    ------
    InvalidInput
        For another number of bins, and for numbers that are not finite.

    Notes
    -----
    The normal distribution that is nearest to the histogram, with some values that are exactly 0, gives the ends. They
    then move outwards while more values seem to be beyond them than the noise explains. Under too much noise, it is the
    whole range.

    Guarantee: a function of released numbers, so it costs no privacy beyond that of the histogram.

    Examples
    --------
    >>> counts = np.zeros(16)
    >>> counts[3:6] = 300, 600, 300
    >>> low, high = narrowed_range(counts, units=1200, noise=20.0, zero=None)
    >>> round(low / 2**30, 2), round(high / 2**30, 2)
    (0.16, 0.41)
    """
    edges, counts = bin_edges(units, noise, zero), np.asarray(noisy, np.float64).ravel()
    bins = len(edges) - 1
    if counts.shape != (bins,) or not np.isfinite(counts).all():
        raise InvalidInput(f"noisy must be {bins} finite numbers, got {np.shape(noisy)}.")
    if noise > COARSE * units:
        return 0, FINE_STEPS
    # The number of units is known.
    counts = counts - (counts.sum() - units) / bins
    ends = _nearest_normal(counts / units, edges / FINE_STEPS, None if zero is None else zero / FINE_STEPS)
    low, high = _widened(ends, counts, edges / FINE_STEPS, units=units, noise=noise)
    return int(np.floor(low * FINE_STEPS)), int(np.ceil(high * FINE_STEPS))


def _nearest_normal(shares: FloatArray, edges: FloatArray, zero: float | None) -> FloatArray:
    """Return the ends of the normal distribution, with some zeros, that is nearest to the shares of records in bins."""
    means = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
    # Distributions that are much narrower than their bin have the same numbers.
    number_of_bin = np.clip(np.searchsorted(edges, means, side="right"), 1, len(edges) - 1) - 1
    narrowest = 0.25 * np.diff(edges)[number_of_bin][:, None]
    deviations = narrowest * (0.5 / narrowest) ** np.linspace(0, 1, _WIDTHS)
    below = stats.norm.cdf((edges - means[:, None, None]) / deviations[..., None])
    below[..., 0], below[..., -1] = 0, 1
    expected = np.diff(below)
    zeros = np.zeros(len(shares))
    if zero is not None:
        zeros[np.searchsorted(edges[1:-1], zero, side="right")] = 1
    best = np.inf, 0.0, 1.0
    for share in _ZEROS if zero is not None else _ZEROS[:1]:
        errors = np.square((1 - share) * expected + share * zeros - shares).sum(axis=-1)
        at, width = np.unravel_index(errors.argmin(), errors.shape)
        half = _DEVIATIONS * deviations[at, width]
        with_zero = [means[at] - half, means[at] + half, *([zero] if share and zero is not None else [])]
        best = min(best, (float(errors[at, width]), float(min(with_zero)), float(max(with_zero))))
    return np.clip(best[1:], 0, 1)


def _widened(
    ends: FloatArray, counts: FloatArray, edges: FloatArray, *, units: int, noise: float
) -> tuple[float, float]:
    """Return the ends after each was moved to the nearest edge beyond which few enough values seem to be.

    Wider parts need more evidence, because the noise on sums of features is proportional to the width.
    """
    (low, high), bins = ends, len(counts)
    # Without noise, less than half a record is none.
    width, few = high - low, min(_OUTSIDE * units, max(noise, 0.5))
    # Of the number of values below each edge; the number of all is known.
    position, below = np.arange(bins + 1) / bins, np.append(0, np.cumsum(counts))
    deviations = noise * np.sqrt(position * (1 - position) * bins)

    def allowed(at: int) -> float:
        return few + min(_NOISE + np.log2((high - low) / width), _SURE) * deviations[at]

    for at in range(int(np.searchsorted(edges, low, side="right")) - 1, 0, -1):
        if below[at] <= allowed(at):
            break
        low = edges[at - 1]
    for at in range(int(np.searchsorted(edges, high)), bins):
        if units - below[at] <= allowed(at):
            break
        high = edges[at + 1]
    return low, high
