"""Neighbouring votes on which a mechanism shows most."""

from __future__ import annotations

import math

import numpy as np

from ostrakon.audit.certify import certified_epsilon
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, IntArray, Votes

Pair = tuple[Votes, Votes]
"""The votes of two neighbouring datasets: every row differs by at most one vote moved."""

_DRAWS = 4000


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

    threshold: of the top count; where it is in reach, its two sides are added, so that a check without noise shows.
    """
    teachers, classes = whole("teachers", teachers, at_least=2), whole("classes", classes, at_least=2)
    tops = {int(top) for top in np.linspace((teachers + 1) // 2, teachers, 5)}
    if threshold is not None and teachers / classes < threshold <= teachers:
        tops.add(math.ceil(threshold))
    return [pair for top in sorted(tops) for pair in _pairs(np.array([top]), teachers, classes, queries)]


def worst_neighbours(
    mechanism: Mechanism, *, teachers: int, classes: int, queries: int, delta: float, samples: int, confidence: float
) -> list[Pair]:
    """The pairs on which an audit of so many samples can be expected to certify most, best first, by the exact law.

    Searched among all histograms of two shapes: all other votes in one class, and spread evenly over all of them.
    One pair is repeated over the queries. Mechanisms whose queries are tied get the general candidates.
    """
    threshold = getattr(mechanism, "threshold", None)
    general = candidate_neighbours(teachers=teachers, classes=classes, queries=queries, threshold=threshold)
    if isinstance(mechanism, BoundedGNMax):
        return [_bounded(pair, mechanism.max_contributions) for pair in general]
    if isinstance(mechanism, StatefulMechanism):
        return general
    lowest = math.ceil(teachers / classes)
    tops = np.unique(np.linspace(lowest, teachers, min(teachers - lowest + 1, 120)).astype(np.int64))
    pairs = _pairs(tops, teachers, classes, 1)
    both = [Votes(np.vstack([pair[side].counts for pair in pairs]), teachers=teachers) for side in (0, 1)]
    rows = np.zeros(len(pairs), dtype=np.intp)
    law = [mechanism.for_queries(rows).log_probabilities(votes) for votes in both]
    rng = np.random.default_rng(0)  # chooses where to look; no noise and no guarantee comes from it
    expected = [
        max(
            _expected(p, q, queries=queries, delta=delta, samples=samples, confidence=confidence, rng=rng)
            for p, q in ((law[0][i], law[1][i]), (law[1][i], law[0][i]))
        )
        for i in range(len(pairs))
    ]
    best = np.argsort(expected)[::-1][:3]
    chosen = [(_repeated(pairs[i][0], queries), _repeated(pairs[i][1], queries)) for i in best]
    return chosen + general


def _expected(
    log_p: FloatArray,
    log_q: FloatArray,
    *,
    queries: int,
    delta: float,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """The bound that `samples` runs would certify at the best threshold of the likelihood ratio."""
    possible = log_p > -np.inf
    p = np.exp(log_p[possible])
    # An outcome that is impossible on the other side certifies all that the sample size allows.
    ratio = np.minimum(log_p[possible] - log_q[possible], 700.0)
    if queries == 1:
        mass, loss = p, ratio
    else:
        loss = rng.multinomial(queries, p / p.sum(), size=_DRAWS) @ ratio
        mass = np.full(_DRAWS, 1 / _DRAWS)
    order = np.argsort(-loss)
    events = np.unique(np.geomspace(1, len(order), 40).astype(np.intp)) - 1
    hits = np.cumsum(mass[order])[events] * samples
    other = np.cumsum(mass[order] * np.exp(-np.minimum(loss[order], 700.0)))[events] * samples
    bounds = certified_epsilon(
        np.minimum(hits, samples), np.clip(other, 0, samples), samples=samples, delta=delta, confidence=confidence
    )
    return float(bounds.max())


def _pairs(tops: IntArray, teachers: int, classes: int, queries: int) -> list[Pair]:
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
            pair = Votes(before, teachers=teachers), Votes(after, teachers=teachers)
            pairs.append((_repeated(pair[0], queries), _repeated(pair[1], queries)))
    return pairs


def _bounded(pair: Pair, max_contributions: int) -> Pair:
    """The pair with one vote moved on the first `max_contributions` queries alone: nobody speaks on more."""
    before, after = pair
    moved = np.where(np.arange(before.queries)[:, None] < max_contributions, after.counts, before.counts)
    teachers = before.teachers * max(1, math.ceil(before.queries / max_contributions))
    first, second = (
        BoundedVotes(counts, teachers=teachers, max_contributions=max_contributions)
        for counts in (before.counts, moved)
    )
    return first, second


def _repeated(votes: Votes, queries: int) -> Votes:
    return votes[np.zeros(queries, dtype=np.intp)]
