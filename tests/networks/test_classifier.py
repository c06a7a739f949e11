"""Any network as a scikit-learn classifier: what it learns, what weights of rows mean, and what it keeps."""

import pickle

import numpy as np
import pytest

pytest.importorskip("torch")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ostrakon.networks.backend import torch
from ostrakon.networks.classifier import TorchClassifier
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
LABELS = np.array(["no", "yes", "perhaps"])[np.arange(90) % 3]
TABLE = (RNG.normal(size=(90, 4)) + 3 * (np.arange(90) % 3)[:, None] * [1, -1, 0, 0]).astype(np.float32)
IMAGES = RNG.normal(size=(60, 10, 10)).astype(np.float32)


def small(**changes):
    return TorchClassifier(**{"network": "mlp", "steps": 80, "learning_rate": 0.01, "random_state": 0, **changes})


def test_it_learns_and_answers_with_its_own_labels():
    model = small().fit(TABLE, LABELS)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert (model.predict(TABLE) == LABELS).mean() > 0.95
    likely = model.predict_proba(TABLE)
    assert likely.shape == (90, 3)
    np.testing.assert_allclose(likely.sum(axis=1), 1, rtol=1e-5)
    assert (model.classes_[likely.argmax(axis=1)] == model.predict(TABLE)).all()


def test_the_seed_decides_to_the_last_bit_and_leaves_no_trace():
    state = torch.random.get_rng_state()
    one, again, other = (small(random_state=seed).fit(TABLE, LABELS) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), state)
    for name, value in one.weights_.items():
        np.testing.assert_array_equal(value, again.weights_[name])
    assert any((value != other.weights_[name]).any() for name, value in one.weights_.items())
    assert clone(one).get_params() == one.get_params()


def test_a_row_of_weight_zero_is_not_learned_and_equal_weights_are_none():
    wrong = LABELS.copy()
    wrong[::2] = np.roll(LABELS, 1)[::2]
    weighted = small().fit(TABLE, wrong, sample_weight=np.arange(90) % 2)
    assert (weighted.predict(TABLE) == LABELS).mean() > 0.95
    assert (small().fit(TABLE, wrong).predict(TABLE) == LABELS).mean() < 0.9
    plain, equal = small().fit(TABLE, LABELS), small().fit(TABLE, LABELS, sample_weight=np.full(90, 7.0))
    for name, value in plain.weights_.items():
        np.testing.assert_array_equal(value, equal.weights_[name])


def test_scale_and_shift_of_the_inputs_do_not_matter():
    plain = small().fit(TABLE, LABELS)
    moved = small().fit(1000 * TABLE - 50, LABELS)
    np.testing.assert_allclose(moved.predict_proba(1000 * TABLE - 50), plain.predict_proba(TABLE), atol=1e-3)


@pytest.mark.parametrize(("network", "X"), [("mlp", TABLE), ("lenet", None), ("cnn", IMAGES), ("resnet", IMAGES)])
def test_the_exported_network_answers_alike(network, X):
    X = RNG.normal(size=(60, 12, 12)).astype(np.float32) if X is None else X
    model = small(network=network, steps=5).fit(X, np.arange(len(X)) % 2)
    whole = model.exported_network()
    rows = torch.from_numpy(X if X.ndim == 2 else X[:, None])
    with torch.no_grad():
        np.testing.assert_allclose(whole(rows).numpy(), model.predict_proba(X), rtol=1e-4, atol=1e-6)
    assert not whole.training


def test_pickled_it_keeps_arrays_alone():
    model = small(steps=5).fit(TABLE, LABELS)
    expected = model.predict_proba(TABLE)
    kept = model.__getstate__()
    assert "_built" in vars(model)
    assert "_built" not in kept
    assert all(isinstance(value, np.ndarray) for value in kept["weights_"].values())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(TABLE), expected)


def test_fitted_again_it_forgets():
    model = small().fit(TABLE, LABELS)
    model.predict(TABLE)
    model.fit(TABLE, np.roll(LABELS, 1))
    assert (model.predict(TABLE) == np.roll(LABELS, 1)).mean() > 0.9


def test_steps_by_default_are_twenty_passes():
    assert small(steps=None, batch_size=90).fit(TABLE, LABELS).n_steps_ == 200
    assert small(steps=None, batch_size=5).fit(TABLE, LABELS).n_steps_ == 20 * 90 // 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"batch_size": 0}, "batch_size"),
        ({"learning_rate": np.nan}, "learning_rate"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"average": 1.0}, "average must be below 1"),
        ({"augmentation": "wild"}, "augmentation"),
        ({"random_state": -1}, "random_state"),
        ({"device": "abacus"}, "device"),
        ({"network": "vgg"}, "network"),
    ],
)
def test_bad_settings_are_refused_by_name(settings, message):
    with pytest.raises(InvalidInput, match=message):
        small(**settings).fit(TABLE, LABELS)


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        (TABLE, LABELS[:-1], None, "equally many rows"),
        (TABLE, LABELS[:, None], None, "one label per row"),
        (TABLE, np.full(90, np.nan), None, "finite labels"),
        (TABLE, LABELS, np.full(90, np.inf), "sample_weight"),
        (TABLE, LABELS, -np.ones(90), "sample_weight"),
        (TABLE, LABELS, np.zeros(90), "sample_weight"),
        (TABLE, LABELS, np.ones(3), "sample_weight"),
    ],
)
def test_bad_data_is_refused(X, y, weight, message):
    with pytest.raises(InvalidInput, match=message):
        small().fit(X, y, sample_weight=weight)


def test_other_shapes_and_unfitted_models_are_refused():
    with pytest.raises(NotFittedError):
        small().predict(TABLE)
    with pytest.raises(InvalidInput, match=r"rows of shape \(4,\)"):
        small(steps=2).fit(TABLE, LABELS).predict(TABLE[:, :3])
