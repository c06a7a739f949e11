"""Calibrated probabilities: better where the released counts show it, unchanged where noise hides it, and exported."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from ostrakon import PATEClassifier
from ostrakon.export.student_files import export_student, load_student, require_exportable
from ostrakon.features.moments import MomentMap
from ostrakon.mechanisms import MomentGNMax
from ostrakon.run.stages.selected import calibrated
from ostrakon.students.calibration import (
    CalibratedStudent,
    agreeing_offsets,
    class_shares,
    shares_differ,
    temperature_of,
    temperature_of_accuracy,
    tempered,
    uncalibrated,
)
from ostrakon.students.cells import cell_of
from ostrakon.students.measures import calibration_error
from ostrakon.students.moment_students import ReleasedMoments
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import Candidate, Released, select
from ostrakon.students.sklearn_student import SklearnStudent
from ostrakon.validation import InvalidInput


def world(*, temperature, records, sigma=5.0, seed=0, cells=60, rows=1200):
    """Held-out probabilities at a wrong temperature, and noisy counts of records with the true ones."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, cells, rows)
    scores = rng.normal(size=cells)[own] * 1.5 + rng.normal(size=rows) * 0.3 - 0.5
    true = np.column_stack([1 / (1 + np.exp(scores)), 1 / (1 + np.exp(-scores))])
    mean = np.zeros((cells, 2))
    np.add.at(mean, own, true)
    counts = records / rows * mean + rng.normal(scale=sigma, size=mean.shape)
    released = Released(queries=np.arange(cells), counts=counts, sigma2=sigma)
    return tempered(true, 1 / temperature, np.zeros(2)), own, released


@pytest.mark.parametrize("temperature", [0.4, 2.0])
def test_a_wrong_temperature_is_found_where_the_counts_show_it(temperature):
    likely, own, released = world(temperature=temperature, records=20_000)
    assert temperature_of(likely, own, released) == pytest.approx(temperature, rel=0.15)


def test_right_probabilities_are_left_as_they_are():
    # With a margin of two standard deviations noise rarely moves any; without one it would nearly always.
    moved = [temperature_of(*world(temperature=1.0, records=400, seed=seed)) != 1.0 for seed in range(100)]
    assert sum(moved) <= 15
    assert temperature_of(*world(temperature=2.0, records=30)) == 1.0


def sure(rows=4000, seed=0):
    """Probabilities of three classes, and labels that are drawn from them."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([0.5, 0.8, 1.2], size=rows)
    return proba, (rng.random((rows, 1)) > proba.cumsum(axis=1)).sum(axis=1).clip(max=2)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.8])
def test_an_accuracy_shows_the_temperature_and_a_noisy_one_hardly_changes_it(temperature):
    true, truth = sure()
    likely, labels = tempered(true, 1 / temperature, np.zeros(3)), true.argmax(axis=1)
    share = float(np.mean(labels == truth))
    assert temperature_of_accuracy(likely, labels, np.ones(len(likely)), share=share, sd=1e-3) == pytest.approx(
        temperature, rel=0.08
    )
    assert temperature_of_accuracy(likely, labels, np.ones(len(likely)), share=share, sd=10.0) == pytest.approx(
        1.0, rel=0.03
    )
    # Labels that are not the likeliest ones, as of balanced decisions, have probabilities of their own.
    others = np.argsort(true, axis=1)[:, 1]
    found = temperature_of_accuracy(
        likely, others, np.ones(len(likely)), share=float(np.mean(others == truth)), sd=1e-3
    )
    assert found == pytest.approx(temperature, rel=0.25)


def test_rows_count_by_their_weights():
    sure_rows, unsure = np.tile([[0.99, 0.01]], (100, 1)), np.tile([[0.6, 0.4]], (900, 1))
    proba, labels = np.vstack([sure_rows, unsure]), np.zeros(1000, int)
    weights = np.repeat([9.0, 1 / 9], [100, 900])
    # By weight nine records in ten are like the sure rows.
    found = temperature_of_accuracy(proba, labels, weights, share=0.951, sd=1e-3)
    assert (
        found
        == pytest.approx(1.0, rel=0.06)
        != temperature_of_accuracy(proba, labels, np.ones(1000), share=0.951, sd=1e-3)
    )


@pytest.mark.parametrize("share", [0.0, 0.33, 1.0])
def test_impossible_accuracies_give_a_temperature_in_range(share):
    proba, _ = sure(rows=50)
    assert 0.1 <= temperature_of_accuracy(proba, proba.argmax(axis=1), np.ones(len(proba)), share=share, sd=1e-9) <= 3.0


def test_two_calibrations_keep_the_labels_of_the_first():
    X, rng = np.random.default_rng(0).normal(size=(300, 2)), np.random.default_rng(1)
    model = LogisticRegression().fit(X, (X[:, 0] + rng.normal(size=300) > 1).astype(int))
    balanced = CalibratedStudent(model, 0.7, np.array([0.2, -0.2]), np.array([1.0, 4.0]))
    last = CalibratedStudent(balanced, 0.5, np.zeros(2))
    likely, labels = last.calibrated(model.predict_proba(X))
    assert uncalibrated(last) is model
    assert (labels == balanced.predict(X)).all()
    assert (labels == last.predict(X)).all()
    assert (labels != likely.argmax(axis=1)).any()
    assert likely == pytest.approx(last.predict_proba(X), abs=1e-12)
    assert likely == pytest.approx(tempered(balanced.predict_proba(X), 0.5, np.zeros(2)), abs=1e-12)


def labelled(*, temperature, answers, seed=0):
    """Held-out probabilities at a wrong temperature, and one released label drawn from the true ones for each row."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet([1.0, 1.0, 0.5], answers)
    label = (rng.random((answers, 1)) > true.cumsum(axis=1)).sum(axis=1)
    released = Released(queries=np.arange(answers), counts=np.eye(3)[label])
    # Public rows that were not asked about belong to no answer.
    likely = np.vstack([tempered(true, 1 / temperature, np.zeros(3)), np.full((5, 3), 1 / 3)])
    return likely, np.append(np.arange(answers), np.full(5, -1)), released


