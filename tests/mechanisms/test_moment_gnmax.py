"""Moment GNMax: what one teacher can move, by search over whole tables; its price by hand; its noise; refusals."""

import itertools
import math

import numpy as np
import pytest

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.features.moments import MomentMap
from ostrakon.mechanisms import BoundedGNMax, GNMax, LabelsGNMax, MomentGNMax, QuantityGNMax
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Moments

PUBLIC = np.random.default_rng(0).normal(size=(40, 3))
FAR = np.array([[9.0, 0, 0], [-9.0, 0, 0], [0, 9.0, 0], [0.3, -0.2, 0.1], [1e20, 1e20, -1e20]])


def said(rows, labels, max_contributions, centred=False):
    """Both tables that one teacher with these rows makes, in votes, each as a vector."""
    votes = collect_per_record(
        [(np.zeros(len(rows), int), rows, np.array(labels))],
        PUBLIC[:4],
        classes=2,
        units=1,
        max_contributions=max_contributions,
        moments=MomentMap.of(PUBLIC, classes=2 if centred else None),
    )
    return votes.counts.ravel().astype(float), votes.moments.counts.ravel() / STEPS


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("max_contributions", [1, 3])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_no_two_teachers_are_farther_apart_than_the_price(max_contributions, share, centred):
    mechanism = MomentGNMax(
        sigma2=5.0, max_contributions=max_contributions, moments=share, centred_classes=2 if centred else None
    )
    sizes = (1,) if max_contributions == 1 else (1, 2, 3)
    everyone = [
        said(FAR[list(rows)], labels, max_contributions, centred)
        for size in sizes
        for rows in itertools.combinations(range(len(FAR)), size)
        for labels in itertools.product(range(2), repeat=size)
    ]
    scaled = [np.concatenate([c / mechanism.sigma2, m / mechanism.moment_noise]) for c, m in everyone]
    farthest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(scaled, 2))
    longest = max(np.linalg.norm(a) for a in scaled)
    # Whoever votes in three cells has rows in three places, whose mean is nearer to the centre.
    reached = 0.97 if max_contributions == 1 else 0.85
    assert reached * mechanism.run_cost(queries=4).mu < farthest <= mechanism.run_cost(queries=4).mu
    removed = mechanism.under("take-out").run_cost(queries=4).mu
    assert reached * removed < longest <= removed


def test_the_price_by_hand():
    mechanism = MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.6)
    counts, sums = 2 * 2 / 8.0**2, 2 / mechanism.moment_noise**2
    assert sums / (counts + sums) == pytest.approx(0.6, rel=1e-12)
    assert mechanism.run_cost(queries=10).mu == pytest.approx(math.sqrt(counts + sums), rel=1e-11)
    assert mechanism.run_cost(queries=10).mu >= math.sqrt(counts + sums)
    assert mechanism.run_cost(queries=1).mu == pytest.approx(math.sqrt(2 / 8.0**2 + sums), rel=1e-11)
    found = worst_case(mechanism, queries=10, delta=1e-5).epsilon
    assert found == pytest.approx(gaussian_dp_epsilon(math.sqrt(counts + sums), 1e-5), rel=1e-6)
    assert mechanism.under("take-out").run_cost(queries=10).mu == pytest.approx(
        mechanism.run_cost(queries=10).mu / 2**0.5
    )
    # The counts alone cost less: leaving the sums out would be a false claim.
    assert found > 1.3 * worst_case(BoundedGNMax(sigma2=8.0, max_contributions=2), queries=10, delta=1e-5).epsilon


def test_centred_sums_cost_less_when_one_record_is_removed():
    for classes in (2, 3, 20):
        centred = MomentGNMax(sigma2=5.0, moments=0.4, centred_classes=classes)
        plain = MomentGNMax(sigma2=5.0, moments=0.4)
        assert centred.run_cost(queries=9) == plain.run_cost(queries=9)
        assert centred.moment_noise == plain.moment_noise == centred.under("take-out").moment_noise
        removed, counts = centred.under("take-out"), 1 / 5.0**2
        sums = (1 - 1 / classes) / centred.moment_noise**2
        assert removed.run_cost(queries=9).mu == pytest.approx(math.sqrt(counts + sums), rel=1e-11)
        assert removed.run_cost(queries=9).mu >= math.sqrt(counts + sums)
        assert removed.cost_shares["sums of features"] == pytest.approx(sums / (counts + sums))
        assert plain.under("take-out").run_cost(queries=9).mu == pytest.approx(plain.run_cost(queries=9).mu / 2**0.5)
        with pytest.raises(InvalidInput, match=f"moments must be sums of features by {classes} classes"):
            centred.noisy_moments(Moments(np.ones((3, 4), int), teachers=1), np.random.default_rng(0))
    # What a run drew before belongs to its parameters, which must not change.
    assert list(MomentGNMax(sigma2=5.0).parameters()) == ["sigma2", "max_contributions", "neighbours", "moments"]
    for bad in (1, 0, -2, 2.5, True, math.nan):
        with pytest.raises(InvalidInput, match="centred_classes must be an integer of at least 2"):
            MomentGNMax(sigma2=5.0, centred_classes=bad)
    for kind in (QuantityGNMax, LabelsGNMax):
        with pytest.raises(InvalidInput, match="centred_classes must be None"):
            kind(sigma2=5.0, centred_classes=2)


def test_the_noise_on_the_sums_is_as_wide_as_it_is_paid_for():
    mechanism = MomentGNMax(sigma2=3.0, moments=0.25)
    zeros = Moments(np.zeros((20_000, 3), np.int64), teachers=5)
    drawn = mechanism.noisy_moments(zeros, np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    # Five standard errors of 60,000 draws; noise of 0.97 of that width would fail.
    assert drawn.std() == pytest.approx(3.0 * math.sqrt(3), rel=5 / math.sqrt(2 * drawn.size))
    shifted = Moments(np.full((20_000, 3), -7), teachers=5)
    again = mechanism.noisy_moments(shifted, np.random.default_rng(1))
    np.testing.assert_array_equal(again - drawn, np.full((20_000, 3), -7 / STEPS))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan"), True, "half"])
def test_shares_of_all_or_nothing_are_refused(share):
    with pytest.raises(InvalidInput, match="moments must be a number strictly between 0 and 1"):
        MomentGNMax(sigma2=5.0, moments=share)


def test_noise_so_wide_that_doubles_lose_its_steps_is_refused():
    """At 1e13 votes an odd sum was 2 modulo 4 steps 13% of the time, an even one 32%, at a claimed epsilon of 0."""
    with pytest.raises(InvalidInput, match="sigma2 must be a number from 1e-50 to"):
        MomentGNMax(sigma2=1e13)
    with pytest.raises(InvalidInput, match="moments must be a share that leaves the sums noise of at most"):
        MomentGNMax(sigma2=1e4, moments=1e-21)
    widest = MomentGNMax(sigma2=2.0**32)
    sums = [
        widest.noisy_moments(Moments(np.full((2000, 1), count), teachers=5), np.random.default_rng(1)) * STEPS - count
        for count in (0, 1)
    ]
    np.testing.assert_array_equal(*sums)


def test_other_mechanisms_release_no_sums():
    with pytest.raises(InvalidInput, match="gnmax releases no sums of features"):
        GNMax(sigma2=5.0).noisy_moments(Moments(np.ones((1, 2), int), teachers=1), np.random.default_rng(0))
