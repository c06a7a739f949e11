"""The correction of a student: its equation, what it repairs, and that noise alone does little."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from ostrakon.features.corrections import largest_error
from ostrakon.features.moments import MomentMap
from ostrakon.students.corrected_student import LEAST, CorrectedStudent, bounded, of_all_classes
from ostrakon.students.corrected_student import _penalty as penalty_of
from ostrakon.students.moment_students import ReleasedMoments, records_by_row
from ostrakon.students.selection import Released
from ostrakon.validation import InvalidInput


def world(records, rng, *, shift=0.0, classes=3):
    """Features, and labels of a linear model."""
    X = rng.normal(size=(records, 4)) + shift
    weights = np.random.default_rng(5).normal(size=(4, classes))
    labels = np.array([rng.choice(classes, p=row) for row in softmax(1.5 * X @ weights, axis=1)])
    return X, labels


@pytest.fixture
def scene():
    """A poor student of 100 labels, public rows that differ from 20,000 private ones, exact sums of its errors."""
    rng = np.random.default_rng(1)
    few, given = world(100, rng, shift=1.0)
    X, y = world(20_000, rng)
    public = world(400, rng, shift=0.1)[0]
    student = LogisticRegression(C=0.03).fit(few, given)
    directions = MomentMap.of(public, classes=3)
    counts = np.full((2, 3), len(X) / 6)
    moments = ReleasedMoments(sums=np.ones((5, 3)), sigma=1.0, records=len(X), directions=directions)
    released = Released(queries=np.arange(2), counts=counts, sigma2=1.0, moments=moments)
    proba = bounded(student.predict_proba(X))
    error = (np.eye(3)[y] - proba) / largest_error(proba)[:, None]
    return student, directions, released, public, (X, y), directions.unrounded(X).T @ error


def test_it_solves_its_equation(scene):
    """Public rows' weighted change of probabilities times their directions is the released sum, less the penalty."""
    student, directions, released, public, _, sums = scene
    for sigma in (0.5, 20.0):
        fitted = CorrectedStudent(student, directions).fit_corrections(public, released, sums, sigma=sigma)
        proba, corrected = bounded(student.predict_proba(public)), fitted.predict_proba(public)
        weight = records_by_row(public, released) / largest_error(proba)
        change = directions.unrounded(public).T @ (weight[:, None] * (corrected - proba))
        errors = sums - sums.mean(axis=1, keepdims=True)
        penalty = penalty_of(directions.unrounded(public), weight, proba, errors, sigma)
        target = errors - penalty @ fitted.coef_
        np.testing.assert_allclose(change, target, atol=2e-3 * np.abs(sums).max())


def test_it_repairs_a_student_of_few_labels(scene):
    student, directions, released, public, _, sums = scene
    X, y = world(20_000, np.random.default_rng(9))
    fitted = CorrectedStudent(student, directions).fit_corrections(public, released, sums, sigma=1.0)
    before, after = np.mean(student.predict(X) == y), np.mean(fitted.predict(X) == y)
    best = LogisticRegression(C=1e3).fit(*world(20_000, np.random.default_rng(10))).score(X, y)
    assert best - before > 0.1
    assert best - after < (best - before) / 2
    # Sums of the opposite sign do not.
    worse = CorrectedStudent(student, directions).fit_corrections(public, released, -sums, sigma=1.0)
    assert np.mean(worse.predict(X) == y) < before


def test_noise_alone_changes_little(scene):
    """With sums of 0 nothing changes; noise of 200 votes in the sums of 20,000 records moves few predictions."""
    student, directions, released, public, (X, _), sums = scene
    fitted = CorrectedStudent(student, directions).fit_corrections(public, released, np.zeros_like(sums), sigma=1.0)
    np.testing.assert_allclose(fitted.predict_proba(X), bounded(student.predict_proba(X)), atol=1e-9)
    noise = 200 * np.random.default_rng(0).normal(size=sums.shape)
    fitted.fit_corrections(public, released, noise, sigma=200.0)
    assert np.mean(fitted.predict(X) != student.predict(X)) < 0.05


@pytest.mark.parametrize(
    ("sigma", "truth", "least", "most"), [(1e6, 0.0, 0.5, 0.7), (1.0, 9.0, 4.0, 20.0), (1.0, 0.0, 0.0, 0.1)]
)
def test_corrections_have_the_usual_size_unless_errors_show_another(scene, sigma, truth, least, most):
    """The mean variance of corrections of log odds: 0.6 if noise hides all errors, else about that of the truth."""
    student, directions, _, public, _, sums = scene
    rows, proba, rng = directions.unrounded(public), bounded(student.predict_proba(public)), np.random.default_rng(3)
    weight = np.full(len(rows), 20_000 / len(rows))
    spread = weight * (proba * (1 - proba)).sum(axis=1) / 2
    hessian = (rows * spread[:, None]).T @ rows
    scale = (truth * spread.sum() / np.trace(hessian)) ** 0.5
    errors = hessian @ rng.normal(scale=scale, size=sums.shape) + rng.normal(scale=sigma, size=sums.shape)
    values, vectors = np.linalg.eigh(hessian)
    penalties = np.diag(vectors.T @ penalty_of(rows, weight, proba, errors, sigma) @ vectors)
    assert least <= ((sigma**2 + values) / penalties).sum() / spread.sum() <= most


def test_a_class_that_the_student_does_not_know_can_be_learned(scene):
    _, directions, released, public, (X, y), _ = scene
    student = LogisticRegression().fit(X[y < 2], y[y < 2])
    proba = bounded(of_all_classes(student.predict_proba(X), student.classes_, 3))
    assert proba[:, 2].max() < 1.01 * LEAST
    error = (np.eye(3)[y] - proba) / largest_error(proba)[:, None]
    fitted = CorrectedStudent(student, directions)
    fitted.fit_corrections(public, released, directions.unrounded(X).T @ error, sigma=1.0)
    assert np.mean(fitted.predict(X)[y == 2] == 2) > 0.5


def test_it_refuses_labels_and_sums_that_are_not_finite(scene):
    student, directions, released, public, (X, y), sums = scene
    corrected = CorrectedStudent(student, directions)
    with pytest.raises(InvalidInput, match="not from labels of rows"):
        corrected.fit(X, y)
    sums[0, 0] = np.nan
    with pytest.raises(InvalidInput, match="must be finite"):
        corrected.fit_corrections(public, released, sums, sigma=1.0)
