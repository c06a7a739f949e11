"""CIFAR-10 from a file that the user has: a zip of pictures, or the binary version of its home page."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.datasets.dataset import Dataset
from ostrakon.data.images import PICTURES
from ostrakon.validation import InvalidInput, whole

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BINARY = "cifar-10-batches-bin"
_SHAPE = (32, 32, 3)

Part = tuple[NDArray[np.float32], NDArray[np.int64]]


def cifar10(path: str | os.PathLike[str] | None = None, *, random_state: int = 0) -> Dataset:
    """CIFAR-10: 50,000 private colour images; of the 10,000 test images, in random order, 9,000 public.

    path: a zip of pictures `train/CLASS/*` and `test/CLASS/*`, the folder cifar-10-batches-bin (the binary version), or
    a folder with cifar10.zip or that folder in it; default: $OSTRAKON_DATA.
    Images are float32 in [0, 1], shape (images, 32, 32, 3).
    Errors: `InvalidInput` where neither is there, a file is damaged, or an image has another size.
    """
    location = _location(path)
    (X, y), (X_other, y_other) = (
        _binary(location) if location.is_dir() else (_pictures(location, "train"), _pictures(location, "test"))
    )
    order = np.random.default_rng(whole("random_state", random_state)).permutation(len(y_other))
    pool, test = np.split(order, [len(order) * 9 // 10])
    return Dataset(
        name="cifar10",
        X=X,
        y=y,
        X_public=X_other[pool],
        y_public=y_other[pool],
        X_test=X_other[test],
        y_test=y_other[test],
        classes=CLASSES,
    )


def _location(path: str | os.PathLike[str] | None) -> Path:
    if path is None:
        path = os.environ.get("OSTRAKON_DATA")
        if not path:
            raise InvalidInput(
                "Say where cifar10 is: give its file or folder, or set OSTRAKON_DATA to the folder that has it."
            )
    folder = Path(path)
    if folder.is_file() or folder.name == _BINARY:
        return folder
    existing = next((candidate for candidate in (folder / "cifar10.zip", folder / _BINARY) if candidate.exists()), None)
    if existing is None:
        raise InvalidInput(f"{folder} has no cifar10.zip (pictures train/CLASS/*, test/CLASS/*) and no {_BINARY}.")
    return existing


def _binary(folder: Path) -> tuple[Part, Part]:
    train = [_batch(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return (images, labels), _batch(folder / "test_batch.bin")


def _batch(file: Path) -> Part:
    """Return one file of records: a byte for the class, then 1,024 bytes of each colour."""
    try:
        records = np.fromfile(file, np.uint8)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from None
    size = 1 + int(np.prod(_SHAPE))
    if not records.size or records.size % size or records[::size].max() >= len(CLASSES):
        raise InvalidInput(f"{file} is not a file of CIFAR-10's binary version: records of {size} bytes.")
    records = records.reshape(-1, size)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return images.astype(np.float32) / np.float32(255), records[:, 0].astype(np.int64)


def _pictures(file: Path, part: str) -> Part:
    from PIL import Image, UnidentifiedImageError

    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    try:
        with zipfile.ZipFile(file) as archive:
            for name in sorted(archive.namelist()):
                where = Path(name)
                if where.suffix.lower() not in PICTURES or where.parent.parent.name != part:
                    continue
                if where.parent.name not in CLASSES:
                    raise InvalidInput(f"{name} in {file} must lie in a folder of {', '.join(CLASSES)}.")
                with Image.open(io.BytesIO(archive.read(name))) as image:
                    images.append(np.asarray(image.convert("RGB")))
                if images[-1].shape != _SHAPE:
                    raise InvalidInput(f"{name} in {file} must have 32x32 pixels, got {image.width}x{image.height}.")
                labels.append(CLASSES.index(where.parent.name))
    except (OSError, zipfile.BadZipFile, UnidentifiedImageError, ValueError, SyntaxError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file} cannot be read as a zip of pictures ({type(error).__name__}).") from None
    if not images:
        raise InvalidInput(f"{file} must hold pictures {part}/CLASS/*, and it holds none.")
    return np.stack(images).astype(np.float32) / np.float32(255), np.array(labels, np.int64)
