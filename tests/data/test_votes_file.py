"""Votes from files: counts or predictions, never guessed."""

import numpy as np
import pandas as pd
import pytest

from ostrakon.data.votes_file import load_votes
from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, Votes

RNG = np.random.default_rng(0)
PREDICTIONS = RNG.integers(0, 4, (30, 25))
EXPECTED = Votes.from_predictions(PREDICTIONS, classes=4)
COUNTS = EXPECTED.counts


def save(path, array, **options):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, **options or {"votes": array})
    elif path.suffix == ".csv":
        pd.DataFrame(array).to_csv(path, **{"index": False, **options})
    else:
        pd.DataFrame(array).rename(columns=str).to_parquet(path)
    return path


@pytest.mark.parametrize("array", [COUNTS, COUNTS.astype(float), COUNTS.astype(np.uint8), PREDICTIONS])
@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.csv", "v.parquet"])
def test_every_format_and_both_kinds(tmp_path, name: str, array) -> None:
    assert load_votes(save(tmp_path / name, array)) == EXPECTED


@pytest.mark.parametrize("options", [{"index": True}, {"header": False}, {"index": True, "index_label": "query"}])
def test_csv_with_and_without_header_and_index(tmp_path, options) -> None:
    for array in (COUNTS, PREDICTIONS):
        assert load_votes(save(tmp_path / "v.csv", array, **options)) == EXPECTED
    named = pd.DataFrame(COUNTS, columns=["cat", "dog", "owl", "yak"])
    assert load_votes(save(tmp_path / "v.csv", named)) == EXPECTED


def test_two_classes_with_pandas_own_header(tmp_path) -> None:
    counts = np.array([[20, 5], [0, 25], [12, 13]])
    for header in (True, False):
        assert load_votes(save(tmp_path / "v.csv", counts, header=header)) == Votes(counts)


def test_named_classes(tmp_path) -> None:
    words = np.array(["cat", "dog", "owl", "yak"])[PREDICTIONS]
    for options in ({}, {"header": False}):
        assert load_votes(save(tmp_path / "v.csv", words, **options)) == EXPECTED
    assert load_votes(save(tmp_path / "v.parquet", words), classes=4, teachers=25) == EXPECTED
    with pytest.raises(InvalidInput, match="names 4 classes"):
        load_votes(tmp_path / "v.csv", classes=3)
    with pytest.raises(InvalidInput, match="must hold counts"):
        load_votes(tmp_path / "v.csv", kind="counts")


def test_published_votes(data_dir) -> None:
    mnist = load_votes(data_dir / "votes" / "mnist_250_teachers.npy")
    assert (mnist.queries, mnist.classes, mnist.teachers) == (9000, 10, 250)
    adult = load_votes(data_dir / "votes" / "adult_250_teachers.npy")
    assert (adult.queries, adult.classes, adult.teachers) == (16281, 2, 250)
    with pytest.raises(InvalidInput, match="one row per query"):
        load_votes(data_dir / "votes" / "mnist_250_student_labels_lap_20.npy")


def test_counts_of_teachers_who_vote_on_few_queries_need_not_sum_alike(tmp_path) -> None:
    counts = np.array([[3, 9], [12, 1], [0, 0]])
    file = save(tmp_path / "v.npy", counts)
    votes = load_votes(file, teachers=40, max_contributions=1)
    assert isinstance(votes, BoundedVotes)
    assert (votes.counts == counts).all()
    with pytest.raises(
        InvalidInput, match=r"counts \(rows of at most as many votes as there are teachers, whose number is"
    ):
        load_votes(file, max_contributions=1)
    with pytest.raises(InvalidInput, match=r"neither counts \(rows of one sum\)"):
        load_votes(file, teachers=40)


def test_predictions_with_a_wrong_number_of_teachers_do_not_become_counts(tmp_path) -> None:
    file = tmp_path / "predictions.csv"
    predictions = np.random.default_rng(0).integers(0, 3, (20, 12))
    np.savetxt(file, predictions, fmt="%d", delimiter=",")
    for more in ({"max_contributions": 2}, {"abstentions": True}):
        with pytest.raises(InvalidInput, match="can be both counts and predictions"):
            load_votes(file, teachers=40, **more)
        with pytest.raises(InvalidInput, match="teachers"):
            load_votes(file, teachers=40, kind="predictions", **more)
    assert load_votes(file, teachers=12, kind="predictions", abstentions=True).queries == 20
    # Counts that no prediction could be need no word.
    np.savetxt(file, [[30, 2, 8], [5, 0, 1]], fmt="%d", delimiter=",")
    assert load_votes(file, teachers=40, max_contributions=2).counts.tolist() == [[30, 2, 8], [5, 0, 1]]


