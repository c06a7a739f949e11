"""One record moves one teacher, and memory and DuckDB agree on which."""

import hmac

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from ostrakon.data.identity import identity_numbers, require_users
from ostrakon.data.partition import assign_teachers, key_from_seed, new_key, random_partition
from ostrakon.data.sharding import partition_table
from ostrakon.data.sources import open_table
from ostrakon.statements.adjacency import adjacency
from ostrakon.validation import InvalidInput

KEY = bytes(range(32))


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.normal(size=n),
            "city": rng.choice(["Ulm", "Bonn", "Köln"], n),
            "user": rng.integers(0, 50, n),
        }
    )


def test_the_teacher_is_hmac_sha256_of_the_identity() -> None:
    names = [f"person {number}" for number in range(200)]
    expected = [int(hmac.new(KEY, name.encode(), "sha256").hexdigest()[:15], 16) % 37 for name in names]
    assert assign_teachers(names, 37, key=KEY).tolist() == expected


def test_removing_and_adding_a_record_leaves_every_other_where_it_was() -> None:
    frame = people()
    before = assign_teachers(frame, 25, key=KEY)
    without = assign_teachers(frame.drop(index=17), 25, key=KEY)
    np.testing.assert_array_equal(np.delete(before, 17), without)
    shuffled = np.random.default_rng(1).permutation(len(frame))
    np.testing.assert_array_equal(before[shuffled], assign_teachers(frame.iloc[shuffled], 25, key=KEY))


@pytest.mark.parametrize("first", [0, 10**15, 2**53 - 20, 2**53 + 1, 2**60])
def test_a_user_of_text_moves_no_numbered_one(first: int) -> None:
    # Beside one text, NumPy turns all numbers into text.
    numbers = [first + place for place in range(100)]
    before = assign_teachers(np.asarray(numbers), 25, key=KEY)
    for beside in ([*numbers, "x"], np.array([*numbers, "x"], object)):
        np.testing.assert_array_equal(before, assign_teachers(np.asarray(beside), 25, key=KEY)[:-1])
        assert identity_numbers(np.asarray(beside)).tolist() == list(range(101))


def test_users_whose_type_one_of_them_could_change_are_refused() -> None:
    for users in ([1, 2], [2**60, 7], [7.0, 8.0], ["a", "b"], [1, "b"], np.array([1, "b"], object)):
        require_users(np.asarray(users))
    moments = np.array(["2020-01-01", "2021-01-01"], "datetime64[s]")
    for users in ([True, False], [2.0**60, 7.0], [0.5, 1.0], [float("inf"), 1.0], moments, [b"a", b"b"]):
        with pytest.raises(InvalidInput, match="users must be text or whole numbers"):
            require_users(np.asarray(users))


@pytest.mark.parametrize("strange", ["abc", "1e400", "", "nan", "9" * 30, "3,5", "\x1f"])
def test_a_strange_cell_in_one_record_moves_no_other(tmp_path, strange: str) -> None:
    # A reader that guesses types from all rows would turn 1 into 1.0 or "1" everywhere.
    frame = people().astype(str)
    plain, odd = tmp_path / "plain.csv", tmp_path / "odd.csv"
    frame.to_csv(plain, index=False)
    added = pd.DataFrame({"age": [strange], "income": ["0.5"], "city": ["Ulm"], "user": ["3"]})
    pd.concat([frame, added]).to_csv(odd, index=False)
    one, other = (assign_teachers(open_table(file).read(), 25, key=KEY) for file in (plain, odd))
    np.testing.assert_array_equal(one, other[:-1])
    before = partition_table(open_table(plain), tmp_path / "before", 25, key=KEY).sizes
    after = partition_table(open_table(odd), tmp_path / "after", 25, key=KEY).sizes
    assert np.abs(after - before).sum() == 1


@pytest.mark.parametrize("by", [None, "user", "city"])
def test_memory_csv_and_parquet_agree(tmp_path, by: str | None) -> None:
    frame = people()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv.gz", index=False)
    frame.to_parquet(tmp_path / "c.parquet")
    expected = assign_teachers(frame if by is None else frame[by], 20, key=KEY)
    for name in ("a.csv", "b.csv.gz", "c.parquet"):
        table = open_table(tmp_path / name)
        read = table.read()
        np.testing.assert_array_equal(assign_teachers(read if by is None else read[by], 20, key=KEY), expected)
        shards = partition_table(table, tmp_path / f"shards of {name}", 20, key=KEY, by=by)
        np.testing.assert_array_equal(shards.sizes, np.bincount(expected, minlength=20))
        for teacher in np.unique(expected)[:3]:
            held = sorted(float(cell) for cell in shards.read(int(teacher))["income"])
            assert held == sorted(frame["income"][expected == teacher])


