"""An ensemble of any classifier: each teacher sees its own rows alone, and is never trained twice."""

import errno
import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from ostrakon.data.files import CannotWrite
from ostrakon.data.partition import random_partition
from ostrakon.estimators import make_estimator
from ostrakon.teachers import ArrayShards, TeacherStore, collect_votes, train_teachers
from ostrakon.teachers.one_teacher import fingerprint_of, seeded
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes

ROWS, TEACHERS, CLASSES = 600, 12, 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, ROWS)
    X = rng.normal(size=(ROWS, 5)) + 2 * np.eye(5)[y]
    pool_y = rng.integers(0, CLASSES, 80)
    pool = rng.normal(size=(80, 5)) + 2 * np.eye(5)[pool_y]
    return X, y, random_partition(ROWS, TEACHERS, seed=1), pool, pool_y


def train(data, estimator=None, **options):
    X, y, assignment, *_ = data
    settings = {"n_teachers": TEACHERS, "classes": CLASSES, "n_jobs": 1, **options}
    estimator = LogisticRegression() if estimator is None else estimator
    return train_teachers(estimator, X, y, assignment, **settings)


class Counting(ClassifierMixin, BaseEstimator):
    """Nearest neighbour that leaves a mark in a folder each time it is fitted."""

    def __init__(self, folder=None, random_state=None, stop_after=None) -> None:
        self.folder = folder
        self.random_state = random_state
        self.stop_after = stop_after

    def fit(self, X, y):
        done = len(os.listdir(self.folder))
        if self.stop_after is not None and done >= self.stop_after:
            raise KeyboardInterrupt
        Path(self.folder, f"{done}").write_text(str(self.random_state))
        self.model_ = KNeighborsClassifier(1).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


@pytest.fixture
def counting(tmp_path):
    (tmp_path / "marks").mkdir()
    return Counting(folder=str(tmp_path / "marks"))


def marks(counting: Counting) -> int:
    return len(os.listdir(counting.folder))


def test_each_teacher_is_the_estimator_on_its_own_rows(data) -> None:
    X, y, assignment, pool, pool_y = data
    predictions = train(data).predict(pool)
    assert predictions.shape == (80, TEACHERS)
    for teacher in range(TEACHERS):
        rows = assignment == teacher
        expected = LogisticRegression(random_state=0).fit(X[rows], y[rows]).predict(pool)
        np.testing.assert_array_equal(predictions[:, teacher], expected)
    plurality = Votes.from_predictions(predictions, classes=CLASSES).plurality
    assert (plurality == pool_y).mean() > 0.8 > (predictions == pool_y[:, None]).mean() - 0.2


def test_changing_one_teachers_rows_changes_no_other_column(data) -> None:
    X, y, assignment, pool, _ = data
    before = train(data, RandomForestClassifier(5)).predict(pool)
    changed, labels = X.copy(), y.copy()
    rows = assignment == 4
    changed[rows] = 7 - changed[rows]
    labels[rows] = (labels[rows] + 1) % CLASSES
    after = train((changed, labels, assignment), RandomForestClassifier(5)).predict(pool)
    different = (before != after).any(axis=0)
    assert different[4]
    assert different.sum() == 1


@pytest.mark.parametrize("estimator", [RandomForestClassifier(5), HistGradientBoostingClassifier(max_iter=3)])
def test_equal_seeds_give_equal_teachers_whatever_the_workers(data, estimator, tmp_path) -> None:
    pool = data[3]
    alone = train(data, estimator, seed=5).predict(pool)
    np.testing.assert_array_equal(alone, train(data, estimator, seed=5, n_jobs=2).predict(pool))
    np.testing.assert_array_equal(
        alone, train(data, estimator, seed=5, store=TeacherStore(tmp_path / "t")).predict(pool)
    )


def test_seeds_differ_between_teachers_and_runs_and_reach_every_part() -> None:
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(random_state=3))
    states = {
        seeded(forest, seed=seed, index=index).get_params()["randomforestclassifier__random_state"]
        for seed in (0, 1)
        for index in (0, 1)
    }
    assert len(states) == 4
    assert all(0 <= state < 2**31 for state in states)
    assert (
        seeded(LogisticRegression(), seed=1, index=2).random_state
        == seeded(LogisticRegression(), seed=1, index=2).random_state
    )


def test_labels_of_any_kind_and_a_class_list(data) -> None:
    X, y, assignment, pool, _ = data
    words = np.array(["cat", "dog", "owl"])
    teachers = train_teachers(
        LogisticRegression(),
        X,
        words[y],
        assignment,
        n_teachers=TEACHERS,
        classes=["owl", "dog", "cat", "yak"],
        n_jobs=1,
    )
    np.testing.assert_array_equal(teachers.predict(pool), 2 - train(data).predict(pool))
    assert teachers.classes.tolist() == ["owl", "dog", "cat", "yak"]
    assert collect_votes(teachers, pool).counts.shape == (80, 4)