@pytest.mark.parametrize("temperature", [0.4, 2.0])
def test_a_wrong_temperature_is_found_from_labels(temperature):
    assert temperature_of(*labelled(temperature=temperature, answers=2000)) == pytest.approx(temperature, rel=0.2)


def test_few_labels_or_right_probabilities_change_nothing():
    moved = [temperature_of(*labelled(temperature=1.0, answers=300, seed=seed)) != 1.0 for seed in range(100)]
    assert sum(moved) <= 15
    assert temperature_of(*labelled(temperature=2.0, answers=10)) == 1.0


MARGINS = [
    *(
        SVC(),
        SVC(decision_function_shape="ovo"),
        LinearSVC(),
        RidgeClassifier(),
        make_pipeline(StandardScaler(), SVC()),
    ),
    *(SGDClassifier(loss=loss, random_state=0) for loss in ("hinge", "log_loss", "modified_huber")),
]


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("estimator", MARGINS)
def test_a_margin_becomes_the_same_probability_in_memory_and_in_the_release(tmp_path, classes, estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=400), [-0.7, 0.0, 0.7]) % classes
    student = SklearnStudent(estimator).fit(X, y)
    likely = student.predict_proba(X)
    if isinstance(estimator, SVC) and estimator.decision_function_shape == "ovr":
        assert (likely.max(axis=1) < 1).all()
    if isinstance(estimator, LinearSVC | RidgeClassifier):
        assert (student.classes_[likely.argmax(axis=1)] == student.predict(X)).all()
    student.n_features_in_ = 3
    export_student(student, tmp_path)
    loaded = load_student(tmp_path)
    assert (loaded.predict(X) == student.predict(X)).all()
    np.testing.assert_allclose(loaded.predict_proba(X), likely, atol=1e-9)


def test_a_margin_with_fitted_probabilities_is_refused_before_anything_is_spent():
    with pytest.raises(InvalidInput, match="SVC must have probability=False and break_ties=False"):
        require_exportable(SklearnStudent(SVC(probability=True)))


def test_a_student_of_labels_without_probabilities_of_its_own_is_calibrated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    released = Released(queries=np.arange(600), counts=np.eye(3)[y[:600]])
    learning = SimpleNamespace(objective="accuracy", rows=lambda chosen: X)
    selection = select([Candidate(name="svm-rbf", student=SklearnStudent(SVC()))], X, X, released)
    student = calibrated(selection, released, learning).student
    assert isinstance(student, CalibratedStudent)
    assert (student.predict(X) == selection.student.predict(X)).all()
    losses = [log_loss(y[600:], each.predict_proba(X[600:])) for each in (selection.student, student)]
    assert losses[1] < 0.6 * losses[0]


