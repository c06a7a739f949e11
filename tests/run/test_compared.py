"""Named students beside the default one, on released numbers: warnings where they are far worse, and only there."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import ostrakon
from ostrakon.run.stages import student as of_classes
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.other_targets import distilled
from ostrakon.students.selection import Candidate, Selection

QUICK = {"random_state": 0, "delta": 1e-5, "n_queries": 60}


def rows(number: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(number, 3))


def quantity(X: np.ndarray, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=len(X))
    return np.clip(10 + 2 * X.sum(axis=1) + 0.5 * noise, 0, 20)


def warned(model: object) -> list[str]:
    return [remark for remark in model.statement_.remarks if "default student" in remark]


@pytest.fixture(scope="module")
def tables() -> tuple[np.ndarray, np.ndarray]:
    return rows(3000, 1), rows(200, 2)


def regressor(tables: tuple[np.ndarray, np.ndarray], student: str) -> ostrakon.PATERegressor:
    X, pool = tables
    model = ostrakon.PATERegressor(
        epsilon=2, range=(0, 20), student=student, noise=np.random.default_rng(0), allow_shared_rows=True, **QUICK
    )
    return model.fit(X, quantity(X), X_public=pool)


def test_a_student_that_explains_little_of_a_quantity_is_named(tables):
    model = regressor(tables, "decision-tree(max_depth=1)")
    [sentence] = warned(model)
    assert sentence.startswith("Warning: the student decision-tree(max_depth=1) ")
    V = rows(1000, 3)
    assert model.score(V, quantity(V)) < 0.4 < 0.8 < regressor(tables, "auto").score(V, quantity(V))


@pytest.mark.slow
@pytest.mark.parametrize("student", ["auto", "extra-trees(n_estimators=20)"])
def test_a_student_that_is_about_as_good_is_not(tables, student):
    assert warned(regressor(tables, student)) == []


def classifier(
    tables: tuple[np.ndarray, np.ndarray], student: str, ends: tuple[float, ...] = (0,), **more: object
) -> ostrakon.PATEClassifier:
    X, pool = tables
    model = ostrakon.PATEClassifier(
        epsilon=4,
        classes=list(range(len(ends) + 1)),
        student=student,
        noise=np.random.default_rng(0),
        **QUICK,
        **more,
    )
    return model.fit(X, np.digitize(X[:, 0] * X[:, 1], ends), X_public=pool)


def test_a_student_of_classes_that_misses_what_the_default_learns_is_named(tables):
    [sentence] = warned(classifier(tables, "logistic"))
    assert "noisy votes that it did not learn from, and the default student, " in sentence


@pytest.mark.slow
@pytest.mark.parametrize("student", ["auto", "extra-trees(n_estimators=20)"])
def test_a_student_of_classes_that_is_about_as_good_is_not(tables, student):
    assert warned(classifier(tables, student)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "ends", "words"),
    [
        ("balanced", (0,), "learn from, if every class counts the same, and the default student, "),
        ("ordered", (-0.3, 0.3), " ranks from the classes of the released noisy votes that it did not learn "),
    ],
)
def test_students_for_another_objective_are_compared_by_it(tables, objective, ends, words):
    [sentence] = warned(classifier(tables, "logistic", ends, objective=objective))
    assert words in sentence
    named, default = map(float, re.findall(r"about ([0-9]+(?:\.[0-9]+)?)", sentence))
    if objective == "ordered":
        assert default + 0.1 < named < 1.4
    else:
        assert named + 5 < default < 100
    assert warned(classifier(tables, "extra-trees(n_estimators=20)", ends, objective=objective)) == []


def of_labels(tables: tuple[np.ndarray, np.ndarray], student: str) -> ostrakon.PATEClassifier:
    X, pool = tables
    Y = (X + 0.2 * np.random.default_rng(0).normal(size=X.shape) > [0, 0.5, 1]).astype(int)
    model = ostrakon.PATEClassifier(
        epsilon=4, classes=["a", "b", "c"], student=student, noise=np.random.default_rng(0), **QUICK
    )
    return model.fit(X, Y, X_public=pool)


@pytest.mark.slow
@pytest.mark.parametrize("max_depth", [0, 1])
def test_a_student_of_several_labels_that_explains_little_is_named(tables, max_depth):
    student = "sklearn.dummy.DummyClassifier()" if not max_depth else "decision-tree(max_depth=1, max_features=1)"
    [sentence] = warned(of_labels(tables, student))
    assert re.search("explains about [0-9]+% of how the estimates of the default student, .*, differ", sentence)


@pytest.mark.slow
@pytest.mark.parametrize("student", ["auto", "logistic"])
def test_a_student_of_several_labels_that_is_about_as_good_is_not(tables, student):
    assert warned(of_labels(tables, student)) == []


@pytest.mark.slow
def test_nothing_is_compared_before_a_statement_is_made(monkeypatch):
    """A rehearsal of a plan fits students without it."""
    monkeypatch.setattr(of_classes, "compare_with_default", lambda *given: pytest.fail("compared"))
    X = rows(80, 0)
    asked = {"records": 200, "epsilons": [4.0], "student": "logistic", "repetitions": 2, "n_queries": 15}
    for y, more in (
        ((X[:, 0] > 0).astype(int), {}),
        (quantity(X), {"range": (0, 20)}),
        ((X > 0).astype(int), {"labels": ["a", "b", "c"]}),
    ):
        played = ostrakon.plan(X, y, **asked, **more, mechanisms=None if more else ["bounded-gnmax"])
        assert played.rehearsal is not None
        assert played.rehearsal.forecasts


class OfSums(BaseEstimator):
    """A named student that says what it was fitted to."""

    def fit_shares(self, X, shares):
        self.shares_ = shares
        return self

    def predict_proba(self, X):
        return np.stack([1 - self.shares_, self.shares_], axis=1)

    classes_ = np.arange(2)


def test_a_named_student_learns_the_corrected_estimates_of_all_public_rows(tables, monkeypatch):
    """Not those of the first student, and nothing of the answers."""
    monkeypatch.setattr(Learning, "candidates", lambda self, **given: [Candidate(name=self.student, student=OfSums())])
    default = regressor(tables, "auto")
    sums = default.released_.student
    assert sums.corrected
    rows = default.released_.representation.transform(tables[1])
    student = distilled(
        Selection(chosen=Candidate(name="sums", student=sums), student=sums, agreement={}),
        Learning(X_public=tables[1], view=SimpleNamespace(public=rows), student="other"),
    ).student
    assert student.source is sums
    assert student.classifier.shares_.tolist() == sums.predict(rows).tolist()


@pytest.mark.parametrize("student", ["hist-gradient-boosting", "additive"])
def test_a_named_student_is_nearly_as_good_as_the_default(tables, student):
    """Students that learned from sums by cell had half of it."""
    V = rows(1000, 3)
    assert regressor(tables, student).score(V, quantity(V)) > regressor(tables, "auto").score(V, quantity(V)) - 0.08
