"""Each network student learns from few labels, gains from the unlabelled rows, and follows its seed."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

pytest.importorskip("torch")

from torch import nn

from ostrakon.export.student_files import export_student, load_student
from ostrakon.networks import TorchClassifier, augment
from ostrakon.networks.backend import generator, torch
from ostrakon.students.fixmatch import FixMatch
from ostrakon.students.semi_supervised_gan import SemiSupervisedGAN
from ostrakon.students.supervised import SelfTrainingNetwork, SupervisedNetwork
from ostrakon.students.virtual_adversarial import VirtualAdversarial, divergence, worst_change
from ostrakon.validation import InvalidInput

SEMI_SUPERVISED = [SelfTrainingNetwork, FixMatch, VirtualAdversarial, SemiSupervisedGAN]
STUDENTS = [SupervisedNetwork, *SEMI_SUPERVISED]
POOL = 1200


def small(shape, classes):
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.LeakyReLU(0.1),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, classes),
    )


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.reshape(-1, 8, 8).astype(np.float32), y


def few_labels(y, seed, each=3):
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.choice(np.flatnonzero(y[:POOL] == k), each, replace=False) for k in range(10)])
    labels = np.full(POOL, -1)
    labels[rows] = y[rows]
    return labels


def accuracy(kind, digits):
    X, y = digits
    fitted = kind("cnn", steps=200, batch_size=32, random_state=0).fit(X[:POOL], few_labels(y, 0, each=2))
    return (fitted.predict(X[POOL:]) == y[POOL:]).mean()


@pytest.fixture(scope="module")
def baseline(digits):
    """What two labels of each class are worth without the unlabelled rows."""
    return accuracy(SupervisedNetwork, digits)


@pytest.mark.slow
def test_the_supervised_student_learns(baseline):
    assert baseline > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEMI_SUPERVISED, ids=lambda kind: kind.__name__)
def test_unlabelled_rows_are_worth_something(digits, baseline, kind):
    # A student that ignored its unlabelled rows would be the baseline.
    assert accuracy(kind, digits) > baseline + 0.04


@pytest.mark.parametrize("kind", STUDENTS, ids=lambda kind: kind.__name__)
def test_the_seed_decides_and_leaves_no_trace(digits, kind):
    X, y = digits
    student = kind(small, steps=6, batch_size=16, random_state=1)
    before = torch.random.get_rng_state()
    one = clone(student).fit(X[:200], few_labels(y, 0)[:200])
    two = clone(student).fit(X[:200], few_labels(y, 0)[:200])
    other = clone(student).set_params(random_state=2).fit(X[:200], few_labels(y, 0)[:200])
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert not np.allclose(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_allclose(one.predict_proba(X).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", STUDENTS, ids=lambda kind: kind.__name__)
def test_tables_and_class_numbers_with_gaps(digits, kind):
    X, y = digits
    labels = np.where(few_labels(y, 0, each=10) >= 0, y[:POOL] * 3 + 2, -1)
    student = kind(steps=120, batch_size=32, learning_rate=0.005, random_state=0).fit(X.reshape(-1, 64)[:POOL], labels)
    assert student.classes_.tolist() == list(range(2, 30, 3))
    assert (student.predict(X.reshape(-1, 64)[POOL:]) == y[POOL:] * 3 + 2).mean() > 0.75


@pytest.mark.parametrize("kind", STUDENTS, ids=lambda kind: kind.__name__)
def test_a_student_leaves_as_safetensors(digits, kind, tmp_path):
    X, y = digits
    student = kind(steps=3, batch_size=16, random_state=0).fit(X[:200], few_labels(y, 0)[:200])
    assert export_student(student, tmp_path)["format"] == "safetensors"
    np.testing.assert_allclose(load_student(tmp_path).predict_proba(X), student.predict_proba(X), atol=1e-5)


@pytest.mark.slow
def test_training_ends_when_the_pool_s_answers_stand_still(digits):
    X, y = digits
    student = SupervisedNetwork(
        "mlp", steps=600, batch_size=32, learning_rate=0.01, augmentation="none", random_state=0
    )
    assert clone(student).set_params(patience=2).fit(X[:POOL], few_labels(y, 0)).n_steps_ < 600
    assert clone(student).set_params(patience=0).fit(X[:POOL], few_labels(y, 0)).n_steps_ == 600


def test_one_class_alone_is_always_said(digits):
    X, _ = digits
    labels = np.full(100, -1)
    labels[:5] = 7
    for kind in STUDENTS:
        student = kind(small, steps=2, batch_size=16, random_state=0).fit(X[:100], labels)
        assert student.predict(X[:4]).tolist() == [7] * 4


def test_self_training_keeps_the_given_labels_and_believes_the_confident(digits, monkeypatch):
    X, y = digits
    seen = []
    train = SupervisedNetwork._train

    def watched(self, module, pool, targets, draw):
        seen.append(targets.cpu().numpy().copy())
        return train(self, module, pool, targets, draw)

    monkeypatch.setattr(SupervisedNetwork, "_train", watched)
    labels = few_labels(y, 0)
    # Labels that are all wrong would be outvoted if they were not kept.
    labels[labels >= 0] = (labels[labels >= 0] + 1) % 10
    SelfTrainingNetwork(small, steps=40, rounds=2, keep=0.5, random_state=0).fit(X[:POOL], labels)
    assert len(seen) == 3
    for targets in seen[1:]:
        np.testing.assert_array_equal(targets[labels >= 0], labels[labels >= 0])
        assert 0.4 < (targets >= 0).mean() < 0.6


def test_the_adversarial_change_is_the_worst_of_its_length():
    torch.manual_seed(0)
    # Logits (w.x, 0): the divergence grows fastest along w.
    layer = nn.Linear(12, 2)
    with torch.no_grad():
        layer.weight[1], layer.bias[:] = 0, 0
    x = torch.randn(30, 12)
    said = layer(x).detach()
    worst = worst_change(layer, x, said, radius=0.3, power=2, noise=torch.randn(30, 12))
    torch.testing.assert_close(worst.norm(dim=1), torch.full((30,), 0.3), atol=1e-5, rtol=1e-5)
    along = (worst @ layer.weight[0]).abs() / (0.3 * layer.weight[0].norm())
    assert along.min() > 0.999
    random = torch.nn.functional.normalize(torch.randn(30, 12), dim=1) * 0.3
    assert divergence(said, layer(x + worst)) > 3 * divergence(said, layer(x + random))


def test_divergence_is_kullback_leibler():
    p, q = np.array([[0.2, 0.5, 0.3]]), np.array([[0.4, 0.4, 0.2]])
    wanted = (p * np.log(p / q)).sum()
    found = divergence(torch.from_numpy(np.log(p) + 3), torch.from_numpy(np.log(q) - 1)).item()
    assert found == pytest.approx(wanted, rel=1e-12)


def test_augmentations_keep_shape_and_follow_the_generator():
    for shape in ((50, 1, 28, 28), (50, 3, 16, 12), (50, 7)):
        x = torch.randn(shape, generator=generator(1))
        for change in (augment.weak, augment.moderate, augment.strong):
            made = change(x, generator(2))
            assert made.shape == x.shape
            torch.testing.assert_close(made, change(x, generator(2)), rtol=0, atol=0)
            if len(shape) == 4:
                assert not torch.equal(made, change(x, generator(3)))
                # Each image has a draw of its own.
                assert len(torch.unique((made - x).flatten(1).norm(dim=1))) > 40
    table = torch.arange(700.0).view(100, 7)
    swapped = augment.swap_values(table, generator(0), share=0.2)
    # Values stay in their column, and about a fifth of them are another row's.
    assert torch.equal(swapped % 7, table % 7)
    assert 0.1 < (swapped != table).float().mean() < 0.3
    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 4, 4] = 1
    still = augment.affine(image, generator(0), degrees=0, scale=0, shear=0, shift=0)
    torch.testing.assert_close(still, image, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (SupervisedNetwork(steps=0), "steps"),
        (SupervisedNetwork(steps=None), "steps"),
        (SupervisedNetwork(average=1.0), "average"),
        (SupervisedNetwork(augmentation="wild"), "augmentation"),
        (SupervisedNetwork(network="vgg"), "network"),
        (SupervisedNetwork(learning_rate=float("inf")), "learning_rate"),
        (SupervisedNetwork(random_state=-1), "random_state"),
        (SupervisedNetwork(patience=True), "patience"),
        (SelfTrainingNetwork(keep=1.1), "keep"),
        (SelfTrainingNetwork(rounds=0), "rounds"),
        (FixMatch(threshold=float("nan")), "threshold"),
        (FixMatch(ratio=0), "ratio"),
        (FixMatch(unlabelled_weight=-1), "unlabelled_weight"),
        (VirtualAdversarial(radius=0), "radius"),
        (VirtualAdversarial(certainty="1"), "certainty"),
        (SemiSupervisedGAN(noise=0), "noise"),
        (SemiSupervisedGAN(generator_rate=0), "generator_rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_bad_settings_are_refused_by_name(digits, student, message):
    X, y = digits
    with pytest.raises(InvalidInput, match=message):
        student.fit(X[:POOL], few_labels(y, 0))


def test_bad_input_is_refused(digits):
    X, y = digits
    with pytest.raises(InvalidInput, match="at least one row"):
        FixMatch().fit(X[:50], np.full(50, -1))
    with pytest.raises(InvalidInput, match="class numbers"):
        FixMatch().fit(X[:50], np.full(50, -2))
    with pytest.raises(InvalidInput, match="one label per row"):
        FixMatch().fit(X[:50], y[:49])
    with pytest.raises(InvalidInput, match="finite"):
        FixMatch().fit(np.full((50, 8, 8), np.inf), y[:50])
    fitted = SupervisedNetwork(small, steps=1).fit(X[:50], y[:50])
    with pytest.raises(InvalidInput, match="as in fit"):
        fitted.predict(np.zeros((2, 9, 9)))


@pytest.mark.slow
def test_any_module_is_a_scikit_learn_classifier(digits):
    X, y = digits
    names = np.array([f"digit {k}" for k in y])
    classifier = TorchClassifier(small, steps=200, learning_rate=0.005, random_state=0)
    fitted = clone(classifier).fit(X[:POOL], names[:POOL])
    assert fitted.score(X[POOL:], names[POOL:]) > 0.9
    assert fitted.predict_proba(X[:3]).shape == (3, 10)
    np.testing.assert_array_equal(
        fitted.predict_proba(X), clone(classifier).fit(X[:POOL], names[:POOL]).predict_proba(X)
    )


@pytest.mark.parametrize("kind", SEMI_SUPERVISED)
def test_parameters_are_known_to_scikit_learn_wherever_they_are_passed_on(kind):
    student = kind("mlp", steps=7, ratio=5) if kind is not SelfTrainingNetwork else kind("mlp", steps=7, keep=0.5)
    copied = clone(student)
    assert (copied.steps, copied.network, copied.get_params()) == (7, "mlp", student.get_params())
    assert {"network", "steps", "patience", "device", "verbose"} < set(student.get_params())
    assert copied.set_params(patience=9).patience == 9
    with pytest.raises(TypeError):
        kind(stepps=7)