@pytest.mark.parametrize("form", ["frame", "sparse", "list"])
def test_rows_of_any_form(data, form, tmp_path) -> None:
    X, y, assignment, pool, _ = data
    wrap = {"frame": pd.DataFrame, "sparse": sparse.csr_matrix, "list": np.ndarray.tolist}[form]
    store = TeacherStore(tmp_path / "t")
    for _ in range(2):
        teachers = train((wrap(X), y, assignment), store=store)
        np.testing.assert_array_equal(teachers.predict(wrap(pool)), train(data).predict(pool))


def test_a_label_only_one_teacher_knows(data) -> None:
    X, y, assignment, pool, _ = data
    labels = y.copy()
    labels[np.flatnonzero(assignment == 7)[0]] = 3
    teachers = train((X, labels, assignment), KNeighborsClassifier(1), classes=4)
    predictions = teachers.predict(X[labels == 3])
    assert predictions[0, 7] == 3
    assert (np.delete(predictions, 7, axis=1) < 3).all()
    assert teachers.model(7).known.tolist() == [0, 1, 2, 3]
    assert collect_votes(teachers, pool).classes == 4


def test_a_teacher_of_one_class_says_it_and_gaps_in_labels_do_not_matter(data) -> None:
    X, y, assignment, pool, _ = data

    class Strict(KNeighborsClassifier):
        def fit(self, X, y):
            assert sorted(set(y)) == list(range(len(set(y))))
            return super().fit(X, y)

    labels = y.copy()
    labels[assignment == 2] = 1
    labels[(assignment == 3) & (y == 1)] = 2
    predictions = train((X, labels, assignment), Strict(1)).predict(pool)
    assert set(predictions[:, 2]) == {1}
    assert set(predictions[:, 3]) == {0, 2}


