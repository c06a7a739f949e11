"""The file beside a model: what it may say, and what is made of a picture."""

import numpy as np
import pytest

from ostrakon.features.preparation import Preparation, beside
from ostrakon.validation import InvalidInput


def read(tmp_path, text):
    model = tmp_path / "model.onnx"
    model.touch()
    beside(model).write_text(text)
    return Preparation.read(model)


def test_a_picture_is_prepared_as_the_file_says(tmp_path):
    made = read(
        tmp_path,
        'kind = "image"\nsize = [4, 6]\nscale = 255\nmean = [100, 50, 0]\ndeviation = [2, 4, 8]\n'
        'channels = "BGR"\nlayout = "NHWC"\n',
    )
    picture = np.full((9, 9, 3), (0.2, 0.4, 0.6))
    given = made.picture(picture)
    assert given.shape == (1, 4, 6, 3)
    assert given.dtype == np.float32
    # Blue, green, red.
    np.testing.assert_allclose(given[0, 2, 3], [153 / 8, (102 - 50) / 4, (51 - 100) / 2], rtol=1e-6)


def test_colours_come_first_where_nothing_else_is_said(tmp_path):
    given = read(tmp_path, 'kind = "image"\nsize = 5\n').picture(np.full((5, 5, 3), (0.1, 0.2, 0.3)))
    np.testing.assert_allclose(given[0].mean(axis=(1, 2)), [0.1, 0.2, 0.3], rtol=1e-6)


def test_a_mirror_image_is_seen_where_that_is_said(tmp_path):
    picture = np.random.default_rng(0).random((5, 5, 3))
    once, both = (read(tmp_path, f'kind = "image"\nsize = 5\nmirror = {told}\n') for told in ("false", "true"))
    assert len(once.inputs(picture)) == 1
    seen, mirrored = both.inputs(picture)
    np.testing.assert_array_equal(seen, once.inputs(picture)[0])
    np.testing.assert_array_equal(mirrored, seen[..., ::-1])


def test_pooling():
    tokens = np.arange(12.0).reshape(1, 3, 4)
    assert Preparation(kind="text", pooling="mean").pooled(tokens).tolist() == [4, 5, 6, 7]
    assert Preparation(kind="text", pooling="first").pooled(tokens).tolist() == [0, 1, 2, 3]
    assert Preparation(kind="text").pooled(tokens).tolist() == list(range(12))
    places = np.arange(12.0).reshape(1, 3, 2, 2)
    assert Preparation(kind="image", pooling="mean").pooled(places).tolist() == [1.5, 5.5, 9.5]
    last = places.transpose(0, 2, 3, 1)
    assert Preparation(kind="image", pooling="mean", layout="NHWC").pooled(last).tolist() == [1.5, 5.5, 9.5]


def test_what_is_done_can_be_said():
    told = Preparation(kind="image", size=(4, 6), mean=(0.5, 0.5, 0.25)).in_words()
    assert told.startswith("kind image, size 4 6, mean 0.5 0.5 0.25, ")
    assert "max_length" not in told
    assert Preparation(kind="text", output="last").in_words() == "kind text, max_length 512, pooling none, output last"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "kind must be one of image, text, table, got None"),
        ('kind = "sound"', "kind must be one of image, text, table, got 'sound'"),
        ('kind = "image"', "must hold size"),
        ('kind = "table"\nsize = 4', "may hold kind, pooling, output for the kind table, got 'size'"),
        ('kind = "image"\nsize = 4\nmaen = [0, 0, 0]', "got 'maen'"),
        ('kind = "image"\nsize = 0', "size must be"),
        ('kind = "image"\nsize = [4, 4, 4]', "a height and a width"),
        ('kind = "image"\nsize = 4\nmean = 0.5', "mean must be three numbers"),
        ('kind = "image"\nsize = 4\ndeviation = [1, 1, 0]', "deviation must be"),
        ('kind = "image"\nsize = 4\nmean = [nan, 0, 0]', "mean must be"),
        ('kind = "image"\nsize = 4\nscale = 2', "scale must be 1 or 255"),
        ('kind = "image"\nsize = 4\nscale = true', "scale must be 1 or 255"),
        ('kind = "image"\nsize = 4\nmirror = 1', "mirror must be true or false, got 1"),
        ('kind = "image"\nsize = 4\nchannels = "GBR"', "channels must be one of RGB, BGR"),
        ('kind = "image"\nsize = 4\nlayout = "CHW"', "layout must be one of NCHW, NHWC"),
        ('kind = "image"\nsize = 4\npooling = "first"', "must be mean or none"),
        ('kind = "text"\nmax_length = 0', "max_length must be"),
        ('kind = "text"\npooling = "last"', "pooling must be one of mean, first, none"),
        ('kind = "text"\noutput = 1', "output must be the name"),
        ("kind = image", "must be a readable TOML file"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, text, told):
    with pytest.raises(InvalidInput, match=told) as refused:
        read(tmp_path, text)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"model\.onnx must be a file in the ONNX format"):
        Preparation.read(tmp_path / "model.onnx")
    (tmp_path / "model.onnx").touch()
    with pytest.raises(InvalidInput, match=r"must be a readable TOML file, got .*model\.onnx\.toml"):
        Preparation.read(tmp_path / "model.onnx")
