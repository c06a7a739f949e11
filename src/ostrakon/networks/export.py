"""A network as safetensors with its layers in JSON, or as an ONNX model."""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from safetensors.torch import save

from ostrakon.networks.backend import nn, torch

# The layers that student.json may name, with the arguments that rebuild each: names of torch.nn alone.
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
    """Return the layers of a plain `torch.nn.Sequential` as JSON; None for other modules and for layers outside
    `LAYERS`.
    """
    if not isinstance(network, nn.Sequential):
        return None
    described = []
    for layer in network:
        name = type(layer).__name__
        if name not in LAYERS or type(layer) is not getattr(nn, name):
            return None
        options = {key: getattr(layer, key) for key in LAYERS[name]}
        if "bias" in options:
            options["bias"] = options["bias"] is not None
        if name == "Conv2d" and layer.padding_mode != "zeros":
            return None
        if name == "MaxPool2d" and (layer.dilation != 1 or layer.ceil_mode):
            return None
        described.append({"layer": name, "options": options})
    return described


def packed(network: Any) -> tuple[bytes, list[dict[str, Any]]] | None:
    """Return (the weights as safetensors, the layers as JSON) of a plain sequence of layers; None for others."""
    layers = describe(network)
    if layers is None:
        return None
    weights = {name: value.detach().contiguous() for name, value in network.state_dict().items()}
    return save(weights), layers


def as_onnx(network: Any, shape: tuple[int, ...], *, opset: int) -> Any:
    """Return a module from single numbers (rows, *shape) to one output as an ONNX model of that operator set."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        file = Path(folder, "network.onnx")
        # The older exporter needs no further package, and warns at every call.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.cpu().eval(),
            (torch.zeros(2, *shape),),
            file,
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "rows"}, "output": {0: "rows"}},
            opset_version=opset,
            dynamo=False,
        )
        return onnx.load_model(file)
