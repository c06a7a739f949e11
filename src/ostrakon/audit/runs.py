"""Independent runs of what is audited."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ostrakon.mechanisms.base import NO_ANSWER, FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

Sampler = Callable[[Votes, np.random.Generator], IntArray]
"""A user's own mechanism: (votes, rng) → one answer per query, -1 for none."""

_ROWS = 200_000


def for_rows(mechanism: Mechanism, queries: int) -> Mechanism:
    """The mechanism for this number of queries: if its parameters have a row per query, that of the first one."""
    if mechanism.fixed_queries in (None, queries):
        return mechanism
    return mechanism.for_queries(np.zeros(queries, dtype=np.intp))


class SubjectRuns:
    """Runs of a mechanism or a function: one call of it for each, so that noise shared between queries shows.

    independent: its rows may be drawn as one batch of many runs, which is faster and hides what rows share.
    """

    def __init__(self, subject: Mechanism | Sampler, *, independent: bool = False) -> None:
        self.subject = subject
        self.independent = independent

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """Answers of `runs` runs in chunks of the shape (runs of the chunk, queries)."""
        step = min(runs, max(1, _ROWS // votes.queries))
        call = self._sampler(votes.queries * (step if self.independent else 1))
        if not self.independent:
            for start in range(0, runs, step):
                yield _checked([call(votes, rng) for _ in range(min(step, runs - start))], votes)
            return
        batch = votes[np.tile(np.arange(votes.queries), step)]
        for start in range(0, runs, step):
            yield _checked([call(batch, rng)], batch).reshape(step, votes.queries)[: runs - start]

    def _sampler(self, rows: int) -> Sampler:
        return for_rows(self.subject, rows).sample if isinstance(self.subject, Mechanism) else self.subject


class CountRuns:
    """Runs of a mechanism that releases its noisy counts too: those counts, (runs of the chunk, queries * classes)."""

    def __init__(self, subject: Any) -> None:
        self.subject = subject

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Noisy counts of `runs` runs, in chunks."""
        step = min(runs, max(1, _ROWS // votes.counts.size))
        for start in range(0, runs, step):
            yield np.array([self.subject.noisy_counts(votes, rng).ravel() for _ in range(min(step, runs - start))])


def _checked(runs: list[Any], votes: Votes) -> IntArray:
    """The answers of several runs side by side, refused where one is not an answer per query."""
    shapes = {np.shape(answers) for answers in runs}
    given = np.array(runs) if len(shapes) == 1 else np.zeros(0)
    if shapes != {(votes.queries,)} or given.dtype.kind not in "iu":
        raise InvalidInput(
            f"The sampler must return one integer per query, shape ({votes.queries},), "
            f"got {given.dtype} of shape {shapes.pop()}."
        )
    low, high = given.min(), given.max()
    if low < NO_ANSWER or high >= votes.classes:
        wrong = low if low < NO_ANSWER else high
        raise InvalidInput(f"The sampler must answer -1 or a class below {votes.classes}, got {wrong}.")
    return given.astype(np.int64)
