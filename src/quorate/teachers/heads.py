"""Thousands of small teachers at once: heads on frozen features, solved as one batch of linear algebra."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quorate.checks import InvalidInput, positive, whole
from quorate.teachers.head_solvers import Batch, FloatArray, HeadKind, solver
from quorate.teachers.one_teacher import fingerprint_of
from quorate.teachers.progress import Report, reporting
from quorate.teachers.shards import ArrayShards, Shards
from quorate.teachers.store import TeacherStore

IntArray = NDArray[np.int64]

_BLOCK = 2**26


@dataclass(frozen=True, kw_only=True)
class HeadEnsemble:
    """Teachers that are small heads on features which public data fixed; pass it where an estimator goes.

    kind: "kernel-ridge" (RBF), "ridge", "logistic" (one against the rest), "nearest-neighbours" or "nearest-centroid".
    penalty: ridge term, or the inverse of scikit-learn's C for logistic heads; in the features' units.
    width: of the RBF kernel exp(-|x-x'|^2 / width); None: the median squared distance of the queries, public, fixed
        from `public`. neighbours: of "nearest-neighbours".
    public: features of public rows that fix the width; needed by "kernel-ridge" where width is None.

    Guarantee: teacher i is solved from the rows assigned to it and from public numbers alone; batching shares
    arithmetic, never data. With empty="abstain" a teacher without rows abstains (-1).

    >>> X, y = np.repeat(np.eye(3, dtype=np.float32), 6, axis=0), np.repeat([0, 1, 2], 6)
    >>> teachers = HeadEnsemble(kind="ridge").train_teachers(X, y, np.arange(18) % 3, n_teachers=3, classes=3)
    >>> teachers.predict(X[::6]).tolist()
    [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    """

    kind: HeadKind = "kernel-ridge"
    penalty: float = 0.1
    width: float | None = None
    neighbours: int = 1
    public: Any = None

    def __post_init__(self) -> None:
        solver(self.kind)
        positive("penalty", self.penalty)
        whole("neighbours", self.neighbours, at_least=1)
        if self.width is not None:
            positive("width", self.width)

    def fixed(self, public: ArrayLike | None = None) -> HeadEnsemble:
        """The same with the kernel's width settled on public features."""
        if self.width is not None or self.kind != "kernel-ridge":
            return replace(self, public=None)
        features = self.public if public is None else public
        if features is None:
            raise InvalidInput("width must be given, or fixed by public features (HeadEnsemble(public=...)).")
        return replace(self, width=median_squared_distance(features), public=None)

    def train_teachers(
        self,
        X: ArrayLike,
        y: ArrayLike,
        assignment: ArrayLike,
        *,
        n_teachers: int,
        classes: ArrayLike | int,
        **rest: Any,
    ) -> HeadTeachers:
        """Solve all heads on features X, (rows, features); arguments as in `quorate.teachers.train_teachers`."""
        return self.train_on_shards(ArrayShards(X, y, assignment, n_teachers=n_teachers, classes=classes), **rest)

    def train_on_shards(
        self,
        shards: Shards,
        *,
        store: TeacherStore | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        progress: bool | Report | None = None,
        empty: Literal["refuse", "abstain"] = "refuse",
    ) -> HeadTeachers:
        """Solve all heads; arguments and errors as in `quorate.teachers.train_on_shards`.

        With a store, chunks of teachers are kept as they are done and found again. Nothing is random: seed only
        names the run. n_jobs: unused, the linear algebra takes the threads it is given.
        """
        head = self.fixed()
        nobody = np.flatnonzero(np.asarray(shards.sizes) == 0)
        if len(nobody) and empty == "refuse":
            raise InvalidInput(
                f"{len(nobody)} of {shards.n_teachers} teachers have no rows (teacher {nobody[0]} is the first); "
                "use fewer teachers, or let them abstain."
            )
        sizes = np.asarray(shards.sizes)
        width = _width(shards)
        chunks = _chunks(sizes, width)
        if store is not None:
            store.open(head.specification(shards, chunks, seed))
        solved: list[Batch | None] = []
        with reporting(progress, label="Training teachers", total=shards.n_teachers) as report:
            for number, teachers in enumerate(chunks):
                solved.append(_solve_chunk(head, _padded(shards, teachers, width), number, store))
                report(teachers.stop, shards.n_teachers)
        return HeadTeachers(
            head=head,
            classes=shards.classes,
            n_teachers=shards.n_teachers,
            sizes=sizes,
            solved=tuple(solved),
            store=store,
        )

    def specification(self, shards: Shards, chunks: list[range], seed: int) -> dict[str, Any]:
        """What all chunks of a run share, as it is written beside them and compared on resume."""
        return {
            "estimator": f"heads: {self.kind}",
            "parameters": {"penalty": self.penalty, "width": self.width, "neighbours": self.neighbours},
            "classes": [str(label) for label in shards.classes],
            "n_teachers": shards.n_teachers,
            "chunks": len(chunks),
            "seed": seed,
        }


@dataclass(frozen=True, kw_only=True)
class HeadTeachers:
    """Solved heads, in memory or in a store, from which they are read a chunk at a time.

    classes: labels in the order that predictions count them, shape (classes,). sizes: rows of every teacher.
    """

    head: HeadEnsemble
    classes: NDArray[Any]
    n_teachers: int
    sizes: IntArray
    solved: tuple[Batch | None, ...]
    store: TeacherStore | None = None

    @property
    def batches(self) -> Iterator[Batch]:
        """The heads, chunk by chunk."""
        for number, batch in enumerate(self.solved):
            if batch is None:
                assert self.store is not None
                batch = self.store.load(number)
            yield batch

    @property
    def abstaining(self) -> IntArray:
        """Teachers that had no rows to learn from and abstain on every query."""
        return np.flatnonzero(self.sizes == 0)

    def predict(self, X: ArrayLike, *, progress: bool | Report | None = None) -> IntArray:
        """Class indices, (queries, n_teachers), -1 where a teacher abstains. Private, like all votes.

        Ties go to the lowest class. X: features of public rows, (queries, features).
        """
        features = _features(X)
        out = np.empty((len(features), self.n_teachers), np.int16)
        done = 0
        with reporting(progress, label="Asking teachers", total=self.n_teachers) as report:
            for batch in self.batches:
                width = len(batch.sizes)
                for rows, scores in self._scores(batch, features):
                    out[rows, done : done + width] = scores.argmax(axis=2).T
                out[:, done : done + width][:, batch.sizes == 0] = -1
                done += width
                report(done, self.n_teachers)
        return out

    def _scores(self, batch: Batch, features: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Scores (teachers, rows, classes) for blocks of rows that fit memory."""
        ask = solver(self.head.kind)[1]
        heaviest = batch.weight
        block = int(np.clip(_BLOCK // heaviest, 1, len(features)))
        for start in range(0, len(features), block):
            rows = slice(start, min(start + block, len(features)))
            yield rows, ask(self.head, batch, features[rows])


def median_squared_distance(features: ArrayLike, *, sample: int = 1000) -> float:
    """The median squared distance between public rows (the first ones against evenly spread ones)."""
    points = _features(features)
    some = points[:: max(1, len(points) // sample)][:sample].astype(np.float64)
    squares = (some**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * some @ some.T
    median = float(np.median(distances[np.triu_indices(len(some), 1)])) if len(some) > 1 else 0.0
    return median if median > 0 else 1.0


def _solve_chunk(head: HeadEnsemble, batch: Batch, number: int, store: TeacherStore | None) -> Batch | None:
    """The solved heads; None where the store keeps them, because some kinds keep all rows, which may not fit memory."""
    if store is None:
        return solver(head.kind)[0](head, batch)
    fingerprint = fingerprint_of(batch.X, batch.y, batch.sizes)
    if not store.has(number, fingerprint=fingerprint):
        store.save(number, solver(head.kind)[0](head, batch), fingerprint=fingerprint)
    return None


def _width(shards: Shards) -> int:
    """Number of features, from the first teacher that has rows."""
    held = np.flatnonzero(np.asarray(shards.sizes))
    if not len(held):
        return 1
    first = int(held[0])
    return _features(shards.part(range(first, first + 1)).load()[0][0]).shape[1]


def _padded(shards: Shards, teachers: range, width: int) -> Batch:
    """The shards of some teachers as one array, short ones filled up with rows that weigh nothing."""
    sizes = np.asarray(shards.sizes)[teachers]
    longest = max(int(sizes.max()), 1)
    X = np.zeros((len(teachers), longest, width), np.float32)
    y = np.full((len(teachers), longest), -1, np.int64)
    for place, (rows, labels) in enumerate(shards.part(teachers).load()):
        if len(labels):
            X[place, : len(labels)], y[place, : len(labels)] = _features(rows), labels
    return Batch(X=X, y=y, sizes=sizes, classes=len(shards.classes), learned={})


def _chunks(sizes: IntArray, features: int) -> list[range]:
    """Ranges of teachers whose padded rows and systems fit memory, at most a tenth of the ensemble each."""
    longest = max(int(sizes.max()), 1)
    each = longest * (features + longest)
    width = int(np.clip(_BLOCK // max(each, 1), 1, max(1, -(-len(sizes) // 10))))
    return [range(start, min(start + width, len(sizes))) for start in range(0, len(sizes), width)]


def _features(X: ArrayLike) -> FloatArray:
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "uifb" or not np.isfinite(array).all():
        raise InvalidInput(f"Heads need finite features of shape (rows, features), got {array.shape} of {array.dtype}.")
    return np.ascontiguousarray(array, np.float32)
