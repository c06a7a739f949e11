"""Votes: how many teachers chose each class, query by query."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.validation import InvalidInput, whole

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

STEPS = 1024
"""Steps in a vote: noisy counts are released in these steps, so that low-order bits of the noise are not released."""
FINE_STEPS = 2**30
"""Steps in the range of a quantity, of which a histogram may keep a small part."""


class Votes:
    """Validated vote histograms of one ensemble of teachers. Private: nothing here adds noise.

    Parameters
    ----------
    counts : int array of shape (queries, classes)
        Number of teachers that chose every class, at least 0; row sums equal `teachers`, or are at most `teachers` with
        abstentions.
    teachers : int, optional
        Number of teachers, at least 1. Default: the common row sum.
    abstentions : bool
        Whether teachers may abstain; then `teachers` must be given.

    Raises
    ------
    InvalidInput
        For anything but a rectangular array of non-negative integers with a constant number of teachers.

    Examples
    --------
    >>> votes = Votes([[8, 2], [5, 5]])
    >>> votes.queries, votes.classes, votes.teachers
    (2, 2, 10)
    """

    __slots__ = ("abstentions", "classes_are_public", "counts", "teachers")

    steps: ClassVar[int] = 1
    """What one vote adds to `counts`."""

    counts: IntArray
    teachers: int
    abstentions: bool
    classes_are_public: bool
    """False if the number of classes comes from private predictions, so that no guarantee may depend on it."""

    def __init__(self, counts: ArrayLike, *, teachers: int | None = None, abstentions: bool = False) -> None:
        array = _integers(counts, steps=self.steps)
        sums = array.sum(axis=1)
        if teachers is None:
            if abstentions:
                raise InvalidInput("teachers must be given as an integer where abstentions are allowed, got None.")
            teachers = int(sums[0]) if len(sums) else 0
        teachers = whole("teachers", teachers, at_least=1)
        if abstentions:
            wrong = np.flatnonzero(sums > teachers)
            allowed = f"at most {teachers}, the number of teachers"
        else:
            wrong = np.flatnonzero(sums != teachers)
            allowed = f"{teachers}, the number of teachers, in every row (or declare abstentions=True)"
        if len(wrong):
            raise InvalidInput(f"counts must sum to {allowed}; row {wrong[0]} sums to {sums[wrong[0]]}.")
        array.setflags(write=False)
        self.counts = array
        self.teachers = teachers
        self.abstentions = bool(abstentions)
        self.classes_are_public = True

    @classmethod
    def from_predictions(
        cls, predictions: ArrayLike, *, classes: int | None = None, abstain: int | None = None
    ) -> Self:
        """Count the predicted classes of the teachers.

        Parameters
        ----------
        predictions : int array of shape (queries, teachers)
            One column per teacher, values from 0 to classes - 1.
        classes : int, optional
            Number of classes, at least 2. Default: the largest prediction + 1, and `classes_are_public` is False.
        abstain : int, optional
            The value that means "abstains", such as -1. Default: no teacher may abstain.

        Returns
        -------
        Votes
            The counts.

        Raises
        ------
        InvalidInput
            For predictions of another shape or range.
        """
        array = _integers(predictions, name="predictions", lowest=None)
        queries, teachers = array.shape
        valid = np.ones(array.shape, bool) if abstain is None else array != abstain
        highest = int(array[valid].max(initial=-1))
        classes_given = classes is not None
        classes = max(highest + 1, 2) if classes is None else whole("classes", classes, at_least=2)
        bad = valid & ((array < 0) | (array >= classes))
        if bad.any():
            value = int(array[bad][0])
            raise InvalidInput(f"predictions must be classes from 0 to {classes - 1}, got {value}.")
        rows = np.broadcast_to(np.arange(queries)[:, None], array.shape)
        flat = rows[valid] * classes + array[valid]
        counts = np.bincount(flat, minlength=queries * classes).reshape(queries, classes)
        votes = cls(counts, teachers=teachers, abstentions=abstain is not None)
        votes.classes_are_public = classes_given
        return votes

    @property
    def queries(self) -> int:
        """Number of queries (rows)."""
        return self.counts.shape[0]

    @property
    def classes(self) -> int:
        """Number of classes (columns)."""
        return self.counts.shape[1]

    @property
    def in_votes(self) -> FloatArray:
        """`counts` in votes, shape (queries, classes)."""
        return self.counts / self.steps

    @property
    def abstained(self) -> IntArray:
        """Teachers that abstained, shape (queries,)."""
        return self.teachers - self.counts.sum(axis=1) // self.steps

    @property
    def plurality(self) -> IntArray:
        """The noiseless winner of every query, the lowest class where several tie; shape (queries,)."""
        return self.counts.argmax(axis=1)

    @property
    def median(self) -> IntArray:
        """The noiseless median class of every query, the lowest up to which half of the votes lie; shape (queries,)."""
        below = self.counts.cumsum(axis=1)
        return (2 * below >= below[:, -1:]).argmax(axis=1)

    @property
    def top(self) -> IntArray:
        """The winner's votes n_1, shape (queries,)."""
        return self.counts.max(axis=1)

    @property
    def gap(self) -> IntArray:
        """n_1 - n_2, the winner's lead over the runner-up; shape (queries,)."""
        two = np.partition(self.counts, self.classes - 2, axis=1)[:, -2:]
        return two[:, 1] - two[:, 0]

    def __len__(self) -> int:
        return self.queries

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[Any]) -> Self:
        """Return the chosen queries, as votes of the same ensemble."""
        chosen = self._like(np.atleast_2d(self.counts[rows]))
        chosen.classes_are_public = self.classes_are_public
        return chosen

    def _like(self, counts: ArrayLike) -> Self:
        return type(self)(counts, teachers=self.teachers, abstentions=self.abstentions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Votes)
            and type(other) is type(self)
            and self.teachers == other.teachers
            and self.abstentions == other.abstentions
            and np.array_equal(self.counts, other.counts)
        )

    def __repr__(self) -> str:
        # The histograms are private: only their shape is shown.
        return f"{type(self).__name__}(queries={self.queries}, classes={self.classes}, teachers={self.teachers})"


