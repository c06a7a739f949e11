"""Boosting in steps: the steps are quantiles of the rows, and it learns as scikit-learn's does."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from ostrakon.students.boosting import Boosting, quantized
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=600), RNG.integers(0, 5, 600), np.maximum(RNG.normal(size=600), 1.2)])
Y = (X[:, 0] + 0.5 * X[:, 1] + RNG.normal(size=600) > 1).astype(int)


def test_steps_are_quantiles_and_few_values_stay():
    X[0, 0] = np.nan
    given = X.copy()
    rows = quantized(X, 32)
    np.testing.assert_array_equal(X, given)
    np.testing.assert_array_equal(rows[:, 1], X[:, 1])
    assert np.isnan(rows[0, 0])
    values, often = np.unique(rows[1:, 0], return_counts=True)
    assert len(values) == 32
    assert 10 < often.min() <= often.max() < 30
    assert set(values) <= set(X[:, 0])
    order = np.argsort(X[1:, 0])
    assert (np.diff(rows[1:, 0][order]) >= 0).all()
    # Most rows are equal: the steps that are left are those of the others.
    assert 2 < len(np.unique(rows[:, 2])) < 32


def test_it_is_as_good_as_without_and_thresholds_hold_between_steps():
    options = {"max_bins": 32, "max_iter": 30, "max_leaf_nodes": 7, "random_state": 0}
    weights = RNG.random(600)
    ours = Boosting(**options).fit(X, Y, sample_weight=weights)
    theirs = HistGradientBoostingClassifier(**options).fit(X, Y, sample_weight=weights)
    assert abs(ours.score(X, Y) - theirs.score(X, Y)) < 0.03
    np.testing.assert_array_equal(ours.predict(X), ours.predict(quantized(X, 32)))


def test_its_steps_are_those_that_scikit_learn_finds_in_the_same_rows():
    options = {"max_bins": 32, "max_iter": 10, "max_leaf_nodes": 7, "random_state": 0, "early_stopping": False}
    weights, rows = RNG.uniform(0.1, 1, 600), quantized(X, 32)
    ours = Boosting(**options).fit(X, Y, sample_weight=weights)
    theirs = HistGradientBoostingClassifier(**options).fit(rows, Y, sample_weight=weights)
    assert ours.predict_proba(rows).tobytes() == theirs.predict_proba(rows).tobytes()


def test_rows_with_shares_are_examples_of_both_classes():
    shares = np.clip(0.5 + 0.3 * np.nan_to_num(X[:, 0]) + 0.1 * X[:, 1] - 0.2, 0.05, 0.95)
    weights = RNG.random(600)
    options = {"max_bins": 32, "max_iter": 30, "max_leaf_nodes": 7, "random_state": 0, "early_stopping": False}
    ours = Boosting(min_samples_leaf=10, **options)
    ours.fit_shares(X, shares, classes=np.array([3, 5]), sample_weight=weights)
    twice, both = np.concatenate([X, X]), np.repeat([3, 5], 600)
    theirs = Boosting(min_samples_leaf=20, **options)
    theirs.fit(twice, both, sample_weight=np.concatenate([(1 - shares) * weights, shares * weights]))
    assert ours.classes_.tolist() == theirs.classes_.tolist() == [3, 5]
    assert set(ours.predict(X)) == {3, 5}
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() < 0.02
    # Rounded shares would be learned as certain.
    certain = Boosting(min_samples_leaf=10, **options).fit(X, 3 + 2 * (shares > 0.5), sample_weight=weights)
    assert np.abs(certain.predict_proba(X) - theirs.predict_proba(X)).max() > 0.2


def test_rows_without_any_weight_are_refused():
    for weights in (np.zeros(600), np.full(600, np.nan)):
        with pytest.raises(InvalidInput, match="sample_weight must be above 0 for at least one row, got none"):
            Boosting().fit_shares(X, np.full(600, 0.5), classes=np.arange(2), sample_weight=weights)


def test_labels_that_are_numbers_are_no_shares():
    ours = Boosting(max_iter=5, random_state=0).fit(X, np.where(Y == 1, 3.0, 1.0))
    assert ours.classes_.tolist() == [1.0, 3.0]
    assert set(ours.predict(X)) == {1.0, 3.0}


def test_steps_end_where_those_of_scikit_learn_do():
    rows = quantized(np.column_stack([X, np.ones(600), np.where(np.arange(600) < 9, np.nan, X[:, 1])]), 32)
    options = {"max_bins": 32, "max_iter": 5, "random_state": 0}
    ours = Boosting(**options).fit(rows, Y)
    theirs = HistGradientBoostingClassifier(**options).fit(rows, Y)
    mine, its = vars(ours._bin_mapper), vars(theirs._bin_mapper)
    for name in ("n_bins_non_missing_", "is_categorical_", "missing_values_bin_idx_"):
        np.testing.assert_array_equal(mine[name], its[name])
    for steps, right in zip(mine["bin_thresholds_"], its["bin_thresholds_"], strict=True):
        np.testing.assert_array_equal(steps, right)
    assert ours.predict_proba(rows).tobytes() == theirs.predict_proba(rows).tobytes()
