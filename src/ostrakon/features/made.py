"""Encoders that a function of the operator returns, torch:module:factory. The operator's code runs unchanged."""

import hashlib
import importlib
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ostrakon.features.frozen import FrozenEncoder
from ostrakon.features.recipe import Recipe
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.progress import tracked
from ostrakon.validation import InvalidInput

FACTORY = "torch:"


def is_factory(representation: Any) -> bool:
    """Return whether a representation is torch:module:factory."""
    return isinstance(representation, str) and representation.startswith(FACTORY)


def require_factory(representation: str) -> Callable[[], Any]:
    """Return the function that torch:module:factory names; importing its module runs code of the operator.

    Errors: `InvalidInput` for another form, and for functions that cannot be imported or called.
    """
    parts = representation.removeprefix(FACTORY).split(":")
    if len(parts) != 2 or not all(name.isidentifier() for part in parts for name in part.split(".")):
        raise InvalidInput(f"representation must be torch:MODULE:FACTORY, got {representation!r}.")
    try:
        function = getattr(importlib.import_module(parts[0]), parts[1])
    except Exception as error:  # whatever the operator's module raises
        raise InvalidInput(f"{representation} cannot be imported: {type(error).__name__}: {error}.") from error
    if not callable(function):
        raise InvalidInput(f"{representation} must be a function, got {type(function).__name__}.")
    return function


def run_factory(representation: str) -> Any:
    """Return the factory's encoder. Errors: `InvalidInput` if it raises, or returns anything but an encoder."""
    factory = require_factory(representation)
    try:
        encoder = factory()
    except Exception as error:  # whatever the operator's function raises
        raise InvalidInput(f"{representation} failed: {type(error).__name__}: {error}.") from error
    if not callable(encoder) and not hasattr(encoder, "transform"):
        raise InvalidInput(f"{representation} must make a module, a function or a transformer, got {encoder!r}.")
    return encoder


class MadeEncoder(FrozenEncoder):
    """A transformer from rows to a frame X.0, X.1, … of features by a module or a function of the operator.

    how: "torch:module:factory"; factory() returns a `torch.nn.Module` or a function. A module runs in evaluation mode,
    without gradients, on unscaled float32 rows, pictures with their channels first. A function receives one row, an
    array or a frame.

    Guarantee: one row per call, on one thread of PyTorch. The operator must ensure that the encoder stores nothing
    between rows; an encoder that computes other features for the same row is refused.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Create the encoder and check its features."""
        self._create()
        # The features of the first row change if the encoder stores other rows.
        first, rows = self._encode_row(self._rows(take_rows(X, np.arange(1)))[0]), self._rows(X)
        encoded = self._encode_rows(rows, self._encode_row)
        again = self._encode_row(rows[0])
        if not all(np.array_equal(first, other, equal_nan=True) for other in (encoded[0], again)):
            raise InvalidInput(f"The encoder {self.how} must give a row the same features every time.")
        self._learn_width(encoded)
        return self

    def _create(self) -> None:
        self._encoder = run_factory(self.how)
        self._is_module = hasattr(self._encoder, "state_dict")
        self.digest_ = _digest(self._encoder) if self._is_module else None

    @property
    def name(self) -> str:
        """The factory's name."""
        return self.how.removeprefix(FACTORY)

    def recipe(self) -> Recipe:
        """Return how a recipient with the operator's module computes the features."""
        return Recipe(
            needs=("ostrakon",),
            files=(self.name.split(":")[0],),
            lines=(
                "from ostrakon.features.made import MadeEncoder",
                f"X = MadeEncoder({self.how!r}).fit(rows).transform(rows)",
            ),
        )

    def identity(self) -> str:
        """Return the factory and, for a module, the checksum of its weights."""
        checksum = "no checksum" if self.digest_ is None else f"SHA-256 of its weights {self.digest_}"
        return f"{self.name} ({checksum}; code of the operator's)"

    def _rows(self, X: Any) -> Any:
        if not self._is_module:
            return [take_rows(X, np.array([row])) for row in range(row_count(X))]
        rows = X.to_numpy(np.float32, na_value=np.nan) if hasattr(X, "iloc") else np.asarray(X, np.float32)
        if rows.ndim == 3:
            return rows[:, None]
        channels_last = rows.ndim == 4 and rows.shape[-1] in (1, 3) and rows.shape[1] not in (1, 3)
        return rows.transpose(0, 3, 1, 2) if channels_last else rows

    def _encode_rows(
        self, rows: Any, encode: Callable[[Any], NDArray[np.float32]] | None = None
    ) -> NDArray[np.float32]:
        encode = self._encode_any_row if encode is None else encode
        with _one_torch_thread(self._is_module):
            encoded = [encode(row) for row in tracked(rows, "Encoding rows", total=len(rows))]
        widths = sorted({len(one) for one in encoded})
        if len(widths) > 1:
            raise InvalidInput(f"The encoder {self.how} must give all rows as many features, got {widths}.")
        return np.stack(encoded) if encoded else np.empty((0, self.width_), np.float32)

    def _encode_row(self, row: Any) -> NDArray[np.float32]:
        try:
            outputs = self._run_module(row) if self._is_module else self._encoder(row)
            return np.asarray(outputs, np.float32).ravel()
        except Exception as error:  # whatever the operator's code raises
            raise InvalidInput(f"The encoder {self.how} failed: {type(error).__name__}: {error}.") from error

    def _encode_any_row(self, row: Any) -> NDArray[np.float32]:
        """Return the features of a row that may be private: missing where the operator's code fails, so that the row
        does not stop a run."""
        try:
            features = self._encode_row(row)
        except InvalidInput:
            features = np.empty(0, np.float32)
        return features if len(features) == self.width_ else np.full(self.width_, np.nan, np.float32)

    def _run_module(self, row: NDArray[np.float32]) -> NDArray[Any]:
        import torch

        self._encoder.eval()
        with torch.no_grad(), _one_torch_thread(True):
            return self._encoder(torch.from_numpy(np.ascontiguousarray(row[None]))).cpu().numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_encoder", "_is_module")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "digest_" in state:
            self._create()
            if self.digest_ != state["digest_"]:
                raise InvalidInput(f"The encoder {self.how} must be the one that the run began with, and is another.")


@contextmanager
def _one_torch_thread(needed: bool):
    """Run PyTorch on one thread, because the number of threads changes the rounding of products."""
    if not needed:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _digest(module: Any) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        array = value.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
