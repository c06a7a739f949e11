"""The graph students: they learn, use the unlabelled rows, and shrug off a wrong label."""

import pickle
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.neighbors import KNeighborsClassifier

from ostrakon.features import learn_representation, representatives
from ostrakon.features.rowwise import BLOCK, independent_rows
from ostrakon.students.graph_model import GraphStudent, KernelOnFeatures, lead
from ostrakon.students.label_spreading import LabelSpreadingStudent, neighbour_weights
from ostrakon.validation import InvalidInput


def moons(seed=1, per_class=2):
    X, y = make_moons(500, noise=0.08, random_state=seed)
    labels = np.full(500, -1)
    for k in (0, 1):
        labels[np.flatnonzero(y == k)[:per_class]] = k
    X_new, y_new = make_moons(300, noise=0.08, random_state=seed + 100)
    return X, labels, y, X_new, y_new


def students(X):
    kernel = GraphStudent(KernelOnFeatures("raw"), representation="raw", random_state=0)
    return [LabelSpreadingStudent("raw", strength=0.99), kernel.set_params(strength=0.99)]


@pytest.mark.parametrize("which", [0, 1])
def test_it_learns_from_the_unlabelled_rows_and_speaks_of_new_ones(which):
    X, labels, _, X_new, y_new = moons()
    student = students(X)[which].fit(X, labels)
    known = labels >= 0
    alone = KNeighborsClassifier(1).fit(X[known], labels[known])
    assert (student.predict(X_new) == y_new).mean() > 0.97
    # One that ignored the unlabelled rows could do no better than this.
    assert (alone.predict(X_new) == y_new).mean() < 0.92
    probabilities = student.predict_proba(X_new)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert np.array_equal(student.classes_[probabilities.argmax(axis=1)], student.predict(X_new))


@pytest.mark.parametrize("which", [0, 1])
def test_a_wrong_answer_is_outvoted(which):
    X, labels, _, X_new, y_new = moons(per_class=12)
    wrong = np.flatnonzero(labels == 0)[3]
    labels[wrong] = 1
    student = students(X)[which].fit(X, labels)
    assert (student.predict(X_new) == y_new).mean() > 0.93


@pytest.mark.parametrize("which", [0, 1])
def test_it_is_deterministic_cloneable_and_picklable(which):
    X, labels, _, X_new, _ = moons()
    first = students(X)[which]
    a, b = clone(first).fit(X, labels), clone(first).fit(X, labels)
    assert np.array_equal(a.predict_proba(X_new), b.predict_proba(X_new))
    assert np.array_equal(pickle.loads(pickle.dumps(a)).predict(X_new), a.predict(X_new))


@pytest.mark.parametrize("which", [0, 1])
def test_class_numbers_may_have_gaps_and_one_class_may_be_alone(which):
    X, labels, _, X_new, y_new = moons()
    gapped = np.where(labels == 1, 7, np.where(labels == 0, 3, -1))
    student = students(X)[which].fit(X, gapped)
    assert student.classes_.tolist() == [3, 7]
    assert (student.predict(X_new) == np.where(y_new, 7, 3)).mean() > 0.97
    alone = students(X)[which].fit(X, np.where(labels == 1, 4, -1))
    assert (alone.predict(X_new) == 4).all()
    assert alone.predict_proba(X_new).shape == (300, 1)


@pytest.mark.parametrize("which", [0, 1])
def test_wrong_labels_are_refused(which):
    X, labels, *_ = moons()
    for wrong in (np.full(500, -1), labels[:-1], labels.astype(float), labels - 1):
        with pytest.raises(InvalidInput):
            students(X)[which].fit(X, wrong)


def test_wrong_parameters_are_refused():
    X, labels, *_ = moons()
    for wrong in (
        {"rounds": 0},
        {"rounds": True},
        {"strength": 1.0},
        {"neighbours": 0},
        {"model": KNeighborsClassifier()},
    ):
        with pytest.raises(InvalidInput):
            GraphStudent(KernelOnFeatures("raw"), representation="raw").set_params(**wrong).fit(X, labels)


def test_the_model_corrects_the_graph_on_digits_from_thirty_representatives():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    public, test = np.arange(1200), np.arange(1200, 1797)
    chosen = representatives(learn_representation("pca", X[public]).transform(X[public]), 30, random_state=0)
    labels = np.full(1200, -1)
    labels[chosen] = y[chosen]
    student = GraphStudent(KernelOnFeatures("raw", C=5.0), representation="raw", random_state=0).fit(X[public], labels)
    assert (student.graph_.predict(X[test]) == y[test]).mean() > 0.85
    assert (student.predict(X[test]) == y[test]).mean() > 0.85