class BoundedVotes(Votes):
    """Votes of teachers that vote on at most `max_contributions` queries each and abstain on all others.

    `from_predictions` verifies the bound for every teacher. With counts alone, the caller is responsible: only the
    total, at most teachers * max_contributions, is checked.
    """

    __slots__ = ("max_contributions", "moments")

    max_contributions: int
    moments: "Moments | None"
    """The sums of features of the same teachers; they belong to all queries together, so a part of them has None."""

    def __init__(
        self, counts: ArrayLike, *, teachers: int | None = None, max_contributions: int, abstentions: bool = True
    ) -> None:
        if abstentions is not True:
            raise InvalidInput(f"abstentions must be True for bounded votes, got {abstentions!r}.")
        self.max_contributions = whole("max_contributions", max_contributions, at_least=1)
        self.moments = None
        most = self.steps * self.votes_at_once(np.shape(counts))
        if most > 1:
            teachers = whole("teachers", teachers, at_least=1) * most
        super().__init__(counts, teachers=teachers, abstentions=True)
        self.teachers //= most
        total = int(self.counts.sum())
        if total > self.teachers * self.max_contributions * most:
            raise InvalidInput(
                f"counts must sum to at most {self.teachers * self.max_contributions}, {self.max_contributions} for "
                f"each of {self.teachers} teachers, got {total}."
            )

    @staticmethod
    def votes_at_once(shape: tuple[int, ...]) -> int:
        """Votes that a teacher may cast on one query, of counts of this shape."""
        return 1

    @classmethod
    def from_predictions(
        cls, predictions: ArrayLike, *, classes: int | None = None, abstain: int | None = -1, max_contributions: int = 1
    ) -> Self:
        """Count predictions (queries, teachers); refused for teachers with more than `max_contributions` votes."""
        max_contributions = whole("max_contributions", max_contributions, at_least=1)
        abstain = whole("abstain", abstain, at_least=-(2**31))
        plain = Votes.from_predictions(predictions, classes=classes, abstain=abstain)
        cast = (np.asarray(predictions) != abstain).sum(axis=0)
        if cast.max() > max_contributions:
            most = int(cast.argmax())
            raise InvalidInput(
                f"max_contributions must hold for every teacher: {most} voted {cast[most]} times, not "
                f"{max_contributions}."
            )
        votes = cls(plain.counts, teachers=plain.teachers, max_contributions=max_contributions)
        votes.classes_are_public = plain.classes_are_public
        return votes

    def __getitem__(self, rows: slice | Sequence[int] | NDArray[Any]) -> Self:
        """Return the chosen queries, without repetition: else a teacher would vote more often than allowed."""
        chosen = np.arange(self.queries)[rows]
        if len(np.unique(chosen)) < np.size(chosen):
            raise InvalidInput("rows must name no query twice: its teachers would exceed their max_contributions.")
        return super().__getitem__(rows)

    def _like(self, counts: ArrayLike) -> Self:
        return type(self)(counts, teachers=self.teachers, max_contributions=self.max_contributions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedVotes)
            and super().__eq__(other)
            and self.max_contributions == other.max_contributions
            and self.moments == other.moments
        )


