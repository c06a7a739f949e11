"""Per-record (per-user) teachers: every record, or user, votes only on the public queries nearest to it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ostrakon.features.labels import LabelMap
from ostrakon.features.moments import MomentMap, scaled_steps, shared_steps
from ostrakon.features.nearest import nearest
from ostrakon.features.sums import SumMap, quantity_steps, rounded_product
from ostrakon.progress import Report
from ostrakon.teachers.blocks import Block
from ostrakon.teachers.errors import known_quantities
from ostrakon.teachers.gathering import Contributions, Parts, distinct_rows, renumbered, sum_contributions
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import STEPS, BoundedVotes, IntArray, LabelVotes, Moments, SplitVotes


def collect_per_record(
    blocks: Iterable[Block] | Parts,
    queries: ArrayLike,
    *,
    classes: int,
    units: int,
    max_contributions: int = 1,
    moments: MomentMap | SumMap | LabelMap | None = None,
    weights: Sequence[int] = (),
    progress: bool | Report | None = None,
) -> BoundedVotes:
    """Return the votes of per-record teachers on the queries nearest to their rows, with bounded contributions.

    Parameters
    ----------
    blocks : iterable of Block, or Parts
        The private rows; owners (integers) identify units within a block, and no owner has rows in two blocks. Or rows
        that the workers of an engine read (`ostrakon.teachers.engines`): the votes are the same.
    queries : float array of shape (queries, features)
        Features of *all* queries of the run: after two calls, every unit would have voted twice.
    classes : int
        Number of classes.
    units : int
        Number of records or users: the `teachers` of the votes.
    max_contributions : int
        Largest number of queries on which a unit votes, at least 1.
    moments : MomentMap, SumMap or LabelMap, optional
        The features to sum by class beside the votes, as the `moments` of the result. Default: none. With a `SumMap`
        the rows have a quantity instead of a class, in whole steps from 0 to `STEPS`: votes are split between two ends.
        With a `LabelMap` they have several labels, 0 or 1 each, (rows, labels).
    weights : sequence of int
        Of every level of consent, in steps of 1/`STEPS`: rows have a class and a level, and contributions are scaled by
        the weight of the level of a unit, or by the smallest weight if its rows have several levels. Default: no
        levels.
    progress : bool or callable, optional
        True for a progress bar, or a function (done, total).

    Returns
    -------
    BoundedVotes
        Every unit votes on the at most `max_contributions` queries to which most of its rows are nearest, for the
        class that most of those rows have, or split as the mean of their quantities. Ties go to the earlier query and
        the lower class.

    Raises
    ------
    InvalidInput
        For features that are not finite, class numbers beyond the classes, or more units than `units`.
    WorkerKilled
        If the engine gives up.

    Notes
    -----
    Guarantee: the votes of a unit depend on its own rows, on the queries and on public features alone. With
    `BoundedGNMax`, thousands of queries cost as much as `max_contributions` queries.
    """
    rule = _VoteRule(queries, classes=classes, max_contributions=max_contributions, moments=moments, weights=weights)
    return rule.votes(
        sum_contributions(blocks, rule, units=units, progress=progress, label="Collecting votes"), units=units
    )


class _VoteRule:
    """The public rule of votes; arguments and errors as in `collect_per_record`."""

    def __init__(
        self,
        queries: ArrayLike,
        *,
        classes: int,
        max_contributions: int,
        moments: MomentMap | SumMap | LabelMap | None,
        weights: Sequence[int] = (),
    ) -> None:
        self.max_contributions = whole("max_contributions", max_contributions, at_least=1)
        self.queries = np.asarray(queries, np.float32)
        if self.queries.ndim != 2 or not np.isfinite(self.queries).all():
            raise InvalidInput(
                f"queries must be finite features of shape (queries, features), got {np.shape(queries)}."
            )
        self.classes, self.moments, self.weights = classes, moments, np.asarray(weights, np.int64)
        centred = moments.classes if isinstance(moments, MomentMap) else None
        self.centred = centred is not None
        if centred is not None and (len(self.weights) or centred != classes):
            raise InvalidInput(
                f"Sums that are centred over {centred} classes are for {centred} classes without levels of consent."
            )

    def empty(self) -> Contributions:
        """Return the contributions of no unit."""
        columns = self.moments.columns if isinstance(self.moments, LabelMap) else self.classes
        sums = None if self.moments is None else np.zeros((self.moments.directions, columns), np.int64)
        return Contributions(np.zeros((len(self.queries), columns), np.int64), sums, 0)

    def contributions_of(self, block: Block) -> Contributions:
        """Return the contributions of the units of one block."""
        owners, rows, targets = block
        features = np.asarray(rows, np.float32)
        if not np.isfinite(features).all():
            raise InvalidInput("The features of the private rows must be finite numbers.")
        owner, count = renumbered(owners)
        nearest_query, label = nearest(features, self.queries), np.asarray(targets, np.int64)
        if isinstance(self.moments, SumMap):
            return self._quantities(self.moments, features, owner, count, nearest_query, label)
        if isinstance(self.moments, LabelMap):
            return self._label_contributions(self.moments, features, owner, count, nearest_query, label)
        if len(self.weights):
            return self._weighted(features, owner, count, nearest_query, label)
        steps = self.moments.steps(features) if isinstance(self.moments, MomentMap) else None
        return self._classes(steps, owner, count, nearest_query, label)

    def _classes(
        self, steps: IntArray | None, owner: IntArray, count: int, nearest_query: IntArray, label: IntArray
    ) -> Contributions:
        """Return the contributions of units whose rows have a class. steps: added to sums by the rows."""
        if len(label) and not 0 <= label.min() <= label.max() < self.classes:
            raise InvalidInput(f"The class numbers of the private rows must be 0 to {self.classes - 1}.")
        options: dict[str, int] = {"classes": self.classes, "max_contributions": self.max_contributions}
        query, voted = contributions(owner, nearest_query, label, **options)
        shape = (len(self.queries), self.classes)
        counts = np.bincount(query * self.classes + voted, minlength=shape[0] * shape[1]).reshape(shape)
        if steps is None:
            return Contributions(counts, None, count)
        sums = class_sums(owner, steps, label, classes=self.classes, centred=self.centred)
        return Contributions(counts, sums, count)

    def _weighted(
        self, features: Any, owner: IntArray, count: int, nearest_query: IntArray, class_and_level: IntArray
    ) -> Contributions:
        """Return the contributions of units whose rows have a class and a level of consent, scaled by its weight."""
        label, level = class_and_level.T
        if len(level) and not 0 <= level.min() <= level.max() < len(self.weights):
            raise InvalidInput(f"The levels of the private rows must be 0 to {len(self.weights) - 1}.")
        smallest = np.full(count, STEPS)
        np.minimum.at(smallest, owner, self.weights[level])
        steps = self.moments.steps(features) if isinstance(self.moments, MomentMap) else None
        total = self.empty()
        for weight in np.unique(self.weights).tolist():
            selected = smallest[owner] == weight
            added = None if steps is None else scaled_steps(steps[selected], weight)
            part = self._classes(added, owner[selected], count, nearest_query[selected], label[selected])
            total += Contributions(weight * part.counts, part.sums, 0)
        return Contributions(total.counts, total.sums, count)

    def _quantities(
        self, sums: SumMap, features: Any, owner: IntArray, count: int, nearest_query: IntArray, quantity: IntArray
    ) -> Contributions:
        """Return the contributions of units whose rows have a quantity."""
        quantity = sums.clipped(known_quantities(quantity))
        where, high = quantities(owner, nearest_query, quantity, max_contributions=self.max_contributions)
        counts = np.zeros((len(self.queries), 2), np.int64)
        np.add.at(counts, where, np.stack([STEPS - high, high], axis=1))
        added = quantity_steps(sums.steps(features), quantity)
        if count < len(owner):
            added = group_means(owner, added, count)
        return Contributions(counts, sums.table(added.sum(axis=0)), count)

    def _label_contributions(
        self, sums: LabelMap, features: Any, owner: IntArray, count: int, nearest_query: IntArray, labels: IntArray
    ) -> Contributions:
        """Return the contributions of units whose rows have several labels."""
        if labels.shape != (len(owner), sums.labels) or not np.isin(labels, (0, 1)).all():
            raise InvalidInput(f"The private rows must have 0 or 1 for each of {sums.labels} labels.")
        where, cast = quantities(owner, nearest_query, sums.votes(labels), max_contributions=self.max_contributions)
        counts = np.zeros((len(self.queries), sums.columns), np.int64)
        np.add.at(counts, where, cast)
        steps = sums.steps(features)
        if count == len(owner):
            return Contributions(counts, sums.table(sums.contributions(steps, labels)), count)
        signs = sums.signs(labels).T
        added = [group_means(owner, rounded_product(steps, sign), count).sum(axis=0) for sign in signs]
        return Contributions(counts, sums.table(np.stack(added, axis=1)), count)

    def votes(self, total: Contributions, *, units: int) -> BoundedVotes:
        """Return the votes of `units` units."""
        if total.units > units:
            raise InvalidInput(f"units must be at least the number of those that voted, {total.units}, got {units}.")
        kinds: dict[type, type[BoundedVotes]] = {SumMap: SplitVotes, LabelMap: LabelVotes}
        kind = SplitVotes if len(self.weights) else kinds.get(type(self.moments), BoundedVotes)
        votes = kind(total.counts, teachers=units, max_contributions=self.max_contributions)
        votes.moments = None if total.sums is None else Moments(total.sums, teachers=units)
        return votes


def contributions(
    owners: IntArray, nearest_query: IntArray, labels: IntArray, *, classes: int, max_contributions: int
) -> tuple[IntArray, IntArray]:
    """Return the votes as (queries, classes): every owner votes once on at most `max_contributions` queries.

    Parameters
    ----------
    owners, nearest_query, labels : int arrays of shape (rows,)
        The owner of every row, the query nearest to it and its class.
    classes, max_contributions : int
        As in `collect_per_record`.

    Returns
    -------
    tuple of int arrays of shape (votes,)
        (queries, classes).

    Examples
    --------
    >>> owners, nearest_query, labels = np.array([7, 7, 7, 9]), np.array([4, 4, 2, 2]), np.array([1, 0, 1, 0])
    >>> contributions(owners, nearest_query, labels, classes=2, max_contributions=1)
    (array([4, 2]), array([0, 0]))
    """
    owner, count = renumbered(owners)
    if count == len(owner):
        return nearest_query, labels
    # Distinct (owner, query, class) and their frequencies.
    rows, repeats = distinct_rows(owner, nearest_query, labels)
    # For each (owner, query) the class of most rows, the lower one first in a tie, and the number of all its rows.
    rows, repeats = _ordered(rows, repeats, by=(rows[:, 2], -repeats, rows[:, 1], rows[:, 0]))
    first = np.flatnonzero(_begins(rows[:, :2]))
    sizes = np.add.reduceat(repeats, first) if len(first) else repeats
    rows = rows[first]
    # For each owner the queries with most rows, the earlier one first in a tie.
    rows, _ = _ordered(rows, sizes, by=(rows[:, 1], -sizes, rows[:, 0]))
    kept = rows[_rank(rows) < max_contributions]
    return kept[:, 1], kept[:, 2]


def class_sums(owners: IntArray, steps: IntArray, labels: IntArray, *, classes: int, centred: bool = False) -> IntArray:
    """Return the sum of the features of the owners, by the class that most rows of an owner have.

    Parameters
    ----------
    owners : int array of shape (rows,)
        The owner of every row.
    steps : int array of shape (rows, directions)
        From `MomentMap.steps`. An owner adds the mean over its rows of its class, rounded towards 0, which is at most
        as long as the longest of them, and has their constant.
    labels : int array of shape (rows,)
        The class of every row.
    classes : int
        Number of classes.
    centred : bool
        Whether a part of every owner's contribution is subtracted from the sums of all classes (`shared_steps`).

    Returns
    -------
    int array of shape (directions, classes)
        Sums.

    Examples
    --------
    >>> owners, labels = np.array([7, 7, 7, 9]), np.array([1, 1, 0, 0])
    >>> class_sums(owners, np.array([[10, 4], [10, -1], [10, 9], [10, 2]]), labels, classes=2).tolist()
    [[10, 10], [2, 1]]
    """
    owner, count = renumbered(owners)
    chosen, added = labels, steps
    if count < len(owner):
        rows, repeats = distinct_rows(owner, labels)
        rows, _ = _ordered(rows, repeats, by=(rows[:, 1], -repeats, rows[:, 0]))
        chosen = rows[_begins(rows[:, :1])][:, 1]
        selected = labels == chosen[owner]
        added = group_means(owner[selected], steps[selected], count)
    sums = _summed(chosen, added, classes).T
    return sums - shared_steps(added, classes).sum(axis=0)[:, None] if centred else sums


def quantities(
    owners: IntArray, nearest_query: IntArray, quantity: IntArray, *, max_contributions: int
) -> tuple[IntArray, IntArray]:
    """Return split votes as (queries, steps for the high end), on at most `max_contributions` queries of an owner.

    Parameters
    ----------
    owners, nearest_query : int arrays of shape (rows,)
        As of `contributions`.
    quantity : int array of shape (rows,) or (rows, columns)
        Of every row, whole steps. An owner splits its vote as the mean over its rows near the query, rounded down.
    max_contributions : int
        As in `collect_per_record`.

    Returns
    -------
    tuple of int arrays of shape (votes,) and (votes,) or (votes, columns)
        (queries, steps).

    Examples
    --------
    >>> owners, nearest_query = np.array([7, 7, 7, 9]), np.array([4, 4, 2, 2])
    >>> quantities(owners, nearest_query, np.array([100, 201, 9, 1024]), max_contributions=1)
    (array([4, 2]), array([ 150, 1024]))
    """
    owner, count = renumbered(owners)
    if count == len(owner):
        return nearest_query, quantity
    groups, sizes = distinct_rows(owner, nearest_query)
    pairs = np.ravel_multi_index((owner, nearest_query), (count, int(nearest_query.max()) + 1))
    position = np.unique(pairs, return_inverse=True)[1]
    sums = np.zeros((len(groups), *quantity.shape[1:]), np.int64)
    np.add.at(sums, position, quantity)
    means = sums // sizes.reshape(-1, *[1] * (sums.ndim - 1))
    # For each owner the queries with most rows, the earlier one first in a tie.
    order = np.lexsort((groups[:, 1], -sizes, groups[:, 0]))
    kept = order[_rank(groups[order]) < max_contributions]
    return groups[kept, 1], means[kept]


def group_means(groups: IntArray, steps: IntArray, count: int) -> IntArray:
    """Return the mean of the rows of every group, rounded towards 0, (count, directions)."""
    sums, rows = _summed(groups, steps, count), np.bincount(groups, minlength=count)[:, None]
    return np.sign(sums) * (np.abs(sums) // rows)


def _rank(rows: IntArray) -> IntArray:
    """Return the rank of each row among those of its owner, the first column, by which rows are sorted."""
    starts = _begins(rows[:, :1])
    return np.arange(len(rows)) - np.flatnonzero(starts)[np.cumsum(starts) - 1]


def _summed(groups: IntArray, steps: IntArray, count: int) -> IntArray:
    """Return the integer sum of the rows of every group, (count, directions)."""
    ones = np.ones(len(groups), np.int64)
    return csr_array((ones, (groups, np.arange(len(groups)))), shape=(count, len(groups))) @ steps


def _ordered(rows: IntArray, repeats: IntArray, *, by: tuple[IntArray, ...]) -> tuple[IntArray, IntArray]:
    """Return both arrays sorted by the last array of `by`; ties are decided by the one before it."""
    order = np.lexsort(by)
    return rows[order], repeats[order]


def _begins(keys: IntArray) -> NDArray[np.bool_]:
    """Return whether each row of sorted keys differs from the previous one."""
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return new
