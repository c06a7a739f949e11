"""A network as safetensors and JSON, or as ONNX: the same weights to the byte, the same answers."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from safetensors.torch import load, save

from ostrakon.networks.architectures import ARCHITECTURES, build_network
from ostrakon.networks.backend import generator, nn, seeded, torch
from ostrakon.networks.export import LAYERS, as_onnx, describe, packed

X = torch.rand(9, 1, 16, 16, generator=generator(0))


def made(name):
    with seeded(0):
        network = build_network(name, (1, 16, 16), 3)
        network(torch.rand(32, 1, 16, 16))  # moves the running statistics
    return network.eval()


@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn", "quick-cnn"])
def test_from_bytes_and_json_comes_the_same_network(name):
    network = made(name)
    content, layers = packed(network)
    layers = json.loads(json.dumps(layers))
    again = nn.Sequential(*(getattr(nn, each["layer"])(**each["options"]) for each in layers)).eval()
    again.load_state_dict(load(content))
    with torch.no_grad():
        assert torch.equal(again(X), network(X))
    assert packed(again)[0] == content
    assert save(dict(again.state_dict())) == content


def test_what_is_no_plain_sequence_is_not_described():
    assert packed(made("resnet")) is None
    for network in (
        nn.Linear(3, 2),
        nn.Sequential(nn.Bilinear(2, 2, 2)),
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")),
        nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)),
        nn.Sequential(nn.MaxPool2d(2, dilation=2)),
        nn.Sequential(type("Linear", (nn.Linear,), {})(3, 2)),
    ):
        assert describe(network) is None


def test_every_layer_s_arguments_are_kept():
    convolution = {"in_channels": 2, "out_channels": 4, "kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}
    options = {
        "Conv2d": {**convolution, "dilation": (1, 2), "groups": 2, "bias": False},
        "Linear": {"in_features": 3, "out_features": 2, "bias": False},
        "LeakyReLU": {"negative_slope": 0.3},
        "BatchNorm2d": {"num_features": 3, "eps": 0.5, "affine": False},
    }
    for name, given in options.items():
        assert set(given) == set(LAYERS[name])
        assert describe(nn.Sequential(getattr(nn, name)(**given))) == [{"layer": name, "options": given}]


@pytest.mark.parametrize("name", [*ARCHITECTURES])
def test_onnx_answers_as_the_network(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    network = made(name)
    model = as_onnx(network, (1, 16, 16), opset=18)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        for x in (X, X[:1]):  # any number of rows
            (found,) = session.run(None, {"input": x.numpy()})
            np.testing.assert_allclose(found, network(x).numpy(), rtol=1e-4, atol=1e-5)
    assert as_onnx(network, (1, 16, 16), opset=18).SerializeToString() == model.SerializeToString()