class SplitVotes(BoundedVotes):
    """Votes in whole steps of 1/1024: split between the two ends of a quantity, or scaled by a weight of at most 1.

    The parts of one vote are at least 0 and together at most one vote, so that a vote has at most the length 1. The
    caller is responsible for that, as for `max_contributions`.
    """

    __slots__ = ()

    steps: ClassVar[int] = STEPS


class LabelVotes(BoundedVotes):
    """Votes on several labels at once, in steps of 1/1024 vote: at most one for every column.

    The caller is responsible for the joint length of a teacher's votes (`ostrakon.features.labels.LabelMap`).
    """

    __slots__ = ()

    steps: ClassVar[int] = STEPS

    @staticmethod
    def votes_at_once(shape: tuple[int, ...]) -> int:
        return shape[-1] if shape else 1


class Moments:
    """Sums of contributions besides votes, in whole steps of 1/1024 vote. Private.

    counts: integers, (directions, classes): sums of features by class, where the first direction is the constant one
    (`ostrakon.features.moments`), counts of pairs of columns (`ostrakon.features.cells.PairMap`), or sums of features
    times a quantity (`ostrakon.features.sums.SumMap`) or labels (`ostrakon.features.labels.LabelMap`). teachers:
    maximum number of contributing teachers. The caller ensures that no two contributions are farther apart than the
    mechanism says.
    """

    __slots__ = ("counts", "teachers")

    abstentions = True

    def __init__(self, counts: ArrayLike, *, teachers: int) -> None:
        array = np.array(counts)
        if array.ndim != 2 or array.dtype.kind not in "iu" or not array.size:
            raise InvalidInput(
                f"counts must be whole steps of shape (directions, classes), got {array.dtype} {array.shape}."
            )
        self.counts: IntArray = array.astype(np.int64)
        self.counts.setflags(write=False)
        self.teachers = whole("teachers", teachers, at_least=1)

    @property
    def queries(self) -> int:
        """Number of directions (rows)."""
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Moments) and self.teachers == other.teachers and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Moments(directions={self.queries}, classes={self.counts.shape[1]}, teachers={self.teachers})"


class PublicVotes(Votes):
    """Votes that depend on no private record: simulated, published, or from teachers of public data.

    Parameters
    ----------
    counts, teachers, abstentions
        As of `Votes`.

    Notes
    -----
    Parameters of a release (thresholds, noise, gates) may be chosen on these, never on plain `Votes`.
    """

    __slots__ = ()


def _integers(values: ArrayLike, *, name: str = "counts", lowest: int | None = 0, steps: int = 1) -> IntArray:
    try:
        array = np.array(values)
    except ValueError:
        raise InvalidInput(f"{name} must be a rectangular array, got rows of different lengths.") from None
    columns, fewest = ("classes", 2) if name == "counts" else ("teachers", 1)
    if array.ndim != 2 or array.shape[1] < fewest:
        raise InvalidInput(
            f"{name} must have the shape (queries, {columns}), at least {fewest} {columns}, got {array.shape}."
        )
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"{name} must be integers, got values of type {array.dtype}.")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array) | (array != np.round(array))
        if bad.any():
            raise InvalidInput(f"{name} must be finite whole numbers, got {array[bad][0]!s}.")
    huge = (array > 2**31 * steps) | (array < -(2**31) * steps)
    if huge.any():
        raise InvalidInput(f"{name} must be at most 2**31 in size, got {array[huge][0]!s}.")
    if lowest is not None and array.size and array.min() < lowest:
        raise InvalidInput(f"{name} must be at least {lowest}, got {array.min()!s}.")
    return array.astype(np.int64)