def test_lead_is_the_distance_of_the_two_likeliest():
    beliefs = np.array([[0.5, 0.5, 0], [0.9, 0.05, 0.05], [0.6, 0.0, 0.4], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(lead(beliefs), [0, 0.85, 0.2, 1])


def test_a_class_that_the_graph_loses_keeps_its_answers():
    X = np.concatenate([np.linspace(0, 1, 60), [0.5]])[:, None]
    labels = np.full(61, -1)
    labels[10:50], labels[60] = 0, 1
    student = GraphStudent(KernelOnFeatures("raw"), representation="raw", random_state=0).fit(X, labels)
    assert (student.graph_.beliefs_.argmax(axis=1) == 0).all()
    assert student.predict_proba(X).shape == (61, 2)
    assert student.models_[0].classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_a_network_corrects_the_graph_on_digits():
    pytest.importorskip("torch")
    X, y = load_digits(return_X_y=True)
    images = np.kron((X / 16).astype(np.float32).reshape(-1, 8, 8), np.ones((1, 3, 3), np.float32))
    features = learn_representation("hog", images, random_state=0).transform(images)
    chosen = representatives(features, 40, random_state=0)
    labels = np.full(len(X), -1)
    labels[chosen] = y[chosen]
    labels[chosen[3]] = (y[chosen[3]] + 1) % 10
    student = GraphStudent(rounds=2, random_state=0).fit(images, labels)
    spread = (student.graph_.beliefs_.argmax(axis=1) == y).mean()
    assert spread < 0.95
    assert (student.predict(images) == y).mean() > spread + 0.02


def test_a_row_counts_by_its_lead():
    X, labels, *_ = moons()

    class Spy(KernelOnFeatures):
        weights: ClassVar[list] = []

        def fit(self, X, y, sample_weight=None):
            Spy.weights.append(sample_weight)
            return super().fit(X, y, sample_weight)

    student = GraphStudent(Spy("raw"), representation="raw", rounds=2, random_state=0).fit(X, labels)
    first, second = Spy.weights
    np.testing.assert_allclose(first, np.maximum(lead(student.graph_.beliefs_), 1e-3))
    assert not np.allclose(first, second)


def test_images_get_a_network_where_torch_is_and_a_kernel_machine_otherwise(monkeypatch):
    rng = np.random.default_rng(0)
    bars = np.zeros((60, 12, 12), np.float32)
    y = np.arange(60) % 2
    for image, k, at in zip(bars, y, rng.integers(2, 9, 60), strict=True):
        if k:
            image[:, at : at + 2] = 1
        else:
            image[at : at + 2] = 1
    labels = np.where(np.arange(60) < 8, y, -1)
    import ostrakon.students.graph_model as module

    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    plain = GraphStudent(neighbours=5, random_state=0).fit(bars, labels)
    assert isinstance(plain.models_[0], KernelOnFeatures)
    assert (plain.predict(bars) == y).mean() > 0.8
    monkeypatch.undo()
    pytest.importorskip("torch")
    import ostrakon.networks.classifier as networks

    monkeypatch.setattr(networks, "TorchClassifier", Slow)
    student = GraphStudent(neighbours=5, rounds=1, random_state=0).fit(bars, labels)
    assert [type(model) for model in student.models_] == [Slow]
    # Twice as long until it knows what it was taught.
    assert Slow.tried == [200, 400]


class Slow(KernelOnFeatures):
    """A network in the eyes of the graph student, which needs 400 steps to learn anything."""

    tried: ClassVar[list] = []

    def __init__(self, network, *, steps=None, random_state=None, **options):
        super().__init__("raw")
        self.steps = steps

    def fit(self, X, y, sample_weight=None):
        Slow.tried.append(self.steps)
        return super().fit(X.reshape(len(X), -1), y if self.steps >= 400 else np.roll(y, 1), sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(X.reshape(len(X), -1))


def test_rounds_end_where_a_model_agrees_less_with_what_was_released():
    X, labels, y, *_ = moons()

    class Tiring(KernelOnFeatures):
        rounds: ClassVar[int] = 0

        def fit(self, X, y, sample_weight=None):
            Tiring.rounds += 1
            self.tired = Tiring.rounds == 3
            return super().fit(X, y, sample_weight)

        def predict_proba(self, X):
            made = super().predict_proba(X)
            return np.where(np.arange(len(made))[:, None] % 4 == 0, made[:, ::-1], made) if self.tired else made

    student = GraphStudent(Tiring("raw"), representation="raw", rounds=5, random_state=0).fit(X, labels)
    assert Tiring.rounds == 3
    # The first is left out as ever, and the third, which forgot.
    assert len(student.models_) == 1
    assert (student.predict(X) == y).mean() > 0.9


def test_a_graph_student_is_exported_and_read_back(tmp_path):
    from ostrakon.export.released import ReleasedStudent
    from ostrakon.export.row_form import RowForm
    from ostrakon.export.student_files import export_student, load_student

    X, labels, _, X_new, _ = moons()
    for student in students(X):
        fitted = student.fit(X, labels)
        leaving = ReleasedStudent(RowForm.of(X), None, fitted, [0, 1])
        export_student(leaving, tmp_path / type(student).__name__)
        assert np.array_equal(load_student(tmp_path / type(student).__name__).predict(X_new), fitted.predict(X_new))
        assert not hasattr(fitted, "exported_network")


def test_its_network_is_exported_as_a_network(tmp_path):
    pytest.importorskip("torch")
    from ostrakon.export.student_files import export_student, load_student
    from ostrakon.networks.classifier import TorchClassifier

    X, labels, _, X_new, _ = moons()
    X, X_new = X.astype(np.float32), X_new.astype(np.float32)
    network = GraphStudent(TorchClassifier("mlp", steps=60), representation="raw", rounds=1, random_state=0)
    network.fit(X, labels)
    written = export_student(network, tmp_path)
    assert written["format"] == "safetensors"
    assert (load_student(tmp_path).predict(X_new) == network.predict(X_new)).mean() > 0.99


def counts_of_moons(sigma, seed=0):
    """Noisy counts at sixty representatives, of five teachers at the fewest and 200 at the most."""
    X, _, y, X_new, y_new = moons()
    queries = representatives(X, 60, random_state=0)
    counts = np.linspace(5, 200, 60)[:, None] * np.eye(2)[y[queries]]
    return X, queries, counts + np.random.default_rng(seed).normal(0, sigma, counts.shape), X_new, y_new


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_noisy_counts_teach_more_than_their_largest(which):
    hard, soft = [], []
    for seed in range(10):
        X, queries, counts, X_new, y_new = counts_of_moons(50.0, seed)
        labels = np.full(len(X), -1)
        labels[queries] = counts.argmax(axis=1)
        student = students(X)[which].set_params(strength=0.9)
        hard.append((student.fit(X, labels).predict(X_new) == y_new).mean())
        student.fit_counts(X, queries, counts, sigma2=50.0)
        soft.append((student.predict(X_new) == y_new).mean())
        np.testing.assert_allclose(student.predict_proba(X_new).sum(axis=1), 1, rtol=1e-6)
    assert np.mean(soft) > 0.97
    assert np.mean(soft) > np.mean(hard) + 0.01


def test_a_class_that_nobody_names_is_not_learned_from_its_noise():
    X, queries, counts, X_new, _ = counts_of_moons(1.0)
    three = np.column_stack([counts[:, 0], np.full(60, -0.5), counts[:, 1]])
    student = LabelSpreadingStudent("raw").fit_counts(X, queries, three, sigma2=1.0)
    assert student.classes_.tolist() == [0, 2]
    assert set(student.predict(X_new)) <= {0, 2}
    alone = LabelSpreadingStudent("raw").fit_counts(X, queries, three * [1, 1, -1], sigma2=1.0)
    assert alone.predict(X_new).tolist() == [0] * len(X_new)
    with pytest.raises(InvalidInput, match="the noise exceeds every vote"):
        LabelSpreadingStudent("raw").fit_counts(X, queries, -counts, sigma2=1.0)


@pytest.mark.parametrize(
    "wrong",
    [{"queries": [9999]}, {"queries": [[0]]}, {"counts": np.full((60, 2), np.nan)}, {"counts": [1]}, {"sigma2": 0}],
)
@pytest.mark.parametrize("which", [0, 1])
def test_counts_that_do_not_fit_are_refused(which, wrong):
    X, queries, counts, _, _ = counts_of_moons(1.0)
    with pytest.raises(InvalidInput):
        students(X)[which].fit_counts(X, **{"queries": queries, "counts": counts, "sigma2": 1.0, **wrong})


@pytest.mark.parametrize("pool", [363, 673, 1142, 1276, 1548, 2069])
def test_a_block_of_rows_is_one_product_so_no_row_moves_another_s_bits(pool):
    rng = np.random.default_rng(pool)
    rows, beliefs = rng.normal(size=(pool, 12)), rng.dirichlet(np.ones(3), pool)
    sizes = []

    def means(X):
        parts = [weights for _, weights in neighbour_weights(X, rows, 10)]
        sizes.extend(map(len, parts))
        return np.concatenate([weights @ beliefs for weights in parts])

    # One row at a time, a student of errors and corrections takes 40 times as long.
    assert independent_rows(means, rows) == BLOCK
    assert set(sizes) == {BLOCK}
