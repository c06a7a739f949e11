"""Images on disk are read as they are, or refused in one sentence."""

import numpy as np
import pytest
from PIL import Image

from ostrakon.data.images import holds_images, read_images
from ostrakon.validation import InvalidInput


def picture(path, pixels, mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, np.uint8), mode=mode).save(path)
    return path


def test_folders_name_the_classes(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 6, 5))
    for name, image in zip(("cat/1.png", "cat/deep/2.PNG", "dog/1.png", "ant/9.bmp"), pixels, strict=True):
        picture(tmp_path / "set" / name, image)
    picture(tmp_path / "set" / ".hidden" / "1.png", pixels[0])
    (tmp_path / "set" / "cat" / "notes.txt").write_text("no picture")
    assert holds_images(tmp_path / "set")
    found = read_images(tmp_path / "set")
    assert found.labels.tolist() == ["ant", "cat", "cat", "dog"]
    assert found.X.shape == (4, 6, 5)
    assert found.X.dtype == np.float32
    np.testing.assert_allclose(found.X * 255, pixels[[3, 0, 1, 2]], atol=1e-4)


def test_loose_pictures_have_no_labels(tmp_path):
    for name in ("b.png", "a.png"):
        picture(tmp_path / name, np.full((6, 5), 255 if name == "a.png" else 0))
    found = read_images(tmp_path)
    assert found.labels is None
    assert found.X.mean(axis=(1, 2)).tolist() == [1, 0]
    picture(tmp_path / "c" / "c.png", np.zeros((6, 5)))
    with pytest.raises(InvalidInput, match=r"or none; a\.png is loose"):
        read_images(tmp_path)


def test_one_coloured_picture_makes_all_coloured(tmp_path):
    picture(tmp_path / "a.png", np.full((6, 5), 51))
    picture(tmp_path / "b.png", np.broadcast_to(np.array([255, 0, 102]), (6, 5, 3)), mode="RGB")
    found = read_images(tmp_path)
    assert found.X.shape == (2, 6, 5, 3)
    np.testing.assert_allclose(found.X[:, 0, 0], [[0.2, 0.2, 0.2], [1, 0, 0.4]], atol=1e-6)


def test_sixteen_bits_keep_their_range(tmp_path):
    Image.fromarray(np.full((6, 5), 65535, np.uint16)).save(tmp_path / "a.png")
    np.testing.assert_allclose(read_images(tmp_path).X, 1)


def test_damaged_pictures_are_refused(tmp_path):
    picture(tmp_path / "a.png", np.zeros((6, 5)))
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    with pytest.raises(InvalidInput, match=r"b\.png cannot be read"):
        read_images(tmp_path)


def test_arrays_by_their_usual_names_and_by_given_ones(tmp_path):
    X = np.arange(2 * 6 * 5, dtype=np.uint8).reshape(2, 6, 5)
    np.savez(tmp_path / "a.npz", X=X, y=[7, 3])
    np.savez(tmp_path / "b.npz", images=X / 10, kind=np.array(["x", "y"]), who=[1, 1])
    np.save(tmp_path / "c.npy", X)
    a, c = read_images(tmp_path / "a.npz"), read_images(tmp_path / "c.npy")
    assert a.labels.tolist() == ["7", "3"]
    assert c.labels is None
    np.testing.assert_allclose(a.X, X / 255, rtol=1e-6)
    np.testing.assert_array_equal(a.X, c.X)
    b = read_images(tmp_path / "b.npz", target="kind", by="who")
    assert b.labels.tolist() == ["x", "y"]
    assert b.users.tolist() == [1, 1]
    np.testing.assert_allclose(b.X, X / 10, rtol=1e-6)
    assert holds_images(tmp_path / "c.npy")
    assert not holds_images(tmp_path / "a.csv")
    assert not holds_images(tmp_path)
    with pytest.raises(InvalidInput, match=r"got none"):
        read_images(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "options", "sentence"),
    [
        ({"z": np.zeros((2, 6, 5))}, {}, "as the array X, got the arrays z"),
        ({"X": np.zeros(30)}, {}, r"shape \(images, height, width\)"),
        ({"X": np.zeros((2, 6, 5), complex)}, {}, "as numbers"),
        ({"X": np.full((2, 6, 5), np.nan)}, {}, "finite"),
        ({"X": np.zeros((2, 6, 5)), "y": [1]}, {}, "labels per image, 2"),
        ({"X": np.zeros((2, 6, 5)), "y": [0.5, 1]}, {}, "whole numbers or text"),
        ({"X": np.zeros((2, 6, 5)), "y": [0, 1]}, {"target": "z"}, "target 'z' is not among the arrays X, y"),
        ({"X": np.zeros((2, 6, 5)), "y": [0, 1]}, {"by": "z"}, "users 'z' is not among"),
        ({"X": np.array([{}, {}], dtype=object)}, {}, "cannot be read"),
    ],
)
def test_what_is_not_images_is_refused(tmp_path, arrays, options, sentence):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidInput, match=sentence):
        read_images(tmp_path / "a.npz", **options)


def test_files_that_are_not_there_or_no_archive_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no file"):
        read_images(tmp_path / "a.npz")
    (tmp_path / "a.npz").write_text("text")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_images(tmp_path / "a.npz")
    picture(tmp_path / "set" / "a.png", np.zeros((6, 5)))
    with pytest.raises(InvalidInput, match=r"--by needs an \.npz"):
        read_images(tmp_path / "set", by="who")
