"""Counts of errors beside votes and sums: price by hand, noise that is paid for, and mechanisms without them."""

import math

import numpy as np
import pytest

from ostrakon.mechanisms import BoundedGNMax, LabelsGNMax, MomentGNMax, QuantityGNMax
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Moments

WITH_ERRORS = [
    BoundedGNMax(sigma2=8.0, max_contributions=2, errors=0.1),
    MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.6, errors=0.1),
    MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.6, errors=0.1, centred_classes=3),
    QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.6, errors=0.1),
]


@pytest.mark.parametrize("mechanism", WITH_ERRORS, ids=repr)
def test_price_by_hand(mechanism):
    sums = 0.0 if mechanism.moment_noise is None else 2 / mechanism.moment_noise**2
    parts = 2 * 2 / 8.0**2, sums, 2 / mechanism.error_noise**2
    assert parts[2] / sum(parts) == pytest.approx(0.1, rel=1e-12)
    assert math.sqrt(sum(parts)) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(parts))
    # Of three centred classes the sums of one record have a squared length of at most 2/3.
    length = 1 / 2 if getattr(mechanism, "centred_classes", None) is None else 1 / 3
    if isinstance(mechanism, QuantityGNMax):
        length = 1 / 4
    removed = parts[0] / 2, sums * length, parts[2] / 2
    cheaper = mechanism.under("take-out")
    assert math.sqrt(sum(removed)) <= cheaper.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(removed))
    for one, mu in ((mechanism, parts), (cheaper, removed)):
        assert one.cost_shares["counts of errors"] == pytest.approx(mu[2] / sum(mu), rel=1e-9)
        assert sum(one.cost_shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("mechanism", WITH_ERRORS, ids=repr)
def test_noise_is_what_is_paid_for(mechanism):
    exact = np.full((40_000, 1), 7 * STEPS)
    drawn = mechanism.noisy_errors(Moments(exact, teachers=300_000), np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    # Five standard errors; noise of 0.97 of that width would fail.
    assert (drawn - 7).std() == pytest.approx(mechanism.error_noise, rel=5 / math.sqrt(2 * drawn.size))


@pytest.mark.parametrize("kind", [BoundedGNMax, MomentGNMax])
def test_without_counts_of_errors_nothing_changes(kind):
    without, explicit = kind(sigma2=8.0), kind(sigma2=8.0, errors=0)
    assert "errors" not in without.parameters()
    assert without == explicit
    assert without.error_noise is None
    assert "counts of errors" not in without.cost_shares
    with pytest.raises(InvalidInput, match="errors must be above 0"):
        without.noisy_errors(Moments(np.zeros((2, 1), int), teachers=1), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("kind", "given"),
    [(SummedGNMax, {}), (SharedGNMax, {"owners": 2}), (LabelsGNMax, {})],
)
def test_mechanisms_that_count_no_errors(kind, given):
    assert kind(sigma2=8.0, **given).error_noise is None
    with pytest.raises(InvalidInput, match=r"errors must be 0 for .*, got 0\.05"):
        kind(sigma2=8.0, errors=0.05, **given)


@pytest.mark.parametrize(
    ("kind", "errors", "message"),
    [
        (BoundedGNMax, 1, "errors must be below 1, so that the votes get a share"),
        (MomentGNMax, 0.5, r"errors must be below 0\.5 beside moments=0\.5, so that the votes get a share"),
        (BoundedGNMax, -0.1, "errors must be a finite number of at least 0"),
        (BoundedGNMax, math.nan, "errors must be a finite number of at least 0"),
        (BoundedGNMax, True, "errors must be a finite number of at least 0"),
        (MomentGNMax, 1e-30, "errors must be 0, or a share that leaves counts of errors noise of at most"),
    ],
)
def test_shares_that_are_refused(kind, errors, message):
    with pytest.raises(InvalidInput, match=message):
        kind(sigma2=8.0, errors=errors)
