"""Moments of rows: whole steps, bounded in length and in how far two rows are apart, each row's own to the last bit."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from ostrakon.features.moments import CONSTANT, WIDTH, MomentMap, scaled_steps, worth_their_noise
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 6)) * [1, 2, 3, 1, 1, 0] + 5


@pytest.mark.parametrize(("features", "most"), [(1, None), (6, None), (385, None), (3000, None), (385, 20), (60, 59)])
def test_no_row_is_longer_than_a_vote_and_no_two_point_away_from_each_other(features, most):
    public = RNG.normal(size=(50, features))
    known = MomentMap.of(public, most=most)
    assert known.directions == 1 + (most or features)
    direction = RNG.normal(size=(20, features))
    rows = np.vstack([public, known.centre + 1e9 * direction, known.centre - 1e9 * direction, known.centre[None]])
    steps = known.steps(rows)
    assert steps.dtype == np.int64
    assert (steps[:, 0] == CONSTANT).all()
    assert np.square(steps).sum(axis=1).max() <= STEPS**2
    assert (steps @ steps.T).min() >= 0
    # Little of the vote is given away: opposite rows are nearly as far apart as two votes may be.
    if features < 1000:
        assert np.sqrt(np.square(steps[50] - steps[70]).sum()) > (0.98 if features < 100 else 0.95) * np.sqrt(2) * STEPS


def test_rows_beyond_the_median_length_count_as_if_they_lay_there():
    known = MomentMap.of(PUBLIC)
    lengths = np.linalg.norm(PUBLIC - PUBLIC.mean(axis=0), axis=1)
    assert known.radius == pytest.approx(np.median(lengths), rel=1e-12)
    made = known.of_rows(PUBLIC)
    assert made.shape == (300, known.directions) == (300, 7)
    expected = np.minimum(lengths / known.radius, 1) * known.longest
    np.testing.assert_allclose(np.linalg.norm(made[:, 1:], axis=1), expected, rtol=1e-12)
    np.testing.assert_allclose(known.steps(PUBLIC) / STEPS, made, atol=0.5 / STEPS + 1e-12)


@pytest.mark.parametrize("most", [None, 4])
def test_what_a_row_says_is_its_own_to_the_last_bit(most):
    known = MomentMap.of(PUBLIC, most=most)
    together = known.steps(PUBLIC)
    order = RNG.permutation(300)
    assert np.array_equal(known.steps(PUBLIC[order]), together[order])
    assert np.array_equal(known.steps(PUBLIC[::-1][:7]), together[::-1][:7])
    for row in range(0, 300, 37):
        assert np.array_equal(known.steps(PUBLIC[row : row + 1]), together[row : row + 1])
    beside = np.vstack([PUBLIC[:5], np.full((900, 6), 1e30)])
    assert np.array_equal(known.steps(beside)[:5], together[:5])


def test_the_largest_principal_components_are_kept():
    made = MomentMap.of(PUBLIC, most=2).of_rows(PUBLIC)
    peer = PCA(2).fit_transform(PUBLIC)
    scale = np.minimum(1, np.median(np.linalg.norm(peer, axis=1)) / np.linalg.norm(peer, axis=1))
    length = np.linalg.norm(made[:, 1:], axis=1).max()
    expected = peer * scale[:, None] / np.median(np.linalg.norm(peer, axis=1)) * length
    np.testing.assert_allclose(np.abs(made[:, 1:]), np.abs(expected), atol=1e-9)
    # As they are where there are no more.
    assert MomentMap.of(PUBLIC, most=6).axes is None
    again, other = (MomentMap.of(PUBLIC * sign, most=3).axes for sign in (1, -1))
    np.testing.assert_allclose(again, other, atol=1e-9)


def test_how_many_directions_are_worth_their_noise():
    assert worth_their_noise(10_000, 1.0) == 230
    assert worth_their_noise(10, 1000.0) == 16
    with pytest.raises(InvalidInput, match="noise"):
        worth_their_noise(10, 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refusals(bad):
    for public in (np.full((3, 2), bad), np.zeros((0, 2)), np.zeros(4)):
        with pytest.raises(InvalidInput, match="finite features of shape"):
            MomentMap.of(public)
    with pytest.raises(InvalidInput, match="finite numbers"):
        MomentMap.of(PUBLIC).steps(np.full((2, 6), bad))
    known = MomentMap(centre=np.zeros(6), radius=1.0, axes=np.full((6, 1), 6**-0.5))
    with pytest.raises(InvalidInput, match="sums are finite"):
        known.steps(np.full((2, 6), 1.7e308))


def test_alike_public_rows_leave_the_constant_alone():
    known = MomentMap.of(np.ones((4, 3)))
    assert np.array_equal(known.steps(np.ones((2, 3))), [[CONSTANT, 0, 0, 0]] * 2)
    assert np.isfinite(known.of_rows(np.ones((2, 3)) * 1e20)).all()


@pytest.mark.parametrize(("features", "centres", "most"), [(6, 2, None), (385, 40, 20), (20, 1500, None)])
def test_with_nearness_no_row_is_longer_than_a_vote_and_no_two_point_away_from_each_other(features, centres, most):
    public = RNG.normal(size=(max(centres, 50), features))
    known = MomentMap.of(public, most=most, centres=public[:centres])
    linear = most or features
    assert known.directions == 1 + linear + centres
    direction = RNG.normal(size=(20, features))
    rows = np.vstack([public[:50], known.centre + 1e9 * direction, known.centre - 1e9 * direction, known.centre[None]])
    steps = known.steps(rows)
    first = known.constant * STEPS
    assert first == round(first)
    assert (steps[:, 0] == first).all()
    assert np.square(steps[:, 1 : 1 + linear]).sum(axis=1).max() <= first**2
    assert steps[:, 1 + linear :].min() >= 0
    assert np.square(steps).sum(axis=1).max() <= STEPS**2
    assert (steps @ steps.T).min() >= 0
    # The nearness uses most of what it may.
    assert np.square(steps[:, 1 + linear :]).sum(axis=1).min() > 0.9 * 2 * (CONSTANT**2 - first**2)


def test_nearness_is_a_bell_around_each_centre_and_the_row_s_own_to_the_last_bit():
    known = MomentMap.of(PUBLIC, centres=PUBLIC[:9])
    squares = np.square(PUBLIC[:, None] - PUBLIC[None, :9]).sum(axis=2)
    assert known.width == pytest.approx(WIDTH * np.median(np.sort(squares, axis=1)[:, 1]))
    bells = np.exp(-squares / (2 * known.width))
    expected = bells / np.linalg.norm(bells, axis=1, keepdims=True) * known.nearest
    np.testing.assert_allclose(known.of_rows(PUBLIC)[:, 7:], expected, atol=1e-9)
    together = known.steps(PUBLIC)
    assert np.array_equal(known.steps(PUBLIC[::-1]), together[::-1])
    assert np.array_equal(known.steps(PUBLIC[3:4]), together[3:4])


@pytest.mark.parametrize("broken", ["negative", "long"])
def test_a_nearness_that_breaks_the_bound_is_refused(monkeypatch, broken):
    known = MomentMap.of(PUBLIC, centres=PUBLIC[:9])
    rows = known.of_rows(PUBLIC[:1])
    if broken == "negative":
        rows[0, 7:] *= -1
    else:
        rows[0, 7:], rows[0, 1:7] = 0, 0.3
    monkeypatch.setattr(MomentMap, "of_rows", lambda self, features: np.repeat(rows, len(features), axis=0))
    with pytest.raises(InvalidInput, match="bounded length"):
        known.steps(PUBLIC[:2])


def test_scaled_rows_with_nearness_are_no_longer_than_their_weight_and_none_point_away_from_each_other():
    known = MomentMap.of(PUBLIC, centres=PUBLIC[:9])
    direction = RNG.normal(size=(40, 6))
    steps = known.steps(np.vstack([known.centre + 1e9 * direction, known.centre - 1e9 * direction, PUBLIC]))
    scaled = {weight: scaled_steps(steps, weight) for weight in (3, 300, 777, 1000, STEPS)}
    assert np.array_equal(scaled[STEPS], steps)
    for weight, rows in scaled.items():
        assert (rows[:, 0] == round(known.constant * STEPS) * weight // STEPS).all()
        assert np.square(rows[:, 1:7]).sum(axis=1).max() <= rows[0, 0] ** 2
        assert np.square(rows).sum(axis=1).max() <= weight**2
    together = np.vstack(list(scaled.values()))
    assert (together @ together.T).min() >= 0
