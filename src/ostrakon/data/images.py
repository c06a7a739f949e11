"""Images on disk: a folder with a folder of pictures for every class, or a NumPy file of images or of features."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput

PICTURES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"))
_ARRAYS = (".npz", ".npy")
_X, _Y = ("X", "x", "images"), ("y", "labels")
_GREY = ("1", "L", "I;16", "I", "F")


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Images, or features that were made of something, and what stood beside them.

    X: float32 in [0, 1], or as they were where they are not whole numbers of 8 bits; shape (images, height, width), or
    with channels last or first. Features: float32 as they were, shape (rows, features). labels: text, shape (images,),
    or None. users: whose each image is, or None.
    """

    path: Path
    X: NDArray[Any]
    labels: NDArray[Any] | None
    users: NDArray[Any] | None

    @property
    def are_features(self) -> bool:
        """Whether rows are features, such as embeddings, and no images."""
        return self.X.ndim == 2


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a NumPy file (of images or features) or a folder with pictures in it, rather than a table."""
    place = Path(path)
    if place.is_dir():
        return _first_picture(place) is not None
    return place.suffix.lower() in _ARRAYS


def read_images(path: str | os.PathLike[str], *, target: str | None = None, by: str | None = None) -> Images:
    """Images from `path`, all in memory.

    A folder: every picture in it, in the order of their names; where pictures lie in folders, the uppermost folder's
    name is the label. All pictures have one size; they are grey where all of them are, else they have three colours.
    An .npz: the images are the array X (or x, or images), the labels y (or labels, or `target`), the users `by`.
    An .npy: images alone. Arrays of objects are refused. An array of two dimensions holds features.

    Raises `InvalidInput` in one sentence: no images, pictures of different sizes, a picture that cannot be read, arrays
    that are missing, of different lengths, not finite or of another shape than images have.
    """
    place = Path(path)
    if place.is_dir():
        if by is not None:
            raise InvalidInput(f"--by needs an .npz with an array of that name, got the folder {place}.")
        return _folder(place)
    return _arrays(place, target, by)


def require_same_scale(private: Any, other: Any, what: str) -> None:
    """Refuse images on another scale: the brightest value of the middle one eight times the private one, or an eighth.

    private, other: arrays of images, in memory. what: the other ones, in words. Errors: `InvalidInput`.
    """
    # The median: no single image decides.
    most, other_most = (float(np.median(np.abs(X).reshape(len(X), -1).max(axis=1))) for X in (private, other))
    if max(most, other_most) >= 8 * min(most, other_most) > 0:
        raise InvalidInput(
            f"{what} must have values on the private images' scale (files of 8 bits are divided by 255): the brightest "
            f"are mostly {other_most:.3g} and {most:.3g}."
        )


def _folder(place: Path) -> Images:
    from PIL import Image, UnidentifiedImageError

    files = sorted(file for file in place.rglob("*") if _is_picture(file, place))
    if not files:
        raise InvalidInput(f"{place} must hold pictures ({', '.join(sorted(PICTURES))}), got none.")
    inside = [file.relative_to(place).parts for file in files]
    loose = [parts for parts in inside if len(parts) == 1]
    if loose and len(loose) < len(inside):
        raise InvalidInput(f"{place} must have all pictures in folders of classes, or none; {loose[0][0]} is loose.")
    pictures: list[NDArray[Any]] = []
    for file in files:
        try:
            with Image.open(file) as image:
                kind = "F" if image.mode in ("I;16", "I", "F") else "L" if image.mode in _GREY else "RGB"
                scale = 65535 if image.mode in ("I;16", "I") else 255
                pictures.append(np.asarray(image.convert(kind), np.float32) / scale)
        except (OSError, UnidentifiedImageError, ValueError, SyntaxError) as error:
            raise InvalidInput(f"The picture {file} cannot be read ({type(error).__name__}).") from None
        if pictures[-1].shape[:2] != pictures[0].shape[:2]:
            (height, width), (other_height, other_width) = pictures[0].shape[:2], pictures[-1].shape[:2]
            raise InvalidInput(
                f"All pictures must have one size: {files[0].name} has {width}x{height} pixels, {file} has "
                f"{other_width}x{other_height}."
            )
    if any(picture.ndim == 3 for picture in pictures):
        pictures = [np.repeat(one[..., None], 3, axis=2) if one.ndim == 2 else one for one in pictures]
    labels = None if loose else np.array([parts[0] for parts in inside], dtype=object)
    return Images(path=place, X=_checked(np.stack(pictures), place), labels=labels, users=None)


def _arrays(place: Path, target: str | None, by: str | None) -> Images:
    try:
        loaded = np.load(place, allow_pickle=False)
        found = {"X": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {place}.") from None
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{place} cannot be read as a NumPy file of numbers ({type(error).__name__}).") from None
    X = _named(found, _X)
    if X is None:
        raise InvalidInput(
            f"{place} must hold its images or features as the array X, got the arrays {', '.join(found) or 'none'}."
        )
    if target is not None and target not in found and _named(found, _Y) is not None:
        raise InvalidInput(f"The target {target!r} is not among the arrays {', '.join(found)} of {place}.")
    if by is not None and by not in found:
        raise InvalidInput(f"The array of users {by!r} is not among the arrays {', '.join(found)} of {place}.")
    labels = _named(found, _Y if target is None else (target,))
    users = None if by is None else found[by]
    for name, array in (("labels", labels), ("users", users)):
        if array is not None and array.shape != (len(X),):
            raise InvalidInput(f"{place} must have one of its {name} per image, {len(X)}, got shape {array.shape}.")
    return Images(
        path=place, X=_checked(X, place), labels=None if labels is None else _text(labels, place), users=users
    )


def _checked(X: NDArray[Any], place: Path) -> NDArray[Any]:
    """`X` as numbers that learners take, refused unless it has the shape of images or features."""
    if X.dtype.kind not in "uifb" or X.ndim not in (2, 3, 4) or not X.size:
        raise InvalidInput(
            f"{place} must hold images as numbers, shape (images, height, width) or with channels, or features, shape "
            f"(rows, features), got {X.shape} of {X.dtype}."
        )
    if X.dtype == np.uint8 and X.ndim > 2:
        return X.astype(np.float32) / 255
    with np.errstate(over="ignore"):  # what single numbers cannot hold is refused below
        images = X.astype(np.float32)
    if not np.isfinite(images).all():
        raise InvalidInput(f"{place} must hold finite numbers, got a NaN or an infinity.")
    return images


def _text(labels: NDArray[Any], place: Path) -> NDArray[Any]:
    """Labels as text, as tables have them: 7 and 7.0 are both "7"."""
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.round(labels)).any():
            raise InvalidInput(f"{place} must have whole numbers or text as labels, got {labels.dtype}.")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "uiUb":
        raise InvalidInput(f"{place} must have whole numbers or text as labels, got {labels.dtype}.")
    return np.array([str(label) for label in labels.tolist()], dtype=object)


def _named(found: dict[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((found[name] for name in names if name in found), None)


def _is_picture(file: Path, place: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
    return file.suffix.lower() in PICTURES and not hidden and file.is_file()


def _first_picture(place: Path) -> Path | None:
    return next((file for file in place.rglob("*") if _is_picture(file, place)), None)
