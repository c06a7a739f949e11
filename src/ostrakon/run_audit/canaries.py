"""Canaries: synthetic private records, one for every two classes of a query, with labels by fair coins."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.object_store import StoredFolder
from ostrakon.features.labels import LabelMap
from ostrakon.features.moments import MomentMap
from ostrakon.features.sums import SumMap, quantity_steps
from ostrakon.mechanisms.base import FloatArray, Relation
from ostrakon.run.inputs.private_data import PrivateData, Transform
from ostrakon.run.stages.features import View
from ostrakon.statements.statement import Protects, Unit
from ostrakon.teachers.per_record import Block, class_sums, nearest
from ostrakon.teachers.shards import Shards
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, BoundedVotes, IntArray, Moments

Sums = MomentMap | SumMap | LabelMap | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Canaries:
    """Records at public queries: their features are public, and coins decide their labels.

    cells: position of each canary's query. pairs: the two classes between which its coin chooses, (canaries, 2); no two
    canaries share a cell and a class. coins: 0 or 1, secret.
    """

    cells: IntArray
    pairs: IntArray
    coins: IntArray

    @property
    def labels(self) -> IntArray:
        """Class of each canary."""
        return self.pairs[np.arange(len(self.coins)), self.coins]

    def scores(self, counts: FloatArray, without: NDArray[Any], sums: Sums = None) -> FloatArray:
        """Return the evidence for coin 0 of each canary in released `counts`, (queries, classes).

        Each canary adds one vote to one of two classes (or the votes of one of two label sets), so the difference of
        these counts is the best evidence. without: exact counts without canaries. sums: map of the run's other sums.
        """
        residual = counts - without
        if isinstance(sums, LabelMap):
            first, other = sums.votes(sums.ends)
            return residual[self.cells] @ (first - other)
        return residual[self.cells, self.pairs[:, 0]] - residual[self.cells, self.pairs[:, 1]]

    def add_to(self, without: BoundedVotes, sums: Sums, queries: FloatArray) -> BoundedVotes:
        """Return the votes `without` canaries plus one vote of each canary at its query, and its features in `sums`."""
        counts = without.counts.copy()
        if isinstance(sums, LabelMap):
            np.add.at(counts, self.cells, sums.votes(sums.ends[self.labels]))
        else:
            np.add.at(counts, (self.cells, self.labels), without.steps)
        votes = type(without)(counts, teachers=without.teachers, max_contributions=without.max_contributions)
        if sums is not None and without.moments is not None:
            moments, steps = without.moments.counts.copy(), sums.steps(queries)[self.cells]
            if isinstance(sums, LabelMap):
                moments += sums.table(sums.contributions(steps, sums.ends[self.labels]))
            elif isinstance(sums, SumMap):
                moments += sums.table(quantity_steps(steps, sums.clipped(end_steps(self.labels))).sum(axis=0))
            else:
                moments += class_sums(
                    np.arange(len(steps)), steps, self.labels, classes=without.classes, centred=sums.classes is not None
                )
            votes.moments = Moments(moments, teachers=without.teachers)
        return votes


def end_steps(labels: IntArray) -> IntArray:
    """Return the steps of quantities at the ends 0 (low) and 1 (high)."""
    return labels * FINE_STEPS


def targets(labels: IntArray, sums: Sums) -> IntArray:
    """Return the targets of private rows from their classes, or ends of a quantity or of label sets."""
    if isinstance(sums, LabelMap):
        return sums.ends[labels]
    return end_steps(labels) if isinstance(sums, SumMap) else labels


def plant(view: View, queries: IntArray, *, classes: int, rng: np.random.Generator) -> Canaries:
    """Return canaries at every query, one for every two classes; `rng` draws their secret coins.

    A query with the features of an earlier one gets none, because its canaries would vote there.
    """
    features = view.public[queries]
    distinct = np.flatnonzero(nearest(features, features) == np.arange(len(queries)))
    per_query = classes // 2
    pairs = np.arange(2 * per_query).reshape(per_query, 2)
    return Canaries(
        cells=np.repeat(distinct, per_query),
        pairs=np.tile(pairs, (len(distinct), 1)),
        coins=rng.integers(0, 2, size=len(distinct) * per_query),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class WithCanaries:
    """Private data followed by canaries, without a change to the original.

    base: the data. X: the canaries' rows. y: their classes, or steps of a quantity. Each canary is a unit.
    """

    base: PrivateData
    X: Any
    y: IntArray

    @property
    def protects(self) -> Protects:
        """See `PrivateData`."""
        return self.base.protects

    @property
    def unit(self) -> Unit:
        """See `PrivateData`."""
        return self.base.unit

    @property
    def units(self) -> int:
        """Number of units, canaries included."""
        return self.base.units + len(self.y)

    @property
    def unit_column(self) -> str | None:
        """See `PrivateData`."""
        return self.base.unit_column

    def adjacencies(self, *, counted: bool = False) -> tuple[tuple[Relation, str], ...]:
        """See `PrivateData`."""
        return self.base.adjacencies(counted=counted)

    def fingerprint(self, key: bytes) -> str:
        """Return the fingerprint of the data without canaries."""
        return self.base.fingerprint(key)

    def shards(
        self, teachers: int, *, classes: int, seed: int, transform: Transform, folder: Path | StoredFolder
    ) -> Shards:
        """Refuse: canaries are per-record teachers, which have no shards."""
        raise InvalidInput("Canaries are for runs in which every record is a teacher, not for teachers' shards.")

    def by_unit(self, *, seed: int, transform: Transform, folder: Path) -> Iterator[Block]:
        """See `PrivateData`. The canaries are the last block."""
        yield from self.base.by_unit(seed=seed, transform=transform, folder=folder)
        yield np.arange(len(self.y)), transform(self.X), self.y
