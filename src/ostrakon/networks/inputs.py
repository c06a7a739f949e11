"""Tables and images as the float tensors that networks read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.validation import InvalidInput

FloatArray = NDArray[np.float32]


def as_inputs(X: Any, *, images: bool = False, name: str = "X") -> FloatArray:
    """Return numbers as float32: (rows, columns) for a table, (rows, channels, height, width) for images.

    X: a table; or images as (rows, height, width), channels last or channels first (1, 3 or 4 channels). With
    `images`, flat rows are taken as square images of 1 or 3 channels (channels last). Values keep their scale.
    Errors: `InvalidInput` for other shapes, and for what is not a finite number.
    """
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name} must hold numbers for a network: encode its text columns first.") from error
    if array.dtype.kind not in "uifb" or array.ndim not in (2, 3, 4) or not array.size:
        raise InvalidInput(f"{name} must hold rows of numbers or images, got shape {array.shape} of {array.dtype}.")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4:
        if array.shape[1] not in (1, 3, 4) or (array.shape[3] in (1, 3, 4) and array.shape[1] == array.shape[2]):
            if array.shape[3] not in (1, 3, 4):
                raise InvalidInput(f"{name} must have 1, 3 or 4 channels, first or last, got shape {array.shape}.")
            array = array.transpose(0, 3, 1, 2)
    elif images:
        array = _square(array, name)
    # One sum detects every NaN and infinity without an array of flags; it may overflow, so the second check is needed.
    with np.errstate(over="ignore", invalid="ignore"):
        inputs = np.ascontiguousarray(array, dtype=np.float32)
        suspicious = not np.isfinite(inputs.sum())
    if suspicious and not np.isfinite(inputs).all():
        raise InvalidInput(f"{name} must hold finite numbers, got a NaN or an infinity.")
    return inputs


def _square(array: NDArray[Any], name: str) -> NDArray[Any]:
    for channels in (1, 3):
        side = round((array.shape[1] / channels) ** 0.5)
        if side * side * channels == array.shape[1]:
            return array.reshape(-1, side, side, channels).transpose(0, 3, 1, 2)
    raise InvalidInput(
        f"{name} must hold images for this network, shape (rows, height, width), got flat rows of {array.shape[1]}; "
        "where they are features, choose another network or the representation 'raw'."
    )


def moments(inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column, or of every channel; 1 where nothing varies."""
    axes = (0,) if inputs.ndim == 2 else (0, 2, 3)
    mean = inputs.mean(axis=axes, dtype=np.float64)
    deviation = np.sqrt(np.maximum(inputs.var(axis=axes, dtype=np.float64), 0))
    deviation[~(deviation > 1e-6 * np.maximum(np.abs(mean), 1e-6))] = 1
    return mean.astype(np.float32), deviation.astype(np.float32)


def standardized(inputs: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return `inputs` with every column or channel shifted by `mean` and divided by `deviation`."""
    shape = (1, -1) if inputs.ndim == 2 else (1, -1, 1, 1)
    return (inputs - mean.reshape(shape)) / deviation.reshape(shape)
