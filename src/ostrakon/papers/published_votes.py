"""The votes that the papers' authors published, read from the data folder."""

import gzip
import os
from pathlib import Path

import numpy as np

from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, PublicVotes

_MNIST = "mnist_250_teachers.npy"


SOURCE = (
    "The authors' script of pate-2018, research/pate_2018/ICLR2018/download.py in "
    "https://github.com/tensorflow/privacy, fetches mnist_250_teachers.npy and adult_250_teachers.npy from "
    "https://storage.googleapis.com/pate-votes/votes.gz"
)
"""Where the published votes can be obtained, without the final full stop."""

OWN = "benchmarks/results/teacher_votes"
"""Where votes of teachers of our own lie in the source tree."""


def folder(data: Path | None, *, own: bool = False) -> Path:
    """Return the data folder: `data`, else the environment variable OSTRAKON_DATA.

    own: whether votes of teachers of our own would do, too. Errors: `InvalidInput` where neither is given.
    """
    if data is not None:
        return data
    named = os.environ.get("OSTRAKON_DATA")
    if not named:
        raise InvalidInput(
            "The published votes are not part of ostrakon: give --data DIR, or set OSTRAKON_DATA, "
            f"to the folder that holds votes/mnist_250_teachers.npy and its neighbours. {SOURCE}"
            + (f"; figures of teachers of our own come from {OWN} of the source tree." if own else ".")
        )
    return Path(named)


def are_in(data: Path | None) -> bool:
    """Return whether the published votes of MNIST are in the data folder."""
    return any(file.is_file() for file in _places(folder(data), _MNIST))


def _places(root: Path, name: str) -> tuple[Path, Path]:
    return root / "votes" / name, root / name


def _load(data: Path | None, name: str) -> np.ndarray:
    root = folder(data)
    for path in _places(root, name):
        if path.is_file():
            try:
                return np.load(path, allow_pickle=False)
            except (OSError, ValueError, EOFError):
                raise InvalidInput(
                    f"{path} must be a NumPy file (.npy) of votes, and it cannot be read as one."
                ) from None
    raise InvalidInput(
        f"The published votes {name} are neither in {root / 'votes'} nor in {root}: "
        f"give the folder that holds them with --data DIR or OSTRAKON_DATA. {SOURCE}."
    )


def mnist(data: Path | None) -> PublicVotes:
    """Return votes of 250 MNIST teachers on 9,000 queries, 10 classes."""
    return PublicVotes(_load(data, _MNIST))


def adult(data: Path | None) -> PublicVotes:
    """Return votes of 250 UCI Adult teachers on 16,281 queries, 2 classes."""
    return PublicVotes(_load(data, "adult_250_teachers.npy"))


def mnist_student_indices(data: Path | None) -> IntArray:
    """Return the 100 MNIST queries whose labels the 2017 student was trained on."""
    return _load(data, "mnist_250_teachers_100_indices_used_by_student.npy").astype(np.int64)


def mnist_labels(data: Path | None) -> IntArray:
    """Return the true labels of the 9,000 MNIST queries, the first of mnist/t10k-labels-idx1-ubyte.gz."""
    path = folder(data) / "mnist" / "t10k-labels-idx1-ubyte.gz"
    try:
        with gzip.open(path) as file:
            content = file.read()
    except OSError:
        raise InvalidInput(f"The labels of MNIST's test set are needed at {path}, and cannot be read there.") from None
    return np.frombuffer(content, np.uint8, offset=8)[:9000].astype(np.int64)
