"""The preparation of the input of an ONNX network: a small TOML file beside it, MODEL.onnx.toml."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.files import read_toml
from ostrakon.features.pixels import resized
from ostrakon.validation import InvalidInput, finite, one_of, positive, quote, whole

KINDS = ("image", "text", "table")
_OF_IMAGES = ("size", "mean", "deviation", "channels", "layout", "scale", "mirror")
_OF_TEXT = ("max_length",)


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How rows become the input of a network, and its output features.

    kind: "image", "text" (tokens of the tokenizer.json beside the model) or "table" (its numbers, in the order of the
    columns). For images: size, (height, width); scale, the value of white, 1 or 255; mean and deviation of red, green
    and blue on that scale; channels, their order, "RGB" or "BGR"; layout, "NCHW" or "NHWC"; mirror, whether features
    are the mean over a picture and its mirror image. For texts: max_length in tokens. output: the name of the output
    (None: the first); pooling of it over positions: "mean", "first" (token), "none" (all values).
    """

    kind: Literal["image", "text", "table"]
    size: tuple[int, int] = (224, 224)
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)
    channels: Literal["RGB", "BGR"] = "RGB"
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    scale: float = 1.0
    mirror: bool = False
    max_length: int = 512
    pooling: Literal["mean", "first", "none"] = "none"
    output: str | None = None

    @classmethod
    def read(cls, model: Path) -> Self:
        """Read the file beside `model`. Errors: `InvalidInput` for a key that is unknown, or not of the kind."""
        if not model.is_file():
            raise InvalidInput(f"The encoder {model} must be a file in the ONNX format, and there is none.")
        path = beside(model)
        content = read_toml("The preparation of an ONNX encoder", path)
        kind = one_of("kind", content.get("kind"), KINDS)
        of_kind = {"image": _OF_IMAGES, "text": _OF_TEXT, "table": ()}[kind]
        allowed = ("kind", *of_kind, "pooling", "output")
        for name in content:
            if name not in allowed:
                raise InvalidInput(f"{path} may hold {', '.join(allowed)} for the kind {kind}, got {name!r}.")
        if kind == "image" and "size" not in content:
            raise InvalidInput(f"{path} must hold size: the pixels of a side that the network takes.")
        checked: dict[str, Any] = {"pooling": "mean" if kind == "text" else "none"}
        for name, value in content.items():
            try:
                checked[name] = _CHECKS[name](name, value)
            except InvalidInput as error:
                raise InvalidInput(f"{path}: {error}") from None
        preparation = cls(**checked)
        if preparation.kind != "text" and preparation.pooling == "first":
            raise InvalidInput(f"{path}: the pooling first is one of tokens; of a {kind} it must be mean or none.")
        return preparation

    def picture(self, picture: NDArray[Any]) -> NDArray[np.float32]:
        """Return a picture (rows, columns, 3) between 0 and 1 as the network's input, one row."""
        values = (resized(picture, *self.size) * self.scale - self.mean) / self.deviation
        values = values[..., ::-1] if self.channels == "BGR" else values
        values = values.transpose(2, 0, 1) if self.layout == "NCHW" else values
        return np.ascontiguousarray(values[None], np.float32)

    def inputs(self, picture: NDArray[Any]) -> list[NDArray[np.float32]]:
        """Return the inputs for a picture, each as of `picture`: itself, and with `mirror` its mirror image."""
        prepared = self.picture(picture)
        mirrored = prepared[..., ::-1] if self.layout == "NCHW" else prepared[:, :, ::-1]
        return [prepared, np.ascontiguousarray(mirrored)] if self.mirror else [prepared]

    def pooled(self, output: NDArray[Any]) -> NDArray[np.float64]:
        """Return the output of the network for one row as features, float64 (features,)."""
        values = np.asarray(output, np.float64)[0]
        if values.ndim < 2 or self.pooling == "none":
            return values.ravel()
        if self.pooling == "first":
            return values[0]
        if self.kind == "image" and self.layout == "NCHW":
            return values.reshape(len(values), -1).mean(axis=1)
        return values.reshape(-1, values.shape[-1]).mean(axis=0)

    def in_words(self) -> str:
        """Return the preparation of a row and of the output, in words."""
        left_out = {"image": _OF_TEXT, "text": _OF_IMAGES, "table": (*_OF_TEXT, *_OF_IMAGES)}[self.kind]
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}
        return ", ".join(f"{name} {_plain(value)}" for name, value in settings.items() if value is not None)


def beside(model: Path) -> Path:
    """Return the path of the preparation of `model`."""
    return model.with_name(model.name + ".toml")


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{one:g}" for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _size(name: str, value: Any) -> tuple[int, int]:
    sides = value if isinstance(value, list) else [value, value]
    if len(sides) != 2:
        raise InvalidInput(f"{name} must be a number of pixels, or a height and a width, got {quote(value)}.")
    height, width = (whole(name, side, at_least=1) for side in sides)
    return height, width


def _three(check: Callable[[str, Any], float]) -> Callable[[str, Any], Any]:
    def checked(name: str, value: Any) -> Any:
        if not isinstance(value, list) or len(value) != 3:
            raise InvalidInput(f"{name} must be three numbers, one of each channel, got {quote(value)}.")
        return tuple(check(name, one) for one in value)

    return checked


def _scale(name: str, value: Any) -> float:
    if isinstance(value, bool) or value not in (1, 255):
        raise InvalidInput(f"{name} must be 1 or 255, the value of white, got {quote(value)}.")
    return float(value)


def _yes_or_no(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be true or false, got {quote(value)}.")
    return value


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} must be the name of an output, got {quote(value)}.")
    return value


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "kind": partial(one_of, allowed=KINDS),
    "size": _size,
    "mean": _three(finite),
    "deviation": _three(positive),
    "channels": partial(one_of, allowed=("RGB", "BGR")),
    "layout": partial(one_of, allowed=("NCHW", "NHWC")),
    "scale": _scale,
    "mirror": _yes_or_no,
    "max_length": lambda name, value: whole(name, value, at_least=1),
    "pooling": partial(one_of, allowed=("mean", "first", "none")),
    "output": _name,
}
