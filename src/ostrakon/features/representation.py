"""A representation learned from public data alone. It transforms private rows, which never reach `fit`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from ostrakon.data.embeddings import groups
from ostrakon.features.embedded import EmbeddedFeatures
from ostrakon.features.frozen import ONNX, FrozenEncoder, reads_rows, require_frozen
from ostrakon.features.images import DeskewHOG
from ostrakon.features.made import FACTORY, MadeEncoder, is_factory, require_factory, run_factory
from ostrakon.features.patches import EvenedComponents, PatchFeatures
from ostrakon.features.rowwise import ANY, in_blocks, independent_rows, row_count, take_rows
from ostrakon.features.tables import TableFeatures
from ostrakon.features.text import TextColumns, default_text, holds_text_alone, reads_text, require_text_encoder
from ostrakon.numerics.threads import on_one_thread
from ostrakon.plugins import from_entry_point
from ostrakon.progress import showing
from ostrakon.validation import InvalidInput, whole

FloatArray = NDArray[np.float32]
Encoder = TextColumns | FrozenEncoder

REPRESENTATIONS = (
    *("auto", "hog", "patches", "table", "embeddings", "pca", "raw", "contrastive", "hog+contrastive"),
    *("text", "text:FOLDER", "tfidf", "photos", "onnx:FILE", "torch:MODULE:FACTORY"),
)
"""Names that `learn_representation` knows."""
PATCHES, CONTRASTIVE = "patches", "contrastive"
MAX_COMPONENTS = 64
"""Principal components of the features of a frozen network."""
_LARGE, _LARGER = 1e15, 1000
"""Values of a row are clipped at the larger of this and that many times the largest public one."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Representation:
    """A frozen map from rows to features that `learn_representation` learned from public rows.

    Parameters
    ----------
    transformer : object
        With a method `transform`.
    features : int
        Number of features of a row.
    rows : int
        Number of rows per call of `transform` (see `independent_rows`).
    encoder : object, optional
        Converts texts or pictures to numbers for the transformer; it is not part of a released student.
    largest : float
        Largest absolute value of a number in a row; others are clipped, so that products of them are finite.

    Notes
    -----
    It has no `fit`, so private rows never change it. The features of a row depend on that row and on public data alone,
    to the last bit, so one record affects one teacher only; this is tested on public rows.
    """

    transformer: Any = field(repr=False)
    _: KW_ONLY
    features: int
    rows: int = field(default=1, repr=False)
    encoder: Encoder | None = field(default=None, repr=False)
    largest: float = field(default=_LARGEST, repr=False)

    def transform(self, X: Any, *, private: bool = False) -> FloatArray:
        """Return the features of rows.

        Parameters
        ----------
        X : array or DataFrame
            Rows in the form of the public ones.
        private : bool
            Whether a feature that is not finite, which then must not stop a run, is clipped (0 for a NaN).

        Returns
        -------
        float32 array of shape (rows, features)
            Computed in blocks of one size, or row by row if features depend on the position in a block.

        Raises
        ------
        InvalidInput
            If features are not finite or their number differs.
        """
        rows = X if self.encoder is None else self.encoder.transform(_clipped(X, self.largest, private=private))
        # `TableFeatures` clips columns itself. A frame is clipped once, for speed; an array in blocks, for memory.
        if hasattr(rows, "iloc") and not isinstance(self.transformer, TableFeatures):
            rows = _clipped(rows, self.largest, private=private)
        # The number of threads changes the rounding of products, and workers have fewer threads.
        with _one_thread(self.transformer):
            blocks = in_blocks(partial(self._block, private=private), rows, rows=self.rows)
        features = np.concatenate(blocks) if blocks else np.empty((0, self.features), np.float32)
        if features.shape[1] != self.features:
            raise InvalidInput(f"The representation must give {self.features} features, got {features.shape[1]}.")
        return features

    def _block(self, X: Any, *, private: bool) -> FloatArray:
        clipped = hasattr(X, "iloc") or isinstance(self.transformer, TableFeatures)
        rows = X if clipped else _clipped(X, self.largest, private=private)
        return _as_features(self.transformer.transform(rows), rows=row_count(X), private=private)


