"""Features of grey images that need no training: upright strokes, then histograms of oriented gradients."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from ostrakon.progress import tracked
from ostrakon.validation import InvalidInput, whole

FloatArray = NDArray[np.float32]


def as_grey_images(X: ArrayLike, *, name: str = "X") -> FloatArray:
    """Return images as floats of shape (images, height, width).

    X: (images, height, width), (images, 1, height, width), (images, height, width, channels) with 1, 3 or 4 channels
    (colours are averaged), or flat rows of a square image. Values keep their scale.
    """
    array = np.asarray(X)
    if array.dtype.kind not in "uifb" or array.ndim not in (2, 3, 4) or not array.size:
        raise InvalidInput(f"{name} must hold images as numbers, got shape {array.shape} of type {array.dtype}.")
    array = array.astype(np.float32)
    if array.ndim == 2:
        side = round(array.shape[1] ** 0.5)
        if side * side != array.shape[1]:
            raise InvalidInput(f"{name} must have the shape (images, height, width), got {array.shape}.")
        return array.reshape(-1, side, side)
    if array.ndim == 4:
        if array.shape[1] == 1:
            return array[:, 0]
        if array.shape[3] not in (1, 3, 4):
            raise InvalidInput(f"{name} must have 1, 3 or 4 channels last, got shape {array.shape}.")
        return array[..., :3].mean(axis=3)
    return array


def deskew(images: ArrayLike) -> FloatArray:
    """Return images sheared sideways until their strokes are upright.

    Parameters
    ----------
    images : array-like of float, shape (images, height, width)
        Brightness is the ink. Other forms as for `as_grey_images`.

    Returns
    -------
    array of float, shape (images, height, width)

    Notes
    -----
    Each image is changed by its own moments alone; an empty image stays as it is.
    """
    grey = as_grey_images(images, name="images")
    height, width = grey.shape[1:]
    rows, columns = np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64)
    by_row, by_column = grey.sum(axis=2, dtype=np.float64), grey.sum(axis=1, dtype=np.float64)
    mass = np.maximum(by_row.sum(axis=1), 1e-12)
    row_mean, column_mean = by_row @ rows / mass, by_column @ columns / mass
    row_variance = by_row @ rows**2 / mass - row_mean**2
    # In doubles: of a bright image the two terms are large and nearly equal.
    covariance = np.einsum("nyx,x->ny", grey, columns) @ rows / mass - row_mean * column_mean
    slant = np.where(row_variance > 1e-3, covariance / np.maximum(row_variance, 1e-3), 0)
    slant = np.clip(slant, -1, 1).astype(np.float32)
    shift = slant[:, None] * (rows[None] - row_mean[:, None]).astype(np.float32)
    source = columns.astype(np.float32)[None, None, :] + shift[:, :, None]
    left = np.floor(source).astype(np.int64)
    part = (source - left).astype(np.float32)
    padded = np.pad(grey, ((0, 0), (0, 0), (1, 1)))
    at = np.take_along_axis(padded, np.clip(left + 1, 0, width + 1), axis=2)
    after = np.take_along_axis(padded, np.clip(left + 2, 0, width + 1), axis=2)
    return (1 - part) * at + part * after


class DeskewHOG(TransformerMixin, BaseEstimator):
    """A transformer from grey images, made upright, to histograms of oriented gradients.

    Parameters
    ----------
    cells : int, default 7
        Cells per side of the image, each at least 2 pixels.
    orientations : int, default 9
        Bins of the angle.
    upright : bool, default True
        Shear each image upright first, which helps with handwriting; leave off where slant has a meaning.

    Notes
    -----
    Nothing is learned: the features of a row, float32, are a function of that row alone. They are those of
    scikit-image, for many images at a time.

    References
    ----------
    Dalal and Triggs 2005, blocks of 2 x 2 cells, L2-Hys.

    Examples
    --------
    >>> DeskewHOG().fit_transform(np.eye(28)[None]).shape
    (1, 1296)
    """

    def __init__(self, cells: int = 7, orientations: int = 9, upright: bool = True) -> None:
        self.cells = cells
        self.orientations = orientations
        self.upright = upright

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Check the image size; learn nothing."""
        images = as_grey_images(X)
        whole("cells", self.cells, at_least=2)
        whole("orientations", self.orientations, at_least=2)
        self.shape_ = images.shape[1:]
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return features of every image, float32 (images, features)."""
        images = as_grey_images(X)
        if images.shape[1:] != self.shape_:
            raise InvalidInput(f"X must hold images of {self.shape_}, as the public ones are, got {images.shape[1:]}.")
        starts = range(0, len(images), _AT_ONCE)
        # The images of a block of `in_blocks` are not worth a bar of their own.
        blocks = tracked(starts, "Finding gradients", total=len(starts), least=8)
        return np.concatenate([self._gradients(images[at : at + _AT_ONCE]) for at in blocks])

    def _gradients(self, images: FloatArray) -> FloatArray:
        height, width = (max(2, size // self.cells) for size in self.shape_)
        return _oriented_gradients(deskew(images) if self.upright else images, (height, width), self.orientations)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "shape_")


# Images in a block that fit into the cache of a processor together with their gradients.
_AT_ONCE = 256


def _oriented_gradients(images: FloatArray, cell: tuple[int, int], orientations: int) -> FloatArray:
    """Return `skimage.feature.hog` of every image, to the last bit; sums of a cell are rounded after every pixel."""
    down, across = np.zeros_like(images), np.zeros_like(images)
    down[:, 1:-1] = images[:, 2:] - images[:, :-2]
    across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    across, down = across.astype(np.float64), down.astype(np.float64)
    strength = np.hypot(across, down)
    angle = np.rad2deg(np.arctan2(down, across)) % 180
    borders = np.float32(180 / orientations) * np.arange(1, orientations + 1, dtype=np.float32)
    bin_of = np.searchsorted(borders.astype(np.float64), angle, side="right")
    up, left = images.shape[1] // cell[0], images.shape[2] // cell[1]
    total = np.zeros((len(images), up, left, orientations), np.float32)
    for row in range(cell[0]):
        for column in range(cell[1]):
            # This pixel of every cell; pixels beyond the last complete cell are ignored.
            pixel = (slice(None), slice(row, up * cell[0], cell[0]), slice(column, left * cell[1], cell[1]))
            here = bin_of[pixel][..., None] == np.arange(orientations)
            total += np.where(here, strength[pixel][..., None], 0.0)
    cells = (total / np.float32(cell[0] * cell[1])).astype(np.float64)
    corners = [cells[:, y : up - 1 + y, x : left - 1 + x] for y in (0, 1) for x in (0, 1)]
    blocks = _normalized(np.minimum(_normalized(np.concatenate(corners, axis=3)), 0.2))
    return blocks.astype(np.float32).reshape(len(images), -1)


def _normalized(blocks: NDArray[np.float64]) -> NDArray[np.float64]:
    return blocks / np.sqrt(np.square(blocks).sum(axis=3, keepdims=True) + 1e-5**2)
