"""Quantity GNMax: what one teacher can move, by search over whole tables; its price by hand."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.features.histogram import bin_edges
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms import LabelsGNMax, MomentGNMax, QuantityGNMax
from ostrakon.teachers.errors import Histogram
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS, BoundedVotes, Moments, SplitVotes

PUBLIC = np.random.default_rng(0).normal(size=(60, 3))
# The first is beyond every public value, so that its features are as long as any.
FAR = np.array([[-9.0, -9.0, -9.0], [9.0, 9.0, -9.0], [0.3, -0.2, 0.1], [1e20, -1e20, -1e20]])
SHARES = (0, FINE_STEPS)
MAP = SumMap.of(PUBLIC)


def said(rows, quantities, max_contributions):
    """Both tables that one teacher with these rows makes, in votes, each as a vector."""
    votes = collect_per_record(
        [(np.zeros(len(rows), int), rows, np.array(quantities))],
        PUBLIC[:4],
        classes=2,
        units=1,
        max_contributions=max_contributions,
        moments=MAP,
    )
    return votes.in_votes.ravel(), votes.moments.counts.ravel() / STEPS


@pytest.mark.parametrize("max_contributions", [1, 3])
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_no_two_teachers_are_farther_apart_than_the_price(max_contributions, share):
    mechanism = QuantityGNMax(sigma2=5.0, max_contributions=max_contributions, moments=share)
    sizes = (1,) if max_contributions == 1 else (1, 3)
    everyone = [
        said(FAR[list(rows)], list(quantities), max_contributions)
        for size in sizes
        for rows in itertools.combinations(range(len(FAR)), size)
        for quantities in itertools.product(SHARES, repeat=size)
    ]
    scaled = [np.concatenate([c / mechanism.sigma2, m / mechanism.moment_noise]) for c, m in everyone]
    farthest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(scaled, 2))
    longest = max(np.linalg.norm(a) for a in scaled)
    # Whoever votes in three cells has rows in three places, whose mean is shorter. 2% less is refuted for one record.
    reached = 0.98 if max_contributions == 1 else 0.6
    assert reached * mechanism.run_cost(queries=4).mu < farthest <= mechanism.run_cost(queries=4).mu
    removed = mechanism.under("take-out").run_cost(queries=4).mu
    assert reached * removed < longest <= removed


def test_one_record_attains_the_price_in_its_own_cell_and_in_another():
    low, high = said(FAR[:1], [0], 1), said(FAR[:1], [FINE_STEPS], 1)
    assert np.linalg.norm(low[0] - high[0]) == pytest.approx(math.sqrt(2))
    assert 0.98 * math.sqrt(2) < np.linalg.norm(low[1] - high[1]) <= math.sqrt(2)
    elsewhere = said(FAR[1:2], [0], 1)
    assert np.linalg.norm(low[0] - elsewhere[0]) == pytest.approx(math.sqrt(2))


def test_the_price_by_hand():
    mechanism = QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.6)
    cells, sums = 2 * 2 / 8.0**2, 2 / mechanism.moment_noise**2
    assert sums / (cells + sums) == pytest.approx(0.6, rel=1e-12)
    assert math.sqrt(cells + sums) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(cells + sums)
    assert mechanism.under("take-out").run_cost(queries=10).mu == pytest.approx(
        math.sqrt(cells / 2 + sums / 4), rel=1e-9
    )
    # The noise of the same sigma2 for classes is priced alike when a record is replaced.
    assert mechanism.run_cost(queries=10) == MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.6).run_cost(
        queries=10
    )


def test_counts_of_errors_by_hand_and_as_the_composition_of_two_gaussians():
    mechanism = QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.6, errors=0.1)
    parts = 2 * 2 / 8.0**2, 2 / mechanism.moment_noise**2, 2 / mechanism.error_noise**2
    assert [part / sum(parts) for part in parts] == pytest.approx([0.3, 0.6, 0.1], rel=1e-12)
    assert math.sqrt(sum(parts)) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(parts))
    removed = math.sqrt(parts[0] / 2 + parts[1] / 4 + parts[2] / 2)
    assert mechanism.under("take-out").run_cost(queries=10).mu == pytest.approx(removed, rel=1e-9)
    assert sum(mechanism.cost_shares.values()) == pytest.approx(1)
    assert QuantityGNMax(sigma2=8.0).error_noise is None


def test_a_histogram_by_hand_and_as_the_composition_of_gaussians():
    mechanism = QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.6, errors=0.1, histogram=0.05)
    noises = mechanism.moment_noise, mechanism.error_noise, mechanism.histogram_noise
    parts = 2 * 2 / 8.0**2, *(2 / noise**2 for noise in noises)
    assert [part / sum(parts) for part in parts] == pytest.approx([0.25, 0.6, 0.1, 0.05], rel=1e-12)
    assert math.sqrt(sum(parts)) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(parts))
    removed = math.sqrt(parts[0] / 2 + parts[1] / 4 + parts[2] / 2 + parts[3] / 2)
    assert removed <= mechanism.under("take-out").run_cost(queries=10).mu < 1.000001 * removed
    assert mechanism.cost_shares["histogram of the target"] == pytest.approx(0.05)
    assert mechanism.under("take-out").cost_shares["histogram of the target"] == pytest.approx(
        parts[3] / 2 / removed**2
    )


def test_one_record_attains_the_price_of_the_histogram():
    rule = Histogram(edges=bin_edges(1000, 30.0, 0))
    one, other = (rule.contributions_of((np.zeros(1, int), np.zeros((1, 1)), np.array([t]))).counts for t in SHARES)
    assert np.square(one).sum() == np.square(other).sum() == STEPS**2
    assert np.square(one - other).sum() == 2 * STEPS**2
    # A user with rows at both ends splits its vote.
    both = rule.contributions_of((np.zeros(4, int), np.zeros((4, 1)), np.array([0, 0, 0, FINE_STEPS]))).counts
    assert both.ravel()[[0, -1]].tolist() == [768, 256]


@pytest.mark.parametrize(
    ("histogram", "message"),
    [
        (0.2, "histogram must be below 0.2, so that the votes get a share, got 0.2"),
        (-0.1, "histogram must be a finite number of at least 0, got -0.1"),
        (math.nan, "histogram must be a finite number of at least 0, got nan"),
        (True, "histogram must be a finite number of at least 0, got True"),
        (1e-30, "histogram must be 0, or a share that leaves the histogram noise of at most"),
    ],
)
def test_shares_of_the_histogram_that_are_refused(histogram, message):
    with pytest.raises(ValueError, match=message):
        QuantityGNMax(sigma2=8.0, histogram=histogram)


def test_noise_on_the_histogram_is_what_is_paid_for():
    mechanism, exact = QuantityGNMax(sigma2=3.0, histogram=0.05), np.full((40_000, 1), 7 * STEPS)
    drawn = mechanism.noisy_histogram(Moments(exact, teachers=300_000), np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    # Five standard errors; noise of 0.97 of that width would fail.
    assert (drawn - 7).std() == pytest.approx(mechanism.histogram_noise, rel=5 / math.sqrt(2 * drawn.size))
    with pytest.raises(ValueError, match="histogram must be above 0"):
        QuantityGNMax(sigma2=3.0).noisy_histogram(Moments(exact, teachers=300_000), np.random.default_rng(1))


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (0.2, "errors must be below 0.2 beside moments=0.8, so that the votes get a share, got 0.2"),
        (-0.1, "errors must be a finite number of at least 0, got -0.1"),
        (math.nan, "errors must be a finite number of at least 0, got nan"),
        (True, "errors must be a finite number of at least 0, got True"),
        (1e-30, "errors must be 0, or a share that leaves counts of errors noise of at most"),
    ],
)
def test_shares_of_the_errors_that_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        QuantityGNMax(sigma2=8.0, errors=errors)


def test_noise_on_counts_of_errors_is_what_is_paid_for():
    mechanism, exact = QuantityGNMax(sigma2=3.0, errors=0.05), np.full((40_000, 1), 7 * STEPS)
    drawn = mechanism.noisy_errors(Moments(exact, teachers=300_000), np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    # Five standard errors; noise of 0.97 of that width would fail.
    assert (drawn - 7).std() == pytest.approx(mechanism.error_noise, rel=5 / math.sqrt(2 * drawn.size))
    with pytest.raises(ValueError, match="errors must be above 0"):
        QuantityGNMax(sigma2=3.0).noisy_errors(Moments(exact, teachers=300_000), np.random.default_rng(1))


def test_split_votes_are_released_in_votes_with_the_noise_that_is_paid_for():
    mechanism = QuantityGNMax(sigma2=3.0)
    votes = SplitVotes(np.full((20_000, 2), 5), teachers=200_000, max_contributions=1)
    drawn = mechanism.noisy_counts(votes, np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    noise = drawn - 5 / STEPS
    # Five standard errors; noise of 0.97 of that width would fail.
    assert noise.std() == pytest.approx(3.0, rel=5 / math.sqrt(2 * noise.size))
    whole = BoundedVotes(np.full((20_000, 2), 5), teachers=200_000, max_contributions=1)
    np.testing.assert_array_equal(mechanism.noisy_counts(whole, np.random.default_rng(1)) - 5, noise)


def test_more_steps_than_votes_are_refused():
    assert SplitVotes([[STEPS, 0]], teachers=1, max_contributions=1).in_votes.tolist() == [[1, 0]]
    assert SplitVotes([[2**40, 0]], teachers=2**30, max_contributions=1).teachers == 2**30
    with pytest.raises(ValueError, match="counts must sum to at most"):
        SplitVotes([[STEPS, 1]], teachers=1, max_contributions=1)


@pytest.mark.parametrize("kind", [QuantityGNMax, LabelsGNMax])
@pytest.mark.parametrize("bad", [0.0, 0.81, -0.1, np.nan, True, "0.4"])
def test_a_share_of_linear_features_that_leaves_nothing_for_others_is_refused(kind, bad):
    with pytest.raises(InvalidInput, match="linear must be"):
        kind(sigma2=5.0, linear=bad)