def learn_representation(
    transformer: Any,
    X_public: Any,
    *,
    random_state: int | None = None,
) -> Representation:
    """Learn a representation from public rows.

    Parameters
    ----------
    transformer : str, transformer, module or callable
        A name: "hog" (grey images: upright strokes, oriented gradients, PCA), "patches" (colour images: a dictionary of
        whitened patches, PCA), "contrastive" (images: an encoder trained for minutes with PyTorch), "hog+contrastive"
        (both), "table" (one-hot and standardized columns), "embeddings" (directions from the public mean), "text",
        "text:FOLDER" and "tfidf" (columns of free text: see `ostrakon.features.text`), "photos" and "onnx:FILE" (the
        output of a frozen network: see `ostrakon.features.frozen`), "torch:module:factory" (the output of an encoder
        from a function of the operator: see `ostrakon.features.made`), "pca", "auto" (by the shape of the data) or
        "raw". Or a scikit-learn transformer (cloned, then fitted on `X_public`), a frozen `torch.nn.Module` (used in
        evaluation mode), or any function from rows to features.
    X_public : array or DataFrame of at least 2 rows
        Public rows, the only argument of `fit`.
    random_state : int, optional
        Seed of the transformer and its parts if their own random_state is unset.

    Returns
    -------
    Representation

    Raises
    ------
    InvalidInput
        For anything that cannot transform, for features that are not finite numbers, and for a transformer whose
        features of a row depend on the other rows of a batch.

    Notes
    -----
    Guarantee: the result is a function of public data, so it costs no privacy. The features of a private row do not
    depend on other private rows, which is tested on public rows.

    Examples
    --------
    >>> representation = learn_representation("pca", np.random.default_rng(0).normal(size=(50, 4)))
    >>> representation.transform(np.zeros((3, 4))).shape
    (3, 4)
    """
    rows = row_count(X_public)
    if rows < 2:
        raise InvalidInput(f"X_public must have at least 2 rows, got {rows}.")
    if isinstance(transformer, Representation):
        return transformer
    if is_factory(transformer):
        produced = run_factory(transformer)
        # An encoder with `fit` is an ordinary transformer; others are frozen encoders.
        transformer = produced if hasattr(produced, "fit") and hasattr(produced, "transform") else transformer
    if isinstance(transformer, str) and transformer == "auto":
        transformer = default_representation(X_public)
    encoder, largest = _encoder_for(transformer), _largest(X_public)
    if encoder is not None:
        X_public = encoder.fit(X_public).transform(X_public)
        transformer = "embeddings" if isinstance(encoder, TextColumns) else _reduce_embedding(X_public)
        largest = max(largest, _largest(X_public))
    fitted = _fit_transformer(transformer, X_public, random_state)
    # Public rows are encoded again to test them.
    with showing(False):
        sample = take_rows(X_public, np.arange(min(rows, 64)))
        batch = _as_features(fitted.transform(sample), rows=row_count(sample))
        single = _as_features(fitted.transform(take_rows(sample, np.arange(1))), rows=1)
        scale = np.abs(batch).max(initial=1e-12)
        if batch.shape[1] != single.shape[1] or not np.allclose(batch[:1], single, atol=1e-3 * scale, rtol=1e-3):
            raise InvalidInput(
                "The representation must treat every row on its own, but the features of a public row change with the "
                "rows beside it: private rows would leak into each other's features."
            )
        if isinstance(fitted, TableFeatures):
            block_rows = ANY
        else:
            with _one_thread(fitted):
                block_rows = independent_rows(fitted.transform, X_public)
    return Representation(fitted, features=batch.shape[1], rows=block_rows, encoder=encoder, largest=largest)


def default_representation(
    X_public: Any,
) -> Literal["hog", "patches", "table", "embeddings", "text", "tfidf", "raw"]:
    """Return the representation that "auto" selects.

    Parameters
    ----------
    X_public : array or DataFrame
        Public rows. Images are arrays of three or more dimensions with at least 8 pixels a side.

    Returns
    -------
    str
        "hog" for grey images, "patches" for colour images, "embeddings" for a frame with the columns name.0, name.1, …,
        "text" for a frame of free text alone ("tfidf" if no sentence encoder is installed), "table" for other frames
        and arrays of numbers, "raw" for anything else.
    """
    if hasattr(X_public, "iloc"):
        if holds_text_alone(X_public):
            return default_text()
        return "embeddings" if groups(map(str, X_public.columns)) else "table"
    shape = np.shape(X_public)
    if len(shape) >= 3:
        if len(shape) == 4 and (shape[3] in (3, 4) or shape[1] == 3):
            return "patches" if min(shape[1:3] if shape[3] in (3, 4) else shape[2:]) >= 8 else "raw"
        return "hog" if min(shape[1:3]) >= 8 else "raw"
    numbers = not hasattr(X_public, "tocsr") and np.asarray(X_public).dtype.kind in "uifb"
    return "table" if numbers else "raw"


