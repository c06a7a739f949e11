"""Heads: the same as one scikit-learn model per teacher, and resumable."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from ostrakon.teachers import TeacherStore, head_solvers, heads, train_teachers
from ostrakon.teachers.heads import HeadEnsemble, median_squared_distance
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
X, y = make_blobs(600, centers=3, n_features=4, cluster_std=3.0, random_state=1)
X = X.astype(np.float32)
POOL = X[400:]
X, y = X[:400], y[:400]
MEMBER = RNG.integers(0, 12, 400)
TARGETS = np.eye(3)


def member(teacher):
    return np.flatnonzero(teacher == MEMBER)


def train(head, **options):
    options = {"n_teachers": 12, "classes": 3, **options}
    return train_teachers(head, X, y, MEMBER, **options)


def one_by_one(fit_predict):
    return np.column_stack([fit_predict(X[member(t)], y[member(t)]) for t in range(12)])


def test_kernel_ridge_is_scikit_learn_s():
    ours = train(HeadEnsemble(kind="kernel-ridge", width=20.0, penalty=0.3)).predict(POOL)
    theirs = one_by_one(
        lambda a, b: KernelRidge(kernel="rbf", gamma=1 / 20, alpha=0.3).fit(a, TARGETS[b]).predict(POOL).argmax(axis=1)
    )
    assert (ours == theirs).mean() > 0.999


@pytest.mark.parametrize("wide", [False, True])
def test_ridge_is_scikit_learn_s_in_both_forms(wide):
    spread = np.random.default_rng(3).normal(size=(4, 60)) if wide else np.eye(4)
    head = HeadEnsemble(kind="ridge", penalty=2.0)
    ours = train_teachers(head, X @ spread, y, MEMBER, n_teachers=12, classes=3).predict(POOL @ spread)
    theirs = one_by_one(lambda a, b: Ridge(alpha=2.0).fit(a @ spread, TARGETS[b]).predict(POOL @ spread).argmax(axis=1))
    assert (ours == theirs).mean() > 0.999


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_is_scikit_learn_s(classes):
    labels = y % classes
    head = HeadEnsemble(kind="logistic", penalty=1.0)
    ours = train_teachers(head, X, labels, MEMBER, n_teachers=12, classes=classes).predict(POOL)

    def peer(a, b):
        scores = [
            LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(a, b == k).decision_function(POOL)
            for k in range(classes)
        ]
        return np.argmax(scores, axis=0)

    theirs = np.column_stack([peer(X[member(t)], labels[member(t)]) for t in range(12)])
    assert (ours == theirs).mean() > 0.995


@pytest.mark.parametrize("neighbours", [1, 5])
def test_nearest_neighbours_is_scikit_learn_s(neighbours):
    ours = train(HeadEnsemble(kind="nearest-neighbours", neighbours=neighbours)).predict(POOL)
    theirs = one_by_one(lambda a, b: KNeighborsClassifier(neighbours).fit(a, b).predict(POOL))
    # Ties among five differ: ours go to the nearer neighbour, scikit-learn's to the lower class.
    assert (ours == theirs).mean() > (0.999 if neighbours == 1 else 0.95)


def test_nearest_centroid_is_scikit_learn_s():
    ours = train(HeadEnsemble(kind="nearest-centroid")).predict(POOL)
    assert (ours == one_by_one(lambda a, b: NearestCentroid().fit(a, b).predict(POOL))).mean() > 0.999


KINDS = ["kernel-ridge", "ridge", "logistic", "nearest-neighbours", "nearest-centroid"]


def head_of(kind):
    return HeadEnsemble(kind=kind, width=20.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns(kind):
    points, labels = make_blobs(300, centers=3, n_features=4, cluster_std=1.5, random_state=2)
    made = train_teachers(head_of(kind), points, labels, np.arange(300) % 10, n_teachers=10, classes=3)
    assert (made.predict(points) == labels[:, None]).mean() > 0.9
    assert (made.predict(points) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_teacher_s_predictions_depend_on_its_own_rows_alone(kind, monkeypatch):
    monkeypatch.setattr(head_solvers, "_BLOCK", 500)
    before = train(head_of(kind)).predict(POOL)
    changed_y = np.where(MEMBER == 4, (y + 1) % 3, y)
    changed_X = np.where((MEMBER == 4)[:, None], X * 1.5, X)
    after = train_teachers(head_of(kind), changed_X, changed_y, MEMBER, n_teachers=12, classes=3).predict(POOL)
    others = np.arange(12) != 4
    assert np.array_equal(before[:, others], after[:, others])
    assert not np.array_equal(before[:, 4], after[:, 4])


@pytest.mark.parametrize("kind", KINDS)
def test_shards_that_lack_a_class_never_say_it_and_empty_ones_abstain(kind):
    assignment = np.where(y == 2, MEMBER % 5, MEMBER % 11)
    with pytest.raises(InvalidInput, match="no rows"):
        train_teachers(head_of(kind), X, y, assignment, n_teachers=12, classes=3)
    made = train_teachers(head_of(kind), X, y, assignment, n_teachers=12, classes=3, empty="abstain")
    said = made.predict(POOL)
    assert (said[:, 11] == -1).all()
    assert (said[:, :11] >= 0).all()
    assert (said[:, 5:11] != 2).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_goes_on_and_gives_the_same(kind, tmp_path, monkeypatch):
    whole = train(head_of(kind)).predict(POOL)
    solve = heads.solve
    calls = []

    def dying(*given, **options):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return solve(*given, **options)

    monkeypatch.setattr(heads, "solve", dying)
    with pytest.raises(KeyboardInterrupt):
        train(head_of(kind), store=TeacherStore(tmp_path / "t"), n_jobs=1)
    counted = []

    def counting(*given, **options):
        counted.append(1)
        return solve(*given, **options)

    monkeypatch.setattr(heads, "solve", counting)
    resumed = train(head_of(kind), store=TeacherStore(tmp_path / "t"))
    assert len(counted) == resumed.n_teachers - 3
    assert np.array_equal(resumed.predict(POOL), whole)
    with pytest.raises(InvalidInput, match="another run"):
        train(HeadEnsemble(kind=kind, width=20.0, penalty=9.0), store=TeacherStore(tmp_path / "t"))


def test_other_rows_than_the_store_s_are_refused(tmp_path):
    train(head_of("ridge"), store=TeacherStore(tmp_path / "t"))
    with pytest.raises(InvalidInput, match="other rows"):
        train_teachers(head_of("ridge"), X + 1, y, MEMBER, n_teachers=12, classes=3, store=TeacherStore(tmp_path / "t"))


def test_the_width_is_fixed_by_public_features():
    with pytest.raises(InvalidInput, match="public"):
        train(HeadEnsemble())
    made = train(HeadEnsemble(public=POOL))
    assert made.head.width == pytest.approx(median_squared_distance(POOL))
    distances = np.square(POOL[:, None] - POOL[None]).sum(axis=2)[np.triu_indices(len(POOL), 1)]
    assert made.head.width == pytest.approx(np.median(distances), rel=1e-5)


def test_thousands_of_teachers_of_a_few_rows():
    points, labels = make_blobs(9000, centers=4, n_features=6, random_state=4)
    made = train_teachers(
        HeadEnsemble(public=points[:500]), points, labels, np.arange(9000) % 1500, n_teachers=1500, classes=4
    )
    assert made.predict(points[:100]).shape == (100, 1500)


@pytest.mark.parametrize(
    "wrong", [{"kind": "forest"}, {"penalty": 0}, {"penalty": np.nan}, {"width": -1.0}, {"neighbours": 0}]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidInput):
        HeadEnsemble(**wrong)


@pytest.mark.parametrize("bad", [np.full((400, 2), np.nan), np.zeros(400), np.array([["a"]] * 400)])
def test_wrong_features_are_refused(bad):
    with pytest.raises(InvalidInput):
        train_teachers(head_of("ridge"), bad, y, MEMBER, n_teachers=12, classes=3)


def test_many_teachers_without_rows_abstain(tmp_path):
    assignment = np.full(len(y), 11)
    for store in (None, TeacherStore(tmp_path / "t")):
        made = train_teachers(
            head_of("ridge"), X, y, assignment, n_teachers=12, classes=3, empty="abstain", store=store
        )
        assert (made.predict(POOL)[:, :11] == -1).all()
        assert (made.predict(POOL)[:, 11] >= 0).all()
