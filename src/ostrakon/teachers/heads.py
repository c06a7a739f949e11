"""Thousands of small teachers: heads on frozen features, each solved by linear algebra in separate arrays."""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_info

from ostrakon.data.sharding import pieces
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import Report, reporting
from ostrakon.teachers.head_solvers import Head, HeadKind, Queries, predictions, require_kind, solve
from ostrakon.teachers.one_teacher import stored_or_trained
from ostrakon.teachers.shards import ArrayShards, Shards, require_rows
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput, positive, whole
from ostrakon.votes import IntArray

FloatArray = NDArray[np.float32]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class HeadEnsemble:
    """Teachers that are small heads on frozen features; can be used in place of an estimator.

    Parameters
    ----------
    kind : {"kernel-ridge", "ridge", "logistic", "nearest-neighbours", "nearest-centroid"}
        "kernel-ridge" has an RBF kernel; "logistic" is one against the rest.
    penalty : float
        Above 0: the ridge term, or the inverse of scikit-learn's C for logistic heads.
    width : float, optional
        Above 0: of the RBF kernel exp(-|x-x'|^2 / width). Default: the median squared distance between rows of
        `public`.
    neighbours : int
        Of "nearest-neighbours", at least 1.
    public : float array of shape (rows, features), optional
        Features of public rows that fix the width; "kernel-ridge" without width needs them.

    Notes
    -----
    Guarantee: teacher i is solved from the rows assigned to it and from public numbers alone, to the last bit: it
    shares no array with others, and its scores are rounded to a public grid before the largest is chosen. With
    empty="abstain", a teacher without rows abstains (-1).

    Examples
    --------
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
        require_kind(self.kind)
        positive("penalty", self.penalty)
        whole("neighbours", self.neighbours, at_least=1)
        if self.width is not None:
            positive("width", self.width)

    def fixed(self, public: ArrayLike | None = None) -> "HeadEnsemble":
        """Return the same with a fixed kernel width.

        Parameters
        ----------
        public : float array of shape (rows, features), optional
            Features of public rows. Default: `self.public`.

        Returns
        -------
        HeadEnsemble
            With a width, if its kind has one.

        Raises
        ------
        InvalidInput
            If neither a width nor public features are given.
        """
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
    ) -> "HeadTeachers":
        """Solve all heads on features.

        Parameters
        ----------
        X : float array of shape (rows, features)
            Features of the private rows.
        y, assignment, n_teachers, classes, **rest
            As in `ostrakon.teachers.train_teachers`.

        Returns
        -------
        HeadTeachers
            The solved heads.
        """
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
    ) -> "HeadTeachers":
        """Solve all heads.

        Parameters
        ----------
        shards, store, seed, progress, empty
            As in `ostrakon.teachers.train_on_shards`. Nothing is random: the seed only identifies the run.
        n_jobs : int, optional
            Threads, with one teacher each at a time. Default: the number of threads of linear algebra.

        Returns
        -------
        HeadTeachers
            The solved heads.
        """
        head = self.fixed()
        sizes = require_rows(shards, empty)
        parts = pieces(shards.n_teachers)
        if store is not None:
            store.open(head.specification(shards, len(parts), seed))
        solved: list[list[Head] | KeptPiece] = []
        with (
            reporting(progress, label="Training teachers", total=shards.n_teachers) as report,
            _thread_per_teacher(n_jobs) as run_all,
        ):
            for number, teachers in enumerate(parts):
                rows = [(_features(X), y) for X, y in shards.part(teachers).load()]
                solved.append(_solve_piece(head, rows, len(shards.classes), number, store, run_all))
                report(teachers.stop, shards.n_teachers)
        return HeadTeachers(
            head=head,
            classes=shards.classes,
            n_teachers=shards.n_teachers,
            sizes=sizes,
            solved=tuple(solved),
            n_jobs=n_jobs,
        )

    def specification(self, shards: Shards, parts: int, seed: int) -> dict[str, Any]:
        """Return the common settings of all pieces of a run, which are stored and compared when a run is resumed."""
        return {
            "estimator": f"heads: {self.kind}",
            "parameters": {"penalty": self.penalty, "width": self.width, "neighbours": self.neighbours},
            "classes": [str(label) for label in shards.classes],
            "n_teachers": shards.n_teachers,
            "pieces": parts,
            "seed": seed,
        }


@dataclass(frozen=True, kw_only=True)
class HeadTeachers:
    """Solved heads, in memory or in a store, from which they are read one piece at a time.

    classes: labels in the order in which predictions number them, shape (classes,). sizes: rows of every teacher.
    """

    head: HeadEnsemble
    classes: NDArray[Any]
    n_teachers: int
    sizes: IntArray
    solved: tuple[list[Head] | KeptPiece, ...]
    n_jobs: int | None = None

    @property
    def pieces(self) -> Iterator[list[Head]]:
        """The heads, piece by piece."""
        for heads in self.solved:
            yield heads.models() if isinstance(heads, KeptPiece) else heads

    def in_memory(self) -> Self:
        """Return the same heads, read into memory, which predict on one thread."""
        return replace(self, solved=tuple(self.pieces), n_jobs=1)

    def predict(self, X: ArrayLike, *, progress: bool | Report | None = None) -> NDArray[np.integer]:
        """Return class indices, (queries, n_teachers), -1 where a teacher abstains. Private, like all votes.

        X: features of public rows, (queries, features). Ties between scores, which are rounded to a public grid, go to
        the lowest class of which the teacher has rows.
        """
        queries = Queries(_features(X))
        out = np.empty((len(queries), self.n_teachers), np.int16)
        done = 0
        with (
            reporting(progress, label="Asking teachers", total=self.n_teachers) as report,
            _thread_per_teacher(self.n_jobs) as run_all,
        ):
            for heads in self.pieces:
                for predicted in run_all(partial(_predict_one, self.head, queries), heads):
                    out[:, done] = predicted
                    done += 1
                report(done, self.n_teachers)
        return out


def median_squared_distance(features: ArrayLike, *, sample: int = 1000) -> float:
    """Return the median squared distance between public rows (the first ones against evenly spread ones)."""
    points = _features(features)
    some = points[:: max(1, len(points) // sample)][:sample].astype(np.float64)
    squares = (some**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * some @ some.T
    median = float(np.median(distances[np.triu_indices(len(some), 1)])) if len(some) > 1 else 0.0
    return median if median > 0 else 1.0


def _solve_piece(
    head: HeadEnsemble,
    rows: list[tuple[FloatArray, IntArray]],
    classes: int,
    number: int,
    store: TeacherStore | None,
    run_all: Mapper,
) -> list[Head] | KeptPiece:
    """Return the solved heads, or their piece of the store: some kinds store all rows, too many for memory."""

    def solve_one(shard: tuple[FloatArray, IntArray]) -> Head:
        return solve(head, *shard, classes=classes)

    return stored_or_trained(store, number, rows, lambda: list(run_all(solve_one, rows)))


def _predict_one(head: HeadEnsemble, queries: Queries, teacher: Head) -> IntArray:
    if teacher.rows and teacher.features != queries.features:
        raise InvalidInput(f"X must have the {teacher.features} features of the private rows, got {queries.features}.")
    return predictions(head, teacher, queries)


@contextmanager
def _thread_per_teacher(n_jobs: int | None) -> Generator[Mapper]:
    """Yield a map over teachers, in order, with linear algebra on one thread: more would change its rounding."""
    threads = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
    workers = threads if n_jobs is None else joblib.effective_n_jobs(n_jobs)
    with on_one_thread(), ThreadPoolExecutor(workers) as pool:
        yield pool.map if workers > 1 else map


def _features(X: ArrayLike) -> FloatArray:
    array = np.asarray(X)
    if array.ndim == 2 and array.dtype.kind in "uifb":
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(array, np.float32)
        if np.isfinite(array).all():
            return array
    raise InvalidInput(
        f"Heads need finite features, as single numbers, of shape (rows, features), got {array.shape} of {array.dtype}."
    )
