"""Independent runs of an audited mechanism or function."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ostrakon.mechanisms.base import NO_ANSWER, FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

Sampler = Callable[[Votes, np.random.Generator], IntArray]
"""A user's own mechanism: (votes, rng) → one answer per query, -1 for none."""

_ROWS_AT_ONCE = 200_000


def for_rows(mechanism: Mechanism, queries: int) -> Mechanism:
    """Return the mechanism for this number of queries, with the parameters of its first query on all of them."""
    if mechanism.fixed_queries in (None, queries):
        return mechanism
    return mechanism.for_queries(np.zeros(queries, dtype=np.intp))


class SubjectRuns:
    """Runs of a mechanism or a function, one call for each, so that noise shared between queries is detected.

    independent: draw many runs as one batch, which is faster but hides noise that rows share.
    """

    def __init__(self, subject: Mechanism | Sampler, *, independent: bool = False) -> None:
        self.subject = subject
        self.independent = independent

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Yield the answers of `runs` runs in chunks of shape (runs of the chunk, queries)."""
        step = min(runs, max(1, _ROWS_AT_ONCE // votes.queries))
        call = self.subject
        if isinstance(call, Mechanism):
            call = for_rows(call, votes.queries * (step if self.independent else 1)).sample
        if not self.independent:
            for start in range(0, runs, step):
                yield _check_answers([call(votes, rng) for _ in range(min(step, runs - start))], votes)
            return
        batch = votes[np.tile(np.arange(votes.queries), step)]
        for start in range(0, runs, step):
            yield _check_answers([call(batch, rng)], batch).reshape(step, votes.queries)[: runs - start]


class CountRuns:
    """Noisy counts of a mechanism that releases them, of shape (runs of the chunk, queries * classes)."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield the noisy counts of `runs` runs in chunks."""
        step = min(runs, max(1, _ROWS_AT_ONCE // votes.counts.size))
        for start in range(0, runs, step):
            yield np.array([self.subject.noisy_counts(votes, rng).ravel() for _ in range(min(step, runs - start))])


def _check_answers(runs: list[Any], votes: Votes) -> IntArray:
    """Return the answers of several runs as one array; refuse them unless each has one answer per query."""
    shapes = {np.shape(run) for run in runs}
    answers = np.array(runs) if len(shapes) == 1 else np.zeros(0)
    if shapes != {(votes.queries,)} or answers.dtype.kind not in "iu":
        raise InvalidInput(
            f"The sampler must return one integer per query, shape ({votes.queries},), "
            f"got {answers.dtype} of shape {shapes.pop()}."
        )
    low, high = answers.min(), answers.max()
    if low < NO_ANSWER or high >= votes.classes:
        raise InvalidInput(
            f"The sampler must answer -1 or a class below {votes.classes}, got {low if low < NO_ANSWER else high}."
        )
    return answers.astype(np.int64)