def test_labels_of_most_teachers_do_not_sharpen_probabilities():
    # The class of a row varies, but most teachers agree on the likelier one, and that is what is released.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    likely = 1 / (1 + np.exp(-1.5 * X[:, 0]))
    y = (rng.random(1500) < likely).astype(int)
    released = Released(queries=np.arange(600), counts=np.eye(2)[(likely[:600] > 0.5).astype(int)])
    learning = SimpleNamespace(objective="accuracy", rows=lambda chosen: X)
    students = [Candidate(name="timid", student=SklearnStudent(LogisticRegression(C=0.01)))]
    selection = select(students, X, X, released)
    sharper = temperature_of(selection.proba, selection.cell_index, released)
    likely = calibrated(selection, released, learning).student.predict_proba(X[600:])
    np.testing.assert_array_equal(likely, selection.student.predict_proba(X[600:]))
    assert sharper < 0.5
    assert log_loss(y[600:], likely) < log_loss(y[600:], tempered(likely, sharper, np.zeros(2))) - 0.1


def test_shares_come_from_the_sums_where_there_are_any():
    counts = np.tile([80.0, 20.0], (10, 1))
    released = Released(queries=np.arange(10), counts=counts, sigma2=4.0)
    np.testing.assert_allclose(class_shares(released), [0.8, 0.2])
    sums = np.array([[900.0, -3.0], [1.0, 1.0]])
    directions = MomentMap.of(np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32))
    moments = ReleasedMoments(sums=sums, sigma=4.0, records=1000, directions=directions)
    # A class below the noise keeps half a standard deviation of it.
    np.testing.assert_allclose(class_shares(replace(released, moments=moments)), [900 / 902, 2 / 902])


def test_offsets_make_the_mean_agree_with_the_shares():
    likely = np.random.default_rng(0).dirichlet([4, 2, 1], 500)
    shares = np.array([0.2, 0.3, 0.5])
    offsets = agreeing_offsets(likely, shares, 0.7)
    np.testing.assert_allclose(tempered(likely, 0.7, offsets).mean(axis=0), shares, atol=1e-5)


def test_class_shares_differ_by_more_than_their_noise():
    """250 votes on four cells, noise of 10 on every count: 20 on a class, so 0.04 x 2 of 500 records on its share."""
    counts = np.array([[100.0, 25.0]] * 2 + [[50.0, 75.0]] * 2)
    released = Released(queries=np.arange(4), counts=counts, sigma2=10.0)
    for share, differs in ((0.6, False), (0.64, False), (0.67, True), (0.53, True), (0.56, False)):
        proba = np.array([[share + 0.2, 0.8 - share], [share - 0.2, 1.2 - share], [np.nan, np.inf]])
        assert shares_differ(proba, np.array([0, 1]), released) is differs
    assert shares_differ(np.ones((3, 1)), np.array([0]), released)


def test_offsets_ignore_rows_that_are_not_finite():
    proba, shares = np.random.default_rng(0).dirichlet(np.ones(3), 50), np.array([0.5, 0.3, 0.2])
    broken = np.vstack([proba, [[np.inf, 0, 0], [np.nan, 1, 0]]])
    np.testing.assert_array_equal(agreeing_offsets(broken, shares, 0.7), agreeing_offsets(proba, shares, 0.7))
    assert not agreeing_offsets(broken[50:], shares, 0.7).any()
    own = agreeing_offsets(broken, None, 0.7)
    np.testing.assert_allclose(tempered(proba, 0.7, own).mean(axis=0), proba.mean(axis=0), atol=1e-5)
    assert abs(tempered(proba, 0.7, np.zeros(3)).mean(axis=0) - proba.mean(axis=0)).max() > 1e-3


def test_the_calibrated_student_leaves_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = LogisticRegression().fit(X, (X[:, 0] > 1).astype(int))
    plain = CalibratedStudent(model, 0.5, np.zeros(2))
    balanced = CalibratedStudent(model, 0.5, np.array([-0.2, 0.2]), np.array([1.0, 6.0]))
    assert (plain.predict(X) == model.predict(X)).all()
    assert balanced.predict(X).sum() > model.predict(X).sum()
    for number, student in enumerate((plain, balanced)):
        student.n_features_in_ = 2
        export_student(student, tmp_path / str(number))
        loaded = load_student(tmp_path / str(number))
        assert (loaded.predict(X) == student.predict(X)).all()
        np.testing.assert_allclose(loaded.predict_proba(X), student.predict_proba(X), atol=1e-12)


def rare(rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] + X[:, 1] + rng.normal(size=rows) > 2.9).astype(int)


def fitted(objective, **options):
    (X, y), (pool, _) = rare(4000, 0), rare(500, 1)
    model = PATEClassifier(
        mechanism=MomentGNMax(sigma2=8.0, errors=0.05),
        delta=1e-5,
        classes=[0, 1],
        objective=objective,
        student="logistic",
        random_state=0,
        noise=np.random.default_rng(0),
        **options,
    )
    return model.fit(X, y, X_public=pool)


