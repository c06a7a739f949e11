"""CIFAR-10 from a zip of pictures and from the binary version: the same images, and clear words for anything else."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from ostrakon.data.datasets.cifar10 import CLASSES, cifar10
from ostrakon.validation import InvalidInput


def pictures(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(seed).integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8), np.arange(rows) % 10


def zipped(file, parts) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for part, (images, labels) in parts.items():
            for number, (image, label) in enumerate(zip(images, labels, strict=True)):
                out = io.BytesIO()
                Image.fromarray(image).save(out, "PNG")
                archive.writestr(f"{part}/{CLASSES[label]}/{number:04}.png", out.getvalue())


def test_both_forms_hold_the_same_images(tmp_path) -> None:
    train, test = pictures(50, 1), pictures(20, 2)
    zipped(tmp_path / "cifar10.zip", {"train": train, "test": test})
    seen = cifar10(tmp_path)
    folder = tmp_path / "other" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, images, labels in (
        *((f"data_batch_{k + 1}", train[0][k::5], train[1][k::5]) for k in range(5)),
        ("test_batch", *test),
    ):
        rows = np.column_stack([labels.astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(len(images), -1)])
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    other = cifar10(tmp_path / "other")
    assert seen.X.shape == (50, 32, 32, 3)
    assert (len(seen.y_public), len(seen.y_test)) == (18, 2)
    for data in (seen, other):
        # Every image still has its own label, whatever the order.
        for X, y, (images, labels) in ((data.X, data.y, train), (data.X_public, data.y_public, test)):
            assert X.dtype == np.float32
            for image, label in zip(X, y, strict=True):
                [place] = np.flatnonzero((np.abs(images / 255 - image) < 1e-6).all(axis=(1, 2, 3)))
                assert labels[place] == label
    assert not np.array_equal(seen.y_public, cifar10(tmp_path, random_state=1).y_public)


def test_what_is_not_cifar10_is_refused_in_a_sentence(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OSTRAKON_DATA", raising=False)
    with pytest.raises(InvalidInput, match="set OSTRAKON_DATA"):
        cifar10()
    with pytest.raises(InvalidInput, match=r"has no cifar10\.zip"):
        cifar10(tmp_path)
    file = tmp_path / "cifar10.zip"
    file.write_bytes(b"no zip")
    with pytest.raises(InvalidInput, match="cannot be read as a zip"):
        cifar10(file)
    zipped(file, {"train": pictures(10, 1)})
    with pytest.raises(InvalidInput, match="must hold pictures test/CLASS"):
        cifar10(tmp_path)
    zipped(file, {"train": (np.zeros((1, 32, 31, 3), np.uint8), np.array([3]))})
    with pytest.raises(InvalidInput, match="must have 32x32 pixels, got 31x32"):
        cifar10(tmp_path)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    with pytest.raises(InvalidInput, match=r"data_batch_1\.bin cannot be read"):
        cifar10(folder)
    (folder / "data_batch_1.bin").write_bytes(bytes([11]) * 3073)
    with pytest.raises(InvalidInput, match="records of 3073 bytes"):
        cifar10(folder)
