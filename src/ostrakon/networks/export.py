"""A network as safetensors with its layers in JSON, or as ONNX; and back."""

from __future__ import annotations

import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.networks.backend import nn, torch
from ostrakon.networks.inputs import as_inputs
from ostrakon.validation import InvalidInput

# The layers that architecture.json may name, with the arguments that rebuild each: names of torch.nn alone.
LAYERS: dict[str, tuple[str, ...]] = {
    "AdaptiveAvgPool2d": ("output_size",),
    "AvgPool2d": ("kernel_size", "stride", "padding"),
    "BatchNorm1d": ("num_features", "eps", "affine"),
    "BatchNorm2d": ("num_features", "eps", "affine"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"),
    "Dropout": ("p",),
    "Dropout2d": ("p",),
    "ELU": ("alpha",),
    "Flatten": ("start_dim", "end_dim"),
    "GELU": ("approximate",),
    "GroupNorm": ("num_groups", "num_channels", "eps", "affine"),
    "Identity": (),
    "LayerNorm": ("normalized_shape", "eps", "elementwise_affine"),
    "LeakyReLU": ("negative_slope",),
    "Linear": ("in_features", "out_features", "bias"),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "ReLU": (),
    "SiLU": (),
    "Sigmoid": (),
    "Softmax": ("dim",),
    "Tanh": (),
}


def describe(network: Any) -> list[dict[str, Any]] | None:
    """The layers of a plain `torch.nn.Sequential` as JSON, or None where it is none, or one is not in `LAYERS`."""
    if not isinstance(network, nn.Sequential):
        return None
    described = []
    for layer in network:
        name = type(layer).__name__
        if name not in LAYERS or type(layer) is not getattr(nn, name):
            return None
        options = {key: getattr(layer, key) for key in LAYERS[name]}
        if "bias" in options:
            options["bias"] = layer.bias is not None
        if name == "Conv2d" and layer.padding_mode != "zeros":
            return None
        if name == "MaxPool2d" and (layer.dilation != 1 or layer.ceil_mode):
            return None
        described.append({"layer": name, "options": options})
    return described


def write_network(student: Any, target: Path, format: str | None) -> dict[str, Any]:
    """Write the student's network to `target`; the part of the manifest that says how to read it."""
    network = student.exported_network()
    shape = list(student.shape_)
    layers = describe(network)
    if format == "safetensors" and layers is None:
        raise InvalidInput(
            "format 'safetensors' holds plain sequences of torch.nn layers, use 'onnx' for this network."
        )
    if format == "onnx" or layers is None:
        return _write_onnx(network, shape, target)
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise InvalidInput("format 'safetensors' needs safetensors: pip install ostrakon[torch].") from error
    weights = {name: value.detach().contiguous() for name, value in network.state_dict().items()}
    architecture = {"input": shape, "classes": np.asarray(student.classes_).tolist(), "layers": layers}
    _replace(target / "student.safetensors", save(weights))
    _replace(target / "architecture.json", (json.dumps(architecture, indent=1) + "\n").encode())
    build = 'torch.nn.Sequential(*(getattr(torch.nn, l["layer"])(**l["options"]) for l in spec["layers"])).eval()'
    how = [
        f"import json, torch, safetensors.torch; spec = json.load(open('architecture.json')); network = {build}",
        "network.load_state_dict(safetensors.torch.load_file('student.safetensors'))",
        "labels = [spec['classes'][k] for k in "
        f"network({_arranged('torch.as_tensor(X, dtype=torch.float32)', shape, 'movedim')}).argmax(1)]",
    ]
    return {
        "format": "safetensors",
        "file": "student.safetensors",
        "how_to_load": how,
        "input": {"shape": ["rows", *shape], "dtype": "float32"},
    }


def _write_onnx(network: Any, shape: list[int], target: Path) -> dict[str, Any]:
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise InvalidInput("this network needs the ONNX format: pip install ostrakon[onnx].") from error
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The older exporter is the one that needs no further package; it says so at every call.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(2, *shape),),
            buffer,
            input_names=["input"],
            output_names=["probabilities"],
            dynamic_axes={"input": {0: "rows"}, "probabilities": {0: "rows"}},
            dynamo=False,
        )
    _replace(target / "student.onnx", buffer.getvalue())
    how = [
        "import json, numpy as np, onnxruntime; classes = json.load(open('student.json'))['classes']",
        "session = onnxruntime.InferenceSession('student.onnx')",
        "labels = [classes[k] for k in session.run(None, "
        f"{{'input': {_arranged('np.asarray(X, np.float32)', shape, 'np.moveaxis')}}})[0].argmax(1)]",
    ]
    return {
        "format": "onnx",
        "file": "student.onnx",
        "how_to_load": how,
        "input": {"shape": ["rows", *shape], "dtype": "float32"},
    }


def _arranged(array: str, shape: list[int], move: str) -> str:
    """Python that brings rows, or images with channels last or first, into the order that a network reads."""
    if len(shape) < 3 or shape[0] == 1:
        return f"{array}.reshape(-1, {', '.join(map(str, shape))})"
    channels, height, width = shape
    last = f"x.reshape(-1, {height}, {width}, {channels})"
    moved = f"{last}.{move}(-1, 1)" if move == "movedim" else f"{move}({last}, -1, 1)"
    return f"(lambda x: x if tuple(x.shape[1:]) == ({channels}, {height}, {width}) else {moved})({array})"


class NetworkStudent:
    """A network read from safetensors: `predict`, `predict_proba`, `classes_`."""

    def __init__(self, folder: Path, manifest: dict[str, Any], classes: NDArray[Any]) -> None:
        from safetensors.torch import load_file

        try:
            architecture = json.loads((folder / "architecture.json").read_text())
            self.shape_ = tuple(architecture["input"])
            layers = [_layer(entry) for entry in architecture["layers"]]
            self._network = nn.Sequential(*layers)
            self._network.load_state_dict(load_file(folder / manifest["file"]))
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"{folder} must hold a network that ostrakon exported, and it cannot be read."
            ) from error
        self._network.eval()
        self.classes_ = classes

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Class probabilities, (rows, classes)."""
        inputs = as_inputs(X, images=len(self.shape_) == 3)
        with torch.no_grad():
            parts = [self._network(torch.from_numpy(inputs[at : at + 512])) for at in range(0, len(inputs), 512)]
        return torch.cat(parts).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _layer(entry: dict[str, Any]) -> Any:
    if entry["layer"] not in LAYERS:
        raise InvalidInput(f"architecture.json must name layers of {', '.join(LAYERS)}, got {entry['layer']!r}.")
    return getattr(nn, entry["layer"])(**entry["options"])


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
