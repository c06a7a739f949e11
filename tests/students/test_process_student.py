"""The Gaussian process on sums and counts: its closed form, what it does with clusters and without, what leaves."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from ostrakon.export.student_files import export_student, load_student
from ostrakon.features.graph import build_graph
from ostrakon.features.moments import MomentMap
from ostrakon.students import process_student
from ostrakon.students.cells import cell_of
from ostrakon.students.moment_students import MomentLogistic, MomentVote, ReleasedMoments
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.process_student import GaussianProcessStudent
from ostrakon.students.selection import Candidate, Released, select
from ostrakon.validation import InvalidInput

CENTRES = np.array([[-3.0, -3.0], [-3.0, 3.0], [3.0, -3.0], [3.0, 3.0]])


def rows(number, *, clusters, seed):
    """Rows and labels: of four clusters, of which opposite ones have one class; else of a line."""
    rng = np.random.default_rng(seed)
    if clusters:
        cluster = rng.integers(4, size=number)
        X = np.column_stack([CENTRES[cluster], np.zeros((number, 3))]) + rng.normal(size=(number, 5))
        return X.astype(np.float32), np.isin(cluster, [0, 3]).astype(int)
    X = rng.normal(size=(number, 40))
    return X.astype(np.float32), (X[:, :8].sum(axis=1) + rng.normal(size=number) > 0).astype(int)


def released(X, *, clusters, sigma=10.0, classes=2):
    private, y = rows(4000, clusters=clusters, seed=1)
    directions = MomentMap.of(X, classes=classes)
    sums = np.stack([directions.unrounded(private[y == label]).sum(axis=0) for label in range(classes)], axis=1)
    sums = sums - sums.mean(axis=1, keepdims=True)
    queries = np.arange(60)
    counts = np.zeros((60, classes))
    np.add.at(counts, (cell_of(private, X[queries]), y), 1)
    rng = np.random.default_rng(2)
    sums, counts = (clean + rng.normal(scale=sigma, size=clean.shape) for clean in (sums, counts))
    moments = ReleasedMoments(sums=sums, sigma=sigma, records=len(private), directions=directions)
    return Released(queries=queries, counts=counts, sigma2=sigma, moments=moments)


def fitted(*, clusters, other=None):
    X, _ = rows(600, clusters=clusters, seed=0)
    release = released(X, clusters=clusters)
    return release.fit_student(GaussianProcessStudent(other), X), release, X


def test_labels_of_clusters_are_learned_where_a_line_says_nothing():
    student, release, X = fitted(clusters=True)
    assert student.sizes_[2] > 10 * student.sizes_[1]
    test, y = rows(1000, clusters=True, seed=3)
    assert np.mean(MomentLogistic().fit_moments(X, release).predict(test) == y) < 0.65
    assert np.mean(student.predict(test) == y) > 0.95
    np.testing.assert_allclose(student.predict_proba(test).sum(axis=1), 1)


def test_rows_that_are_held_out_stay_in_the_graph_which_is_built_once(monkeypatch):
    X, _ = rows(640, clusters=True, seed=5)
    release, sizes = released(X, clusters=True), []

    def counted(features, **options):
        sizes.append(len(features))
        return build_graph(features, **options)

    monkeypatch.setattr(process_student, "build_graph", counted)
    chosen = select([Candidate(name="process", student=GaussianProcessStudent())], X, X, release)
    assert sizes == [640]
    again = release.fit_student(GaussianProcessStudent(), X)
    assert sizes == [640]
    np.testing.assert_array_equal(again.beliefs_, chosen.student.beliefs_)
    assert not np.isnan(chosen.proba).any()
    assert chosen.proba.max(axis=1).min() > 0.5
    release.fit_student(GaussianProcessStudent(), X + np.float32(0.5))
    assert sizes == [640, 640]


def test_without_clusters_it_is_as_good_as_a_line():
    student, release, X = fitted(clusters=False)
    test, y = rows(1000, clusters=False, seed=3)
    alone = np.mean(MomentLogistic().fit_moments(X, release).predict(test) == y)
    assert alone > 0.75
    assert np.mean(student.predict(test) == y) > alone - 0.01


def test_noise_that_exceeds_every_sum_teaches_nothing():
    X, _ = rows(600, clusters=True, seed=0)
    student = released(X, clusters=True, sigma=1e5).fit_student(GaussianProcessStudent(), X)
    assert max(np.abs(student.coef_[1:]).max(), np.abs(student.beliefs_).max()) < 0.01


def problem():
    rng = np.random.default_rng(0)
    basis, group = rng.normal(size=(12, 7)), np.array([0, 1, 1, 1, 2, 2, 2])
    observed = basis @ rng.normal(size=(7, 3)) + rng.normal(size=(12, 3))
    return basis, observed - observed.mean(axis=1, keepdims=True), group


def test_weights_are_the_posterior_mean_and_sizes_maximize_the_likelihood():
    basis, observed, group = problem()
    weights, sizes = process_student._likeliest(basis, observed, group)
    spread = np.diag(sizes[group])
    law = np.eye(12) + basis @ spread @ basis.T
    np.testing.assert_allclose(weights, spread @ basis.T @ np.linalg.solve(law, observed), atol=1e-8)
    # In two directions in which numbers that sum to 0 over three classes may differ.
    turned = observed @ np.array([[1, -1, 0], [1, 1, -2]]).T / np.sqrt([2, 6])

    def likelihood(logs):
        law = np.eye(12) + (basis * np.exp(logs)[group]) @ basis.T
        return multivariate_normal(cov=law).logpdf(turned.T).sum()

    best = likelihood(np.log(sizes))
    for number in range(3):
        for step in (-0.3, 0.3):
            assert likelihood(np.log(sizes) + step * np.eye(3)[number]) < best + 1e-9


def test_the_likelihood_has_its_gradient(monkeypatch):
    seen = []

    def minimize(function, start, **_):
        seen.append(function)
        return type("Solution", (), {"x": start})

    monkeypatch.setattr(process_student, "minimize", minimize)
    process_student._likeliest(*problem())
    for at in ([-2.0, 0.0, 1.0], [0.5, -3.0, -1.0]):
        assert check_grad(lambda logs: seen[0](logs)[0], lambda logs: seen[0](logs)[1], np.array(at)) < 1e-5


def test_another_student_counts_as_much_as_the_process_and_the_line():
    other = NoisyCountStudent(DecisionTreeClassifier(max_depth=2), representation="raw")
    student, release, X = fitted(clusters=True, other=other)
    two, third = (release.fit_student(each, X) for each in (GaussianProcessStudent(), clone(other)))
    likely = np.zeros((len(X), 2))
    likely[:, third.classes_] = third.predict_proba(X)
    np.testing.assert_allclose(student.predict_proba(X), (2 * two.predict_proba(X) + likely) / 3)


@pytest.mark.parametrize("other", [None, NoisyCountStudent(GaussianNB(), representation="raw")])
def test_it_leaves_as_onnx_and_says_the_same(tmp_path, other):
    student, _, X = fitted(clusters=True, other=other)
    student.n_features_in_ = 5
    export_student(student, tmp_path / "student")
    loaded = load_student(tmp_path / "student")
    far = np.vstack([X, rows(200, clusters=True, seed=4)[0], X[:50] * 100])
    np.testing.assert_allclose(loaded.predict_proba(far), student.predict_proba(far), atol=1e-9)
    assert np.array_equal(loaded.predict(far), student.predict(far))


@pytest.mark.parametrize("pool", [3, 450])
def test_few_rows_and_equal_rows_are_enough(pool):
    X, _ = rows(pool, clusters=True, seed=0)
    X[pool // 2 :] = X[0]
    release = released(rows(600, clusters=True, seed=0)[0], clusters=True)
    few = Released(queries=np.arange(2), counts=release.counts[:2], sigma2=release.sigma2, moments=release.moments)
    assert np.isfinite(few.fit_student(GaussianProcessStudent(), X).predict_proba(X)).all()


def test_without_sums_it_is_refused():
    nothing = Released(queries=np.arange(3), counts=np.eye(3)[:, :2], sigma2=1.0)
    X, y = rows(30, clusters=False, seed=0)
    with pytest.raises(InvalidInput, match="moment-gnmax releases"):
        GaussianProcessStudent().fit(X, y)
    with pytest.raises(InvalidInput, match="moment-gnmax releases"):
        nothing.fit_student(GaussianProcessStudent(), X)


@pytest.mark.parametrize("kind", [GaussianProcessStudent, MomentVote])
def test_counts_that_noise_swallows_leave_the_sums(kind, tmp_path):
    X, _ = rows(600, clusters=False, seed=0)
    release = replace(released(X, clusters=False), counts=np.full((60, 2), -100.0))
    student = release.fit_student(kind(NoisyCountStudent(representation="raw")), X)
    test, y = rows(1000, clusters=False, seed=3)
    assert student.other_ is None
    assert np.mean(student.predict(test) == y) > 0.7
    alone = release.fit_student(MomentLogistic() if kind is MomentVote else kind(), X)
    np.testing.assert_array_equal(student.predict_proba(test), alone.predict_proba(test))
    student.n_features_in_ = X.shape[1]
    export_student(student, tmp_path / "student")
    said = load_student(tmp_path / "student").predict_proba(test)
    np.testing.assert_allclose(said, student.predict_proba(test), atol=1e-9)
