"""Ordered classes: the median class as the label, in memory, in the release and refitted; fewer ranks away."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LogisticRegression

import ostrakon
from commands import ostrakon as command
from ostrakon import PATEClassifier
from ostrakon.export.student_files import export_student, load_student
from ostrakon.mechanisms import MomentGNMax
from ostrakon.students.calibration import CalibratedStudent
from ostrakon.students.measures import measures_of
from ostrakon.validation import InvalidInput

GRADES = ["very low", "low", "middle", "high", "very high"]


def graded(rows, seed):
    X, score = make_friedman1(rows, noise=2.0, random_state=seed)
    return X, np.digitize(score, [9.0, 12.0, 16.0, 19.0])


class Said:
    """A classifier that says what it is given."""

    classes_ = np.array([0, 2, 3])

    def predict_proba(self, X):
        return np.asarray(X)


def test_the_label_is_the_class_with_the_smallest_expected_distance():
    likely = np.random.default_rng(0).dirichlet([1, 1, 1], 500)
    student = CalibratedStudent(Said(), 1.0, np.zeros(3), ordered=True)
    distance = np.abs(np.arange(3)[:, None] - np.arange(3)[None, :])
    assert (student.predict(likely) == Said.classes_[(likely @ distance).argmin(axis=1)]).all()
    # One half exactly is enough, as it is for the last bits of a sum.
    assert student.predict([[0.5, 0.2, 0.3], [0.1 + 0.2, 0.2, 0.5]]).tolist() == [0, 2]


def test_the_release_says_the_same(tmp_path):
    X, y = graded(800, 0)
    student = CalibratedStudent(LogisticRegression(max_iter=500).fit(X, y), 1.7, np.zeros(5), ordered=True)
    student.n_features_in_ = X.shape[1]
    export_student(student, tmp_path)
    loaded = load_student(tmp_path)
    assert (loaded.predict(X) == student.predict(X)).all()
    assert (student.predict(X) != student.student.predict(X)).any()


def test_ranks_are_measured_only_of_ordered_classes():
    likely, right = np.eye(3)[[0, 2, 1, 2]], [0, 0, 1, 2]
    assert measures_of(likely, [0, 2, 1, 2], right, GRADES[:3]).rank_error is None
    found = measures_of(likely, [0, 2, 1, 2], right, GRADES[:3], ordered=True)
    assert (found.rank_error, found.rank_error_of_median) == (0.5, 0.75)
    assert found.in_words()["Mean rank error"] == "0.500 (always the median: 0.750)"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": MomentGNMax(sigma2=8.0), "student": "logistic"},
        pytest.param({"n_teachers": 40, "epsilon": 4.0}, marks=pytest.mark.slow),
    ],
)
def test_labels_are_fewer_ranks_away(options):
    (X, y), (pool, _), (X_test, y_test) = graded(2000, 1), graded(300, 2), graded(2000, 3)
    plain, ordered = (
        PATEClassifier(
            delta=1e-5,
            classes=list(range(5)),
            objective=objective,
            random_state=0,
            noise=np.random.default_rng(0),
            **options,
        ).fit(X, y, X_public=pool)
        for objective in ("accuracy", "ordered")
    )
    errors = [np.abs(model.predict(X_test) - y_test).mean() for model in (plain, ordered)]
    assert errors[1] < errors[0]
    np.testing.assert_allclose(plain.predict_proba(X_test), ordered.predict_proba(X_test), atol=1e-12)
    assert "medians of the ordered classes" in ordered.statement_.tuned["probabilities"]
    # The accuracy of labels for another objective is not estimated, their recall by class is.
    assert {one.kind for one in ordered.statement_.estimates} <= {"recall"}


@pytest.mark.slow
def test_from_files_and_refitted(tmp_path):
    for name, rows, seed in (("private", 1000, 1), ("public", 300, 2), ("test", 300, 3)):
        X, y = graded(rows, seed)
        table = pd.DataFrame(X).add_prefix("x").assign(grade=[GRADES[number] for number in y])
        (table.drop(columns="grade") if name == "public" else table).to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("private", "public", "test")]
    options = ["--target=grade", "--epsilon=4", "--delta=1e-5", "--objective=ordered", f"--out={tmp_path / 'run'}"]
    done = command("train", *files, *options, "--classes", ",".join(GRADES), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Mean rank error" in done.stdout
    measured = json.loads((tmp_path / "run/private/evaluation.json").read_text())
    assert measured["rank_error"] < 0.8 * measured["rank_error_of_median"]
    again = ostrakon.refit(
        tmp_path / "run/release", public=tmp_path / "public.csv", objective="ordered", out=tmp_path / "again"
    )
    assert (again.release / "student.onnx").read_bytes() == (tmp_path / "run/release/student.onnx").read_bytes()


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [([0, 1], "at least three classes, got 2"), ("from-private", "from low to high.*they come from the labels in")],
)
def test_classes_without_an_order_are_refused(classes, sentence):
    X, y = graded(400, 0)
    y = np.minimum(y, 1) if classes == [0, 1] else y
    model = PATEClassifier(classes=classes, objective="ordered")
    with pytest.raises(InvalidInput, match=sentence):
        model.fit(X, y, X_public=graded(50, 4)[0])


def test_classes_without_a_given_order_are_refused_before_they_are_read(tmp_path):
    for classes in ({}, {"classes": "from-private"}):
        with pytest.raises(InvalidInput, match="ordered needs the classes in their order from low to high") as error:
            ostrakon.train(private="absent.csv", public="absent.csv", target="grade", objective="ordered", **classes)
        assert "bad,good" not in str(error.value)
    X = np.random.default_rng(0).normal(size=(90, 2))
    with pytest.raises(InvalidInput, match="ordered needs the classes in their order from low to high"):
        PATEClassifier(objective="ordered").fit(X, np.arange(90) % 3, X_public=X + 0.1)


def test_trained_teachers_answer_with_the_noisy_median_where_it_is_named():
    (X, y), (pool, _) = graded(300, 1), graded(60, 2)
    own = {"classes": list(range(5)), "teacher": "nearest-centroid", "n_teachers": 10, "n_jobs": 1, "epsilon": 4.0}
    model = PATEClassifier(mechanism="noisy-median", objective="ordered", student="naive-bayes", **own)
    statement = model.fit(X, y, X_public=pool).statement_
    assert [one.mechanism.name for one in statement.rounds] == ["noisy-median"]
    assert statement.guarantee.epsilon <= 4.0
    with pytest.raises(InvalidInput, match="noisy-median needs classes with an order: choose objective ordered"):
        PATEClassifier(mechanism="noisy-median", **own).fit(X, y, X_public=pool)
