"""Images on disk: a folder with a folder of pictures for every class, or a NumPy file with images or features."""

import contextlib
import io
import math
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.classes import SEPARATOR
from ostrakon.data.identity import image_digests
from ostrakon.data.images_on_disk import Pixels, blocks_of, room, stored_arrays
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.validation import InvalidInput

PICTURES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"))
_ARRAYS = (".npz", ".npy")
_X, _Y = ("X", "x", "images"), ("y", "labels")
_ORIENTATION = 0x0112
"""The EXIF tag that says how a picture is to be turned."""
_JPEG, _SCAN, _MOST_SCANS = b"\xff\xd8", b"\xff\xda", 100
"""How a JPEG and each of its scans begin. Each scan passes over all pixels, however few bytes it has."""
_MOST_PIXELS = 256
"""The longer side of pictures of several sizes, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Images or features, with their labels and users.

    X: float32 in [0, 1], or as they were where they are not whole numbers of 8 bits; shape (images, height, width), or
    with channels last or first; an array, or `Pixels` that give it block by block. Features: an array, float32 as they
    were, shape (rows, features). labels: text, shape (images,), or None. users: whose each image is, or None.
    identities: of pictures in a folder, digests of them before they were resized, by which a ledger knows them.
    """

    path: Path
    X: Any
    labels: NDArray[Any] | None
    users: NDArray[Any] | None
    identities: NDArray[Any] | None = None

    @property
    def are_features(self) -> bool:
        """Whether rows are features, such as embeddings, and no images."""
        return self.X.ndim == 2


