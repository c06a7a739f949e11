"""Students of sums of features: the logistic regression that labels would give, what noise does to it, what leaves."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from ostrakon.export.student_files import export_student, load_student
from ostrakon.features.moments import MomentMap
from ostrakon.students.cells import cell_of
from ostrakon.students.moment_students import MomentLogistic, MomentVote, ReleasedMoments, records_by_row
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.students.selection import Released
from ostrakon.validation import InvalidInput

X, y = make_blobs(1500, centers=3, n_features=4, cluster_std=4.0, random_state=2)
DIRECTIONS = MomentMap.of(X)


def released(sigma=1e-3, *, noise=0.0, rows=X, labels=y, directions=DIRECTIONS, public=X):
    said = directions.unrounded(rows)
    sums = np.stack([said[labels == label].sum(axis=0) for label in range(3)], axis=1)
    sums = sums + np.random.default_rng(0).normal(scale=noise, size=sums.shape) if noise else sums
    moments = ReleasedMoments(sums=sums, sigma=sigma, records=len(rows), directions=directions)
    queries = np.arange(30)
    counts = np.zeros((30, 3))
    np.add.at(counts, (cell_of(rows.astype(np.float32), public[:30].astype(np.float32)), labels), 1)
    return Released(queries=queries, counts=counts, sigma2=1.0, moments=moments)


def test_sums_without_noise_give_the_logistic_regression_of_the_labels():
    found = MomentLogistic().fit_moments(X, released())
    peer = LogisticRegression(C=1e3, fit_intercept=False, tol=1e-8, max_iter=5000).fit(DIRECTIONS.unrounded(X), y)
    np.testing.assert_allclose(found.predict_proba(X), peer.predict_proba(DIRECTIONS.unrounded(X)), atol=2e-3)
    assert found.classes_.tolist() == [0, 1, 2]


def test_other_public_rows_of_the_same_kind_give_nearly_the_same():
    found = MomentLogistic().fit_moments(X[750:], released(sigma=1.0, rows=X[:750], labels=y[:750], public=X[750:]))
    peer = LogisticRegression().fit(X[:750], y[:750])
    assert found.score(X[750:], y[750:]) > peer.score(X[750:], y[750:]) - 0.02


def test_public_rows_stand_for_as_many_records_as_counts_say():
    """Labels depend on rows nonlinearly, so a linear student depends on the frequencies of rows."""
    rng = np.random.default_rng(4)
    places, public = X[:30], np.tile(X[:30], (25, 1))
    at = rng.choice(30, 4000, p=softmax(0.3 * places[:, 0]))
    labels = (np.square(places[:, 1]) > 20).astype(np.int64)[at] + (places[:, 2] > 0)[at]
    release = released(sigma=1.0, rows=places[at], labels=labels, public=public)
    equal, weighted, expected = (
        MomentLogistic().fit_moments(rows, each).predict_proba(X)
        for rows, each in (
            (public, replace(release, sigma2=None)),
            (public, release),
            (places[at], replace(release, sigma2=None)),
        )
    )
    assert np.abs(equal - expected).mean() > 0.1
    assert np.abs(weighted - expected).mean() < 0.01
    np.testing.assert_allclose(records_by_row(public, replace(release, sigma2=1e4)), 4000 / 750, rtol=0.01)
    np.testing.assert_allclose(records_by_row(public, replace(release, counts=-release.counts)), 4000 / 750)
    noise = 100.0 * np.random.default_rng(0).normal(size=release.counts.shape)
    noisy = replace(release, counts=release.counts + noise - (release.counts + noise).mean() - 0.1, sigma2=100.0)
    assert records_by_row(public, noisy).max() < 3 * 4000 / 750


def test_the_penalty_grows_with_the_noise():
    weak, strong = (MomentLogistic(penalty).fit_moments(X, released(sigma=20.0, noise=20.0)) for penalty in (0.01, 1.0))
    assert np.linalg.norm(strong.coef_) < 0.7 * np.linalg.norm(weak.coef_)
    assert strong.score(X, y) > 0.8 * MomentLogistic().fit_moments(X, released()).score(X, y)


@pytest.mark.parametrize("sigma", [1e-3, 20.0])
def test_centred_sums_without_noise_teach_the_same(sigma):
    centred = MomentMap.of(X, classes=3)
    said = centred.unrounded(X)
    plain = np.stack([said[y == label].sum(axis=0) for label in range(3)], axis=1)
    exact = plain - plain.mean(axis=1, keepdims=True)
    moments = ReleasedMoments(sums=exact, sigma=sigma, records=len(X), directions=centred)
    found = MomentLogistic().fit_moments(X, Released(queries=np.arange(0), counts=np.empty((0, 3)), moments=moments))
    # The weights of a feature are penalized alike, whatever the length of features.
    peer = MomentLogistic().fit_moments(X, released(sigma=sigma))
    np.testing.assert_allclose(found.predict_proba(X), peer.predict_proba(X), atol=0.01)
    np.testing.assert_allclose(moments.sizes, np.bincount(y), atol=len(X) / 1000)


class Two(BaseEstimator):
    """A student that has met the classes 0 and 2 alone."""

    def fit_counts(self, X, queries, counts, *, sigma2):
        self.classes_ = np.array([0, 2])
        return self

    def predict_proba(self, X):
        return np.tile([0.3, 0.7], (len(X), 1))


def test_a_vote_is_the_mean_of_both_and_knows_classes_that_the_other_does_not():
    few = released(sigma=1.0)
    vote = MomentVote(Two()).fit_moments(X, few)
    expected = MomentLogistic().fit_moments(X, few).predict_proba(X)
    expected += [0.3, 0, 0.7]
    np.testing.assert_allclose(vote.predict_proba(X), expected / 2, rtol=1e-12)
    np.testing.assert_allclose(vote.predict_proba(X).sum(axis=1), 1)


def test_both_leave_as_onnx_and_say_the_same(tmp_path):
    other = NoisyCountStudent(representation="raw", random_state=0)
    few, near = MomentMap.of(X, most=2, classes=3), MomentMap.of(X, centres=X[:40])
    for name, student, directions in (
        ("linear", MomentLogistic(), DIRECTIONS),
        ("few", MomentLogistic(), few),
        ("near", MomentLogistic(), near),
        ("vote", MomentVote(other), DIRECTIONS),
    ):
        fitted = released(sigma=1.0, directions=directions).fit_student(student, X)
        fitted.n_features_in_ = 4
        export_student(fitted, tmp_path / name)
        loaded = load_student(tmp_path / name)
        far = np.vstack([X, X * 1e6])
        np.testing.assert_allclose(loaded.predict_proba(far), fitted.predict_proba(far), atol=1e-9)
        assert np.array_equal(loaded.predict(far), fitted.predict(far))


def test_without_sums_both_are_refused():
    nothing = Released(queries=np.arange(3), counts=np.eye(3), sigma2=1.0)
    for student in (MomentLogistic(), MomentVote(NoisyCountStudent())):
        with pytest.raises(InvalidInput, match="moment-gnmax releases"):
            student.fit(X, y)
        with pytest.raises(InvalidInput, match="moment-gnmax releases"):
            nothing.fit_student(student, X)