def test_equal_values_are_one_identity_whatever_their_form() -> None:
    forms = [
        [7, 8, 9],
        np.array([7, 8, 9], np.int8),
        np.array([7, 8, 9], np.float32),
        ["7", " 8", "9.0 "],
        pd.Series([7, "8", 9.0], dtype=object),
        pd.Series(["7", "8", "9"], dtype="category"),
        pd.Series([7, 8, 9], index=[5, 6, 7]),
    ]
    expected = assign_teachers(forms[0], 1000, key=KEY)
    for form in forms:
        np.testing.assert_array_equal(assign_teachers(form, 1000, key=KEY), expected)


def test_missing_values_and_zeros_have_one_form() -> None:
    teachers = assign_teachers(pd.DataFrame({"a": [None, np.nan, ""], "b": [1, 1, 1]}), 10_000, key=KEY)
    assert len(set(teachers)) == 1
    zeros = assign_teachers(np.array([[0.0, 1.0], [-0.0, 1.0]]), 10_000, key=KEY)
    assert zeros[0] == zeros[1]


def test_long_numbers_are_not_merged() -> None:
    users = [10**17 + offset for offset in range(100)]
    assert len(set(assign_teachers(users, 10**6, key=KEY))) > 95
    assert len(set(assign_teachers([str(user) for user in users], 10**6, key=KEY))) > 95


def test_cells_do_not_run_into_each_other() -> None:
    teachers = assign_teachers(pd.DataFrame({"a": ["xy", "x", None], "b": ["z", "yz", "xyz"]}), 10**6, key=KEY)
    assert len(set(teachers)) == 3


def test_duplicates_stay_together_and_users_too() -> None:
    frame = people()
    twice = assign_teachers(pd.concat([frame, frame]), 50, key=KEY)
    np.testing.assert_array_equal(twice[: len(frame)], twice[len(frame) :])
    by_user = pd.Series(assign_teachers(frame["user"], 50, key=KEY)).groupby(frame["user"]).nunique()
    assert (by_user == 1).all()


def test_images_and_sparse_rows_have_identities() -> None:
    images = np.random.default_rng(0).random((60, 8, 8)).astype(np.float32)
    teachers = assign_teachers(images, 1000, key=KEY)
    np.testing.assert_array_equal(teachers, assign_teachers(images.astype(np.float64), 1000, key=KEY))
    np.testing.assert_array_equal(teachers[1:], assign_teachers(images[1:], 1000, key=KEY))
    rows = sparse.random(60, 30, 0.3, format="csr", random_state=0)
    np.testing.assert_array_equal(
        assign_teachers(rows, 1000, key=KEY)[1:], assign_teachers(rows.tocsc()[1:], 1000, key=KEY)
    )


def test_teachers_are_equally_likely_and_the_key_decides() -> None:
    sizes = np.bincount(assign_teachers(np.arange(100_000), 100, key=KEY), minlength=100)
    assert stats.chisquare(sizes).pvalue > 1e-4
    one, other = (assign_teachers(np.arange(1000), 10, key=key) for key in (new_key(), new_key()))
    assert 0.02 < (one == other).mean() < 0.2
    assert key_from_seed(3) == key_from_seed(3) != key_from_seed(4)


@pytest.mark.parametrize("n_teachers", [0, -1, True, 2.0, "3", None, float("nan")])
def test_the_number_of_teachers_is_checked(n_teachers) -> None:
    with pytest.raises(InvalidInput, match="n_teachers"):
        assign_teachers([1, 2, 3], n_teachers, key=KEY)
    with pytest.raises(InvalidInput, match="n_teachers"):
        random_partition(10, n_teachers, seed=0)


@pytest.mark.parametrize("key", [b"short", "x" * 32, None, 5, bytes(65)])
def test_the_key_is_checked_and_never_shown(key) -> None:
    with pytest.raises(InvalidInput, match="key must be") as caught:
        assign_teachers([1, 2, 3], 2, key=key)
    assert "xxxx" not in str(caught.value)


@pytest.mark.parametrize("identities", [5, np.empty((3, 0)), np.array([[["a"]]])])
def test_identities_need_rows(identities) -> None:
    with pytest.raises(InvalidInput, match="identities"):
        assign_teachers(identities, 2, key=KEY)


def test_random_partition_is_balanced_and_repeatable() -> None:
    teachers = random_partition(1003, 10, seed=4)
    assert sorted(np.bincount(teachers)) == [100] * 7 + [101] * 3
    np.testing.assert_array_equal(teachers, random_partition(1003, 10, seed=4))
    assert (teachers != random_partition(1003, 10, seed=5)).any()
    with pytest.raises(InvalidInput, match="at most 9"):
        random_partition(9, 10, seed=0)


def test_the_statement_says_what_a_neighbour_is() -> None:
    assert "'patient'" in adjacency(by="patient")
    assert "removing one and adding one" in adjacency()
    assert "differ in the content of one" in adjacency(fixed=True)