def test_empty_shards_are_refused_or_abstain(data, tmp_path) -> None:
    X, y, assignment, pool, _ = data
    moved = np.where(assignment == 5, 6, assignment)
    with pytest.raises(InvalidInput, match=r"1 of 12 teachers have no rows \(teacher 5 is the first\)"):
        train((X, y, moved))
    for store in (None, TeacherStore(tmp_path / "t")):
        teachers = train((X, y, moved), empty="abstain", store=store)
        assert np.flatnonzero((teachers.predict(pool) == -1).any(axis=0)).tolist() == [5]
        assert set(teachers.predict(pool)[:, 5]) == {-1}
        votes = collect_votes(teachers, pool, abstentions=True)
        assert (votes.teachers, set(votes.abstained)) == (TEACHERS, {1})
        with pytest.raises(InvalidInput, match="got -1"):
            collect_votes(teachers, pool)
    with pytest.raises(InvalidInput, match="empty must be"):
        train(data, empty="ignore")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_teachers": ROWS + 1}, "at most 600, the number of private rows, got 601"),
        ({"n_teachers": 3}, "integers from 0 to 2"),
        ({"n_teachers": True}, "n_teachers must be"),
        ({"classes": 2}, "label .*2.*not among the classes"),
        ({"classes": ["a", "b"]}, "y must hold labels like|not among"),
        ({"classes": [1, 1, 2]}, "different labels"),
        ({"classes": True}, "classes must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": None}, "seed must be"),
        ({"assignment": np.zeros(5, int)}, "one entry per row"),
        ({"assignment": np.full(ROWS, 0.5)}, "integers from 0"),
        ({"assignment": np.full(ROWS, -1)}, "integers from 0"),
        ({"y": np.zeros((ROWS, 2))}, r"shape \(rows,\)"),
        ({"y": np.full(ROWS, np.nan)}, "nan"),
        ({"estimator": LogisticRegression}, "instance such as LogisticRegression"),
        ({"estimator": object()}, "must have fit, predict, get_params"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(data, change, sentence) -> None:
    X, y, assignment, *_ = data
    arguments = {"estimator": LogisticRegression(), "y": y, "assignment": assignment, **change}
    options = {"n_teachers": TEACHERS, "classes": CLASSES, "seed": 0, **change}
    with pytest.raises(InvalidInput, match=sentence) as caught:
        train_teachers(
            arguments["estimator"],
            X,
            arguments["y"],
            arguments["assignment"],
            n_jobs=1,
            **{name: options[name] for name in ("n_teachers", "classes", "seed")},
        )
    assert "\n" not in str(caught.value)


def test_a_teacher_that_fails_or_lies_is_named(data) -> None:
    X, y, assignment, pool, _ = data
    broken = X.copy()
    broken[assignment == 9] = np.nan
    with pytest.raises(InvalidInput, match="Teacher 9 could not be trained on its 50 rows"):
        train((broken, y, assignment))

    class Liar(KNeighborsClassifier):
        def predict(self, X):
            return np.full(len(X), 17)

    with pytest.raises(InvalidInput, match="labels that it was not given"):
        train(data, Liar()).predict(pool)


def test_workers_use_one_thread_each(data) -> None:
    class Threads(KNeighborsClassifier):
        def fit(self, X, y):
            assert all(pool["num_threads"] == 1 for pool in threadpool_info())
            return super().fit(X, y)

    train(data, Threads())


def test_progress_is_reported(data) -> None:
    told: list[tuple[int, int]] = []
    teachers = train(data, progress=lambda done, total: told.append((done, total)))
    assert told == [(done, TEACHERS) for done in range(1, TEACHERS + 1)]
    teachers.predict(data[3], progress=lambda done, total: told.append((done, total)))
    assert len(told) == 2 * TEACHERS


def test_a_finished_run_trains_and_asks_nobody_twice(data, tmp_path, counting) -> None:
    store, pool = TeacherStore(tmp_path / "t"), data[3]
    first = train(data, counting, store=store).predict(pool)
    assert marks(counting) == TEACHERS
    again = train(data, counting, store=TeacherStore(tmp_path / "t"))
    assert marks(counting) == TEACHERS
    for file in (tmp_path / "t").glob("teachers-*.bin"):
        file.unlink()
    np.testing.assert_array_equal(again.predict(pool), first)


def test_an_interrupted_run_goes_on(data, tmp_path, counting) -> None:
    stopping = Counting(folder=counting.folder, stop_after=5)
    # What the estimator is must not change between the two, so both have the parameter.
    with pytest.raises(KeyboardInterrupt):
        train(data, stopping, store=TeacherStore(tmp_path / "t"))
    assert len(list((tmp_path / "t").glob("teachers-*.bin"))) == 5
    (tmp_path / "more").mkdir()
    for mark in os.listdir(counting.folder):
        os.rename(Path(counting.folder, mark), tmp_path / "more" / mark)
    stopping.stop_after = 5
    with pytest.raises(KeyboardInterrupt):
        train(data, stopping, store=TeacherStore(tmp_path / "t"))
    assert len(list((tmp_path / "t").glob("teachers-*.bin"))) == 10


def test_a_damaged_teacher_is_trained_again(data, tmp_path, counting) -> None:
    store = TeacherStore(tmp_path / "t")
    teachers, pool = train(data, counting, store=store), data[3]
    expected = teachers.predict(pool)
    whole = store.file(3).read_bytes()
    for damage in (whole[:-1], whole[:-7] + b"x" * 7, whole[:30], b"", bytes([whole[0] ^ 1]) + whole[1:]):
        store.file(3).write_bytes(damage)
        with pytest.raises(InvalidInput, match="missing or damaged"):
            teachers.kept[3].models()
        before = marks(counting)
        train(data, counting, store=store)
        assert marks(counting) == before + 1
        assert store.file(3).read_bytes() == whole
    key = fingerprint_of(pool)
    kept = store.predictions_file(3, key).read_bytes()
    store.predictions_file(3, key).write_bytes(kept[:-1])
    assert teachers.kept[3].predictions(key) is None
    np.testing.assert_array_equal(teachers.predict(pool), expected)


def test_teachers_that_were_exchanged_are_neither_read_nor_their_answers_taken(data, tmp_path) -> None:
    X, y, assignment, pool = data[:4]
    mine, others = TeacherStore(tmp_path / "t"), TeacherStore(tmp_path / "others")
    teachers, foreign = train(data, store=mine), train((X, (y + 1) % 3, assignment), store=others)
    foreign.predict(pool)
    key = fingerprint_of(pool)
    for piece in range(len(teachers.pieces)):
        mine.file(piece).write_bytes(others.file(piece).read_bytes())
        mine.predictions_file(piece, key).parent.mkdir(exist_ok=True)
        mine.predictions_file(piece, key).write_bytes(others.predictions_file(piece, key).read_bytes())
    assert teachers.kept[0].predictions(key) is None
    with pytest.raises(InvalidInput, match="was replaced during the run"):
        teachers.predict(pool)
    with pytest.raises(InvalidInput, match="trained on other rows"):
        train(data, store=mine)


def test_a_store_of_another_run_is_refused(data, tmp_path) -> None:
    X, y, assignment, *_ = data
    store = TeacherStore(tmp_path / "t")
    train(data, store=store)
    for change in ({"seed": 1}, {"classes": 4}, {"estimator": LogisticRegression(C=2)}):
        with pytest.raises(InvalidInput, match="teachers of another run") as caught:
            train(data, store=store, **change)
        assert str(tmp_path) in str(caught.value)
    changed = X.copy()
    changed[3, 0] += 1
    with pytest.raises(InvalidInput, match="trained on other rows"):
        train((changed, y, assignment), store=store)
    with pytest.raises(InvalidInput, match="trained on other rows"):
        train((X, (y + 1) % CLASSES, assignment), store=store)
    # Without its list of settings, every teacher still says with which it was trained.
    (tmp_path / "t" / "specification.json").write_text("{")
    with pytest.raises(InvalidInput, match="with other settings"):
        train(data, store=store, seed=1)
    (tmp_path / "t" / "specification.json").unlink()
    train(data, store=store)


def test_a_teacher_under_anothers_name_is_trained_again(data, tmp_path) -> None:
    store = TeacherStore(tmp_path / "t")
    expected = train(data, store=store).predict(data[3])
    right = store.file(4).read_bytes()
    shutil.copy(store.file(3), store.file(4))
    key = fingerprint_of(data[3])
    shutil.copy(store.predictions_file(3, key), store.predictions_file(4, key))
    again = train(data, store=TeacherStore(tmp_path / "t"))
    assert store.file(4).read_bytes() == right
    np.testing.assert_array_equal(again.predict(data[3]), expected)
    # And the predictions of a teacher of other rows that had the same name.
    other = TeacherStore(tmp_path / "other")
    X, y, assignment, *_ = data
    train((X + 1, y, assignment), store=other).predict(data[3])
    shutil.copy(other.predictions_file(4, key), store.predictions_file(4, key))
    np.testing.assert_array_equal(again.predict(data[3]), expected)


def test_a_store_is_private(data, tmp_path) -> None:
    store = TeacherStore(tmp_path / "t")
    train(data, store=store).predict(data[3])
    for path in [tmp_path / "t", *(tmp_path / "t").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert pickle.loads(pickle.dumps(store)).path == store.path


def test_a_full_disk_half_way_keeps_what_is_done(data, tmp_path, monkeypatch) -> None:
    store = TeacherStore(tmp_path / "t")
    real, written = os.fsync, []

    def fsync(handle) -> None:
        written.append(handle)
        if len(written) > 9:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CannotWrite, match="the disk is full; a run keeps what it finished"):
        train(data, store=store)
    monkeypatch.undo()
    done = list((tmp_path / "t").glob("teachers-*.bin"))
    assert 0 < len(done) < TEACHERS
    assert not list((tmp_path / "t").glob(".*"))
    stamps = {file: file.stat().st_mtime_ns for file in done}
    resumed = train(data, store=TeacherStore(tmp_path / "t"))
    assert {file: file.stat().st_mtime_ns for file in done} == stamps
    np.testing.assert_array_equal(resumed.predict(data[3]), train(data).predict(data[3]))


def test_shards_keep_the_order_of_the_rows(data) -> None:
    X, y, assignment, *_ = data
    shards = ArrayShards(X, y, assignment, n_teachers=TEACHERS, classes=CLASSES)
    assert shards.sizes.tolist() == np.bincount(assignment).tolist()
    (_, (rows, labels)) = shards.part(range(2, 4)).load()
    np.testing.assert_array_equal(rows, X[assignment == 3])
    np.testing.assert_array_equal(labels, y[assignment == 3])


def test_an_ensemble_may_train_itself_its_own_way(data) -> None:
    class Together:
        def train_on_shards(self, shards, *, store, seed, n_jobs, progress, empty):
            return ("trained", shards.n_teachers, seed)

    assert train(data, Together(), seed=4) == ("trained", TEACHERS, 4)


def test_fingerprints_tell_data_apart() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]})
    forms = [
        np.arange(4),
        np.arange(4).astype(float),
        np.arange(4).reshape(2, 2),
        frame,
        frame[["b", "a"]],
        frame.rename(columns={"a": "c"}),
        frame.assign(a=[2.0, 1.0]),
        sparse.eye(3).tocsr(),
        sparse.eye(4).tocsr(),
        np.array(["x", "y"], dtype=object),
    ]
    prints = [fingerprint_of(form) for form in forms]
    assert len(set(prints)) == len(forms)
    assert prints == [fingerprint_of(form.copy()) for form in forms]
    assert fingerprint_of(np.arange(2), np.arange(2)) != fingerprint_of(np.arange(4))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["logistic", "ridge", "svm-rbf", "naive-bayes", "lda", "nearest-centroid", "extra-trees"]
)
def test_short_names_are_teachers(data, name) -> None:
    predictions = train(data, make_estimator(name)).predict(data[3])
    assert (predictions == data[4][:, None]).mean() > 0.5
