import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

from ostrakon.students.sklearn_student import SelfTrainingStudent, SklearnStudent
from ostrakon.validation import InvalidInput

X, TRUE = make_moons(400, noise=0.08, random_state=0)


def few(count: int, seed: int = 0) -> np.ndarray:
    y = np.full(len(X), -1)
    rows = np.concatenate(
        [np.random.default_rng(seed).choice(np.flatnonzero(k == TRUE), count, replace=False) for k in (0, 1)]
    )
    y[rows] = TRUE[rows]
    return y


@pytest.mark.parametrize("student", [SklearnStudent(), SelfTrainingStudent(), SklearnStudent(LinearSVC())])
def test_a_student_learns_from_few_labels(student):
    student = clone(student).fit(X, few(20))
    assert (student.predict(X) == TRUE).mean() > 0.82
    assert student.classes_.tolist() == [0, 1]
    p = student.predict_proba(X)
    assert p.shape == (400, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_unlabelled_rows_are_left_out_by_the_plain_student():
    y = few(20)
    known = y != -1
    alone = SklearnStudent(SVC()).fit(X[known], y[known])
    np.testing.assert_array_equal(SklearnStudent(SVC()).fit(X, y).predict(X), alone.predict(X))


def test_unlabelled_rows_are_used_by_the_self_training_one():
    near = KNeighborsClassifier(3)
    y = few(5, seed=3)
    plain = (SklearnStudent(near).fit(X, y).predict(X) == TRUE).mean()
    believing = (SelfTrainingStudent(near, max_iter=100).fit(X, y).predict(X) == TRUE).mean()
    assert believing > plain + 0.1


def test_one_answered_class_is_always_said():
    y = np.where(np.arange(400) < 3, 4, -1)
    student = SklearnStudent().fit(X, y)
    assert set(student.predict(X)) == {4}
    np.testing.assert_array_equal(student.predict_proba(X), np.ones((400, 1)))


def test_all_rows_answered_is_plain_training(recwarn):
    student = SelfTrainingStudent().fit(X, TRUE)
    np.testing.assert_array_equal(student.predict(X), SklearnStudent().fit(X, TRUE).predict(X))
    assert not [warning for warning in recwarn if "unlabeled" in str(warning.message)]


def test_the_seed_reaches_the_classifier():
    forest = RandomForestClassifier(n_estimators=5)
    said = [SklearnStudent(forest, random_state=seed).fit(X, few(20)).predict_proba(X) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(said[0], said[1])
    assert (said[0] != said[2]).any()


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (np.full(400, -1), "no query was answered"),
        (np.zeros(3, int), r"shape \(400,\)"),
        (np.full(400, -2), "class numbers from 0"),
        (np.full(400, 0.5), "class numbers from 0"),
        (np.full(400, "a"), "class numbers from 0"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        SklearnStudent().fit(X, y)


def test_self_training_needs_probabilities():
    with pytest.raises(InvalidInput, match="predict_proba"):
        SelfTrainingStudent(LinearSVC()).fit(X, few(5))