@pytest.mark.slow
def test_balanced_decisions_find_the_rare_class():
    X, y = rare(4000, 2)
    assert y.mean() < 0.06
    plain, balanced, likely = (fitted(objective) for objective in ("accuracy", "balanced", "log-loss"))
    recalls = [np.mean(model.predict(X)[y == 1]) for model in (plain, balanced, likely)]
    assert recalls[1] > 0.7 > recalls[0] + 0.2
    assert (likely.predict(X) == plain.predict(X)).all()
    assert likely.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)
    assert "every class counts the same" in balanced.statement_.tuned["probabilities"]
    estimates = {one.label: one for one in balanced.statement_.estimates if one.kind == "recall"}
    assert (
        estimates["1"].low <= np.mean(balanced.predict(rare(4000, 0)[0])[rare(4000, 0)[1] == 1]) <= estimates["1"].high
    )
    assert estimates["1"].high - estimates["1"].low < 0.9
    assert (balanced.released_.predict(X[:50]) == balanced.predict(X[:50])).all()


def test_an_objective_needs_counts_and_a_name():
    with pytest.raises(InvalidInput, match="one of accuracy, balanced, log-loss, ordered, got 'recall'"):
        fitted("recall")
    X, y = rare(300, 0)
    model = PATEClassifier(mechanism="gnmax", n_teachers=20, classes=[0, 1], objective="balanced")
    with pytest.raises(InvalidInput, match="objective must be accuracy or ordered for images"):
        model.fit(X, y, X_public=rare(50, 1)[0])


@pytest.mark.parametrize("takes_rows", [False, True])
def test_what_was_held_out_once_gives_a_temperature(takes_rows):
    # Of images one part in five is held out, once, and networks learn from the rows themselves.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2)).astype(np.float32)
    queries = np.arange(100)
    own = cell_of(X, X[queries])
    y = (X[:, 0] > 0).astype(int)
    counts = np.zeros((100, 2))
    np.add.at(counts, (own, y), 20.0)
    released = Released(queries=queries, counts=counts + rng.normal(scale=2.0, size=counts.shape), sigma2=2.0)
    # A large penalty: its probabilities are all near one half.
    timid = NoisyCountStudent(LogisticRegression(C=1e-4), representation="raw", random_state=0)
    candidates = [Candidate(name=name, student=timid, takes_rows=takes_rows) for name in ("one", "two")]
    selection = select(candidates, X, X, released, tried=1)
    held = np.isfinite(selection.proba).all(axis=1)
    assert 0.05 < held.mean() < 0.5
    learning = SimpleNamespace(objective="accuracy", rows=lambda chosen: X)
    student = calibrated(selection, released, learning).student
    errors = [calibration_error(model.predict_proba(X), y) for model in (selection.student, student)]
    assert errors[0] > 0.3
    assert errors[1] < errors[0] / 2
    assert (student.predict(X) == selection.student.predict(X)).all()


def test_a_margin_of_noisy_counts_is_softened_alike_in_memory_and_in_the_release(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    queries = np.arange(60)
    counts = np.zeros((60, 3))
    np.add.at(counts, (cell_of(X, X[queries]), y), 10.0)
    student = NoisyCountStudent(SVC(), representation="raw").fit_counts(X, queries, counts, sigma2=2.0)
    soft = CalibratedStudent(student, 2.0, np.zeros(3))
    assert set(student.predict_proba(X).ravel()) == {0.0, 1.0}
    assert (soft.predict_proba(X).max(axis=1) < 1).all()
    soft.n_features_in_ = 3
    export_student(soft, tmp_path)
    loaded = load_student(tmp_path)
    assert (loaded.predict(X) == soft.predict(X)).all()
    np.testing.assert_allclose(loaded.predict_proba(X), soft.predict_proba(X), atol=1e-9)


def test_rows_without_finite_probabilities_do_not_choose_the_last_temperature():
    sure, labels = np.tile([[0.6, 0.4]], (500, 1)), np.zeros(500, int)
    some = np.concatenate([sure, [[np.nan, 0.5], [np.inf, 0.5]]])
    expected = temperature_of_accuracy(sure, labels, np.ones(len(sure)), share=0.8, sd=0.02)
    assert 0.1 < expected < 1
    assert temperature_of_accuracy(some, np.zeros(502, int), np.ones(502), share=0.8, sd=0.02) == expected
    assert temperature_of_accuracy(some[500:], labels[:2], np.ones(2), share=0.8, sd=0.02) == 1