def is_linear(name: Any, X_public: Any) -> bool:
    """Return whether a linear model on the image features `name` separates classes (patches, contrastive features).

    If so, sums of features are released, as for tables; for other image features, votes alone.
    """
    if not isinstance(name, str) or name not in (PATCHES, CONTRASTIVE):
        return False
    return name == PATCHES or default_representation(X_public) == PATCHES


def is_embedded(choice: Any, X_public: Any) -> bool:
    """Return whether a linear model on the features of `choice` ("auto", a name, a transformer) separates classes.

    True for image and text encoders, for columns of embeddings, and if `is_linear`; False for tables.
    """
    name = default_representation(X_public) if isinstance(choice, str) and choice == "auto" else choice
    return (
        _encoder_for(name) is not None or is_linear(name, X_public) or (isinstance(name, str) and name == "embeddings")
    )


def _encoder_for(representation: Any) -> Encoder | None:
    if reads_text(representation):
        return TextColumns(representation)
    if is_factory(representation):
        return MadeEncoder(representation)
    return FrozenEncoder(representation) if reads_rows(representation) else None


def _reduce_embedding(embedded: Any) -> Any:
    # Thousands of directions with little variance would dominate the distances.
    return make_pipeline(EmbeddedFeatures(), PCA(min(MAX_COMPONENTS, embedded.shape[1], row_count(embedded) - 1)))


class _Flat(TransformerMixin, BaseEstimator):
    """Flatten rows to doubles, because in single precision rounding depends on the position of a row."""

    def fit(self, X: ArrayLike, y: Any = None) -> _Flat:
        """Learn nothing."""
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return float64 (rows, values of a row)."""
        array = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
        return array.reshape(len(array), -1)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _one_thread(transformer: Any) -> AbstractContextManager[Any]:
    """Limit linear algebra to one thread; transformers without it have no limit, because setting one takes time."""
    return nullcontext() if isinstance(transformer, _Flat | TableFeatures) else on_one_thread()


def require_known(name: str) -> None:
    """Refuse an unknown name, and an encoder that is not installed."""
    if reads_text(name):
        require_text_encoder(name)
    elif is_factory(name):
        require_factory(name)
    elif reads_rows(name):
        require_frozen(name)
    elif name not in REPRESENTATIONS and from_entry_point("ostrakon.encoders", name) is None:
        raise InvalidInput(f"representation must be {', '.join(REPRESENTATIONS)} or a transformer, got {name!r}.")


def name_without_folder(name: str) -> str:
    """Return the name of a representation without the folders of a path, for a release.

    >>> name_without_folder("onnx:/home/me/scans.onnx"), name_without_folder("photos")
    ('onnx:scans.onnx', 'photos')
    """
    kind, colon, rest = name.partition(":")
    return name if not colon or kind == FACTORY.rstrip(":") else f"{kind}:{Path(rest).name}"


def is_file_or_code(name: str) -> bool:
    """Return whether a representation is a file or code of the operator, which others should not run."""
    return name.startswith((FACTORY, ONNX))


def require_shared(name: str) -> None:
    """Refuse a representation that some owners of a study lack: a file or code of one owner.

    Call this before any other use of another owner's name, so that no code of their choice runs.
    """
    if is_file_or_code(name):
        raise InvalidInput(
            f"The representation of a study must be one that every owner has, no file or code of one of them: {name!r}."
        )
    require_known(name)


def _create_transformer(name: str, X_public: Any) -> Any:
    require_known(name)
    if holds_text_alone(X_public):
        raise InvalidInput(
            "The representation of texts must be text, text:FOLDER, tfidf, onnx:FILE or torch:MODULE:FACTORY, got "
            f"{name!r}."
        )
    components = min(128, row_count(X_public) - 1)
    named: dict[str, Callable[[], Any]] = {
        "hog": lambda: _hog(components),
        "patches": lambda: make_pipeline(
            PatchFeatures(), StandardScaler(with_std=False), Normalizer(), EvenedComponents(components)
        ),
        "table": TableFeatures,
        "embeddings": EmbeddedFeatures,
        "pca": lambda: make_pipeline(_Flat(), PCA(min(components, int(np.prod(np.shape(X_public)[1:]))))),
        "raw": _Flat,
        CONTRASTIVE: _contrastive,
        "hog+contrastive": lambda: beside_gradients(_contrastive(), components),
    }
    return named[name]() if name in named else from_entry_point("ostrakon.encoders", name)()


def _hog(components: int) -> Any:
    return make_pipeline(DeskewHOG(), _Flat(), PCA(components))


def beside_gradients(encoder: Any, components: int = 64) -> Any:
    """Return an unfitted union of an image encoder and upright gradients (at most `components`).

    Both compute directions from their public mean, so they have equal weight.
    """
    parts = {"hog": _hog(components), "encoder": encoder}
    return FeatureUnion(
        [(name, make_pipeline(part, StandardScaler(with_std=False), Normalizer())) for name, part in parts.items()]
    )


def _contrastive() -> Any:
    from ostrakon.features.contrastive import ContrastiveEncoder

    return ContrastiveEncoder(verbose=1)


def _fit_transformer(transformer: Any, X_public: Any, random_state: int | None) -> Any:
    if isinstance(transformer, str):
        transformer = _create_transformer(transformer, X_public)
    if isinstance(transformer, type):
        raise InvalidInput(f"representation must be an instance such as {transformer.__name__}(), got the class.")
    if hasattr(transformer, "fit") and hasattr(transformer, "transform"):
        return seeded(clone(transformer), random_state).fit(X_public)
    if hasattr(transformer, "state_dict") and callable(transformer):
        return _Network(transformer)
    if hasattr(transformer, "transform"):
        return transformer
    if callable(transformer):
        return FunctionTransformer(transformer)
    raise InvalidInput(
        "representation must be a transformer with fit and transform, a torch module, a function or a name, "
        f"got {transformer!r}."
    )


def seeded(estimator: Any, random_state: int | None) -> Any:
    """Set the random_state of `estimator` and of its parts where it exists and is unset; return `estimator`."""
    if random_state is None or not hasattr(estimator, "get_params"):
        return estimator
    seed = whole("random_state", random_state)
    unset = [name for name, value in estimator.get_params().items() if value is None]
    return estimator.set_params(**{name: seed for name in unset if name.split("__")[-1] == "random_state"})


class _Network:
    """A frozen torch module in evaluation mode, because batch norm in training mode mixes rows."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def transform(self, X: Any) -> Any:
        from ostrakon.networks.backend import torch
        from ostrakon.networks.network import outputs_of

        rows = np.asarray(X, np.float32)
        if rows.ndim == 3:
            rows = rows[:, None]
        elif rows.ndim == 4 and rows.shape[-1] in (1, 3) and rows.shape[1] not in (1, 3):
            rows = rows.transpose(0, 3, 1, 2)
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        was_training = self.module.training
        self.module.eval()
        try:
            blocks = (np.ascontiguousarray(rows[at : at + 256]) for at in range(0, len(rows), 256))
            return outputs_of(self.module, blocks, device).flatten(1).numpy()
        finally:
            self.module.train(was_training)


