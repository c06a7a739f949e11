"""Images on disk: a folder with a folder of pictures for every class, or a NumPy file with images or features."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.images_on_disk import Pixels, at_once, blocks_of, room, stored_arrays
from ostrakon.validation import InvalidInput

PICTURES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"))
_ARRAYS = (".npz", ".npy")
_X, _Y = ("X", "x", "images"), ("y", "labels")
_GREY = ("1", "L", "I;16", "I", "F")


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Images or features, with their labels and users.

    X: float32 in [0, 1], or as they were where they are not whole numbers of 8 bits; shape (images, height, width), or
    with channels last or first; an array, or `Pixels` that give it block by block. Features: an array, float32 as they
    were, shape (rows, features). labels: text, shape (images,), or None. users: whose each image is, or None.
    """

    path: Path
    X: Any
    labels: NDArray[Any] | None
    users: NDArray[Any] | None

    @property
    def are_features(self) -> bool:
        """Whether rows are features, such as embeddings, and no images."""
        return self.X.ndim == 2


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a NumPy file (images or features) or a folder with pictures in it, rather than a table."""
    location = Path(path)
    if location.is_dir():
        return _first_picture(location) is not None
    return location.suffix.lower() in _ARRAYS


def read_images(
    path: str | os.PathLike[str], *, target: str | None = None, by: str | None = None, in_memory: bool = True
) -> Images:
    """Images from `path`: an array, or `Pixels` for more images than fit in memory.

    in_memory: whether X is an array.

    A folder: every picture in it, sorted by name; where pictures are in subfolders, the name of the uppermost subfolder
    is the label. All pictures have one size; they are grey if all files are, else they have three colours.
    An .npz: the images are the array X (or x, or images), the labels y (or labels, or `target`), the users `by`.
    An .npy: images alone. Arrays of objects are refused. A two-dimensional array has features.

    Raises `InvalidInput` in one sentence: no images, pictures of different sizes, a picture that cannot be read, arrays
    that are missing, of different lengths, not finite or of another shape than images have.
    """
    location = Path(path)
    if location.is_dir():
        if by is not None:
            raise InvalidInput(f"--by needs an .npz with an array of that name, got the folder {location}.")
        images = _folder(location)
    else:
        images = _arrays(location, target, by)
    return replace(images, X=np.asarray(images.X)) if in_memory else images


def require_same_scale(private: Any, other: Any, what: str) -> None:
    """Refuse images on another scale: the brightest value of the middle one eight times the private one, or an eighth.

    private, other: arrays with images, in memory. what: names the other images in the message. Errors: `InvalidInput`.
    """
    # The median: no single image decides.
    most, other_most = (float(np.median(_brightest(X))) for X in (private, other))
    if max(most, other_most) >= 8 * min(most, other_most) > 0:
        raise InvalidInput(
            f"{what} must have values on the private images' scale (files of 8 bits are divided by 255): the brightest "
            f"are mostly {other_most:.3g} and {most:.3g}."
        )


def _brightest(X: Any) -> NDArray[Any]:
    return np.concatenate([np.abs(some).reshape(len(some), -1).max(axis=1) for some in blocks_of(X)])


def _folder(folder: Path) -> Images:
    from PIL import Image, UnidentifiedImageError

    files = sorted(file for file in folder.rglob("*") if _is_picture(file, folder))
    if not files:
        raise InvalidInput(f"{folder} must hold pictures ({', '.join(sorted(PICTURES))}), got none.")
    inside = [file.relative_to(folder).parts for file in files]
    loose = [parts for parts in inside if len(parts) == 1]
    if loose and len(loose) < len(inside):
        raise InvalidInput(f"{folder} must have all pictures in folders of classes, or none; {loose[0][0]} is loose.")
    gathered = _Gathered(len(files))
    for number, file in enumerate(files):
        try:
            with Image.open(file) as image:
                kind = "F" if image.mode in ("I;16", "I", "F") else "L" if image.mode in _GREY else "RGB"
                picture = np.asarray(image.convert(kind))
                picture = picture / np.float32(65535) if image.mode in ("I;16", "I") else picture
                picture = picture / np.float32(255) if image.mode == "F" else picture
        except (OSError, UnidentifiedImageError, ValueError, SyntaxError) as error:
            raise InvalidInput(
                f"The picture {file} cannot be read ({type(error).__name__}): it is damaged or no picture; replace or "
                "remove it."
            ) from None
        if number and picture.shape[:2] != gathered.shape[1:3]:
            (height, width), (other_height, other_width) = gathered.shape[1:3], picture.shape[:2]
            raise InvalidInput(
                f"All pictures must have one size: {files[0].name} has {width}x{height} pixels, {file} has "
                f"{other_width}x{other_height}."
            )
        gathered.put(number, picture)
    labels = None if loose else np.array([parts[0] for parts in inside], dtype=object)
    return Images(path=folder, X=_checked(gathered.array, folder), labels=labels, users=None)


class _Gathered:
    """Pictures of one size in one array: whole numbers of 8 bits and grey, as long as all of them are."""

    def __init__(self, count: int) -> None:
        self.count, self.array = count, np.empty(0, np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        """(pictures, height, width), and 3 where one has colours."""
        return self.array.shape

    def put(self, number: int, picture: NDArray[Any]) -> None:
        """The next picture, of 8 bits or from 0 to 1."""
        if number == 0:
            self.array = room((self.count, *picture.shape), picture.dtype)
        if self.array.dtype == np.uint8 and picture.dtype != np.uint8:
            self._again(number, np.float32, self.array.ndim)
        if picture.ndim > self.array.ndim - 1:
            self._again(number, self.array.dtype, 4)
        colours = picture[..., None] if picture.ndim < self.array.ndim - 1 else picture
        self.array[number] = colours if self.array.dtype == picture.dtype else colours / np.float32(255)

    def _again(self, done: int, dtype: Any, ndim: int) -> None:
        before = self.array
        shape = before.shape if ndim == before.ndim else (*before.shape, 3)
        self.array = room(shape, dtype)
        several = at_once(before)
        for at in range(0, done, several):
            some = before[at : min(at + several, done)]
            some = some if ndim == before.ndim else some[..., None]
            self.array[at : at + len(some)] = some if before.dtype == dtype else some / np.float32(255)


def _arrays(file: Path, target: str | None, by: str | None) -> Images:
    try:
        arrays = stored_arrays(file, _X)
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {file}.") from None
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{file} cannot be read as a NumPy file of numbers ({type(error).__name__}).") from None
    X = _named(arrays, _X)
    if X is None:
        raise InvalidInput(
            f"{file} must hold its images or features as the array X, got the arrays {', '.join(arrays) or 'none'}."
        )
    if target is not None and target not in arrays and _named(arrays, _Y) is not None:
        raise InvalidInput(f"The target {target!r} is not among the arrays {', '.join(arrays)} of {file}.")
    if by is not None and by not in arrays:
        raise InvalidInput(f"The array of users {by!r} is not among the arrays {', '.join(arrays)} of {file}.")
    labels = _named(arrays, _Y if target is None else (target,))
    users = None if by is None else arrays[by]
    for name, array in (("labels", labels), ("users", users)):
        if array is not None and array.shape != (len(X),):
            raise InvalidInput(f"{file} must have one of its {name} per image, {len(X)}, got shape {array.shape}.")
    return Images(path=file, X=_checked(X, file), labels=None if labels is None else _text(labels, file), users=users)


def _checked(X: NDArray[Any], location: Path) -> Any:
    """`X` as numbers that learners accept; any shape but that of image or feature arrays is refused."""
    if X.dtype.kind not in "uifb" or X.ndim not in (2, 3, 4) or not X.size:
        raise InvalidInput(
            f"{location} must hold images as numbers, shape (images, height, width) or with channels, or features, "
            f"shape (rows, features), got {X.shape} of {X.dtype}."
        )
    if X.dtype == np.uint8 and X.ndim > 2:
        return Pixels(X, divisor=255)
    pixels = Pixels(X, divisor=1)
    with np.errstate(over="ignore"):  # values beyond single precision become infinite and are refused
        if not all(np.isfinite(some).all() for some in blocks_of(pixels)):
            raise InvalidInput(f"{location} must hold finite numbers, got a NaN or an infinity.")
    return np.asarray(pixels) if X.ndim == 2 else pixels


def _text(labels: NDArray[Any], file: Path) -> NDArray[Any]:
    """Labels as text, as tables have them: 7 and 7.0 are both "7"."""
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.round(labels)).any():
            raise InvalidInput(f"{file} must have whole numbers or text as labels, got {labels.dtype}.")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "uiUb":
        raise InvalidInput(f"{file} must have whole numbers or text as labels, got {labels.dtype}.")
    return np.array([str(label) for label in labels.tolist()], dtype=object)


def _named(arrays: dict[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _is_picture(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in PICTURES and not hidden and file.is_file()


def _first_picture(folder: Path) -> Path | None:
    return next((file for file in folder.rglob("*") if _is_picture(file, folder)), None)
