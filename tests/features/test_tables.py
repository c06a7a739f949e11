"""Columns as features, learned from the public table alone."""

import numpy as np
import pandas as pd
import plain_votes
import pytest

from ostrakon.features import TableFeatures
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


def test_a_second_fit_forgets_the_words_of_the_first():
    features = TableFeatures(rare=0.05)
    features.fit_transform(PUBLIC)
    other = PUBLIC.assign(work=["town", "farm"] * 50)
    assert np.array_equal(features.fit(other).transform(other), TableFeatures(rare=0.05).fit_transform(other))


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


def test_features_are_those_of_the_plain_way_to_the_last_bit():
    rng = np.random.default_rng(0)
    public = pd.DataFrame(
        {
            "whole": rng.integers(0, 5, 300),
            "same": np.zeros(300),
            "tail": np.r_[np.zeros(200), np.exp(rng.normal(size=100))],
            "none": np.full(300, np.nan),
            "word": rng.choice(np.array(["a", "b", None], object), 300),
            "truth": rng.random(300) < 0.2,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 300), unit="h"),
        }
    )
    features = TableFeatures().fit(public)
    tail = public["tail"].to_numpy()
    other = pd.DataFrame(
        {
            "whole": rng.integers(-3, 9, 2000) / 2,
            "same": rng.choice([0.0, -1.0, 1.0, np.nan], 2000),
            "tail": np.r_[
                tail, np.nextafter(tail, 9), np.nextafter(tail, -9), 1e300, -1e300, rng.exponential(size=1098)
            ],
            "none": rng.normal(size=2000),
            # 1, 1.0 and True are equal, and three words.
            "word": rng.choice(np.array([1, 1.0, True, "a", None, np.nan, pd.NA, "b", "1"], object), 2000),
            "truth": rng.choice(np.array([True, False, None, 1, 1.0, "True"], object), 2000),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(-99, 200, 2000), unit="h"),
        }
    )
    for table in (
        public,
        other,
        other[:1],
        other[:0].astype(other.dtypes),
        other.assign(word=pd.Categorical(["a"] * 2000)),
    ):
        made = features.transform(table)
        plain = plain_votes.table_features(features, table) if len(table) else np.empty((0, made.shape[1]))
        np.testing.assert_array_equal(made, plain)
    whole = features.transform(other)
    for at in range(0, 2000, 97):
        assert features.transform(other[at : at + 1]).tobytes() == whole[at : at + 1].tobytes()


def test_an_infinity_is_refused():
    with pytest.raises(InvalidInput, match=r"gain.*infinity"):
        TableFeatures().fit(PUBLIC).transform(PUBLIC.assign(gain=np.inf))
