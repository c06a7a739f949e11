"""Teachers that speak seldom: each votes only on the few public queries nearest to its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quorate.checks import InvalidInput, whole
from quorate.teachers.progress import Report, reporting
from quorate.teachers.shards import ArrayShards, Shards, blocks

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]

ABSTAIN = -1
_BLOCK = 2**25
_ROWS = 100_000


@dataclass(frozen=True, kw_only=True)
class RationedTeachers:
    """Every teacher gives its rows' labels to the nearest queries, on at most `ration` of them; pass it as estimator.

    With one teacher per record (or per user) and `RationedGNMax`, thousands of queries cost what `ration` queries
    cost, because no record is heard on the others. Rows are features (see `quorate.public`).

    Guarantee: what teacher i says depends on its own rows, on the queries and on public features alone.
    """

    ration: int = 1

    def __post_init__(self) -> None:
        whole("ration", self.ration, at_least=1)

    def train_teachers(
        self,
        X: ArrayLike,
        y: ArrayLike,
        assignment: ArrayLike,
        *,
        n_teachers: int,
        classes: ArrayLike | int,
        **rest: Any,
    ) -> SeldomTeachers:
        """As `quorate.teachers.train_teachers`; nothing is learned before the queries are known."""
        return self.train_on_shards(ArrayShards(X, y, assignment, n_teachers=n_teachers, classes=classes), **rest)

    def train_on_shards(
        self,
        shards: Shards,
        *,
        store: Any = None,
        seed: int = 0,
        n_jobs: int | None = None,
        progress: bool | Report | None = None,
        empty: Literal["refuse", "abstain"] = "abstain",
    ) -> SeldomTeachers:
        """Hold the shards; a teacher without rows abstains always."""
        return SeldomTeachers(shards=shards, ration=self.ration, classes=shards.classes, n_teachers=shards.n_teachers)


@dataclass(frozen=True, kw_only=True)
class SeldomTeachers:
    """Teachers that wait for the queries. classes: labels in the order that predictions count them."""

    shards: Shards
    ration: int
    classes: NDArray[Any]
    n_teachers: int

    def predict(self, X: ArrayLike, *, progress: bool | Report | None = None) -> NDArray[np.int16]:
        """Class indices (queries, n_teachers), -1 where a teacher abstains: all but `ration` queries at most.

        X: features of *all* queries of the run at once: asked in two parts, the teachers would speak twice.
        A teacher speaks on the queries to which most of its rows are nearest, and says the class that most of those
        rows have. Ties go to the earlier query and the lower class.
        """
        queries = np.asarray(X, np.float32)
        if queries.ndim != 2 or not np.isfinite(queries).all():
            raise InvalidInput(f"X must be finite features of shape (queries, features), got {queries.shape}.")
        out = np.full((len(queries), self.n_teachers), ABSTAIN, np.int16)
        m = len(self.classes)
        with reporting(progress, label="Asking teachers", total=self.n_teachers) as report:
            for start, teacher, rows, labels in self._blocks(len(queries)):
                tally = np.zeros((int(teacher.max(initial=-1)) + 1, len(queries), m), np.int32)
                np.add.at(tally, (teacher, nearest(rows, queries), labels), 1)
                near = tally.sum(axis=2)
                chosen = np.argsort(-near, axis=1, kind="stable")[:, : self.ration]
                spoken = np.take_along_axis(near, chosen, axis=1) > 0
                said = np.take_along_axis(tally.argmax(axis=2), chosen, axis=1)
                who = np.broadcast_to(start + np.arange(len(tally))[:, None], chosen.shape)
                out[chosen[spoken], who[spoken]] = said[spoken]
                report(start + len(tally), self.n_teachers)
        return out

    def _blocks(self, queries: int) -> Any:
        """(first teacher, teacher of each row from there, rows, labels) for blocks of teachers that fit memory."""
        sizes = np.asarray(self.shards.sizes)
        for teachers in blocks(sizes, rows=_ROWS, most=max(1, _BLOCK // (queries * len(self.classes)))):
            held = sizes[teachers]
            if not held.any():
                continue
            loaded = [(rows, labels) for rows, labels in self.shards.part(teachers).load() if len(labels)]
            rows = np.concatenate([np.asarray(rows, np.float32) for rows, _ in loaded])
            labels = np.concatenate([labels for _, labels in loaded])
            yield teachers.start, np.repeat(np.arange(len(held)), held), rows, labels


def nearest(rows: ArrayLike, queries: ArrayLike) -> IntArray:
    """The position of the nearest query of every row, (rows,); a tie goes to the earlier one."""
    given, asked = np.asarray(rows, np.float32), np.asarray(queries, np.float32)
    squares = np.square(asked).sum(axis=1)
    block = max(1, _BLOCK // max(len(asked), 1))
    parts = [(squares - 2 * given[at : at + block] @ asked.T).argmin(axis=1) for at in range(0, len(given), block)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