def _numbers_of(X: Any) -> Any:
    """Return the columns of a frame that hold floating-point numbers, or an array of them; None for other rows."""
    if hasattr(X, "iloc"):
        return X.select_dtypes("floating")
    return X if isinstance(X, np.ndarray) and X.dtype.kind == "f" else None


def _largest(X_public: Any) -> float:
    """Return the absolute value at which numbers of rows are clipped: beyond all public ones."""
    numbers = _numbers_of(X_public)
    most = 0.0 if numbers is None or not np.size(numbers) else float(np.nanmax(np.abs(np.asarray(numbers)), initial=0))
    return min(max(_LARGE, _LARGER * most), _LARGEST)


def _clipped(X: Any, largest: float, *, private: bool) -> Any:
    """Return rows whose floating-point numbers are clipped, cell by cell; other rows unchanged.

    Infinities are refused, unless the rows are private.
    """
    numbers = _numbers_of(X)
    if numbers is None or not np.size(numbers):
        return X
    if not private and np.isinf(np.asarray(numbers)).any():
        raise InvalidInput("Rows must hold finite numbers, got an infinity.")
    with np.errstate(over="ignore"):  # half precision has no such numbers
        clipped = numbers.clip(-largest, largest)
    if numbers.ndim != 2 or numbers.shape[1] == X.shape[1]:
        return clipped
    result = X.copy(deep=False)
    result[list(clipped.columns)] = clipped
    return result


def _as_features(values: Any, *, rows: int, private: bool = False) -> FloatArray:
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if array.dtype.kind not in "uifb" or array.ndim < 2 or len(array) != rows:
        raise InvalidInput(
            f"The representation must give one row of numbers for each of {rows} rows, got shape {array.shape} "
            f"of type {array.dtype}."
        )
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array.reshape(rows, -1), np.float32)
    if private:
        return np.nan_to_num(array)
    if not np.isfinite(array).all():
        raise InvalidInput("The representation must give finite features, got a NaN or an infinity.")
    return array
