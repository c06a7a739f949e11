"""An ensemble of teachers: any scikit-learn classifier, one copy per shard of the private data."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.data.sharding import pieces
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import Report, reporting
from ostrakon.teachers.engines import engine_in_use
from ostrakon.teachers.interface import check_estimator_like
from ostrakon.teachers.one_teacher import (
    Question,
    Task,
    fingerprint_of,
    predict_task,
    predictions_of,
    specification,
    train_task,
)
from ostrakon.teachers.parallel import spread
from ostrakon.teachers.shards import ArrayShards, Shards, require_rows
from ostrakon.teachers.shared import share
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """Trained teachers, in memory or in a store.

    Parameters
    ----------
    classes : array of shape (classes,)
        The labels, in the order in which predictions number them.
    n_teachers : int
        Number of teachers.
    models : tuple, optional
        All models, or None where a store has them.
    kept : tuple of KeptPiece, optional
        The pieces of the store.
    n_jobs : int, optional
        As in joblib.
    """

    classes: NDArray[Any]
    n_teachers: int
    models: tuple[Any, ...] | None = None
    kept: tuple[KeptPiece, ...] | None = None
    n_jobs: int | None = -1

    @property
    def pieces(self) -> list[range]:
        """The teachers that share a file of a store and a task of a worker."""
        return pieces(self.n_teachers)

    def model(self, index: int) -> Any:
        """Return one teacher.

        Parameters
        ----------
        index : int
            From 0 to n_teachers - 1.

        Returns
        -------
        object
            Its `predict` gives indices into `classes`, or -1 where it abstains.
        """
        index = whole("index", index, at_most=self.n_teachers - 1)
        if self.models is not None:
            return self.models[index]
        assert self.kept is not None
        piece, indices = next((piece, indices) for piece, indices in enumerate(self.pieces) if index in indices)
        return self.kept[piece].models()[index - indices.start]

    def in_memory(self) -> Self:
        """Return the same teachers, read into memory; they predict in this process, and store no predictions."""
        models = self.models
        if models is None:
            assert self.kept is not None
            models = tuple(model for piece in self.kept for model in piece.models())
        return replace(self, models=models, kept=None, n_jobs=1)

    def predict(self, X: Any, *, progress: bool | Report | None = None) -> IntArray:
        """Return the predictions of every teacher for public examples, before the mechanism adds noise (private).

        Parameters
        ----------
        X : array, DataFrame or list
            Public examples.
        progress : bool or callable, optional
            True for a progress bar, or a function (done, total).

        Returns
        -------
        int64 array of shape (queries, n_teachers)
            Indices into `classes`; -1 where a teacher abstains. With a store, the predictions of every finished piece
            are stored, and an interrupted collection continues from them.
        """
        answers = self._predict_here(X) if self.models is not None and self.n_jobs == 1 else self._predict_by_workers(X)
        return self._collect(answers, queries=_length(X), progress=progress)

    def _collect(
        self, answers: Iterable[tuple[range, Any]], *, queries: int, progress: bool | Report | None
    ) -> IntArray:
        """Return the predictions of all teachers, from those of some at a time."""
        out = np.empty((queries, self.n_teachers), np.int64)
        done = 0
        with reporting(progress, label="Asking teachers", total=self.n_teachers) as report:
            for indices, values in answers:
                out[:, indices] = values.T
                done += len(indices)
                report(done, self.n_teachers)
        return out

    def piece_models(self, piece: int, indices: range) -> tuple[Any, ...] | KeptPiece:
        """Return the models of a piece (the teachers `indices`), or the piece of the store that has them."""
        if self.models is not None:
            return self.models[indices.start : indices.stop]
        assert self.kept is not None
        return self.kept[piece]

    def _predict_by_workers(self, X: Any) -> Iterator[tuple[range, Any]]:
        key = fingerprint_of(X) if self.kept is not None else ""
        parts = self.pieces
        shared = X if self.kept is None or engine_in_use() is None else share(X, self.kept[0].store.path)
        questions = (
            Question(teachers=indices, X=shared, queries=_length(X), models=self.piece_models(piece, indices), key=key)
            for piece, indices in enumerate(parts)
        )
        return spread(predict_task, questions, total=len(parts), n_jobs=self.n_jobs)

    def _predict_here(self, X: Any) -> Iterator[tuple[range, Any]]:
        # Limiting threads takes longer than a prediction of a small model.
        with on_one_thread(api=None):
            for index, model in enumerate(self.models or ()):
                indices = range(index, index + 1)
                yield indices, predictions_of([model], X, indices, queries=_length(X))


def train_teachers(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    assignment: ArrayLike,
    *,
    n_teachers: int,
    classes: ArrayLike | int,
    store: TeacherStore | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    progress: bool | Report | None = None,
    empty: Literal["refuse", "abstain"] = "refuse",
) -> Any:
    """Train one copy of `estimator` on every shard of the private data.

    Parameters
    ----------
    estimator : classifier
        With fit, predict and get_params; or an object with a method `train_on_shards`, which trains the whole ensemble.
    X : array, sparse matrix or DataFrame of shape (rows, ...)
        Private rows.
    y : array of shape (rows,)
        Their labels, all in `classes`.
    assignment : int array of shape (rows,)
        The teacher of every row, from 0 to n_teachers - 1, such as `assign_teachers` gives.
    n_teachers : int
        Number of teachers, from 1 to the number of rows.
    classes : array or int
        All labels in the order in which predictions number them, or their number m for the labels 0 to m - 1. Public:
        a label that is not listed is refused.
    store : TeacherStore, optional
        Stores finished teachers; an interrupted run that is repeated trains only the missing ones.
    seed : int
        Makes the models repeatable: teacher i depends on (seed, i) and its own rows alone. Never used for noise.
    n_jobs : int, optional
        As in joblib, whose backends (Dask, Ray) are used if one is set; the teachers are the same.
    progress : bool or callable, optional
        True for a progress bar, or a function (done, total).
    empty : {"refuse", "abstain"}
        What to do with teachers without rows. Abstentions must be declared (`Votes(abstentions=True)`).

    Returns
    -------
    Teachers
        The trained teachers.

    Raises
    ------
    InvalidInput
        For empty shards, more teachers than rows, labels that are not in `classes`, a store of other teachers.
    CannotWrite
        On a full disk.

    Notes
    -----
    Guarantee: teacher i sees only the rows assigned to it, so changing them changes one column of the predictions. A
    teacher whose rows have a single label always predicts that label.
    """
    shards = ArrayShards(X, y, assignment, n_teachers=n_teachers, classes=classes)
    return train_on_shards(estimator, shards, store=store, seed=seed, n_jobs=n_jobs, progress=progress, empty=empty)


def train_on_shards(
    estimator: Any,
    shards: Shards,
    *,
    store: TeacherStore | None = None,
    seed: int = 0,
    n_jobs: int | None = -1,
    progress: bool | Report | None = None,
    empty: Literal["refuse", "abstain"] = "refuse",
) -> Teachers:
    """Return `train_teachers` on shards that are read one at a time, such as a partitioned file larger than memory.

    Parameters
    ----------
    estimator : classifier
        As in `train_teachers`; a method `train_on_shards` takes these same arguments.
    shards : Shards
        The private data, one shard per teacher.
    store, seed, n_jobs, progress, empty
        As in `train_teachers`.

    Returns
    -------
    Teachers
        The trained teachers.

    Raises
    ------
    InvalidInput, CannotWrite
        As of `train_teachers`.
    """
    if callable(getattr(estimator, "train_on_shards", None)):
        return estimator.train_on_shards(shards, store=store, seed=seed, n_jobs=n_jobs, progress=progress, empty=empty)
    check_estimator_like(estimator, name="The teacher")
    seed = whole("seed", seed)
    if empty not in ("refuse", "abstain"):
        raise InvalidInput(f"empty must be 'refuse' or 'abstain', got {empty!r}.")
    require_rows(shards, empty)
    settings = specification(estimator, classes=shards.classes, n_teachers=shards.n_teachers, seed=seed)
    if store is not None:
        store.open(settings)
    parts = pieces(shards.n_teachers)
    tasks = (
        Task(piece=piece, teachers=indices, estimator=estimator, part=shards.part(indices), seed=seed, store=store)
        for piece, indices in enumerate(parts)
    )
    # No memory mapping: it would write private rows into a temporary folder outside private/.
    trained = spread(train_task, tasks, total=len(parts), n_jobs=n_jobs, max_nbytes=None)
    return Teachers(**received(trained, shards, progress=progress), n_jobs=n_jobs)


def received(
    trained: Iterable[tuple[range, list[Any] | KeptPiece]], shards: Shards, *, progress: bool | Report | None
) -> dict[str, Any]:
    """Return the fields of `Teachers`, from (teachers, their models or their piece of a store) in any order."""
    models: dict[int, Any] = {}
    kept: dict[int, KeptPiece] = {}
    done = 0
    with reporting(progress, label="Training teachers", total=shards.n_teachers) as report:
        for indices, result in trained:
            if isinstance(result, KeptPiece):
                kept[result.piece] = result
            else:
                models.update(zip(indices, result, strict=True))
            done += len(indices)
            report(done, shards.n_teachers)
    return {
        "classes": shards.classes,
        "n_teachers": shards.n_teachers,
        "models": None if kept else tuple(models[index] for index in range(shards.n_teachers)),
        "kept": tuple(kept[piece] for piece in sorted(kept)) or None,
    }


def collect_votes(teachers: Any, X: Any, *, abstentions: bool = False, progress: bool | Report | None = None) -> Any:
    """Count the predictions of teachers for public examples. Private.

    Parameters
    ----------
    teachers : Teachers
        Trained teachers.
    X : array, DataFrame or list
        Public examples.
    abstentions : bool
        Declares that teachers may abstain; else an abstention is refused.
    progress : bool or callable, optional
        True for a progress bar, or a function (done, total).

    Returns
    -------
    Votes
        Counts, shape (queries, classes).
    """
    from ostrakon.votes import Votes

    predictions = teachers.predict(X, progress=progress)
    abstain = -1 if abstentions else None
    return Votes.from_predictions(predictions, classes=len(teachers.classes), abstain=abstain)


def _length(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0])
    if not isinstance(X, Sequence):
        raise InvalidInput(f"X must be an array, a DataFrame or a list of examples, got {type(X).__name__}.")
    return len(X)
