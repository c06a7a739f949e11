"""Corrections of a student beside votes and sums: price by hand, the largest contribution of one record, noise."""

import math

import numpy as np
import pytest

from ostrakon.features.corrections import correction_steps, largest_error, quantity_correction_steps
from ostrakon.features.moments import MomentMap
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms import LabelsGNMax, MomentGNMax, QuantityGNMax
from ostrakon.teachers.corrections import ClassCorrections, QuantityCorrections
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, STEPS, Moments

WITH_CORRECTIONS = [
    MomentGNMax(sigma2=8.0, moments=0.25, corrections=0.5),
    MomentGNMax(sigma2=8.0, max_contributions=2, moments=0.3, corrections=0.4, errors=0.1),
    MomentGNMax(sigma2=8.0, moments=0.4, corrections=0.5, errors=0.01, centred_classes=3),
    QuantityGNMax(sigma2=8.0, max_contributions=2, moments=0.5, corrections=0.3, errors=0.1),
]


@pytest.mark.parametrize("mechanism", WITH_CORRECTIONS, ids=repr)
def test_price_by_hand(mechanism):
    """Two records are up to two votes apart in the corrections, and the root of two in the other tables."""
    errors = 0.0 if mechanism.error_noise is None else 2 / mechanism.error_noise**2
    counts, sums = 2 * mechanism.max_contributions / 8.0**2, 2 / mechanism.moment_noise**2
    parts = counts, sums, 4 / mechanism.correction_noise**2, errors
    assert parts[2] / sum(parts) == pytest.approx(mechanism.corrections, rel=1e-12)
    assert math.sqrt(sum(parts)) <= mechanism.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(parts))
    length = 1 / 2 if mechanism.centred_classes is None else 1 / 3
    length = 1 / 4 if isinstance(mechanism, QuantityGNMax) else length
    removed = counts / 2, sums * length, 1 / mechanism.correction_noise**2, errors / 2
    cheaper = mechanism.under("take-out")
    assert math.sqrt(sum(removed)) <= cheaper.run_cost(queries=10).mu < 1.000001 * math.sqrt(sum(removed))
    for one, mu in ((mechanism, parts), (cheaper, removed)):
        assert one.cost_shares["correction of the student"] == pytest.approx(mu[2] / sum(mu), rel=1e-9)
        assert sum(one.cost_shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("mechanism", WITH_CORRECTIONS, ids=repr)
def test_noise_is_what_is_paid_for(mechanism):
    exact = np.full((20_000, 2), 7 * STEPS)
    drawn = mechanism.noisy_corrections(Moments(exact, teachers=300_000), np.random.default_rng(1))
    assert (drawn * STEPS == np.rint(drawn * STEPS)).all()
    # Five standard errors; noise of 0.97 of that width would fail.
    assert (drawn - 7).std() == pytest.approx(mechanism.correction_noise, rel=5 / math.sqrt(2 * drawn.size))


def test_without_corrections_nothing_changes():
    without, explicit = MomentGNMax(sigma2=8.0), MomentGNMax(sigma2=8.0, corrections=0)
    assert "corrections" not in without.parameters()
    assert without == explicit
    assert without.correction_noise is None
    assert "correction of the student" not in without.cost_shares
    with pytest.raises(InvalidInput, match="corrections must be above 0"):
        without.noisy_corrections(Moments(np.zeros((2, 1), int), teachers=1), np.random.default_rng(0))


def test_several_labels_have_none():
    with pytest.raises(InvalidInput, match=r"corrections must be 0 for .*, got 0\.1"):
        LabelsGNMax(sigma2=8.0, moments=0.3, corrections=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"corrections": 0.5}, r"corrections must be below 0\.5, so that the votes get a share"),
        ({"corrections": 0.3, "errors": 0.2}, r"errors must be below 0\.2 beside moments=0\.5 and corrections=0\.3"),
        ({"corrections": -0.1}, "corrections must be a finite number of at least 0"),
        ({"corrections": math.nan}, "corrections must be a finite number of at least 0"),
        ({"corrections": True}, "corrections must be a finite number of at least 0"),
        ({"corrections": 1e-30}, "corrections must be a share that leaves the sums noise of at most"),
    ],
)
def test_shares_that_are_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        MomentGNMax(sigma2=8.0, **given)


def added(rule, features, proba, label):
    rows = np.concatenate([proba, rule.directions.unrounded(features[None])[0]])[None]
    return rule.contributions_of((np.zeros(1, int), rows, np.array([label]))).counts.ravel()


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("centred", [False, True])
def test_one_record_adds_at_most_a_vote_and_two_are_nearly_two_votes_apart(classes, centred):
    """The most opposite records: far features on opposite sides, and probabilities that are wrong in opposite ways."""
    rng = np.random.default_rng(classes)
    public = rng.normal(size=(200, 3))
    directions = MomentMap.of(public, classes=classes if centred else None)
    rule, found = ClassCorrections(directions=directions, classes=classes), []
    for _ in range(300):
        features = rng.normal(size=3) * 10.0 ** rng.integers(-3, 8)
        proba = rng.dirichlet(np.full(classes, 10.0 ** rng.uniform(-3, 2)))
        found += [added(rule, features, proba, label) for label in range(classes)]
    lengths = np.square(np.array(found)).sum(axis=1)
    assert lengths.max() <= STEPS**2
    low = np.full(classes, 1e-9)
    low[-1] = 1 - low[:-1].sum()
    far = directions.centre + 1e6 * np.ones(3)
    one, other = added(rule, far, low, 0), added(rule, far, low[::-1], classes - 1)
    assert 1.9**2 * STEPS**2 < np.square(one - other).sum() <= 4 * STEPS**2


