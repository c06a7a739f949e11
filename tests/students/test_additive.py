"""The additive student: what it learns from exact counts, from noisy ones, and from noise alone."""

import itertools

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from ostrakon.features.cells import PairMap, one_hot
from ostrakon.students.additive import AdditiveLogistic, agreeing
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.row_law import law_of_rows, on_simplex, tree
from ostrakon.students.selection import Released
from ostrakon.teachers.cells import collect_cells
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS

SIZES = (4, 5, 3, 6)
RANGES = (True, False, False, True)
PAIRS = PairMap(sizes=SIZES, pairs=tuple(itertools.combinations(range(4), 2)), classes=2)


def people(records, seed=0, *, classes=2):
    """Four columns, of which the second repeats the first nine times of ten, and the classes of an additive model."""
    rng = np.random.default_rng(seed)
    first = rng.integers(4, size=records)
    rows = np.column_stack(
        [
            first,
            np.where(rng.random(records) < 0.9, first, rng.integers(5, size=records)),
            rng.integers(3, size=records),
            rng.integers(6, size=records),
        ]
    )
    score = 1.6 * (rows[:, 0] - 1.5) - 0.8 * (rows[:, 1] - 1.7) + 1.2 * (rows[:, 2] == 1) + 0.5 * (rows[:, 3] - 2.5)
    if classes == 2:
        return rows, (rng.random(records) < expit(score)).astype(np.int64)
    return rows, np.digitize(score + rng.logistic(size=records), [-1.5, 1.5])


def released(rows, labels, *, sigma2, sigma, seed=0, classes=2, pairs=PAIRS):
    rng = np.random.default_rng(seed)
    asked = {"sizes": SIZES, "classes": classes, "units": len(rows), "pairs": pairs}
    votes = collect_cells([(np.arange(len(rows)), rows, labels)], **asked)
    moments = None
    if pairs is not None:
        sums = votes.moments.counts / STEPS + rng.normal(0, sigma, votes.moments.counts.shape)
        moments = ReleasedMoments(sums=sums, sigma=sigma, records=len(rows), directions=pairs)
    counts = votes.counts + rng.normal(0, sigma2, votes.counts.shape)
    return Released(queries=np.arange(len(counts)), counts=counts, sigma2=sigma2, moments=moments)


def fitted(*args, **options):
    given = released(*args, **options)
    return given.fit_student(AdditiveLogistic(SIZES, RANGES), None)


@pytest.mark.parametrize("classes", [2, 3])
def test_with_hardly_any_noise_it_is_logistic_regression_on_cells(classes):
    rows, labels = people(40_000, classes=classes)
    pairs = PairMap(sizes=SIZES, pairs=PAIRS.pairs, classes=classes)
    found = fitted(rows, labels, sigma2=0.5, sigma=0.05, classes=classes, pairs=pairs)
    direct = LogisticRegression(C=1.0, max_iter=1000).fit(one_hot(rows, SIZES), labels)
    held, answers = people(20_000, seed=1, classes=classes)
    said, best = found.predict_proba(one_hot(held, SIZES)), direct.predict_proba(one_hot(held, SIZES))
    assert np.abs(said - best).mean() < 0.02
    accuracy = np.mean(said.argmax(axis=1) == answers)
    assert accuracy > np.mean(best.argmax(axis=1) == answers) - 0.005
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert found.classes_.tolist() == list(range(classes))


def test_pairs_tell_columns_that_repeat_each_other():
    rows, labels = people(40_000)
    with_pairs = fitted(rows, labels, sigma2=10.0, sigma=1.0)
    without = fitted(rows, labels, sigma2=10.0, sigma=1.0, pairs=None)
    held, answers = people(20_000, seed=1)
    with_pairs, without = (np.mean(each.predict(one_hot(held, SIZES)) == answers) for each in (with_pairs, without))
    assert with_pairs > without + 0.01


def test_from_noise_alone_it_learns_next_to_nothing():
    rows, labels = people(200)
    found = fitted(rows, labels, sigma2=5000.0, sigma=5000.0)
    assert np.isfinite(found.coef_).all()
    assert np.abs(found.coef_).max() < 0.5


def test_equal_releases_give_equal_students():
    rows, labels = people(2000)
    one, other = (fitted(rows, labels, sigma2=5.0, sigma=1.0) for _ in range(2))
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.intercept_.tobytes() == other.intercept_.tobytes()


def test_what_are_not_counts_of_cells_is_refused():
    student = AdditiveLogistic(SIZES, RANGES)
    with pytest.raises(InvalidInput, match="The student additive learns from noisy counts of cells"):
        student.fit(np.zeros((3, 18)), [0, 1, 0])
    for counts in (np.zeros((17, 2)), np.full((18, 2), np.nan)):
        with pytest.raises(InvalidInput, match="must be finite numbers for 18 cells"):
            student.fit_moments(None, Released(queries=np.arange(len(counts)), counts=counts, sigma2=1.0))


def test_the_law_of_rows_has_the_pairs_that_were_counted():
    rows, _ = people(40_000)
    counted = {pair: np.zeros((SIZES[pair[0]], SIZES[pair[1]])) for pair in PAIRS.pairs}
    for (first, second), cells in counted.items():
        np.add.at(cells, (rows[:, first], rows[:, second]), 1.0)
    columns = [np.bincount(rows[:, at], minlength=size).astype(float) for at, size in enumerate(SIZES)]
    made, weights = law_of_rows(columns, counted, noise=5.0, records=40_000, seed=0)
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    for (first, second), cells in counted.items():
        found = np.zeros_like(cells)
        np.add.at(found, (made[:, first], made[:, second]), 40_000 * weights)
        assert np.abs(found - cells).sum() < 0.01 * 40_000
    assert tree(counted, columns, 5.0)[0] == (0, 1), "the columns that repeat each other are joined first"


def test_columns_that_noise_alone_joins_stay_apart():
    rng = np.random.default_rng(0)
    counted = {(0, 1): rng.normal(0, 100.0, (4, 5))}
    assert tree(counted, [np.full(4, 25.0), np.full(5, 20.0)], 150.0) == []


def test_counts_are_moved_onto_what_is_known_of_them():
    np.testing.assert_allclose(on_simplex(np.array([5.0, 3.0, -4.0]), 6.0), [4, 2, 0], atol=1e-4)
    assert on_simplex(np.array([-5.0, -5.0]), 2.0).tolist() == [1.0, 1.0]
    counts, totals = agreeing(np.arange(36, dtype=float).reshape(18, 2), SIZES, 160.0)
    assert totals.sum() == pytest.approx(160)
    for part in np.split(counts, np.cumsum(SIZES)[:-1]):
        np.testing.assert_allclose(part.sum(axis=0), totals)


def test_neighbouring_ranges_have_similar_weights():
    rows, labels = people(400)
    given = released(rows, labels, sigma2=40.0, sigma=1.0)
    rough, smooth = (AdditiveLogistic(SIZES, RANGES, smoothness=each).fit_moments(None, given) for each in (0.0, 50.0))
    first, words = slice(0, 3), slice(4, 9)
    assert np.abs(np.diff(smooth.coef_[0, first])).max() < 0.3 * np.abs(np.diff(rough.coef_[0, first])).max()
    assert np.ptp(smooth.coef_[0, words]) > 0.5 * np.ptp(rough.coef_[0, words]), "categories have no order"
    for wrong in ({"penalty": 0.0}, {"smoothness": -1.0}):
        with pytest.raises(InvalidInput, match="must be"):
            AdditiveLogistic(SIZES, RANGES, **wrong).fit_moments(None, given)
