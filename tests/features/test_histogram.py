"""The part of a range that a noisy histogram keeps, on distributions that a normal one does not fit, too."""

import numpy as np
import pytest

from ostrakon.features.histogram import bins_of, narrowed_range
from ostrakon.features.sums import SumMap
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

UNITS = 4000
RNG = np.random.default_rng(0)
DRAWS = {
    "narrow": (np.clip(RNG.normal(0.2, 0.02, UNITS), 0, 1), 0.3),
    "skewed": (np.clip(0.05 * np.exp(0.7 * RNG.normal(size=UNITS)), 0, 1), 0.45),
    "a tenth far away": (np.where(np.arange(UNITS) % 10, 0.1, RNG.uniform(0.6, 1, UNITS)), 1.0),
    "mostly zero": (np.where(np.arange(UNITS) % 5, 0.0, RNG.uniform(0, 1, UNITS)), 1.0),
    "two ends": (np.where(np.arange(UNITS) % 3, 0.02, 0.98), 1.0),
    "uniform": (RNG.uniform(0, 1, UNITS), 1.0),
}


def noisy(values, noise, seed=0):
    """The noisy histogram of values, shares of the range."""
    bins = bins_of(len(values), noise)
    exact = np.bincount(np.minimum((values * bins).astype(int), bins - 1), minlength=bins)
    return exact + np.random.default_rng(seed).normal(scale=noise, size=bins)


@pytest.mark.parametrize("noise", [10.0, 60.0])
@pytest.mark.parametrize("name", DRAWS)
def test_few_values_are_outside(name, noise):
    values, widest = DRAWS[name]
    parts = [narrowed_range(noisy(values, noise, seed), units=UNITS, noise=noise) for seed in range(20)]
    assert all(0 <= low < high <= STEPS for low, high in parts)
    outside = [((values * STEPS < low) | (values * STEPS > high)).mean() for low, high in parts]
    # One draw of the noise in twenty may hide a tenth of the values.
    assert sorted(outside)[-2] < 0.05 + noise / UNITS
    assert np.median([high - low for low, high in parts]) <= widest * STEPS


def test_much_noise_keeps_the_range():
    assert narrowed_range(np.zeros(16), units=100, noise=7.0) == (0, STEPS)
    assert narrowed_range(np.eye(16)[3] * 100, units=100, noise=5.0) != (0, STEPS)


@pytest.mark.parametrize("wrong", [np.zeros(15), np.full(16, np.nan), np.full(16, np.inf)], ids=["15", "nan", "inf"])
def test_other_histograms_are_refused(wrong):
    with pytest.raises(InvalidInput, match="noisy must be 16 finite numbers"):
        narrowed_range(wrong, units=1000, noise=20.0)


def test_quantities_are_clipped_to_a_part_of_the_range():
    rows, whole = np.random.default_rng(1).normal(size=(20, 2)), np.arange(STEPS + 1)
    np.testing.assert_array_equal(SumMap.of(rows).clipped(whole), whole)
    part = SumMap.of(rows, span=(100, 400)).clipped(whole)
    assert part[:101].max() == 0
    assert part[400:].min() == STEPS
    np.testing.assert_allclose(part[100:401] / STEPS, np.arange(301) / 300, atol=0.5 / STEPS)
