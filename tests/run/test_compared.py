"""Named students beside the default one, on released numbers: warnings where they are far worse, and only there."""

import re

import numpy as np
import pytest

import ostrakon
from ostrakon.features.sums import SumMap
from ostrakon.run.stages import other_targets
from ostrakon.run.stages import student as of_classes
from ostrakon.run.stages.compared import _Comparison
from ostrakon.students.cells import cell_by_query, cell_of
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.selection import Cells, Released
from ostrakon.votes import STEPS

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
    assert re.search("explains about [0-9]+% of what the default student, .*, explains of the labels, by", sentence)


@pytest.mark.slow
@pytest.mark.parametrize("student", ["auto", "logistic"])
def test_a_student_of_several_labels_that_is_about_as_good_is_not(tables, student):
    assert warned(of_labels(tables, student)) == []


@pytest.mark.slow
def test_nothing_is_compared_before_a_statement_is_made(monkeypatch):
    """A rehearsal of a plan fits students without it."""
    for name in ("compare_with_default", "compare_quantity_student", "compare_label_student"):
        room = of_classes if name == "compare_with_default" else other_targets
        monkeypatch.setattr(room, name, lambda *given: pytest.fail("compared"))
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


@pytest.fixture(scope="module")
def records() -> tuple[np.ndarray, np.ndarray, SumMap, np.ndarray, np.ndarray]:
    """(rows, which are public ones too; quantities from -1 to 1; features; their sums; votes by cell)."""
    X = rows(1000, 1).astype(np.float32)
    y, feature_map = (quantity(X) - 10) / 10, SumMap.of(X)
    sums = np.zeros(2 * feature_map.directions)
    sums[: feature_map.features] = feature_map.unrounded(X).T @ y
    counts = np.zeros((20, 2))
    np.add.at(counts, cell_of(X, X[:20]), np.stack([(1 - y) / 2, (1 + y) / 2], axis=1))
    return X, y, feature_map, sums.reshape(-1, 2) * feature_map.longest / STEPS, counts


def scores(records: tuple, *, runs: int = 12, scale: float = 1.0, known: float = 0.0) -> np.ndarray:
    """How far a comparison is from the truth, in its standard deviations, in many draws of the noise.

    scale: of the noise, beside what is stated. known: how much of the noise the better estimate has learned.
    """
    X, y, feature_map, sums, counts = records
    other, found = np.sign(X[:, 2]) / 2, []
    for run in range(runs):
        rng = np.random.default_rng(run)
        noise = rng.normal(size=sums.shape)
        moments = ReleasedMoments(sums=sums + scale * 4 * noise, sigma=4.0, records=len(X), directions=feature_map)
        noisy = counts + scale * 8 * rng.normal(size=counts.shape)
        released = Released(queries=np.arange(20), counts=noisy, sigma2=8.0, moments=moments)
        judge = _Comparison.of(X, released, Cells(cell_index=cell_by_query(X, np.arange(20))))
        better = 0.3 * X[:, 0] + known * feature_map.unrounded(X) @ feature_map.sums(noise)
        ahead, sd = judge.gain(better, other)
        found.append((ahead - (np.square(y - other) - np.square(y - better)).sum()) / sd)
    return np.array(found)


def test_the_comparison_is_right_but_for_its_noise(records):
    found = scores(records)
    assert abs(found.mean()) < 0.8
    assert 0.4 < found.std() < 1.4


def test_more_noise_than_is_stated_and_an_estimate_that_has_seen_it_would_show(records):
    assert scores(records, scale=2.0).std() > 1.5
    assert scores(records, known=1.0).mean() > 1
