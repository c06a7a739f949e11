"""Neighbouring votes: one vote moves on every query, on half of them, or to and fro."""

import math
from collections.abc import Sequence

import numpy as np

from ostrakon.mechanisms.base import Mechanism
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, IntArray, Votes

Pair = tuple[Votes, Votes]
"""The votes of two neighbouring datasets: every row differs by at most one vote moved."""


def require_neighbours(pair: Pair) -> Pair:
    """`pair`, refused unless its votes differ by at most one teacher's vote on every query."""
    before, after = pair
    if before.counts.shape != after.counts.shape or before.teachers != after.teachers:
        raise InvalidInput(f"neighbours must be votes of equal shape and equally many teachers, got {pair!r}.")
    full = [np.column_stack([votes.counts, votes.abstained]) for votes in pair]
    moved = np.abs(full[0] - full[1]).sum(axis=1)
    if (moved > 2).any():
        row = int(np.argmax(moved > 2))
        raise InvalidInput(
            f"neighbours must differ by one vote moved on every query, got {full[0][row].tolist()} and "
            f"{full[1][row].tolist()} in row {row}."
        )
    return pair


def candidate_neighbours(
    *, teachers: int, classes: int, queries: int = 1, threshold: float | None = None
) -> list[Pair]:
    """Pairs that suit most mechanisms: one vote moves between the two largest classes, the lead from none to all.

    The same pair on every query, moved on all of them and on every other one; and a mixture of all pairs, moved to and
    fro. threshold: of the top count; its two sides are added where it is in reach, so that a check without noise shows.
    """
    teachers, classes = whole("teachers", teachers, at_least=2), whole("classes", classes, at_least=2)
    tops = {int(top) for top in np.linspace((teachers + 1) // 2, teachers, 5)}
    if threshold is not None and teachers / classes < threshold <= teachers:
        tops.add(math.ceil(threshold))
    single = single_neighbours(np.array(sorted(tops)), teachers=teachers, classes=classes)
    return patterns(single, queries=queries) + patterns([mixture(single, queries=queries)], queries=queries)


def single_neighbours(tops: IntArray, *, teachers: int, classes: int) -> list[Pair]:
    """One query, a vote moved from the largest class to the second: the other votes in one class, or spread evenly."""
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


def patterns(pairs: Sequence[Pair], *, queries: int) -> list[Pair]:
    """Each pair on `queries` queries, a vote moved on all of them; and again, moved on every other one."""
    repeated: list[Pair] = []
    for before, after in pairs:
        rows = np.arange(queries) % before.queries
        repeated.append((before[rows], after[rows]))
        if queries > 1:
            moved = np.where(np.arange(queries)[:, None] % 2 == 0, after.counts[rows], before.counts[rows])
            repeated.append((before[rows], Votes(moved, teachers=before.teachers)))
    return repeated


def mixture(pairs: Sequence[Pair], *, queries: int) -> Pair:
    """All single pairs side by side, each on two consecutive queries; in every second pair the vote moves back."""
    numbers = np.arange(queries) // 2
    forth = (numbers // len(pairs)) % 2 == 0
    sides = [np.vstack([pair[side].counts for pair in pairs])[numbers % len(pairs)] for side in (0, 1)]
    teachers = pairs[0][0].teachers
    first, second = (
        Votes(np.where(forth[:, None], sides[side], sides[1 - side]), teachers=teachers) for side in (0, 1)
    )
    return first, second


def diverse_votes(*, teachers: int, classes: int, queries: int) -> Votes:
    """Histograms from unanimous to undecided, each on two queries in a row: where the law's every parameter shows."""
    lowest = math.ceil(teachers / classes)
    tops = np.linspace(teachers, lowest, max(2, queries // (2 if classes == 2 else 4))).astype(np.int64)
    single = [pair[0].counts[0] for pair in single_neighbours(tops, teachers=teachers, classes=classes)]
    return Votes(np.array(single)[np.arange(queries) // 2 % len(single)], teachers=teachers)


def votes_for(mechanism: Mechanism | None, votes: Votes, *, moved_from: Votes | None = None) -> Votes:
    """`votes` as the mechanism takes them: if contributions are bounded, changed on that number of queries only."""
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
    """`pair` as the mechanism takes it (see `votes_for`)."""
    before, after = pair
    return votes_for(mechanism, before), votes_for(mechanism, after, moved_from=before)
