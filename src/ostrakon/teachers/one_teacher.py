"""The work on one teacher: training on its own rows, and prediction of the public queries."""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning

from ostrakon.data.images_on_disk import Pixels, blocks_of
from ostrakon.data.labels import of_set_numbers, set_numbers
from ostrakon.numerics.threads import on_one_thread
from ostrakon.teachers.interface import import_path
from ostrakon.teachers.shards import Part
from ostrakon.teachers.shared import SharedValue
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput

ABSTAIN = -1


@dataclass(frozen=True)
class Abstainer:
    """A teacher without rows, which abstains."""

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for every example."""
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), ABSTAIN, np.int64)


@dataclass(frozen=True)
class OneClass:
    """A teacher whose rows all have one label, which it always predicts."""

    label: int

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the one class for every example."""
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), self.label, np.int64)


@dataclass(frozen=True)
class Learned:
    """A fitted classifier over the classes of its shard.

    known: class indices, shape (known classes,); the model itself was fitted on 0 to len(known) - 1, because
    some classifiers accept no gaps in their labels.
    """

    model: Any
    known: NDArray[np.int64]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return class indices, shape (examples,)."""
        local = np.asarray(self.model.predict(X)).reshape(-1)
        if local.dtype.kind not in "iuf" or not np.all(np.isin(local, np.arange(len(self.known)))):
            raise InvalidInput(f"A teacher of type {type(self.model).__name__} predicted labels that it was not given.")
        return self.known[local.astype(np.int64)]


@dataclass(frozen=True)
class LearnedLabels:
    """A teacher of several labels: a model for each, whose predictions are the bits of a number."""

    models: tuple[Any, ...]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Sets of labels as numbers (`ostrakon.data.labels.set_numbers`), shape (examples,)."""
        return set_numbers(np.column_stack([model.predict(X) for model in self.models]))


class ForEachLabel(ClassifierMixin, BaseEstimator):
    """The estimator of a teacher of several labels: a copy of a classifier for each label.

    estimator: the classifier. labels: their number.
    """

    def __init__(self, estimator: Any, labels: int) -> None:
        self.estimator = estimator
        self.labels = labels

    def fit(self, X: Any, y: NDArray[np.int64]) -> Self:
        """Learn sets of labels as numbers."""
        self.learned_ = self.fit_all(X, y, index=0, seed=0)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return sets of labels as numbers, as `LearnedLabels`."""
        return self.learned_.predict(X)

    def fit_all(self, X: Any, y: NDArray[np.int64], *, index: int, seed: int) -> LearnedLabels:
        """Return the teacher of one shard, as `fit_teacher`."""
        columns = of_set_numbers(y, self.labels).T
        models = (fit_teacher(self.estimator, X, column, index=index, seed=seed) for column in columns)
        return LearnedLabels(tuple(models))


@dataclass(frozen=True, kw_only=True)
class Task:
    """The inputs of a worker that trains the consecutive teachers of a piece, number `piece`."""

    piece: int
    teachers: range
    estimator: Any
    part: Part
    seed: int
    store: TeacherStore | None


def train_task(task: Task) -> tuple[range, list[Any] | KeptPiece]:
    """Train the teachers, or find them in the store; returns (teachers, their models or their piece of the store)."""
    shards = task.part.load()

    def train() -> list[Any]:
        # Workers already use all cores; threads of BLAS and OpenMP in each would compete for them.
        with on_one_thread(api=None):
            return [
                fit_teacher(task.estimator, X, y, index=index, seed=task.seed)
                for index, (X, y) in zip(task.teachers, shards, strict=True)
            ]

    return task.teachers, stored_or_trained(task.store, task.piece, shards, train)


def stored_or_trained(
    store: TeacherStore | None, piece: int, shards: Sequence[tuple[Any, Any]], train: Callable[[], list[Any]]
) -> list[Any] | KeptPiece:
    """Return the models of a piece: those of the store for the same rows, else trained and stored."""
    if store is None:
        return train()
    mark = fingerprint_of(*(part for shard in shards for part in shard))
    return store.find(piece, fingerprint=mark) or store.save(piece, train(), fingerprint=mark)


@dataclass(frozen=True, kw_only=True)
class Question:
    """The inputs of a worker for the predictions of a piece: the models, or their piece of the store.

    X: the public examples, or their path. queries: their number.
    """

    teachers: range
    X: Any
    queries: int
    models: Sequence[Any] | KeptPiece
    key: str


def predict_task(question: Question) -> tuple[range, Any]:
    """Predict the public examples with the teachers of a piece: (teachers, class indices (teachers, queries))."""

    def predict(models: Sequence[Any]) -> NDArray[Any]:
        X = question.X.get() if isinstance(question.X, SharedValue) else question.X
        with on_one_thread(api=None):
            return predictions_of(models, X, question.teachers, queries=question.queries)

    return question.teachers, stored_or_predicted(question.models, question.key, predict)


def stored_or_predicted(
    models: Sequence[Any] | KeptPiece, key: str, predict: Callable[[Sequence[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Return the predictions of a piece for the examples with this `key`: from the store, else predicted and stored."""
    if not isinstance(models, KeptPiece):
        return predict(models)
    predictions = models.predictions(key)
    if predictions is None:
        predictions = predict(models.models())
        models.keep_predictions(key, predictions)
    return predictions


