"""Columns as features, learned from the public table alone."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.public import TableFeatures
from ostrakon.validation import InvalidInput

PUBLIC = pd.DataFrame(
    {
        "age": np.arange(100.0),
        "gain": np.r_[np.zeros(90), 10.0 ** np.arange(10)],
        "work": ["farm", "office"] * 49 + ["sea", None],
        "member": [True, False] * 50,
    }
)


def test_numbers_are_scaled_and_ranked_and_words_one_hot():
    made = TableFeatures(rare=0.05).fit_transform(PUBLIC)
    assert made.dtype == np.float32
    age, gain, age_rank, gain_rank = made[:, -4:].T
    np.testing.assert_allclose(age, (PUBLIC.age - PUBLIC.age.mean()) / PUBLIC.age.std(ddof=0), rtol=1e-5)
    np.testing.assert_allclose(age_rank, np.linspace(-1, 1, 100), atol=1e-5)
    assert gain.max() <= 8
    assert (np.diff(gain_rank[90:]) > 0).all()
    words = made[:, :-4]
    assert set(np.unique(words)) == {0.0, 1.0}
    assert (words.sum(axis=1) == 2).all()
    # sea and the missing one are rare: they share a column.
    assert np.array_equal(words[98, :3], words[99, :3])


def test_a_private_row_with_new_words_and_gaps_has_features_and_does_not_teach():
    features = TableFeatures(rare=0.05).fit(PUBLIC)
    before = features.transform(PUBLIC)
    odd = pd.DataFrame({"age": [np.nan, 1e9], "gain": [0.0, -1.0], "work": ["moon", "farm"], "member": [True, False]})
    made = features.transform(odd[["work", "member", "gain", "age"]])
    assert np.isfinite(made).all()
    assert np.abs(made).max() <= 8
    assert made[0, -2] == pytest.approx(0, abs=0.02)
    assert np.array_equal(features.transform(PUBLIC), before)


def test_moments_are_days_and_no_cell_decides_how_another_is_read():
    public = pd.DataFrame({"seen": pd.to_datetime(["2020-01-01", "2020-01-03", "2020-01-05"]), "w": ["7", "8", "7"]})
    features = TableFeatures(rare=0.01).fit(public)
    before = features.transform(public)
    assert before.shape == (3, 4)
    assert before[1, 2] == pytest.approx(0)
    odd = pd.DataFrame({"seen": pd.to_datetime(["2020-01-02 12:34:56"]), "w": [7.5]})
    np.testing.assert_array_equal(features.transform(pd.concat([public, odd]))[:3], before)
    numbers = pd.DataFrame({"seen": public["seen"], "w": [7, 8, 7]})
    np.testing.assert_array_equal(features.transform(numbers), before)
    np.testing.assert_array_equal(
        features.transform(numbers.assign(w=[7, 8, None])), [*before[:2], [0, 0, *before[2, 2:]]]
    )


def test_plain_arrays_and_missing_columns():
    assert TableFeatures().fit_transform(np.eye(5)).shape == (5, 10)
    with pytest.raises(InvalidInput, match="gain"):
        TableFeatures().fit(PUBLIC).transform(PUBLIC.drop(columns="gain"))
