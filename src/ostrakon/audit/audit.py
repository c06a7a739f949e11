"""The audit: does a mechanism's own behaviour contradict the epsilon it claims?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.audit.certify import certified_epsilon
from ostrakon.audit.neighbours import Pair, candidate_neighbours, require_neighbours, worst_neighbours
from ostrakon.audit.result import AuditResult
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.mechanisms.immutable import Immutable
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, non_negative, whole
from ostrakon.votes import IntArray, Votes

Sampler = Callable[[Votes, np.random.Generator], IntArray]
"""A user's own mechanism: (votes, rng) → one answer per query, -1 for none."""

_ROWS = 200_000
_PILOT_ROWS = 4_000_000
_FINALISTS = 4


def audit(
    subject: Mechanism | Sampler,
    *,
    delta: float,
    rng: np.random.Generator,
    claimed: float | None = None,
    neighbours: Pair | Sequence[Pair] | None = None,
    like: Mechanism | None = None,
    queries: int = 1,
    samples: int = 100_000,
    confidence: float = 0.95,
    teachers: int = 100,
    classes: int = 3,
    independent: bool = False,
) -> AuditResult:
    """A certified lower bound on the epsilon of `subject` from its samples on two neighbouring datasets.

    subject: a mechanism, or any function of (votes, rng) that returns one answer per query, -1 for none.
    claimed: the epsilon claimed at `delta` for `queries` queries together; default for a mechanism: its worst case
    (what the papers claim, for the immutable one). neighbours: a pair of votes, or several to choose from; default:
    those on which the law of `subject`, or of the mechanism `like` that a function should equal, shows most.
    samples: runs on each dataset that count for the bound (pilots of about as many more choose the pair and the event).
    teachers, classes: of the default neighbours. independent: whether a function answers every row on its own, so that
    many runs may be given to it as one batch; else it is called once per run.

    Guarantee: whatever `subject` is, the bound exceeds its true epsilon with probability at most 1 - confidence: pair
    and event are fixed by the pilot, the bound comes from fresh samples by Clopper and Pearson's exact intervals. A
    low bound proves nothing.
    Errors: `InvalidInput` for votes that are no neighbours, or a function without a claim.
    Source: Clopper and Pearson 1934; Jagielski, Ullman and Oprea 2020 (auditing by distinguishing neighbours).

    >>> from ostrakon.mechanisms import Immutable
    >>> audit(Immutable(constant=100, gamma=0.1), delta=1e-5, samples=20_000, rng=np.random.default_rng(0)).refuted
    True
    """
    delta, confidence = fraction("delta", delta), fraction("confidence", confidence)
    samples, queries = whole("samples", samples, at_least=100), whole("queries", queries, at_least=1)
    rng = require_rng(rng)
    law = subject if isinstance(subject, Mechanism) else like
    pairs = _pairs(neighbours)
    if not pairs and law is not None:
        pairs = worst_neighbours(
            law,
            teachers=teachers,
            classes=classes,
            queries=queries,
            delta=delta,
            samples=samples,
            confidence=confidence,
        )
    elif not pairs:
        pairs = candidate_neighbours(teachers=teachers, classes=classes, queries=queries)
    queries = pairs[0][0].queries
    if claimed is None:
        claimed = _claim(law, pairs[0][0], delta)
    runs = _Runs(subject, independent=independent)
    pilot = max(200, min(samples // 4, _PILOT_ROWS // (queries * len(pairs))))
    settings = _Settings(samples=samples, delta=delta, confidence=confidence)
    plans = [plan for pair in pairs for plan in _plans(runs, pair, pilot=pilot, rng=rng, settings=settings)]
    plans = sorted(plans, key=lambda plan: plan.expected, reverse=True)[:_FINALISTS]
    # The luckiest of many estimates is too good: the finalists' events are chosen again, from a larger pilot each.
    pilot = max(200, samples // (2 * _FINALISTS))
    plans = [max(_plans(runs, plan.pair, pilot=pilot, rng=rng, settings=settings), key=_expected) for plan in plans]
    best = max(plans, key=_expected)
    seen = (_seen(runs, best, 0, samples, rng), _seen(runs, best, 1, samples, rng))
    bound = settings.certify(seen[0], seen[1])
    first, second = (tuple(int(count) for count in votes.counts[0]) for votes in best.pair)
    return AuditResult(
        mechanism=subject.name if isinstance(subject, Mechanism) else getattr(subject, "__name__", "the sampler"),
        claimed=claimed if claimed == np.inf else non_negative("claimed", claimed),
        lower_bound=float(bound),
        confidence=confidence,
        delta=delta,
        queries=queries,
        samples=samples,
        neighbours=(first, second),
        seen=seen,
    )


@dataclass(frozen=True, kw_only=True)
class _Settings:
    samples: int
    delta: float
    confidence: float

    def certify(self, hits: ArrayLike, other: ArrayLike) -> FloatArray:
        return certified_epsilon(hits, other, samples=self.samples, delta=self.delta, confidence=self.confidence)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """An event fixed by the pilot: `loss(answers) >= threshold`, likelier on pair[0] than on pair[1]."""

    pair: Pair
    table: FloatArray  # (queries, classes + 1): log-ratio of each outcome of each query, the last for no answer
    threshold: float
    expected: float


def _expected(plan: _Plan) -> float:
    return plan.expected


class _Runs:
    """Independent runs of a mechanism or a function, in batches where its queries are not tied."""

    def __init__(self, subject: Mechanism | Sampler, *, independent: bool) -> None:
        self.subject = subject
        self.batched = not isinstance(subject, StatefulMechanism) if isinstance(subject, Mechanism) else independent

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Answers of `runs` runs in chunks of the shape (runs of the chunk, queries)."""
        step = min(runs, max(1, _ROWS // votes.queries))
        if not self.batched:
            for start in range(0, runs, step):
                yield np.array([self._answers(votes, rng, None) for _ in range(min(step, runs - start))])
            return
        rows = np.tile(np.arange(votes.queries), step)
        batch = votes[rows]
        for start in range(0, runs, step):
            answers = self._answers(batch, rng, rows).reshape(step, votes.queries)
            yield answers[: runs - start]

    def _answers(self, votes: Votes, rng: np.random.Generator, rows: np.ndarray | None) -> IntArray:
        if isinstance(self.subject, Mechanism):
            mechanism = self.subject if rows is None else self.subject.for_queries(rows)
            return mechanism.sample(votes, rng)
        answers = np.asarray(self.subject(votes, rng))
        if answers.shape != (votes.queries,) or answers.dtype.kind not in "iu":
            raise InvalidInput(
                f"The sampler must return one integer per query, shape ({votes.queries},), "
                f"got {answers.dtype} of shape {answers.shape}."
            )
        if ((answers < -1) | (answers >= votes.classes)).any():
            raise InvalidInput(f"The sampler must answer -1 or a class below {votes.classes}, got {answers.min()}.")
        return answers.astype(np.int64)


def _plans(runs: _Runs, pair: Pair, *, pilot: int, settings: _Settings, rng: np.random.Generator) -> Iterator[_Plan]:
    """The best event of each direction, by a pilot."""
    answers = [np.concatenate(list(runs.draw(votes, pilot, rng))) for votes in pair]
    counts = [_outcome_counts(drawn, votes, pair) for drawn, votes in zip(answers, pair, strict=True)]
    table = np.log(counts[0]) - np.log(counts[1])
    for here, there, signed in ((0, 1, table), (1, 0, -table)):
        loss, other = _loss(signed, answers[here]), _loss(signed, answers[there])
        thresholds = np.unique(np.quantile(loss, np.linspace(0, 1, 400), method="nearest"))
        likely, rare = _cautious(loss, other, thresholds)
        bounds = settings.certify(likely * settings.samples, rare * settings.samples)
        best = int(np.argmax(bounds))
        yield _Plan(
            pair=(pair[here], pair[there]),
            table=signed,
            # Just below the threshold: sums in another order may differ in the last digit.
            threshold=float(thresholds[best]) - 1e-9 * (1 + abs(float(thresholds[best]))),
            expected=float(bounds[best]),
        )


def _cautious(loss: FloatArray, other: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Probability of `>= threshold` here, from below, and there, from above, by about one standard error each.

    What is rare there is better estimated from here, reweighted by the estimated ratio e^-loss, wherever the loss is a
    sum over several queries; the larger of both estimates is believed.
    """
    runs = len(loss)
    hits, there = _at_least(loss, thresholds), _at_least(other, thresholds)
    likely = np.maximum(hits - np.sqrt(hits + 1), 0.0) / runs
    if len(np.unique(loss)) < 64:  # one query, or few: the ratios themselves come from these few counts
        return likely, np.minimum(there + np.sqrt(there + 1), runs) / runs
    order = np.sort(loss)[::-1]
    weight = np.exp(-np.clip(order, -700, 700))
    above = hits.astype(np.intp)
    total = np.concatenate([[0.0], np.cumsum(weight)])[above]
    spread = np.sqrt(np.concatenate([[0.0], np.cumsum(weight**2)])[above])
    return likely, np.minimum(np.maximum(total + spread, there - np.sqrt(there)), runs) / runs


def _outcome_counts(answers: IntArray, votes: Votes, pair: Pair) -> FloatArray:
    """Smoothed frequency of every outcome of every query, equal queries pooled; (queries, classes + 1)."""
    columns = votes.classes + 1
    flat = np.where(answers < 0, votes.classes, answers) + np.arange(votes.queries) * columns
    counts = np.bincount(flat.ravel(), minlength=votes.queries * columns).reshape(votes.queries, columns)
    _, kind = np.unique(np.column_stack([side.counts for side in pair]), axis=0, return_inverse=True)
    kind = kind.ravel()
    pooled = np.zeros((int(kind.max()) + 1, columns))
    np.add.at(pooled, kind, counts)
    smooth = pooled + 0.5
    return (smooth / smooth.sum(axis=1, keepdims=True))[kind]


def _seen(runs: _Runs, plan: _Plan, side: int, count: int, rng: np.random.Generator) -> int:
    """How often the plan's event happens in `count` fresh runs on one side of its pair."""
    draws = runs.draw(plan.pair[side], count, rng)
    return sum(int((_loss(plan.table, answers) >= plan.threshold).sum()) for answers in draws)


def _loss(table: FloatArray, answers: IntArray) -> FloatArray:
    # Index -1 is the last column: no answer.
    return table[np.arange(answers.shape[1]), answers].sum(axis=1)


def _at_least(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """How many `values` lie at or above each threshold."""
    below = np.searchsorted(np.sort(values), thresholds - 1e-9 * (1 + np.abs(thresholds)))
    return (len(values) - below).astype(np.float64)


def _pairs(neighbours: Pair | Sequence[Pair] | None) -> list[Pair]:
    if neighbours is None:
        return []
    given = [neighbours] if isinstance(neighbours[0], Votes) else list(neighbours)
    pairs = [require_neighbours((pair[0], pair[1])) for pair in given]  # pyright: ignore[reportArgumentType]
    if len({pair[0].queries for pair in pairs}) != 1:
        raise InvalidInput(f"neighbours must all have the same number of queries, got {pairs!r}.")
    return pairs


def _claim(mechanism: Mechanism | None, votes: Votes, delta: float) -> float:
    if mechanism is None:
        raise InvalidInput("claimed must be given for a function that is no mechanism of ostrakon, got None.")
    if isinstance(mechanism, Immutable):
        return mechanism.claimed_epsilon(queries=votes.queries, delta=delta)
    return worst_case_of(votes, mechanism, delta=delta).epsilon