def holds_images(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a NumPy file (images or features) or a folder of pictures, rather than a table."""
    location = Path(path)
    if location.is_dir():
        return any(_is_picture(file, location) for file in location.rglob("*"))
    return location.suffix.lower() in _ARRAYS


def read_images(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    by: str | None = None,
    in_memory: bool = True,
    like: Images | None = None,
    coding: Quantity | Labels | None = None,
    labelled: bool = True,
) -> Images:
    """Return images from `path`: an array, or `Pixels` for more images than fit in memory.

    in_memory: whether X is an array. like: public images, whose size and colours pictures in a folder get. coding: if
    the target is a quantity or several labels. labelled: whether labels of arrays are read.

    A folder: every picture in it, sorted by name; where pictures are in subfolders, the name of the uppermost subfolder
    is the label. Pictures are turned as their EXIF data say, and put on white where they are transparent. Those of
    several sizes are resized (bicubic) to the median height and width, at most 256 pixels a side. They are grey if all
    of them are, else they have three colours. With `like`, no picture influences how another is read.
    An .npz: the images are the array X (or x, or images), the labels y (or labels, or `target`), the users `by`. With a
    quantity as `coding` labels are any numbers; with several labels also 0 and 1, with a column for each.
    An .npy: images alone. Arrays of objects are refused. A two-dimensional array has features.

    Raises `InvalidInput` in one sentence: no images, a picture that cannot be read, arrays
    that are missing, of different lengths, not finite or of another shape than images have.
    """
    location = Path(path)
    if location.is_dir():
        if by is not None:
            raise InvalidInput(f"--by needs an .npz with an array of that name, got the folder {location}.")
        result = _folder(location, like)
    else:
        result = _arrays(location, target, by, coding, labelled=labelled)
    return replace(result, X=np.asarray(result.X)) if in_memory else result


def read_picture(content: bytes, *, shape: tuple[int, ...], most_pixels: int) -> NDArray[np.float32]:
    """Read a PNG or JPEG picture in memory, as pictures of a folder are read beside public images.

    Parameters
    ----------
    content : bytes
    shape : tuple of int
        Of one public image: (height, width), or with one or three colours last or first.
    most_pixels : int at least 1
        A larger picture is refused before it is decoded.

    Returns
    -------
    array of float32, of `shape`
        Values from 0 to 1.

    Raises
    ------
    InvalidInput
        If it is damaged, too large, of too many scans, or of another format.
    """
    first = len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3)
    height, width, *colours = (*shape[1:], shape[0]) if first else shape
    form = _Form(height=height, width=width, colours=colours == [3], eight_bits=False)
    try:
        picture = form.received(content, most_pixels)
    except Exception as error:  # a damaged file raises what its decoder raises
        raise InvalidInput(
            f"A picture must be a PNG or JPEG file of at most {most_pixels} pixels and {_MOST_SCANS} scans, got "
            f"{len(content)} bytes that are not ({type(error).__name__})."
        ) from None
    picture = picture[..., None] if colours == [1] else picture
    return np.moveaxis(picture, -1, 0) if first else picture


def require_same_scale(private: Any, other: Any, what: str) -> None:
    """Refuse images on another scale: the brightest value of the middle one eight times the private one, or an eighth.

    private, other: arrays with images, in memory. what: names the other images in the message. Errors: `InvalidInput`.
    """
    # The median: no single image decides.
    brightest = ([np.abs(some).reshape(len(some), -1).max(axis=1) for some in blocks_of(X)] for X in (private, other))
    most, other_most = (float(np.median(np.concatenate(parts))) for parts in brightest)
    if max(most, other_most) >= 8 * min(most, other_most) > 0:
        raise InvalidInput(
            f"{what} must have values on the private images' scale (files of 8 bits are divided by 255): the brightest "
            f"are mostly {other_most:.3g} and {most:.3g}."
        )


@dataclass(frozen=True, kw_only=True)
class _Form:
    """What the pictures of a folder become: a size, three colours or grey, 8 bits or numbers from 0 to 1."""

    height: int
    width: int
    colours: bool
    eight_bits: bool

    @classmethod
    def of(cls, files: Sequence[Path], like: Images | None) -> Self:
        """Return the pixels of pictures from their headers; size and colours from `like`, where it is given."""
        sizes, kinds = zip(*map(_header, files), strict=True)
        shape = _picture_shape(like)
        if shape is None:
            height, width = (int(np.median(side)) for side in zip(*sizes, strict=True))
            shrink = min(1.0, _MOST_PIXELS / max(height, width)) if len(set(sizes)) > 1 else 1.0
            height, width = (max(1, round(side * shrink)) for side in (height, width))
            shape = (height, width, 3) if "RGB" in kinds else (height, width)
        return cls(height=shape[0], width=shape[1], colours=len(shape) == 3, eight_bits="F" not in kinds)

    def picture(self, file: Path) -> tuple[NDArray[Any], str]:
        """Return the picture in this form, and a digest of it as it was."""
        with _readable(file):
            image, kind = _upright(file)
        return self._converted(image, kind)

    def received(self, content: bytes, most_pixels: int) -> NDArray[Any]:
        """Return a PNG or JPEG picture in this form. Errors: any, for another format, a damaged file or more pixels."""
        if content.startswith(_JPEG) and content.count(_SCAN) > _MOST_SCANS:
            raise ValueError(f"more than {_MOST_SCANS} scans")
        image, kind = _upright(io.BytesIO(content), formats=("PNG", "JPEG"), most_pixels=most_pixels)
        return self._converted(image, kind)[0]

    def _converted(self, image: Any, kind: str) -> tuple[NDArray[Any], str]:
        from PIL import Image

        before = _array(image, kind)
        if self.colours != (kind == "RGB") and kind != "F":
            kind = "RGB" if self.colours else "L"
            image = image.convert(kind)
        if image.size != (self.width, self.height):
            image = image.resize((self.width, self.height), Image.Resampling.BICUBIC)
        # Bicubic weights are negative in places.
        converted = np.clip(_array(image, kind), before.min(), before.max())
        if self.colours and converted.ndim == 2:
            converted = np.repeat(converted[..., None], 3, axis=2)
        if not self.eight_bits and converted.dtype == np.uint8:
            converted = converted / np.float32(255)
        before = before / np.float32(255) if before.dtype == np.uint8 else before
        return converted, next(image_digests(before[None]))


def _picture_shape(like: Images | None) -> tuple[int, ...] | None:
    """Return the shape of one image, where it is a grey picture or one with its colours last."""
    shape = () if like is None else like.X.shape[1:]
    return shape if len(shape) == 2 or (len(shape) == 3 and shape[2] == 3) else None


def _upright(
    file: Path | BinaryIO, *, formats: tuple[str, ...] | None = None, most_pixels: float = math.inf
) -> tuple[Any, str]:
    """Return a picture, turned upright and on white, and its kind: "L" (grey), "RGB" or "F" (grey, of more than 8
    bits).
    """
    from PIL import Image, ImageOps

    with Image.open(file, formats=formats) as picture:
        if picture.width * picture.height > most_pixels:
            raise ValueError(f"{picture.width} x {picture.height} pixels")
        kind = _kind(picture)
        image = ImageOps.exif_transpose(picture)
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        if image.mode != "F" and kind == "F":
            # Integers of 16 bits; the numbers of F are from 0 to 255.
            image = Image.fromarray(np.asarray(image, np.float32) * np.float32(255 / 65535))
        return image.convert(kind), kind


def _header(file: Path) -> tuple[tuple[int, int], str]:
    """Return ((height, width), kind) of a picture, without reading all of it."""
    from PIL import Image

    with _readable(file), Image.open(file) as image:
        width, height = image.size
        turned = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
        return ((width, height) if turned else (height, width)), _kind(image)


def _kind(image: Any) -> str:
    if image.mode in ("I;16", "I", "F"):
        return "F"
    return "L" if image.mode in ("1", "L") else "RGB"


def _array(image: Any, kind: str) -> NDArray[Any]:
    pixels = np.asarray(image)
    return pixels / np.float32(255) if kind == "F" else pixels


@contextlib.contextmanager
def _readable(file: Path) -> Generator[None]:
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError, SyntaxError) as error:
        raise InvalidInput(
            f"The picture {file} cannot be read ({type(error).__name__}): it is damaged or no picture; replace or "
            "remove it."
        ) from None


def _folder(location: Path, like: Images | None) -> Images:
    files = sorted(file for file in location.rglob("*") if _is_picture(file, location))
    if not files:
        raise InvalidInput(f"{location} must hold pictures ({', '.join(sorted(PICTURES))}), got none.")
    inside = [file.relative_to(location).parts for file in files]
    loose = [parts for parts in inside if len(parts) == 1]
    if loose and len(loose) < len(inside):
        raise InvalidInput(f"{location} must have all pictures in folders of classes, or none; {loose[0][0]} is loose.")
    form = _Form.of(files, like)
    shape = (len(files), form.height, form.width, *([3] if form.colours else []))
    pixels = room(shape, np.uint8 if form.eight_bits else np.float32)
    identities = list[str]()
    for number, file in enumerate(files):
        pixels[number], digest = form.picture(file)
        identities.append(digest)
    labels = None if loose else np.array([parts[0] for parts in inside], dtype=object)
    return Images(
        path=location, X=_checked(pixels, location), labels=labels, users=None, identities=np.array(identities)
    )


def _arrays(
    location: Path, target: str | None, by: str | None, coding: Quantity | Labels | None, *, labelled: bool
) -> Images:
    if location.exists() and location.suffix.lower() not in _ARRAYS:
        kinds = " or ".join(_ARRAYS)
        raise InvalidInput(f"{location} must be a folder of pictures or a file {kinds}, as the private data are.")
    try:
        result = stored_arrays(location, _X)
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {location}.") from None
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{location} cannot be read as a NumPy file of numbers ({type(error).__name__}).") from None
    X = _named(result, _X)
    if X is None:
        raise InvalidInput(
            f"{location} must hold its images or features as the array X, got the arrays {', '.join(result) or 'none'}."
        )
    if target is not None and target not in result and _named(result, _Y) is not None:
        raise InvalidInput(f"The target {target!r} is not among the arrays {', '.join(result)} of {location}.")
    if by is not None and by not in result:
        raise InvalidInput(f"The array of users {by!r} is not among the arrays {', '.join(result)} of {location}.")
    labels = _named(result, _Y if target is None else (target,)) if labelled else None
    users = None if by is None else result[by]
    if isinstance(coding, Labels) and labels is not None and labels.ndim == 2:
        labels = _sets(labels, location, coding)
    for name, array in (("labels", labels), ("users", users)):
        if array is not None and array.shape != (len(X),):
            raise InvalidInput(f"{location} must have one of its {name} per image, {len(X)}, got shape {array.shape}.")
    text = None if labels is None else _text(labels, location, coding)
    return Images(path=location, X=_checked(X, location), labels=text, users=users)


def _checked(X: NDArray[Any], location: Path) -> Any:
    """Return `X` as numbers that learners take, refused unless it has the shape of an image or features."""
    if X.dtype.kind not in "uifb" or X.ndim not in (2, 3, 4) or not X.size:
        raise InvalidInput(
            f"{location} must hold images as numbers, shape (images, height, width) or with channels, or features, "
            f"shape (rows, features), got {X.shape} of {X.dtype}."
        )
    if X.dtype == np.uint8 and X.ndim > 2:
        return Pixels(X, divisor=255)
    result = Pixels(X, divisor=1)
    with np.errstate(over="ignore"):  # values beyond single precision become infinite and are refused
        if not all(np.isfinite(some).all() for some in blocks_of(result)):
            raise InvalidInput(f"{location} must hold finite numbers, got a NaN or an infinity.")
    return np.asarray(result) if X.ndim == 2 else result


def _sets(labels: NDArray[Any], location: Path, names: Labels) -> NDArray[Any]:
    """Return a column of 0 or 1 for each label as cells such as `a;b`, which is ";" for no label."""
    if labels.shape[1] != len(names.names) or not np.isin(labels, (0, 1)).all():
        raise InvalidInput(
            f"{location} must have 0 or 1 in a column for each of {len(names.names)} labels, got shape {labels.shape}."
        )
    set_names = np.array(names.names)
    return np.array([SEPARATOR.join(set_names[row == 1]) or SEPARATOR for row in labels])


def _text(labels: NDArray[Any], location: Path, coding: Quantity | Labels | None = None) -> NDArray[Any]:
    """Return labels as text, as tables have them: 7 and 7.0 are both "7"."""
    if isinstance(coding, Quantity) and labels.dtype.kind in "fui":
        return np.array([repr(float(label)) for label in labels], dtype=object)
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != np.round(labels)).any():
            raise InvalidInput(f"{location} must have whole numbers or text as labels, got {labels.dtype}.")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "uiUb":
        raise InvalidInput(f"{location} must have whole numbers or text as labels, got {labels.dtype}.")
    return np.array([str(label) for label in labels.tolist()], dtype=object)


def _named(result: dict[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[Any] | None:
    return next((result[name] for name in names if name in result), None)


def _is_picture(file: Path, location: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(location).parts)
    return file.suffix.lower() in PICTURES and not hidden and file.is_file()