def test_what_can_be_both_is_asked_about(tmp_path) -> None:
    file = save(tmp_path / "v.npy", np.ones((5, 4), int))
    with pytest.raises(InvalidInput, match="can be both counts and predictions; their kind must be given"):
        load_votes(file)
    assert load_votes(file, kind="counts") == Votes(np.ones((5, 4), int))
    assert load_votes(file, kind="predictions").teachers == 4
    # What is known of the ensemble decides as well.
    turned = save(tmp_path / "t.npy", COUNTS.T)
    assert load_votes(turned, kind="predictions").teachers == 30
    ones = save(tmp_path / "w.npy", np.ones((5, 6), int))
    assert load_votes(ones, classes=2).teachers == 6
    assert load_votes(save(tmp_path / "c.npz", None, counts=np.ones((5, 4), int))) == Votes(np.ones((5, 4), int))


def test_abstentions_are_declared(tmp_path) -> None:
    fewer = COUNTS.copy()
    fewer[3] -= fewer[3] > 0
    file = save(tmp_path / "v.npy", fewer)
    with pytest.raises(InvalidInput, match="neither counts"):
        load_votes(file)
    assert load_votes(file, teachers=25, abstentions=True) == Votes(fewer, teachers=25, abstentions=True)
    silent = PREDICTIONS.copy()
    silent[0, :5] = -1
    expected = Votes.from_predictions(silent, classes=4, abstain=-1)
    assert load_votes(save(tmp_path / "s.npy", silent), abstentions=True, kind="predictions") == expected
    words = np.array(["cat", "dog", "owl", "yak", None], dtype=object)[silent]
    file = save(tmp_path / "s.csv", words)
    assert load_votes(file, abstentions=True) == expected
    with pytest.raises(InvalidInput, match="5 empty cells"):
        load_votes(file)


@pytest.mark.parametrize(
    ("array", "options", "sentence"),
    [
        (np.full((3, 3), np.nan), {}, "must be whole, got nan"),
        (np.full((3, 3), 0.5), {}, "must be whole, got 0.5"),
        (np.full((3, 3), np.inf), {"kind": "counts"}, "inf"),
        (np.full((3, 3), -1), {}, "at least 0, got -1; -1 stands for no vote where abstentions are declared"),
        (np.full((3, 3), -3), {"abstentions": True, "teachers": 9}, "at least 0, got -3"),
        (COUNTS.T, {}, r"\(4, 30\), and each of its 30 columns adds up to 25: .* \(queries, classes\), \(30, 4\)"),
        (PREDICTIONS.T, {"teachers": 25}, r"a row per query, a column per teacher\), .* shape is \(25, 30\)"),
        (np.full((3, 3), -1), {"kind": "counts"}, "at least 0"),
        (np.arange(6), {}, "one row per query"),
        (np.empty((0, 3), int), {}, "one row per query"),
        (COUNTS, {"teachers": 24}, "neither .* with teachers=24"),
        (COUNTS, {"classes": 5}, "neither .* with classes=5"),
        (COUNTS, {"classes": 5, "kind": "counts"}, "4 columns of counts"),
        (PREDICTIONS, {"classes": 3}, "neither"),
        (PREDICTIONS, {"teachers": 26, "kind": "predictions"}, "25 columns"),
        (PREDICTIONS, {"classes": 3, "kind": "predictions"}, "classes from 0 to 2"),
        (PREDICTIONS.T, {"teachers": 25, "kind": "predictions"}, r"\(queries, teachers\), and has \(25, 30\)"),
        (COUNTS, {"kind": "histograms"}, "kind must be one of"),
        (COUNTS, {"teachers": True}, "teachers must be"),
        (COUNTS, {"classes": 1.5}, "classes must be"),
    ],
)
def test_bad_votes_are_refused_in_one_sentence(tmp_path, array, options, sentence) -> None:
    with pytest.raises(InvalidInput, match=sentence) as caught:
        load_votes(save(tmp_path / "v.npy", array), **options)
    assert "\n" not in str(caught.value)


def test_bad_files_are_refused(tmp_path) -> None:
    with pytest.raises(InvalidInput, match="There is no file"):
        load_votes(tmp_path / "v.npy")
    (tmp_path / "v.pkl").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"must be a \.npy"):
        load_votes(tmp_path / "v.pkl")
    save(tmp_path / "v.npz", None, one=COUNTS, two=COUNTS)
    with pytest.raises(InvalidInput, match="holds one, two"):
        load_votes(tmp_path / "v.npz")
    whole = save(tmp_path / "w.npz", COUNTS).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:200])
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    for name in ("cut.npz", "cut.npy"):
        with pytest.raises(InvalidInput, match="cannot be read as a NumPy file"):
            load_votes(tmp_path / name)
    np.save(tmp_path / "object.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="allow_pickle"):
        load_votes(tmp_path / "object.npy")
