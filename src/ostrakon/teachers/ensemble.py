"""An ensemble of teachers: any scikit-learn classifier, one copy per shard of the private data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ostrakon.data.sharding import pieces
from ostrakon.teachers.engines import engine_in_use
from ostrakon.teachers.interface import check_estimator_like
from ostrakon.teachers.one_teacher import (
    Abstainer,
    Question,
    Task,
    fingerprint_of,
    predict_task,
    said_by,
    specification,
    train_task,
)
from ostrakon.teachers.parallel import spread
from ostrakon.teachers.placed import place
from ostrakon.teachers.progress import Report, reporting
from ostrakon.teachers.shards import ArrayShards, Shards
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput, whole

IntArray = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """Trained teachers, in memory or in a store.

    classes: the labels, shape (classes,), in the order that predictions count them. models: all of them, or None where
    a store keeps them; kept: then where, piece by piece.
    """

    classes: NDArray[Any]
    n_teachers: int
    models: tuple[Any, ...] | None = None
    kept: tuple[KeptPiece, ...] | None = None
    n_jobs: int | None = -1

    @property
    def pieces(self) -> list[range]:
        """Which teachers a store keeps together, and a worker asks together."""
        return pieces(self.n_teachers)

    @property
    def abstaining(self) -> IntArray:
        """Teachers that had no rows to learn from and abstain on every query."""
        every = enumerate(self.in_memory().models or ())
        return np.array([index for index, model in every if isinstance(model, Abstainer)], np.int64)

    def model(self, index: int) -> Any:
        """Teacher `index`: its predict gives indices into `classes`, or -1 where it abstains."""
        index = whole("index", index, at_most=self.n_teachers - 1)
        if self.models is not None:
            return self.models[index]
        assert self.kept is not None
        piece, own = next((piece, own) for piece, own in enumerate(self.pieces) if index in own)
        return self.kept[piece].models()[index - own.start]

    def in_memory(self) -> Self:
        """The same teachers, read into memory: they answer at once, one after the other, and keep no answer."""
        models = self.models
        if models is None:
            assert self.kept is not None
            models = tuple(model for piece in self.kept for model in piece.models())
        return replace(self, models=models, kept=None, n_jobs=1)

    def predict(self, X: Any, *, progress: bool | Report | None = None) -> IntArray:
        """What every teacher says about the public examples `X`.

        Returns indices into `classes`, shape (queries, n_teachers); -1 where a teacher abstains. With a store,
        a piece's predictions are kept when they are there, and a killed collection goes on from them.
        The result is private: it is what the mechanism adds noise to.
        """
        out = np.empty((_length(X), self.n_teachers), np.int64)
        answers = self._asked_here(X) if self.models is not None and self.n_jobs == 1 else self._asked(X)
        done = 0
        with reporting(progress, label="Asking teachers", total=self.n_teachers) as report:
            for own, values in answers:
                out[:, own] = values.T
                done += len(own)
                report(done, self.n_teachers)
        return out

    def held(self, piece: int, own: range) -> tuple[Any, ...] | KeptPiece:
        """The models of a piece, those of the teachers `own`, or where they are kept."""
        if self.models is not None:
            return self.models[own.start : own.stop]
        assert self.kept is not None
        return self.kept[piece]

    def _asked(self, X: Any) -> Iterator[tuple[range, Any]]:
        key = fingerprint_of(X) if self.kept is not None else ""
        parts = self.pieces
        told = X if self.kept is None or engine_in_use() is None else place(X, self.kept[0].store.path)
        questions = (
            Question(teachers=own, X=told, queries=_length(X), models=self.held(piece, own), key=key)
            for piece, own in enumerate(parts)
        )
        return spread(predict_task, questions, total=len(parts), n_jobs=self.n_jobs)

    def _asked_here(self, X: Any) -> Iterator[tuple[range, Any]]:
        # Limiting threads takes longer than a small model's answer: once for all.
        with threadpool_limits(1):
            for index, model in enumerate(self.models or ()):
                own = range(index, index + 1)
                yield own, said_by([model], X, own, queries=_length(X))


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

    estimator: any classifier with fit, predict and get_params; or an object with a method `train_on_shards`, which
        trains the whole ensemble its own way.
    X: rows of the private data: array, sparse matrix or DataFrame, (rows, ...). y: their labels, each in `classes`.
    assignment: the teacher of every row, integers from 0 to n_teachers - 1, such as `assign_teachers` gives.
    classes: all labels in the order that predictions count them, or their number m for the labels 0 to m - 1.
        Public knowledge: a class that is not listed is refused.
    store: where teachers are kept, a few at a time, when they are done; a killed run that is repeated trains only the
        missing ones.
    seed: makes the models repeatable: teacher i depends on (seed, i) and its own rows alone. Never used for noise.
    n_jobs: as in joblib, whose backends (Dask, Ray) are used where one is set; the teachers are the same.
    empty: what a teacher without rows does. "abstain" must be declared to the accounting (`Votes(abstentions=True)`).

    Guarantee: teacher i sees the rows assigned to it and no others, so changing those changes one column of the
    predictions. A teacher whose rows have a single label always says that label.
    Raises `InvalidInput` for empty shards, more teachers than rows, labels that are not in `classes`, a store that
    holds something else; `CannotWrite` on a full disk.
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
    """`train_teachers` on shards that are read one at a time, such as a partitioned file larger than memory.

    An estimator with a method `train_on_shards` (of these same arguments) trains the whole ensemble its own way.
    """
    if callable(getattr(estimator, "train_on_shards", None)):
        return estimator.train_on_shards(shards, store=store, seed=seed, n_jobs=n_jobs, progress=progress, empty=empty)
    check_estimator_like(estimator, name="The teacher")
    seed = whole("seed", seed)
    if empty not in ("refuse", "abstain"):
        raise InvalidInput(f"empty must be 'refuse' or 'abstain', got {empty!r}.")
    sizes = np.asarray(shards.sizes)
    nobody = np.flatnonzero(sizes == 0)
    if len(nobody) and empty == "refuse":
        raise InvalidInput(
            f"{len(nobody)} of {len(sizes)} teachers have no rows (teacher {nobody[0]} is the first); "
            "use fewer teachers, or let them abstain."
        )
    shared = specification(estimator, classes=shards.classes, n_teachers=shards.n_teachers, seed=seed)
    if store is not None:
        store.open(shared)
    models: list[Any] = [None] * shards.n_teachers
    kept: dict[int, KeptPiece] = {}
    parts = pieces(shards.n_teachers)
    tasks = (
        Task(piece=piece, teachers=own, estimator=estimator, part=shards.part(own), seed=seed, store=store)
        for piece, own in enumerate(parts)
    )
    # No memory mapping: it would write private rows into a temporary folder outside private/.
    trained = spread(train_task, tasks, total=len(parts), n_jobs=n_jobs, max_nbytes=None)
    done = 0
    with reporting(progress, label="Training teachers", total=shards.n_teachers) as report:
        for own, made in trained:
            if isinstance(made, KeptPiece):
                kept[made.piece] = made
            else:
                models[own.start : own.stop] = made
            done += len(own)
            report(done, shards.n_teachers)
    where = None if store is None else tuple(kept[piece] for piece in range(len(parts)))
    held = tuple(models) if store is None else None
    return Teachers(classes=shards.classes, n_teachers=shards.n_teachers, models=held, kept=where, n_jobs=n_jobs)


def collect_votes(teachers: Any, X: Any, *, abstentions: bool = False, progress: bool | Report | None = None) -> Any:
    """The votes of `teachers` on the public examples `X`, as `Votes` (queries, classes). Private.

    abstentions: declare that teachers may abstain; without it an abstention is refused.
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
