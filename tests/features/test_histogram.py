"""The part of a range that a noisy histogram keeps, on distributions that a normal one does not fit, too."""

import numpy as np
import pytest

from ostrakon.features.histogram import bin_edges, narrowed_range
from ostrakon.features.sums import SumMap
from ostrakon.teachers.errors import Histogram
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS

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


def noisy(values, noise, seed=0, zero=0):
    """The noisy histogram of values, shares of the range."""
    edges = bin_edges(len(values), noise, zero)
    rule = Histogram(edges=edges)
    steps = np.rint(values * FINE_STEPS).astype(int)
    exact = rule.contributions_of((np.arange(len(values)), np.zeros((len(values), 1)), steps)).counts.ravel() / STEPS
    inside = np.minimum(np.searchsorted(edges, steps, side="right") - 1, len(edges) - 2)
    np.testing.assert_array_equal(exact, np.bincount(inside, minlength=len(edges) - 1))
    return exact + np.random.default_rng(seed).normal(scale=noise, size=len(exact))


@pytest.mark.parametrize("noise", [10.0, 60.0])
@pytest.mark.parametrize("name", DRAWS)
def test_few_values_are_outside(name, noise):
    values, widest = DRAWS[name]
    parts = [narrowed_range(noisy(values, noise, seed), units=UNITS, noise=noise, zero=0) for seed in range(20)]
    assert all(0 <= low < high <= FINE_STEPS for low, high in parts)
    outside = [((values * FINE_STEPS < low) | (values * FINE_STEPS > high)).mean() for low, high in parts]
    # One draw of the noise in twenty may hide a tenth of the values.
    assert sorted(outside)[-2] < 0.05 + 4 * noise / UNITS
    # Under much noise, a tenth of the values is not seen.
    assert np.median(outside) < (0.05 if noise == 10 else 0.1 + 1 / UNITS)
    assert np.median([high - low for low, high in parts]) <= widest * FINE_STEPS


def test_much_noise_keeps_the_range():
    assert narrowed_range(np.zeros(16), units=100, noise=7.0, zero=None) == (0, FINE_STEPS)
    assert narrowed_range(np.eye(16)[3] * 100, units=100, noise=5.0, zero=None) != (0, FINE_STEPS)


@pytest.mark.parametrize("wrong", [np.zeros(15), np.full(16, np.nan), np.full(16, np.inf)], ids=["15", "nan", "inf"])
def test_other_histograms_are_refused(wrong):
    with pytest.raises(InvalidInput, match="noisy must be 16 finite numbers"):
        narrowed_range(wrong, units=1000, noise=20.0, zero=None)


def test_quantities_are_clipped_to_a_part_of_the_range():
    rows, whole = np.random.default_rng(1).normal(size=(20, 2)), np.arange(STEPS + 1)
    np.testing.assert_array_equal(SumMap.of(rows).clipped(whole * (FINE_STEPS // STEPS)), whole)
    low, high = FINE_STEPS // 8, FINE_STEPS // 8 + 3 * STEPS
    part = SumMap.of(rows, span=(low, high)).clipped(np.arange(low - 5, high + 5))
    assert part[:6].max() == 0
    assert part[-5:].min() == STEPS
    np.testing.assert_allclose(part[5:-4] / STEPS, np.linspace(0, 1, 3 * STEPS + 1), atol=0.5 / STEPS)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("times", [30, 1000, 5000])
@pytest.mark.parametrize("noise", [10.0, 100.0])
def test_a_range_that_is_far_too_wide_becomes_a_part_near_zero(noise, times, sign):
    """Other values near 0, in a range that many times exceeds them, on one side or on both."""
    stays = np.random.default_rng(3).lognormal(0, 0.6, UNITS) / 5 / times
    for zero in (0.0, 0.5):
        values = zero + stays if sign == 1 else 1 - zero - stays
        at = int(zero * FINE_STEPS) if sign == 1 else FINE_STEPS - int(zero * FINE_STEPS)
        parts = [narrowed_range(noisy(values, noise, k, at), units=UNITS, noise=noise, zero=at) for k in range(20)]
        outside = [((values * FINE_STEPS < low) | (values * FINE_STEPS > high)).mean() for low, high in parts]
        assert sorted(outside)[-2] < 0.03 + 3 * noise / UNITS
        width = [(high - low) / FINE_STEPS * times for low, high in parts]
        assert np.median(width) < 2.5
        assert sorted(width)[-2] < 20
        # Without the position of 0, no part is so small.
        low, high = narrowed_range(noisy(values, noise, 0, None), units=UNITS, noise=noise, zero=None)
        assert times < 5000 or (high - low) / FINE_STEPS * times > 20


@pytest.mark.parametrize("noise", [10.0, 100.0])
@pytest.mark.parametrize("zeros", [0.3, 0.6, 0.8])
def test_many_zeros_do_not_hide_other_values(zeros, noise):
    rng = np.random.default_rng(4)
    values = np.where(rng.random(UNITS) < zeros, 0.0, np.clip(rng.normal(0.3, 0.1, UNITS), 0, 1))
    parts = [narrowed_range(noisy(values, noise, seed), units=UNITS, noise=noise, zero=0) for seed in range(20)]
    assert sorted((values * FINE_STEPS > high).mean() for _, high in parts)[-2] < 0.05 + noise / UNITS


def test_a_few_values_at_the_middle_are_kept():
    values = np.random.default_rng(5).choice([0.4, 0.5, 0.6, 0.7], p=[0.1, 0.4, 0.4, 0.1], size=UNITS)
    parts = [narrowed_range(noisy(values, 60.0, seed), units=UNITS, noise=60.0, zero=0) for seed in range(20)]
    assert all(low <= 0.5 * FINE_STEPS and high >= 0.6 * FINE_STEPS for low, high in parts)
    assert np.mean([low <= 0.4 * FINE_STEPS and high >= 0.7 * FINE_STEPS for low, high in parts]) > 0.5


@pytest.mark.parametrize("zero", [0, 1, 11, 2**26 + 1, 2**29 - 3, FINE_STEPS - 5, FINE_STEPS])
@pytest.mark.parametrize(("units", "noise"), [(800, 20.0), (1200, 9.0), (50_000, 20.0)])
def test_no_part_is_narrower_than_some_steps_of_a_vote(zero, units, noise):
    """Also where 0 is a few steps from an end of the range, or of a bin."""
    edges = bin_edges(units, noise, zero)
    assert np.diff(edges).min() >= STEPS
    assert (edges[0], edges[-1]) == (0, FINE_STEPS)
    for number in range(len(edges) - 1):
        low, high = narrowed_range(units * np.eye(len(edges) - 1)[number], units=units, noise=noise, zero=zero)
        assert high - low > STEPS


def test_equal_values_leave_a_small_part():
    counts = np.zeros(len(bin_edges(5000, 20.0, 0)) - 1)
    counts[0] = 5000
    low, high = narrowed_range(counts, units=5000, noise=20.0, zero=0)
    assert low == 0
    assert STEPS < high < 2e-5 * FINE_STEPS
    low, high = narrowed_range(counts[::-1], units=5000, noise=20.0, zero=FINE_STEPS)
    assert high == FINE_STEPS
    assert FINE_STEPS - high < FINE_STEPS - low < 2e-5 * FINE_STEPS
