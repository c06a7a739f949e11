"""What leaves as the student loads in a fresh process, without ostrakon, and predicts the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from ostrakon.students.export import NamedNetwork, export_student, load_student
from ostrakon.validation import InvalidInput

# Runs the three lines of the manifest where ostrakon cannot be imported.
FRESH = """
import json, sys
sys.modules["ostrakon"] = None
import numpy as np
X = np.load("X.npy")
names = {"X": X}
exec("\\n".join(json.load(open("student.json"))["how_to_load"]), names)
json.dump(np.asarray([getattr(k, "item", lambda: k)() for k in names["labels"]]).tolist(), open("labels.json", "w"))
assert not [m for m in sys.modules if m.startswith("ostrakon.")]
"""


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def in_fresh_process(folder: Path, X: np.ndarray) -> list:
    np.save(folder / "X.npy", X)
    subprocess.run([sys.executable, "-c", FRESH], cwd=folder, check=True, capture_output=True, timeout=120)
    return json.loads((folder / "labels.json").read_text())


@pytest.mark.parametrize(
    ("student", "labels"),
    [
        (LogisticRegression(max_iter=300), "strings"),
        (HistGradientBoostingClassifier(max_iter=3), "integers"),
        (make_pipeline(StandardScaler(), SelfTrainingClassifier(LogisticRegression(max_iter=300))), "unlabelled"),
    ],
    ids=["logistic", "boosting", "self-training"],
)
def test_skops_student_predicts_the_same_without_ostrakon(tmp_path, digits, student, labels):
    X, y = digits
    if labels == "strings":
        y = np.array([f"digit {k}" for k in y])
    elif labels == "unlabelled":
        y = np.where(np.arange(len(y)) < 200, y, -1)
    student.fit(X, y)
    manifest = export_student(student, tmp_path)
    assert manifest["format"] == "skops"
    assert len(manifest["how_to_load"]) == 3
    assert in_fresh_process(tmp_path, X) == student.predict(X).tolist()
    assert load_student(tmp_path).predict(X).tolist() == student.predict(X).tolist()


@pytest.mark.parametrize(
    "student",
    [LogisticRegression(max_iter=300), RandomForestClassifier(10, random_state=0)],
    ids=["logistic", "forest"],
)
def test_sklearn_onnx_student_predicts_the_same_without_ostrakon(tmp_path, digits, student):
    pytest.importorskip("skl2onnx")
    X, y = digits
    student.fit(X, y)
    assert export_student(student, tmp_path, format="onnx")["format"] == "onnx"
    assert in_fresh_process(tmp_path, X) == student.predict(X).tolist()
    loaded = load_student(tmp_path)
    np.testing.assert_allclose(loaded.predict_proba(X), student.predict_proba(X), atol=1e-5)
    assert loaded.predict(X).tolist() == student.predict(X).tolist()


@pytest.mark.parametrize(
    ("network", "format", "written"),
    [
        ("mlp", None, "safetensors"),
        ("cnn", None, "safetensors"),
        ("cnn", "onnx", "onnx"),
        ("resnet", None, "onnx"),
        ("cnn", "skops", "skops"),
    ],
)
def test_network_student_predicts_the_same(tmp_path, digits, network, format, written):
    pytest.importorskip("torch")
    if written == "onnx":
        pytest.importorskip("onnxruntime")
    from ostrakon.networks import TorchClassifier

    X, y = digits
    images = X.reshape(-1, 8, 8)
    student = TorchClassifier(network, steps=30, random_state=0).fit(images, y + 3)
    assert (student.predict(images) == y + 3).mean() > 0.5
    assert export_student(student, tmp_path, format=format)["format"] == written
    loaded = load_student(tmp_path)
    np.testing.assert_allclose(loaded.predict_proba(images), student.predict_proba(images), atol=1e-5)
    assert loaded.predict(images).tolist() == student.predict(images).tolist()
    if written != "skops":
        # A skops file of a network holds a class of ostrakon; the other formats need none of it.
        assert in_fresh_process(tmp_path, images) == student.predict(images).tolist()


@pytest.mark.parametrize("format", ["safetensors", "onnx"])
def test_coloured_images_are_read_with_channels_last_or_first(tmp_path, digits, format):
    pytest.importorskip("torch")
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    from ostrakon.networks import TorchClassifier

    X, y = digits
    grey = X.reshape(-1, 8, 8)
    images = np.stack([grey, grey[:, ::-1], grey.transpose(0, 2, 1)], axis=-1)
    student = TorchClassifier("cnn", steps=30, random_state=0).fit(images, y)
    wanted = student.predict(images).tolist()
    assert len(set(wanted)) > 5
    export_student(student, tmp_path, format=format)
    for same in (images, images.transpose(0, 3, 1, 2), images.reshape(len(images), -1)):
        assert in_fresh_process(tmp_path, np.ascontiguousarray(same)) == wanted


def test_a_network_leaves_under_its_labels(tmp_path, digits):
    pytest.importorskip("torch")
    from ostrakon.networks import TorchClassifier

    X, y = digits
    network = TorchClassifier("mlp", steps=60, random_state=0).fit(X, y)
    names = [f"digit {k}" for k in range(10)]
    named = NamedNetwork(network, names)
    wanted = [names[k] for k in network.predict(X)]
    assert named.predict(X).tolist() == wanted
    assert export_student(named, tmp_path)["classes"] == names
    assert load_student(tmp_path).predict(X).tolist() == wanted
    assert in_fresh_process(tmp_path, X) == wanted


def test_nothing_in_the_folder_is_a_pickle(tmp_path, digits):
    X, y = digits
    export_student(LogisticRegression(max_iter=300).fit(X, y), tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["student.json", "student.skops"]
    # Every pickle from protocol 2 on starts with the byte 0x80.
    assert all(file.read_bytes()[:1] != b"\x80" for file in tmp_path.iterdir())


class Foreign(LogisticRegression):
    """A class that is neither ostrakon's nor scikit-learn's."""


def test_a_class_of_others_is_loaded_only_when_trusted(tmp_path, digits):
    X, y = digits
    student = Foreign(max_iter=300).fit(X, y)
    export_student(student, tmp_path)
    with pytest.raises(InvalidInput, match="trusted"):
        load_student(tmp_path)
    named = f"{Foreign.__module__}.Foreign"
    assert load_student(tmp_path, trusted=[named]).predict(X).tolist() == student.predict(X).tolist()


def test_refusals(tmp_path, digits):
    X, y = digits
    fitted = LogisticRegression(max_iter=300).fit(X, y)
    with pytest.raises(InvalidInput, match="fitted"):
        export_student(LogisticRegression(), tmp_path)
    with pytest.raises(InvalidInput, match="format"):
        export_student(fitted, tmp_path, format="pickle")
    with pytest.raises(InvalidInput, match="networks only"):
        export_student(fitted, tmp_path, format="safetensors")
    with pytest.raises(InvalidInput, match="exported student"):
        load_student(tmp_path / "nothing")
    export_student(fitted, tmp_path)
    manifest = json.loads((tmp_path / "student.json").read_text())
    (tmp_path / "student.json").write_text(json.dumps({**manifest, "file": "../student.skops"}))
    with pytest.raises(InvalidInput, match="beside it"):
        load_student(tmp_path)
    (tmp_path / "student.json").write_text(json.dumps(manifest))
    (tmp_path / "student.skops").write_bytes(b"\x80\x04not a student")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_student(tmp_path)
