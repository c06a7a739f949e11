"""A released student of images says the same to whoever has NumPy and onnxruntime, or torch."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ostrakon.estimators.choices import make_student, takes_rows
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student, load_student
from ostrakon.run.stages.features import view_of
from stranger import ONNX, TORCH, ask, site_of

torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
CASES = [
    ("svm-rbf(C=1.0, class_weight='balanced')", "hog", "grey"),
    ("label-spreading", "hog", "odd"),
    ("extra-trees(n_estimators=30)", "hog", "colour"),
    *((name, "pca", "grey") for name in ("self-training", "hist-gradient-boosting(max_iter=5)")),
    ("logistic", "pca", "colour"),
    ("logistic", "raw", "first"),
]
NETWORKS = [
    *(("cnn(steps=30)", "raw", form) for form in ("grey", "colour")),
    ("graph", "raw", "grey"),
]
GRAPHS = [
    ("kernel", "raw", "grey"),
    ("logistic", "hog+contrastive", "grey"),
    ("resnet", "raw", "grey"),
]


def pictures(form: str, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Small digits from 0 to 1; "odd": of an odd size, "colour": channels last, "first": channels first."""
    X, y = load_digits(return_X_y=True)
    X = np.repeat(np.repeat(X[:count].reshape(-1, 8, 8), 2, axis=1), 2, axis=2).astype(np.float32) / 16
    X = np.pad(X, ((0, 0), (1, 1), (1, 1)))
    if form == "odd":
        X = np.pad(X, ((0, 0), (0, 1), (3, 2)))
    if form in ("colour", "first"):
        X = np.stack([X, 1 - X, X[:, ::-1]], axis=-1)
    return np.ascontiguousarray(X.transpose(0, 3, 1, 2)) if form == "first" else X, y[:count]


def released(choice: str, representation: str, form: str) -> ReleasedStudent:
    """A student of 300 public images, as a run makes it."""
    X, y = pictures(form, 300)
    if representation == "hog+contrastive":
        from ostrakon.features.contrastive import ContrastiveEncoder
        from ostrakon.features.representation import beside_gradients

        view = view_of(X, beside_gradients(ContrastiveEncoder(width=4, epochs=1), 20))
    else:
        view = view_of(X, representation)
    if choice == "resnet":
        from ostrakon.students.supervised import SupervisedNetwork

        student = SupervisedNetwork("resnet", steps=60, learning_rate=0.01, average=0.5, random_state=0)
    elif choice == "graph":
        from ostrakon.networks import TorchClassifier
        from ostrakon.students.graph_model import GraphStudent

        student = GraphStudent(TorchClassifier("quick-cnn", steps=30), representation="pca", rounds=3, random_state=0)
    elif choice == "kernel":
        from ostrakon.students.graph_model import GraphStudent, KernelOnFeatures

        student = GraphStudent(KernelOnFeatures("hog"), representation="pca", rounds=2, random_state=0)
    else:
        student = make_student(choice, seed=0)
    raw = takes_rows(student, X)
    student.fit(X if raw else view.public, np.where(np.arange(len(y)) % 3 == 0, -1, y))
    labels = [f"digit {k}" for k in range(10)]
    return ReleasedStudent(RowForm.of(X), None if raw else view.representation, student, labels)


def check(cases, tmp_path_factory, packages):
    students = [(case, released(*case), tmp_path_factory.mktemp("student")) for case in cases]
    asked = {}
    for (_, _, form), student, folder in students:
        manifest = export_student(student, folder)
        assert manifest["format"] == ("safetensors" if "torch" in packages else "onnx")
        asked[folder] = (manifest["how_to_load"], odd_images(form))
    said = ask(site_of(tmp_path_factory.mktemp("site"), packages), asked)
    for case, student, folder in students:
        images = odd_images(case[2])
        expected = student.predict(images).tolist()
        assert len(set(expected)) > (1 if case[0] == "resnet" else 6), case
        assert said[folder]["labels"] == expected, case
        network = case in NETWORKS or case[0] == "resnet" or case[1] == "hog+contrastive"
        np.testing.assert_allclose(
            said[folder]["probabilities"],
            student.predict_proba(images[:200]),
            atol=2e-5 if network else 1e-9,
            err_msg=str(case),
        )
        manifest = json.loads((folder / "student.json").read_text())
        # The printed lines feed what the public images are: shape and scale.
        names: dict = {}
        exec("\n".join(manifest["how_to_load"][:1] + manifest["how_to_load"][2:3]), names)
        assert names["X"].shape == (3, *pictures(case[2], 3)[0].shape[1:]) == (3, *manifest["input"]["shape"][1:])
        assert 0 <= names["X"].min() < 0.1
        assert 0.9 < names["X"].max() <= 1
        assert len(said[folder]["shown"]) == 3
        assert load_student(folder).predict(images[300:330]).tolist() == expected[300:330]


def odd_images(form: str) -> np.ndarray:
    """1,000 images: plain, noisy, empty, full, of one line, four times as bright as any public one."""
    X, _ = pictures(form, 1000)
    rng = np.random.default_rng(3)
    noise = rng.random(X.shape, dtype=np.float32)
    X[100:200] = noise[100:200]
    X[200:300] = X[200:300] * 0.5 + noise[200:300] * 0.1
    X[300:310] = 0
    X[310:320] = 1
    X[320:340] *= 4
    X[340:400] = np.round(noise[340:400] * 2)
    return X


@pytest.mark.slow
def test_students_of_features(tmp_path_factory):
    check(CASES, tmp_path_factory, ONNX)


@pytest.mark.slow
@torch
def test_networks_of_plain_layers(tmp_path_factory):
    check(NETWORKS, tmp_path_factory, TORCH)


@pytest.mark.slow
@torch
def test_everything_else_with_a_network_in_it(tmp_path_factory):
    check(GRAPHS, tmp_path_factory, ONNX)


@pytest.mark.slow
@torch
def test_images_come_in_other_layouts(tmp_path):
    for form, layouts in {  # the last one has channels first
        "grey": [lambda X: X[:, None], lambda X: X[..., None], lambda X: X.reshape(len(X), -1)],
        "colour": [lambda X: X.transpose(0, 3, 1, 2), lambda X: X.reshape(len(X), -1)],
        "first": [lambda X: X.transpose(0, 2, 3, 1)],
    }.items():
        X = pictures(form, 60)[0]
        student = released("cnn(steps=20)", "raw", form)
        export_student(student, tmp_path / form)
        loaded = load_student(tmp_path / form)
        expected = student.predict(X).tolist()
        for layout in (lambda X: X, *layouts):
            assert loaded.predict(layout(X)).tolist() == expected
        with pytest.raises(ValueError, match="shape"):
            loaded.predict(X[:, :, :5])
        with pytest.raises(ValueError, match="finite"):
            loaded.predict(np.where(X.max() == X, np.nan, X))
        with pytest.raises(ValueError, match="must be scaled as the public ones, 0 to 1, got"):
            loaded.predict(255 * X)
