"""Several networks as one: what it answers is what they answer together, and it can be exported as one."""

import numpy as np
import pytest

pytest.importorskip("torch")

from ostrakon.export.student_files import export_student, load_student
from ostrakon.networks.average import MeanOfLogits, averaged
from ostrakon.networks.backend import nn, torch
from ostrakon.networks.classifier import TorchClassifier
from ostrakon.networks.export import describe
from ostrakon.students.graph_model import GraphStudent

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(90, 12, 12)).astype(np.float32)
TABLE = RNG.normal(size=(90, 5)).astype(np.float32)
LABELS = np.arange(90) % 3


def trained(network, X, count=3, steps=20):
    return [
        TorchClassifier(network, steps=steps, batch_size=16, random_state=seed).fit(X, LABELS) for seed in range(count)
    ]


def together(models, X):
    logs = np.mean([np.log(model.predict_proba(X)) for model in models], axis=0)
    odds = np.exp(logs - logs.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def tensor(X):
    return torch.from_numpy(X[:, None] if X.ndim == 3 else X)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "X"), [("quick-cnn", IMAGES), ("lenet", IMAGES), ("cnn", IMAGES), ("mlp", TABLE)])
def test_side_by_side_they_answer_as_each_asked_alone(network, X):
    models = trained(network, X)
    made = averaged([model.exported_network() for model in models])
    assert describe(made) is not None
    with torch.no_grad():
        found = made(tensor(X)).numpy()
    np.testing.assert_allclose(found, together(models, X), rtol=2e-4, atol=1e-5)
    # They do differ, so one alone would not pass.
    assert np.abs(found - models[0].predict_proba(X)).max() > 1e-3


def test_networks_that_cannot_stand_side_by_side_are_asked_one_by_one():
    models = trained("resnet", IMAGES, 2, steps=4)
    made = averaged([model.exported_network() for model in models])
    assert isinstance(made, MeanOfLogits)
    assert describe(made) is None
    with torch.no_grad():
        np.testing.assert_allclose(made(tensor(IMAGES)).numpy(), together(models, IMAGES), rtol=2e-4, atol=1e-5)
    # A norm before the first weights needs inputs of its own.
    plain = [
        nn.Sequential(nn.BatchNorm1d(5, affine=False), nn.BatchNorm1d(5), nn.Linear(5, 3), nn.Softmax(dim=1)).eval()
        for _ in range(2)
    ]
    assert isinstance(averaged(plain), MeanOfLogits)


def test_one_network_is_itself():
    alone = trained("mlp", TABLE, 1)[0].exported_network()
    assert averaged([alone]) is alone


def test_a_graph_student_leaves_as_one_network(tmp_path):
    y = np.full(90, -1)
    y[:30] = LABELS[:30]
    X = IMAGES + 2 * LABELS[:, None, None] * (np.arange(12) % 3 == 0)
    network = TorchClassifier("quick-cnn", steps=30, batch_size=16)
    student = GraphStudent(network, representation="raw", rounds=3, random_state=0).fit(X, y)
    assert len(student.models_) == 2
    np.testing.assert_allclose(student.predict_proba(X), together(student.models_, X), rtol=1e-6)
    assert export_student(student, tmp_path)["format"] == "safetensors"
    loaded = load_student(tmp_path)
    np.testing.assert_allclose(loaded.predict_proba(X), student.predict_proba(X), rtol=2e-4, atol=1e-5)
    one = GraphStudent(network, representation="raw", rounds=1, random_state=0).fit(X, y)
    assert len(one.models_) == 1


def test_a_graph_student_of_one_class_has_no_network():
    y = np.full(90, -1)
    y[:3] = 1
    student = GraphStudent(TorchClassifier("quick-cnn"), representation="raw").fit(IMAGES, y)
    assert not hasattr(student, "exported_network")
    assert student.predict(IMAGES).tolist() == [1] * 90
