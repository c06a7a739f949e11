"""What a worker does with one teacher: train it on its own rows, or ask it about the public queries."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ostrakon.data.images_on_disk import Pixels, blocks_of
from ostrakon.teachers.interface import import_path
from ostrakon.teachers.placed import Placed
from ostrakon.teachers.shards import Part
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput

ABSTAIN = -1


@dataclass(frozen=True)
class Abstainer:
    """A teacher without rows: it has nothing to say."""

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for every example."""
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), ABSTAIN, np.int64)


@dataclass(frozen=True)
class OneClass:
    """A teacher whose rows all have one label: it says that label."""

    label: int

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The one class for every example."""
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), self.label, np.int64)


@dataclass(frozen=True)
class Learned:
    """A fitted classifier over the classes that its shard knows.

    known: class indices, shape (known classes,); the model itself was fitted on 0 to len(known) - 1, because
    some classifiers accept no gaps in their labels.
    """

    model: Any
    known: NDArray[np.int64]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Class indices, shape (examples,)."""
        local = np.asarray(self.model.predict(X)).reshape(-1)
        if local.dtype.kind not in "iuf" or not np.all(np.isin(local, np.arange(len(self.known)))):
            raise InvalidInput(f"A teacher of type {type(self.model).__name__} predicted labels that it was not given.")
        return self.known[local.astype(np.int64)]


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that a worker needs to train the neighbouring teachers of a piece, number `piece`."""

    piece: int
    teachers: range
    estimator: Any
    part: Part
    seed: int
    store: TeacherStore | None


def train_task(task: Task) -> tuple[range, list[Any] | KeptPiece]:
    """Train each teacher, or find them already done; returns (who, their models, or where a store keeps them)."""
    shards = task.part.load()
    store, mark = (
        task.store,
        "" if task.store is None else fingerprint_of(*(part for shard in shards for part in shard)),
    )
    found = None if store is None else store.find(task.piece, fingerprint=mark)
    if found is not None:
        return task.teachers, found
    # Workers already fill the cores; threads of BLAS and OpenMP inside each would fight over them.
    with threadpool_limits(1):
        models = [
            fit_teacher(task.estimator, X, y, index=index, seed=task.seed)
            for index, (X, y) in zip(task.teachers, shards, strict=True)
        ]
    if store is None:
        return task.teachers, models
    return task.teachers, store.save(task.piece, models, fingerprint=mark)


@dataclass(frozen=True, kw_only=True)
class Question:
    """All that a worker needs to ask the teachers of a piece: their models, or where they are kept.

    X: the public examples, or where they lie. queries: how many they are.
    """

    teachers: range
    X: Any
    queries: int
    models: Sequence[Any] | KeptPiece
    key: str


def predict_task(question: Question) -> tuple[range, Any]:
    """Ask a piece's teachers about the public examples; returns (who, class indices (teachers, queries))."""
    held = question.models
    kept = held.predictions(question.key) if isinstance(held, KeptPiece) else None
    if kept is not None:
        return question.teachers, kept
    models = held.models() if isinstance(held, KeptPiece) else held
    X = question.X.get() if isinstance(question.X, Placed) else question.X
    with threadpool_limits(1):
        values = said_by(models, X, question.teachers, queries=question.queries)
    if isinstance(held, KeptPiece):
        held.keep_predictions(question.key, values)
    return question.teachers, values


def said_by(models: Sequence[Any], X: Any, teachers: range, *, queries: int) -> NDArray[Any]:
    """Class indices, (teachers, queries). Errors: `InvalidInput` that names the teacher whose answer is no such row."""
    said = [model.predict(X) for model in models]
    for index, values in zip(teachers, said, strict=True):
        if np.shape(values) != (queries,):
            raise InvalidInput(
                f"Teacher {index} must predict one class for each of {queries} queries, "
                f"got an array of shape {np.shape(values)}."
            )
    return np.stack(said)


def fit_teacher(estimator: Any, X: Any, y: NDArray[np.int64], *, index: int, seed: int) -> Any:
    """A copy of `estimator` fitted on one shard; its randomness is from (seed, index) alone. Limit threads around."""
    known, local = np.unique(y, return_inverse=True)
    if len(known) == 0:
        return Abstainer()
    if len(known) == 1:
        return OneClass(int(known[0]))
    model = seeded(clone(estimator), seed=seed, index=index)
    with warnings.catch_warnings():
        # Some estimators say at every fit that one worker, or any number of them, has no effect there.
        warnings.filterwarnings("ignore", message="'n_jobs' has no effect", category=FutureWarning)
        # A thousand teachers would say a thousand times that they stopped early; their votes show what they learned.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, local)
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"Teacher {index} could not be trained on its {len(local)} rows: {error}") from error
    return Learned(model, known.astype(np.int64))


def seeded(estimator: Any, *, seed: int, index: int) -> Any:
    """Give every `random_state` of the estimator and its parts a seed of its own, and every `n_jobs` one worker.

    Threads that race add up a forest's trees in the order in which they finish.
    """
    workers = [name for name in estimator.get_params(deep=True) if name == "n_jobs" or name.endswith("__n_jobs")]
    estimator.set_params(**dict.fromkeys(workers, 1))
    names = sorted(
        name for name in estimator.get_params(deep=True) if name == "random_state" or name.endswith("__random_state")
    )
    states = np.random.SeedSequence(seed, spawn_key=(index,)).generate_state(max(len(names), 1))
    # Estimators take seeds below 2**31 more widely than below 2**32.
    return estimator.set_params(**{name: int(state >> 1) for name, state in zip(names, states, strict=False)})


def specification(estimator: Any, *, classes: NDArray[Any], n_teachers: int, seed: int) -> dict[str, Any]:
    """What all teachers of a run share, as it is written beside them and compared on resume."""
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
    """A checksum of arrays, `Pixels`, sparse matrices or frames: equal exactly where the data is."""
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