def predictions_of(models: Sequence[Any], X: Any, teachers: range, *, queries: int) -> NDArray[Any]:
    """Return class indices, (teachers, queries). Errors: `InvalidInput` that names a teacher with output of another
    shape."""
    predicted = [model.predict(X) for model in models]
    for index, values in zip(teachers, predicted, strict=True):
        if np.shape(values) != (queries,):
            raise InvalidInput(
                f"Teacher {index} must predict one class for each of {queries} queries, "
                f"got an array of shape {np.shape(values)}."
            )
    return np.stack(predicted)


def fit_teacher(estimator: Any, X: Any, y: NDArray[np.int64], *, index: int, seed: int) -> Any:
    """Return `estimator` copied and fitted on one shard, random by (seed, index) alone. Callers limit threads."""
    classes, local = np.unique(y, return_inverse=True)
    if len(classes) == 0:
        return Abstainer()
    if isinstance(estimator, ForEachLabel):
        return estimator.fit_all(X, y, index=index, seed=seed)
    if len(classes) == 1:
        return OneClass(int(classes[0]))
    model = seeded(clone(estimator), seed=seed, index=index)
    with warnings.catch_warnings():
        # Some estimators warn at every fit that n_jobs has no effect.
        warnings.filterwarnings("ignore", message="'n_jobs' has no effect", category=FutureWarning)
        # A thousand teachers would repeat this warning a thousand times.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, local)
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"Teacher {index} could not be trained on its {len(local)} rows: {error}") from error
    return Learned(model, classes.astype(np.int64))


def seeded(estimator: Any, *, seed: int, index: int) -> Any:
    """Give every `random_state` of the estimator and its parts its own seed, and every `n_jobs` one worker.

    Several threads add the trees of a forest in the order in which they finish, which changes the rounding.
    """
    workers = [name for name in estimator.get_params(deep=True) if name == "n_jobs" or name.endswith("__n_jobs")]
    estimator.set_params(**dict.fromkeys(workers, 1))
    names = sorted(
        name for name in estimator.get_params(deep=True) if name == "random_state" or name.endswith("__random_state")
    )
    states = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(max(len(names), 1))
    # More estimators accept seeds below 2**31 than below 2**32.
    return estimator.set_params(**{name: int(state >> 1) for name, state in zip(names, states, strict=False)})


def specification(estimator: Any, *, classes: NDArray[Any], n_teachers: int, seed: int) -> dict[str, Any]:
    """Return the common settings of all teachers of a run, which are stored and compared when a run is resumed."""
    parameters = {
        name: repr(value) for name, value in sorted(estimator.get_params(deep=True).items()) if not callable(value)
    }
    return {
        "estimator": import_path(estimator),
        "parameters": parameters,
        "classes": [str(label) for label in classes],
        "n_teachers": n_teachers,
        "seed": seed,
    }


def fingerprint_of(*parts: Any) -> str:
    """Return a checksum of arrays, `Pixels`, sparse matrices or frames: equal if and only if the data are equal."""
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()


def _pieces(part: Any) -> Any:
    if sparse.issparse(part):
        rows = part.tocsr()
        yield from (piece for array in (rows.data, rows.indices, rows.indptr) for piece in _pieces(array))
        yield repr(rows.shape).encode()
    elif isinstance(part, Pixels):
        yield from (piece for some in blocks_of(part) for piece in _pieces(some))
    elif hasattr(part, "iloc"):
        import pandas as pd

        columns = part.columns if part.ndim == 2 else [part.name]
        yield repr([str(column) for column in columns]).encode()
        yield pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes()
        if part.ndim == 2:
            for column in part:
                yield pd.util.hash_pandas_object(part[column], index=False).to_numpy().tobytes()
    else:
        array = np.asarray(part)
        if array.dtype.hasobject:
            yield joblib.hash(array.tolist()).encode()
        else:
            yield f"{array.dtype.str}{array.shape}".encode()
            yield np.ascontiguousarray(array).tobytes()
