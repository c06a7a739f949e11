"""Moments of rows: whole steps, bounded in length and in how far two rows are apart, each row's own to the last bit."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from ostrakon.features.moments import (
    CONSTANT,
    FEW_CLASSES,
    WIDTH,
    MomentMap,
    principal_vectors,
    scaled_steps,
    shared_steps,
    worth_their_noise,
)
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
    made = known.unrounded(PUBLIC)
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


@pytest.mark.parametrize("repeated", [False, True])
def test_principal_directions_of_more_features_than_rows(repeated):
    """From products of rows, unless these are too few to have that many directions."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(30, 80)) * np.geomspace(1, 0.1, 80)
    away = np.tile(rows[:10], (3, 1)) if repeated else rows
    away = away - away.mean(axis=0)
    kept = principal_vectors(away, 12)
    np.testing.assert_allclose(kept.T @ kept, np.eye(12), atol=1e-12)
    best = np.linalg.svd(away)[2][: 9 if repeated else 12]
    np.testing.assert_allclose(np.abs((best.T * kept[:, : len(best)]).sum(axis=0)), 1, atol=1e-9)


def test_the_largest_principal_components_are_kept():
    made = MomentMap.of(PUBLIC, most=2).unrounded(PUBLIC)
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
    assert np.isfinite(known.unrounded(np.ones((2, 3)) * 1e20)).all()


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
    np.testing.assert_allclose(known.unrounded(PUBLIC)[:, 7:], expected, atol=1e-9)
    together = known.steps(PUBLIC)
    assert np.array_equal(known.steps(PUBLIC[::-1]), together[::-1])
    assert np.array_equal(known.steps(PUBLIC[3:4]), together[3:4])


@pytest.mark.parametrize("broken", ["negative", "long"])
def test_a_nearness_that_breaks_the_bound_is_refused(monkeypatch, broken):
    known = MomentMap.of(PUBLIC, centres=PUBLIC[:9])
    rows = known.unrounded(PUBLIC[:1])
    if broken == "negative":
        rows[0, 7:] *= -1
    else:
        rows[0, 7:], rows[0, 1:7] = 0, 0.3
    monkeypatch.setattr(MomentMap, "unrounded", lambda self, features: np.repeat(rows, len(features), axis=0))
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


def tables(steps, classes):
    """What each row adds to the sums of all classes if it is of each class, (rows, classes, directions * classes)."""
    shared = np.repeat(shared_steps(steps, classes)[:, :, None], classes, axis=2)
    added = np.stack([-shared] * classes, axis=1)
    for label in range(classes):
        added[:, label, :, label] += steps
    return added.reshape(len(steps), classes, -1)


@pytest.mark.parametrize("classes", [2, 3, 4, 10, FEW_CLASSES])
@pytest.mark.parametrize(("features", "most"), [(2, None), (6, None), (300, 40)])
def test_centred_rows_are_at_most_as_far_apart_as_two_votes(features, most, classes):
    public = RNG.normal(size=(50, features))
    known = MomentMap.of(public, most=most, classes=classes)
    direction = RNG.normal(size=(6, features))
    rows = np.vstack([known.centre + 1e9 * direction, known.centre - 1e9 * direction, known.centre[None]])
    added = tables(known.steps(rows), classes)
    everything = added.reshape(-1, added.shape[2])
    squares = np.square(everything).sum(axis=1)
    distances = squares[:, None] + squares - 2 * everything @ everything.T
    assert distances.max() <= 2 * STEPS**2
    assert classes * squares.max() <= (classes - 1) * STEPS**2
    # Both kinds of pairs use nearly all of it: opposite rows of one class, unless the constant has its least share, and
    # equal rows of two classes.
    if classes > 2:
        assert np.square(added[0, 0] - added[6, 0]).sum() > 0.9 * 2 * STEPS**2
    assert np.square(added[0, 0] - added[0, 1]).sum() > 0.9 * 2 * STEPS**2
    # Uncentred features of that length would break the bound.
    plain = known.steps(rows)[:, 1:]
    assert np.square(plain[0] - plain[6]).sum() > 2 * STEPS**2 or features == 300


@pytest.mark.parametrize("classes", [2, 3, 5, 10, FEW_CLASSES])
def test_every_centred_vector_against_every_other_and_against_none(classes):
    """All whole vectors that a map with one or two features allows: both prices hold and refute 2% less."""
    for features in (1, 2):
        known = MomentMap.of(RNG.normal(size=(9, features)), classes=classes)
        constant, most = round(known.constant * STEPS), known._most_squared
        reach = np.arange(-int(most**0.5), int(most**0.5) + 1)
        every = np.stack(np.meshgrid(*[reach] * features), axis=-1).reshape(-1, features)
        every = every[np.square(every).sum(axis=1) <= most]
        steps = np.column_stack([np.full(len(every), constant), every])
        shared = shared_steps(steps, classes)
        alone = np.square(steps - shared).sum(axis=1) + (classes - 1) * np.square(shared).sum(axis=1)
        assert classes * alone.max() <= (classes - 1) * STEPS**2
        # In terms of mu: the sums alone move by more than 0.98 of what is charged.
        assert classes * alone.max() > 0.98**2 * (classes - 1) * STEPS**2
        if features == 1:
            of_one, of_other = (tables(steps, classes)[:, label] for label in (0, 1))
            for other in (of_one, of_other):
                distances = alone[:, None] + alone - 2 * of_one @ other.T
                assert distances.max() <= 2 * STEPS**2
            assert distances.max() > 0.98**2 * 2 * STEPS**2


def test_centred_features_are_longer_the_fewer_classes_there_are():
    plain = MomentMap.of(PUBLIC).longest
    for classes, gain in ((2, 1.5), (3, 1.5), (4, 4 / 3), (10, 10 / 9)):
        assert (MomentMap.of(PUBLIC, classes=classes).longest / plain) ** 2 == pytest.approx(gain, rel=0.01)
    assert MomentMap.of(PUBLIC, classes=FEW_CLASSES + 1).classes is None
    assert MomentMap.of(PUBLIC, classes=5, centres=PUBLIC[:9]).classes is None
    assert MomentMap.of(RNG.normal(size=(3, 15_000)), classes=10).classes is None


def test_what_all_classes_share_is_a_part_rounded_to_the_nearest_step():
    steps = np.arange(-50, 51)[:, None]
    for classes in (2, 3, 7):
        assert np.abs(shared_steps(steps, classes) - steps / classes).max() <= 0.5
    # In integers: at sizes at which doubles are no longer exact, too.
    assert shared_steps(np.array([[2**60 + 1]]), 2).item() == 2**59 + 1


def test_a_centred_row_that_is_too_long_is_refused(monkeypatch):
    known = MomentMap.of(PUBLIC, classes=3)
    rows = known.unrounded(PUBLIC[:1])
    rows[0, 1:] = known.longest
    monkeypatch.setattr(MomentMap, "unrounded", lambda self, features: np.repeat(rows, len(features), axis=0))
    with pytest.raises(InvalidInput, match="bounded length"):
        known.steps(PUBLIC[:2])
