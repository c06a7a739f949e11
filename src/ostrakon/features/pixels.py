"""Pictures as a network takes them: three colours between 0 and 1, of one size."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.validation import InvalidInput

_COLOURS = (1, 3, 4)


def as_colours(X: ArrayLike, *, brightest: float = 1.0, name: str = "X") -> NDArray[np.float32]:
    """Return pictures of shape (pictures, height, width, 3) with values between 0 and 1.

    X: (pictures, height, width), or with 1, 3 or 4 channels last or first; grey is repeated, the fourth is how opaque
    the picture is, before white.
    Whole numbers of 8 bits are divided by 255, all else by `brightest`; what lies outside of 0 and 1 is cut off.
    Errors: `InvalidInput` for anything but pictures, and for values that are not finite.
    """
    pictures = np.asarray(X)
    last = pictures.ndim == 4 and pictures.shape[3] in _COLOURS
    first = pictures.ndim == 4 and not last and pictures.shape[1] in _COLOURS
    if pictures.dtype.kind not in "uifb" or not (pictures.ndim == 3 or last or first) or 0 in pictures.shape[1:]:
        raise InvalidInput(
            f"{name} must hold pictures of the shape (pictures, height, width), or with 1, 3 or 4 channels, got "
            f"{pictures.shape} of {pictures.dtype}."
        )
    if first:
        pictures = pictures.transpose(0, 2, 3, 1)
    elif not last:
        pictures = pictures[..., None]
    if not np.isfinite(pictures).all():
        raise InvalidInput(f"{name} must hold finite numbers, got a NaN or an infinity.")
    scaled = pictures.astype(np.float32) / np.float32(255 if pictures.dtype == np.uint8 else brightest)
    scaled = np.clip(scaled, 0, 1)
    if scaled.shape[3] == 4:
        opaque = scaled[..., 3:]
        scaled = scaled[..., :3] * opaque + (1 - opaque)
    return np.broadcast_to(scaled, (*scaled.shape[:3], 3))


def brightest_of(X: ArrayLike, *, name: str = "X") -> float:
    """Return the divisor of pictures: 1 if no value exceeds 1, else 255. Errors: as `as_colours`, or another scale.

    >>> brightest_of(np.ones((2, 8, 8)) * 200.0)
    255.0
    """
    pictures = np.asarray(X)
    as_colours(pictures, name=name)
    least, most = float(pictures.min(initial=0)), float(pictures.max(initial=0))
    if least < 0 or most > 255:
        raise InvalidInput(
            f"{name} must hold pictures with values from 0 to 1 or from 0 to 255, got {least:.4g} to {most:.4g}."
        )
    return 1.0 if most <= 1 else 255.0


def resized(picture: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Return one picture (rows, columns, channels) at another size, in doubles, cut off at 0 and 1.

    Bicubic (a = -1/2), with antialiasing when it shrinks, as in Pillow and PyTorch.
    """
    down, across = resizing(picture.shape[0], height), resizing(picture.shape[1], width)
    rows = (down @ picture.reshape(picture.shape[0], -1).astype(np.float64)).reshape(height, *picture.shape[1:])
    return np.clip(across @ rows, 0, 1)


@lru_cache(maxsize=16)
def resizing(size: int, new_size: int) -> NDArray[np.float64]:
    """Return the weight of each of `size` pixels in each of `new_size` pixels, (wanted, size)."""
    scale = size / new_size
    centres = (np.arange(new_size) + 0.5) * scale
    away = np.abs(np.arange(size) + 0.5 - centres[:, None]) / max(scale, 1.0)
    near, distant = (1.5 * away - 2.5) * away**2 + 1, ((-0.5 * away + 2.5) * away - 4) * away + 2
    weights = np.where(away < 1, near, np.where(away < 2, distant, 0.0))
    return weights / weights.sum(axis=1, keepdims=True)
