"""Real data sets: Adult and MNIST from files that the user has, digits from scikit-learn."""

import gzip
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.columns import Columns
from ostrakon.data.csv_form import KNOWN_NAMES
from ostrakon.data.datasets.dataset import Dataset
from ostrakon.data.sources import open_table
from ostrakon.validation import InvalidInput, whole

_ADULT = ("adult.data", "adult.test")
_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def adult(path: str | os.PathLike[str] | None = None, *, random_state: int = 0) -> Dataset:
    """UCI Adult: who earns more than 50,000 dollars a year, from the census of 1994.

    path: the folder with adult.data and adult.test (also .gz); default: $OSTRAKON_DATA/adult.
    The 32,561 rows of adult.data are private; the 16,281 of adult.test are split at random into two halves, the
    public pool and the test set. Features are DataFrames, numbers as float64 and categories as text.
    """
    private_file, other_file = _files(path, "adult", _ADULT)
    names = KNOWN_NAMES["adult"]
    private, other = (open_table(file, names=names, header=False) for file in (private_file, other_file))
    features = names[:-1]
    frame = other.read()
    # The archive's adult.test starts with a line of its own, which has no label.
    frame = frame[frame["income"].notna()].reset_index(drop=True)
    labels = label_indices(frame["income"].astype(object), ("<=50K", ">50K"))
    order = np.random.default_rng(whole("random_state", random_state)).permutation(len(frame))
    pool, test = np.sort(order[: len(frame) // 2]), np.sort(order[len(frame) // 2 :])
    columns = Columns.of(frame[features].iloc[pool])
    return Dataset(
        name="adult",
        X=columns.apply(private.read(features)),
        y=label_indices(private.labels("income"), ("<=50K", ">50K")),
        X_public=columns.apply(frame[features].iloc[pool].reset_index(drop=True)),
        y_public=labels[pool],
        X_test=columns.apply(frame[features].iloc[test].reset_index(drop=True)),
        y_test=labels[test],
        classes=("<=50K", ">50K"),
    )


def mnist(path: str | os.PathLike[str] | None = None) -> Dataset:
    """MNIST in the split of the PATE papers: 60,000 private images, test[:9000] public, test[9000:] for testing.

    path: the folder with the four IDX files (also .gz); default: $OSTRAKON_DATA/mnist.
    Images are float32 in [0, 1], shape (images, 28, 28).
    """
    X, y, X_other, y_other = (read_idx(file) for file in _files(path, "mnist", _MNIST))
    private, other = (images.astype(np.float32) / 255 for images in (X, X_other))
    labels, other_labels = y.astype(np.int64), y_other.astype(np.int64)
    return Dataset(
        name="mnist",
        X=private,
        y=labels,
        X_public=other[:9000],
        y_public=other_labels[:9000],
        X_test=other[9000:],
        y_test=other_labels[9000:],
        classes=tuple("0123456789"),
    )


def digits(*, n_public: int = 400, n_test: int = 397, random_state: int = 0) -> Dataset:
    """Return scikit-learn's 1,797 digits of 8x8 pixels, float32 in [0, 1], split at random; small enough for tests."""
    from sklearn.datasets import load_digits

    n_public, n_test = whole("n_public", n_public, at_least=1), whole("n_test", n_test, at_least=1)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8)
    if n_public + n_test >= len(images):
        raise InvalidInput(f"n_public + n_test must be below {len(images)}, got {n_public + n_test}.")
    order = np.random.default_rng(whole("random_state", random_state)).permutation(len(images))
    public, test, private = np.split(order, [n_public, n_public + n_test])
    return Dataset(
        name="digits",
        X=images[private],
        y=labels[private].astype(np.int64),
        X_public=images[public],
        y_public=labels[public].astype(np.int64),
        X_test=images[test],
        y_test=labels[test].astype(np.int64),
        classes=tuple("0123456789"),
    )


def read_idx(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Return the array of an IDX file of bytes (MNIST's format), also gzipped."""
    file = Path(path)
    opener = gzip.open if file.suffix == ".gz" else open
    try:
        with opener(file, "rb") as stream:
            data = stream.read()
    except (OSError, EOFError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}.") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * data[3]:
        raise InvalidInput(f"{file} is not an IDX file of bytes.")
    shape = np.frombuffer(data, ">u4", count=data[3], offset=4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3])
    if len(values) != np.prod(shape, dtype=np.int64):
        raise InvalidInput(f"{file} is not whole: {len(values)} values, {'x'.join(map(str, shape))} expected.")
    return values.reshape(tuple(int(size) for size in shape))


def _files(path: str | os.PathLike[str] | None, name: str, names: tuple[str, ...]) -> list[Path]:
    if path is None:
        root = os.environ.get("OSTRAKON_DATA")
        if not root:
            raise InvalidInput(
                f"Say where {name} is: give the folder of its files, or set OSTRAKON_DATA to the folder above {name}/."
            )
        path = Path(root, name)
    folder = Path(path)
    chosen = []
    for file in names:
        candidates = [folder / file, folder / f"{file}.gz"]
        existing = next((candidate for candidate in candidates if candidate.is_file()), None)
        if existing is None:
            raise InvalidInput(f"{folder} has no {file} (nor {file}.gz), which {name} needs.")
        chosen.append(existing)
    return chosen