@pytest.mark.parametrize("span", [(0, FINE_STEPS), (1000, 3000)])
def test_one_quantity_adds_at_most_a_vote_and_two_are_nearly_two_votes_apart(span):
    rng = np.random.default_rng(0)
    features = SumMap.of(rng.normal(size=(200, 3)), span=span)
    rule, rows = QuantityCorrections(features=features, scale=0.3), rng.normal(size=(400, 3))
    rows *= 10.0 ** rng.integers(-3, 8, size=(400, 1))
    estimates = rng.choice([-1e300, -1, 0, 0.2, 1, 1e300], size=400)
    inputs = np.column_stack([estimates, features.unrounded(rows)])
    added = rule.steps(inputs, rng.integers(*span, size=400))
    assert added.shape == (400, *rule.shape)
    assert np.square(added).sum(axis=(1, 2)).max() <= STEPS**2
    low, high = inputs[[0]], inputs[[0]]
    low[0, 0], high[0, 0] = 9.0, -9.0
    one, other = (rule.steps(row, np.array([target])) for row, target in ((low, 0), (high, FINE_STEPS)))
    assert 1.97**2 * STEPS**2 < np.square(one - other).sum() <= 4 * STEPS**2
    # An error below the scale adds its share, to the nearest step.
    within = inputs[[1]]
    within[0, 0] = 2 * 0.5 - 1 - 0.1
    middle = rule.steps(within, np.array([sum(span) // 2])).ravel()[: features.features]
    assert np.abs(middle - (STEPS - 1 - features.features**0.5 / 2) / 3 * within[0, 1:]).max() < 1
    with pytest.raises(InvalidInput, match="whole steps from 0"):
        rule.steps(inputs[:1], np.array([FINE_STEPS + 1]))


def test_users_with_a_quantity_add_the_mean_of_their_rows():
    features = SumMap.of(np.random.default_rng(0).normal(size=(50, 2)))
    rule = QuantityCorrections(features=features, scale=0.5)
    inputs = np.column_stack([np.zeros(4), features.unrounded(np.ones((4, 2)))])
    inputs[3, 0] = np.nan
    targets, owners = np.array([0, FINE_STEPS, FINE_STEPS, 0]), np.array([0, 0, 1, 2])
    total = rule.contributions_of((owners, inputs, targets))
    assert total.units == 3
    # Both errors of the first user cancel, and the last row has no number.
    np.testing.assert_array_equal(total.counts, rule.contributions_of((owners[2:3], inputs[2:3], targets[2:3])).counts)
    assert (total.counts != 0).any()


def test_a_row_that_would_add_more_than_a_vote_is_refused():
    with pytest.raises(InvalidInput, match="at most one vote"):
        quantity_correction_steps(np.array([[0.8, 0.7]]), np.array([1.0]), scale=0.5)
    with pytest.raises(InvalidInput, match="at most one vote"):
        correction_steps(np.array([[0.0, 1.0]]), np.array([[1.01, 0.0]]), np.array([0]))


def test_largest_error_is_that_of_the_least_likely_class():
    proba = np.random.default_rng(0).dirichlet(np.ones(4), size=50)
    errors = np.linalg.norm(np.eye(4)[None] - proba[:, None], axis=2)
    np.testing.assert_allclose(largest_error(proba), errors.max(axis=1), rtol=1e-12)


def test_numbers_that_are_not_finite_add_nothing_and_users_add_the_mean_of_their_rows():
    directions = MomentMap.of(np.random.default_rng(0).normal(size=(50, 2)))
    rule = ClassCorrections(directions=directions, classes=2)
    rows = np.column_stack([np.full((4, 2), 0.5), directions.unrounded(np.ones((4, 2)))])
    rows[3, 0] = np.nan
    owners, labels = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0])
    parts = [
        rule.contributions_of((owners[owners == one], rows[owners == one], labels[owners == one])) for one in (0, 1, 2)
    ]
    total = rule.contributions_of((owners, rows, labels))
    assert total.units == 3
    assert (total.counts == sum(part.counts for part in parts)).all()
    # Both errors of the first user cancel; the last one's row has no number.
    assert (parts[0].counts == 0).all()
    assert (parts[2].counts == 0).all()
    assert (parts[1].counts != 0).any()
    with pytest.raises(InvalidInput, match="numbers below 2"):
        rule.contributions_of((owners, rows, labels + 1))
