"""The student of noisy histograms: it learns, and weighs what was said clearly."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from ostrakon.public import representatives
from ostrakon.students.noisy_counts import NoisyCountStudent, cluster_means
from ostrakon.teachers.per_record import nearest
from ostrakon.validation import InvalidInput

X, y = make_classification(9000, 8, n_informative=5, n_redundant=0, flip_y=0.1, class_sep=0.8, random_state=3)
X = X.astype(np.float32)
PRIVATE, PUBLIC, TEST = slice(0, 6000), slice(6000, 7500), slice(7500, 9000)
QUERIES = representatives(X[PUBLIC], 80, random_state=0)


def counts(sigma, seed=0):
    heard = np.zeros((80, 2))
    np.add.at(heard, (nearest(X[PRIVATE], X[PUBLIC][QUERIES]), y[PRIVATE]), 1)
    return heard + np.random.default_rng(seed).normal(0, sigma, heard.shape)


def accuracy(sigma, **options):
    student = NoisyCountStudent(representation="raw").fit_counts(X[PUBLIC], QUERIES, counts(sigma), sigma2=sigma)
    return (student.predict(X[TEST]) == y[TEST]).mean()


def test_it_learns_and_more_noise_makes_it_worse():
    best = LogisticRegression().fit(X[PRIVATE], y[PRIVATE]).score(X[TEST], y[TEST])
    assert accuracy(2.0) > best - 0.03
    assert accuracy(2.0) > accuracy(400.0) + 0.05


def test_plain_labels_are_taken_too():
    labels = np.full(1500, -1)
    labels[QUERIES] = y[PUBLIC][QUERIES]
    student = NoisyCountStudent(representation="raw").fit(X[PUBLIC], labels)
    assert (student.predict(X[TEST]) == y[TEST]).mean() > 0.7


def test_clear_counts_weigh_more_than_labels_alone():
    noisy = counts(20.0)
    hard = LogisticRegression().fit(X[PUBLIC][QUERIES], noisy.argmax(axis=1)).score(X[TEST], y[TEST])
    assert accuracy(20.0) > hard


def test_probabilities_classes_and_gaps():
    heard = np.column_stack([counts(2.0), np.full(80, -5.0)])[:, [0, 2, 1]]
    student = NoisyCountStudent(representation="raw").fit_counts(X[PUBLIC], QUERIES, heard, sigma2=2.0)
    assert student.classes_.tolist() == [0, 2]
    made = student.predict_proba(X[TEST])
    assert np.array_equal(student.classes_[made.argmax(axis=1)], student.predict(X[TEST]))
    alone = NoisyCountStudent(representation="raw").fit_counts(X[PUBLIC], QUERIES, -heard * [-1, 1e-9, 1], sigma2=2.0)
    assert alone.predict(X[TEST][:3]).shape == (3,)


def test_cluster_means_are_those_of_the_nearest_rows():
    features, centres = X[:300], X[[3, 50, 200]]
    own = np.linalg.norm(features[:, None] - centres[None], axis=2).argmin(axis=1)
    expected = np.array([features[own == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose(cluster_means(features, centres), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queries": [[1]]},
        {"queries": [99999]},
        {"queries": [-1]},
        {"counts": np.ones((3, 2))},
        {"counts": np.full((80, 2), np.nan)},
        {"counts": -np.ones((80, 2))},
        {"sigma2": 0},
        {"sigma2": np.nan},
    ],
)
def test_wrong_input_is_refused(wrong):
    given = {"queries": QUERIES, "counts": counts(2.0), "sigma2": 2.0, **wrong}
    with pytest.raises(InvalidInput):
        NoisyCountStudent(representation="raw").fit_counts(X[PUBLIC], **given)
