"""Neighbouring votes: one vote moves on every query, on half of them, or back and forth."""

import math
from collections.abc import Sequence

import numpy as np

from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, IntArray, Votes

Pair = tuple[Votes, Votes]
"""The votes of two neighbouring data sets: on every query at most one vote is moved."""


def require_neighbours(pair: Pair) -> Pair:
    """Return `pair`; refuse it unless at most one teacher's vote differs on every query."""
    before, after = pair
    if before.counts.shape != after.counts.shape or before.teachers != after.teachers:
        raise InvalidInput(f"neighbours must be votes of equal shape and equally many teachers, got {pair!r}.")
    full = [np.column_stack([votes.counts, votes.abstained]) for votes in pair]
    difference = np.abs(full[0] - full[1]).sum(axis=1)
    if (difference > 2).any():
        row = int(np.argmax(difference > 2))
        raise InvalidInput(
            f"neighbours must differ by one vote moved on every query, got {full[0][row].tolist()} and "
            f"{full[1][row].tolist()} in row {row}."
        )
    return pair


def candidate_neighbours(
    *, teachers: int, classes: int, queries: int = 1, threshold: float | None = None
) -> list[Pair]:
    """Return pairs that suit most mechanisms: one vote moves between the two largest classes.

    The margin ranges from none to unanimity; the vote moves on all queries or on half of them. A mixture of all pairs
    is added.

    Parameters
    ----------
    teachers, classes : int
        At least 2.
    queries : int, default 1
        Of each pair.
    threshold : float, optional
        Of the top count; pairs on both sides of it detect a comparison without noise.

    Returns
    -------
    list of pairs of Votes

    Raises
    ------
    InvalidInput
        For fewer than 2 teachers or classes.
    """
    teachers, classes = whole("teachers", teachers, at_least=2), whole("classes", classes, at_least=2)
    tops = {int(top) for top in np.linspace((teachers + 1) // 2, teachers, 5)}
    if threshold is not None and teachers / classes < threshold <= teachers:
        tops.add(math.ceil(threshold))
    single = single_neighbours(np.array(sorted(tops)), teachers=teachers, classes=classes)
    return repeat_pairs(single, queries=queries) + repeat_pairs([mix_pairs(single, queries=queries)], queries=queries)


def single_neighbours(tops: IntArray, *, teachers: int, classes: int) -> list[Pair]:
    """Return pairs of one query: a vote moves from the largest class to the second; the others are together or even."""
    pairs: list[Pair] = []
    for top in tops:
        rest = teachers - int(top)
        even = tuple(rest // (classes - 1) + (i < rest % (classes - 1)) for i in range(classes - 1))
        shapes: set[tuple[int, ...]] = {(rest, *[0] * (classes - 2)), even}
        for others in sorted(shapes):
            if others[0] > top:
                continue
            before = np.array([[top, *others]])
            after = before + np.array([[-1, 1, *[0] * (classes - 2)]])
            pairs.append((Votes(before, teachers=teachers), Votes(after, teachers=teachers)))
    return pairs


def repeat_pairs(pairs: Sequence[Pair], *, queries: int) -> list[Pair]:
    """Return each pair twice, on `queries` queries: with the vote moved on all of them, and on every other one."""
    repeated: list[Pair] = []
    for before, after in pairs:
        rows = np.arange(queries) % before.queries
        repeated.append((before[rows], after[rows]))
        if queries > 1:
            moved = np.where(np.arange(queries)[:, None] % 2 == 0, after.counts[rows], before.counts[rows])
            repeated.append((before[rows], Votes(moved, teachers=before.teachers)))
    return repeated


def mix_pairs(pairs: Sequence[Pair], *, queries: int) -> Pair:
    """Return one pair with all `pairs` in turn, each on two queries; in every second round the vote moves back."""
    numbers = np.arange(queries) // 2
    forward = (numbers // len(pairs)) % 2 == 0
    sides = [np.vstack([pair[side].counts for pair in pairs])[numbers % len(pairs)] for side in (0, 1)]
    teachers = pairs[0][0].teachers
    first, second = (
        Votes(np.where(forward[:, None], sides[side], sides[1 - side]), teachers=teachers) for side in (0, 1)
    )
    return first, second


def diverse_votes(*, teachers: int, classes: int, queries: int) -> Votes:
    """Return histograms from unanimous to undecided, each on two consecutive queries, to test all of a law."""
    lowest = math.ceil(teachers / classes)
    tops = np.linspace(teachers, lowest, max(2, queries // (2 if classes == 2 else 4))).astype(np.int64)
    single = [pair[0].counts[0] for pair in single_neighbours(tops, teachers=teachers, classes=classes)]
    return Votes(np.array(single)[np.arange(queries) // 2 % len(single)], teachers=teachers)


def votes_for(mechanism: Mechanism | None, votes: Votes, *, moved_from: Votes | None = None) -> Votes:
    """Return `votes` for the mechanism; if it bounds contributions, only that number of queries is changed."""
    max_contributions = None if mechanism is None else mechanism.contribution_bound
    if max_contributions is None:
        return votes
    counts = votes.counts
    if moved_from is not None:
        counts = np.where(np.arange(votes.queries)[:, None] < max_contributions, counts, moved_from.counts)
    return BoundedVotes(
        counts,
        teachers=votes.teachers * max(1, math.ceil(votes.queries / max_contributions)),
        max_contributions=max_contributions,
    )


def pair_for(mechanism: Mechanism | None, pair: Pair) -> Pair:
    """Return `pair` for the mechanism (see `votes_for`)."""
    before, after = pair
    return votes_for(mechanism, before), votes_for(mechanism, after, moved_from=before)
