"""Images as bytes or on disk, converted to numbers in blocks, so that there may be more of them than fit in memory."""

import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ostrakon.validation import InvalidInput

_AT_ONCE, _BYTES = 4096, 2**26
"""Images per block at most, and their size in bytes as numbers."""
_IN_MEMORY = 2**30
"""Bytes up to which images are kept in memory; beyond, in a file without a name (in TMPDIR), gone with the process."""


class Pixels:
    """Images as float32, converted only when they are indexed.

    array: numbers, (images, height, width) or with channels, in memory or mapped from a file. divisor: of every number.
    Indexing by rows gives an array of those rows, and `numpy.asarray` one of all rows.
    """

    def __init__(self, array: NDArray[Any], *, divisor: int) -> None:
        self.array, self.divisor, self._stamp = array, divisor, _stamp(array)
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        values = self.array[rows].astype(np.float32)
        return values if self.divisor == 1 else values / np.float32(self.divisor)

    def require_unchanged(self) -> None:
        """Refuse images whose file was written again since it was opened. Errors: `InvalidInput`."""
        if _stamp(self.array) != self._stamp:
            raise InvalidInput("The file of the images changed while it was read; nothing was made of it.")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(np.float32 if dtype is None else dtype, copy=False)


def _stamp(array: NDArray[Any]) -> tuple[int, ...]:
    name = array.filename if isinstance(array, np.memmap) else None
    if name is None:
        return ()
    try:
        status = os.stat(name)
    except FileNotFoundError:
        return (0,)
    return status.st_size, status.st_mtime_ns, status.st_ino


def blocks_of(X: Any) -> Iterator[NDArray[Any]]:
    """Yield the rows of an array, or of `Pixels`, in blocks."""
    size = block_size(X)
    for at in range(0, len(X), size):
        yield X[at : at + size]


def block_size(X: Any) -> int:
    """Return the number of rows of an image array, or of `Pixels`, in a block."""
    return max(1, min(_AT_ONCE, _BYTES // (4 * max(1, int(np.prod(X.shape[1:]))))))


def room(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array to be filled: in memory, or where it is large, in a file without a name."""
    if int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize <= _IN_MEMORY:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, "w+", shape=tuple(shape))


def stored_arrays(path: Path, large: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a NumPy file by name (of an .npy: as "X"), without running any code in it.

    large: names of arrays that may be larger than memory. Raises what NumPy and the layers below it raise.
    """
    small = path.stat().st_size <= _IN_MEMORY
    arrays = np.load(path, mmap_mode=None if small else "r", allow_pickle=False)
    if isinstance(arrays, np.ndarray):
        return {"X": arrays}
    with arrays:
        names = arrays.zip.namelist() if arrays.zip is not None else []
        if len(set(names)) < len(names):
            raise ValueError("an array is there twice")
        packed = {name for name in large if f"{name}.npy" in names}
        return {name: _unpacked(path, name) if name in packed else arrays[name] for name in arrays.files}


def _unpacked(path: Path, name: str) -> NDArray[Any]:
    """Return one array of an .npz: `numpy.load` has no way to take it block by block."""
    with zipfile.ZipFile(path) as packed, packed.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, in_columns, dtype = read_header(file)
        if dtype.hasobject:
            raise ValueError("objects are not read")
        if in_columns or not shape or version > (2, 0):
            return np.load(path, allow_pickle=False)[name]
        array = room(shape, dtype)
        rows = array.reshape(len(array), -1) if array.size else array
        size = block_size(rows) if array.size else 1
        for at in range(0, len(rows) if array.size else 0, size):
            some = rows[at : at + size]
            content = file.read(some.nbytes)
            if len(content) != some.nbytes:
                raise ValueError("the file ends too early")
            rows[at : at + size] = np.frombuffer(content, dtype).reshape(some.shape)
        # At its end, zipfile compares the checksum.
        if file.read(1):
            raise ValueError("the file goes on after the array")
        return array
