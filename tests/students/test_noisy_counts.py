"""The student of noisy histograms: it learns, and weighs what was said clearly."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.estimators.choices import make_student
from ostrakon.features import representatives
from ostrakon.students.cells import cell_means, cell_of, likely_counts, shared_out
from ostrakon.students.noisy_counts import NoisyCountStudent
from ostrakon.teachers.per_record import nearest
from ostrakon.validation import InvalidInput

X, y = make_classification(9000, 8, n_informative=5, n_redundant=0, flip_y=0.1, class_sep=0.8, random_state=3)
X = X.astype(np.float32)
PRIVATE, PUBLIC, TEST = slice(0, 6000), slice(6000, 7500), slice(7500, 9000)
QUERIES = representatives(X[PUBLIC], 80, random_state=0)


def counts(sigma, seed=0):
    collected = np.zeros((80, 2))
    np.add.at(collected, (nearest(X[PRIVATE], X[PUBLIC][QUERIES]), y[PRIVATE]), 1)
    return collected + np.random.default_rng(seed).normal(0, sigma, collected.shape)


def accuracy(sigma, **options):
    student = NoisyCountStudent(representation="raw", **options).fit_counts(
        X[PUBLIC], QUERIES, counts(sigma), sigma2=sigma
    )
    return (student.predict(X[TEST]) == y[TEST]).mean()


def test_it_learns_and_more_noise_makes_it_worse():
    best = LogisticRegression().fit(X[PRIVATE], y[PRIVATE]).score(X[TEST], y[TEST])
    assert accuracy(2.0) > best - 0.03
    assert accuracy(2.0) > accuracy(400.0) + 0.05


def test_plain_labels_are_taken_too():
    found = []
    for seed in range(4):
        queries = representatives(X[PUBLIC], 80, random_state=seed)
        labels = np.full(1500, -1)
        labels[queries] = y[PUBLIC][queries]
        student = NoisyCountStudent(representation="raw").fit(X[PUBLIC], labels)
        found.append((student.predict(X[TEST]) == y[TEST]).mean())
    # 0.695 on average over eight seeds, with a standard deviation of 0.013 for each of them.
    assert np.mean(found) > 0.675


def test_clear_counts_weigh_more_than_labels_alone():
    noisy = counts(20.0)
    hard = LogisticRegression().fit(X[PUBLIC][QUERIES], noisy.argmax(axis=1)).score(X[TEST], y[TEST])
    assert accuracy(20.0) > hard


def test_probabilities_classes_and_gaps():
    collected = np.column_stack([counts(2.0), np.full(80, -5.0)])[:, [0, 2, 1]]
    student = NoisyCountStudent(representation="raw").fit_counts(X[PUBLIC], QUERIES, collected, sigma2=2.0)
    assert student.classes_.tolist() == [0, 2]
    made = student.predict_proba(X[TEST])
    assert np.array_equal(student.classes_[made.argmax(axis=1)], student.predict(X[TEST]))
    alone = NoisyCountStudent(representation="raw").fit_counts(
        X[PUBLIC], QUERIES, -collected * [-1, 1e-9, 1], sigma2=2.0
    )
    assert alone.predict(X[TEST][:3]).shape == (3,)


def test_cell_means_are_those_of_the_nearest_rows():
    features, centres = X[:300], X[[3, 50, 200]]
    own = np.linalg.norm(features[:, None] - centres[None], axis=2).argmin(axis=1)
    expected = np.array([features[own == k].mean(axis=0) for k in range(3)])
    np.testing.assert_array_equal(cell_of(features, centres), own)
    np.testing.assert_allclose(cell_means(features, own, centres), expected, rtol=1e-4, atol=1e-5)


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


def test_likely_counts_are_counts_and_nearer_to_the_truth_than_noisy_ones():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, 200)
    true = rng.multinomial(1, rng.dirichlet(np.full(10, 0.1), 200)) * rng.poisson(3 * sizes)[:, None]
    noisy = true + rng.normal(0, 10, true.shape)
    likely = likely_counts(noisy, sizes, sigma2=10.0)
    assert (likely >= 0).all()
    error = [np.square(found - true).sum() for found in (likely, np.maximum(noisy, 0), noisy)]
    assert error[0] < 0.7 * error[1] < 0.7 * error[2]
    # Without noise there is nothing to correct; a cell without public rows is judged by its sum alone, or is empty.
    np.testing.assert_allclose(likely_counts(true + 0.0, sizes, sigma2=1e-6), true, atol=1e-6)
    assert likely_counts(np.array([[5.0, 1.0], [9.0, -3.0]]), np.array([3, 0]), sigma2=1.0)[1].sum() == pytest.approx(
        0, abs=1e-6
    )


def test_rows_and_means_of_a_cell_teach_alike_and_others_are_refused():
    assert accuracy(2.0, examples="means") == pytest.approx(accuracy(2.0), abs=0.02)
    with pytest.raises(InvalidInput, match="examples must be one of rows, means"):
        accuracy(2.0, examples="medoids")


def test_a_kernel_machine_that_is_named_learns_from_the_means_of_cells_as_the_one_that_is_tried():
    assert make_student("svm-rbf", counts=True).examples == "means"
    assert make_student("logistic", counts=True).examples == "rows"


def test_an_estimator_that_cannot_weigh_is_refused():
    with pytest.raises(InvalidInput, match="estimator must take sample_weight"):
        accuracy(2.0, estimator=KNeighborsClassifier())


def test_what_a_cell_was_answered_is_shared_out_by_what_its_rows_look_like():
    rng = np.random.default_rng(0)
    own, beliefs = rng.integers(0, 20, 400), rng.dirichlet([1.0, 1.0, 1.0], 400)
    sizes, shares = np.bincount(own, minlength=20), rng.dirichlet([2.0, 2.0, 2.0], 20)
    given = shared_out(beliefs, own, shares, sizes=sizes, steps=200)
    np.testing.assert_allclose(given.sum(axis=1), 1)
    means = np.array([given[own == cell].mean(axis=0) for cell in range(20)])
    np.testing.assert_allclose(means, shares, atol=1e-3)
    # Two rows of one cell keep their order.
    first, second = np.flatnonzero(own == 0)[:2]
    odds = [beliefs[row, 0] / beliefs[row, 1] for row in (first, second)]
    assert (odds[0] > odds[1]) == (given[first, 0] / given[first, 1] > given[second, 0] / given[second, 1])


class Watched(LogisticRegression):
    """Remembers what it was taught."""

    taught: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Watched.taught.append((X, y, sample_weight))
        return super().fit(X, y, sample_weight)


def test_rounds_move_counts_within_its_cells_alone():
    Watched.taught = []
    student = NoisyCountStudent(Watched(), representation="raw", rounds=2, random_state=0)
    student.fit_counts(X[PUBLIC], QUERIES, counts(2.0), sigma2=2.0)
    collected = []
    for rows, classes, weights in Watched.taught:
        mass = np.zeros((80, 2))
        np.add.at(mass, (cell_of(rows, X[PUBLIC][QUERIES]), classes), weights)
        collected.append(mass)
    assert len(collected) == 3
    for mass in collected[1:]:
        np.testing.assert_allclose(mass.sum(axis=1), collected[0].sum(axis=1), rtol=1e-2, atol=1e-2)
        assert np.abs(mass - collected[0]).sum() < 0.02 * collected[0].sum()
    # At first all rows of a cell count alike, then those that look like a class count more for it.
    spread = [np.std(weights) for _, _, weights in Watched.taught]
    assert spread[0] < spread[1]
    assert (student.predict(X[TEST]) == y[TEST]).mean() > accuracy(2.0) - 0.02
    with pytest.raises(InvalidInput, match="rounds"):
        accuracy(2.0, rounds=-1)
