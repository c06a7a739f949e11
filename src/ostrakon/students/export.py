"""The student as files that anyone can load: skops, safetensors or ONNX, never pickle.

`student.json` beside the file names the format, the class labels and the three lines that load it and predict.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.networks.inputs import as_inputs
from ostrakon.validation import InvalidInput

FORMATS = ("skops", "safetensors", "onnx")
MANIFEST = "student.json"
# Families whose objects only hold parameters: a skops file may name their classes without running foreign code.
_OWN = ("ostrakon.", "sklearn.")


def export_student(
    student: Any, folder: str | os.PathLike[str], *, format: str | None = None, rows: str | None = None
) -> dict[str, Any]:
    """Write a fitted student to `folder`; returns what `student.json` there holds.

    format: "safetensors" (networks made of plain `torch.nn` layers, with architecture.json beside the weights),
    "onnx" (any network; scikit-learn models on numeric columns), "skops" (anything scikit-learn-like), or None:
    the first of these that fits, where skops comes before onnx for what is not a network. rows: what a row of its
    input is, in words.
    Returns: {"format", "file", "how_to_load": [three lines of Python, run inside `folder`], "classes", "input"}.
    Nothing but the student is written; that it was made from public data and released labels is the caller's claim.
    Errors: `InvalidInput` for a student that is not fitted or a format that cannot hold it.
    """
    classes = getattr(student, "classes_", None)
    if classes is None or not callable(getattr(student, "predict", None)):
        raise InvalidInput(f"student must be a fitted classifier with classes_ and predict, got {student!r}.")
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
    is_network = callable(getattr(student, "exported_network", None))
    if format == "safetensors" and not is_network:
        raise InvalidInput(
            f"format 'safetensors' holds networks only, and {type(student).__name__} is none: use skops."
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if format == "skops" or (format is None and not is_network):
        written = _write_skops(student, target)
    elif is_network:
        from ostrakon.networks.export import write_network

        written = write_network(student, target, format)
    else:
        written = _write_sklearn_onnx(student, target)
    if rows is not None:
        written["input"] = {**written["input"], "rows": rows}
    manifest = {**written, "classes": np.asarray(classes).tolist()}
    _replace(target / MANIFEST, (json.dumps(manifest, indent=2, allow_nan=False) + "\n").encode())
    return manifest


def load_student(folder: str | os.PathLike[str], *, trusted: Iterable[str] = ()) -> Any:
    """The student that `export_student` wrote to `folder`: an object with `predict`, `predict_proba` and `classes_`.

    trusted: class names outside ostrakon and scikit-learn that a skops file may load.
    Errors: `InvalidInput` where the folder holds no student, or one that names classes that are not trusted.
    """
    source = Path(folder)
    try:
        manifest = json.loads((source / MANIFEST).read_text())
        format, file = manifest["format"], manifest["file"]
        classes = np.asarray(manifest["classes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"folder must hold an exported student with {MANIFEST}, got {str(folder)!r}.") from error
    if Path(file).name != file or format not in FORMATS:
        raise InvalidInput(f"{MANIFEST} must name a file beside it in one of {', '.join(FORMATS)}, got {file!r}.")
    if format == "skops":
        return _read_skops(source / file, trusted)
    if format == "onnx":
        return OnnxStudent(source / file, manifest, classes)
    from ostrakon.networks.export import NetworkStudent

    return NetworkStudent(source, manifest, classes)


class NamedNetwork:
    """A network student under the labels that its class numbers stand for, to be exported.

    labels: the label of each column of its probabilities, (classes,).
    """

    def __init__(self, network: Any, labels: Any) -> None:
        self._network = network
        self.classes_ = np.asarray(labels)
        self.shape_ = network.shape_
        self.exported_network = network.exported_network

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of every row."""
        return self.classes_[self._network.predict_proba(X).argmax(axis=1)]


def _replace(path: Path, data: bytes) -> None:
    # A reader sees the whole file or none of it.
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)


def _write_skops(student: Any, target: Path) -> dict[str, Any]:
    import skops.io

    path = target / "student.skops"
    partial = path.with_name(path.name + ".partial")
    try:
        skops.io.dump(student, partial, compression=zipfile.ZIP_DEFLATED)
        named = skops.io.get_untrusted_types(file=partial)
        skops.io.load(partial, trusted=named)
    except Exception as error:
        partial.unlink(missing_ok=True)
        raise InvalidInput(
            f"student must be one that skops can store, got {type(student).__name__}: {error}"
        ) from error
    os.replace(partial, path)
    how = [
        "import skops.io",
        f'student = skops.io.load("{path.name}", trusted={named!r})',
        "labels = student.predict(X)  # X: rows or images as the student was trained on",
    ]
    return {"format": "skops", "file": path.name, "how_to_load": how, "input": _input_of(student)}


def _read_skops(path: Path, trusted: Iterable[str]) -> Any:
    import skops.io

    try:
        named = skops.io.get_untrusted_types(file=path)
    except Exception as error:
        raise InvalidInput(f"{path.name} must be a skops file, and it cannot be read: {error}") from error
    allowed = set(trusted)
    foreign = [name for name in named if name not in allowed and not name.startswith(_OWN)]
    if foreign:
        raise InvalidInput(f"{path.name} must name trusted classes only; pass trusted={foreign!r} if you trust them.")
    return skops.io.load(path, trusted=named)


def _write_sklearn_onnx(student: Any, target: Path) -> dict[str, Any]:
    try:
        from skl2onnx import to_onnx
    except ImportError as error:
        raise InvalidInput("format 'onnx' needs skl2onnx: pip install ostrakon[onnx].") from error
    features = getattr(student, "n_features_in_", None)
    if features is None:
        raise InvalidInput(
            f"format 'onnx' needs a student of numeric columns, got {type(student).__name__}: use skops."
        )
    try:
        model = to_onnx(student, np.zeros((1, features), np.float32), options={"zipmap": False})
    except Exception as error:
        raise InvalidInput(f"format 'onnx' cannot hold {type(student).__name__}: {error}; use skops.") from error
    path = target / "student.onnx"
    _replace(path, model.SerializeToString())
    how = [
        "import numpy as np, onnxruntime",
        f'session = onnxruntime.InferenceSession("{path.name}")',
        "labels, probabilities = session.run(None, {session.get_inputs()[0].name: np.asarray(X, np.float32)})[:2]",
    ]
    return {
        "format": "onnx",
        "file": path.name,
        "how_to_load": how,
        "input": {"shape": ["rows", features], "dtype": "float32"},
    }


def _input_of(student: Any) -> dict[str, Any]:
    names = getattr(student, "feature_names_in_", None)
    if names is not None:
        return {"columns": [str(name) for name in names]}
    features = getattr(student, "n_features_in_", None)
    return {} if features is None else {"shape": ["rows", int(features)]}


class OnnxStudent:
    """A student read from ONNX: `predict`, `predict_proba`, `classes_`, run by onnxruntime."""

    def __init__(self, path: Path, manifest: dict[str, Any], classes: np.ndarray) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise InvalidInput("an ONNX student needs onnxruntime: pip install ostrakon[onnx].") from error
        try:
            self._session = onnxruntime.InferenceSession(str(path))
        except Exception as error:
            raise InvalidInput(f"{path.name} must be an ONNX model, and it cannot be read: {error}") from error
        self._input = self._session.get_inputs()[0].name
        self.classes_ = classes
        self._images = len(manifest["input"]["shape"]) == 4

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, (rows, classes)."""
        outputs = self._session.run(None, {self._input: as_inputs(X, images=self._images)})
        return np.asarray(outputs[-1])

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
