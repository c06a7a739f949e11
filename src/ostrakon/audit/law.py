"""Do the answers follow the outcome law that they should?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ostrakon.audit.certify import certified_epsilon, clopper_pearson
from ostrakon.audit.events import (
    Experiment,
    Statistic,
    agreement,
    best_events,
    kinds_of,
    outcome_shares,
    table_statistic,
)
from ostrakon.audit.runs import LawRuns, SubjectRuns, for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.votes import IntArray, Votes

_TINY = 1e-300
_LAW_SAMPLES = 4
"""Samples of the law for each of the subject, which costs more."""


def samples_follow(
    runs: SubjectRuns, law: Mechanism, votes: Votes, *, samples: int, error: float, rng: np.random.Generator
) -> str | None:
    """How answers to `votes` break the law, in words; None where they follow it for all that is seen.

    Each query's outcomes, by Clopper and Pearson's bounds on every outcome's frequency. All queries of a run together,
    for mechanisms whose queries are independent, by telling runs from samples of the law with an event chosen by a
    pilot: answers weighed by how the pilot's shares differ from the law's, by how the law changes with one vote more
    (an offset), and how often equal queries agree (shared noise). `samples` fresh runs count.

    Guarantee: a sampler of exactly this law is accused with probability at most `error`.
    """
    marginal = _Marginals(runs, law, votes)
    if isinstance(law, StatefulMechanism):
        for answers in runs.draw(votes, samples, rng):
            marginal.count(answers)
        return marginal.broken(error=error)
    experiment = Experiment(
        sides=((marginal, votes), (LawRuns(law), votes)), statistics=lambda first, _: _statistics(first, law, votes)
    )

    def gain(hits: FloatArray, other: FloatArray) -> FloatArray:
        return certified_epsilon(hits, other, samples=samples, delta=0.0, confidence=1 - error / 2)

    (event,) = best_events([experiment], [gain], samples=samples, rng=rng)
    marginal.restart()
    seen = sum(event.happened(answers) for answers in marginal.draw(votes, samples, rng))
    due = sum(event.happened(answers) for answers in LawRuns(law).draw(votes, _LAW_SAMPLES * samples, rng))
    broken = marginal.broken(error=error / 2)
    if broken is not None:
        return broken
    by_samples = clopper_pearson(seen, samples=samples, error=error / 8)
    by_law = clopper_pearson(due, samples=_LAW_SAMPLES * samples, error=error / 8)
    if by_samples[0] <= by_law[1] and by_law[0] <= by_samples[1]:
        return None
    return (
        f"an event of whole runs has frequency {seen / samples:.4g} in the samples and probability "
        f"{due / (_LAW_SAMPLES * samples):.4g} by the law"
    )


class _Marginals:
    """Runs whose outcomes are counted query by query as they pass."""

    def __init__(self, runs: SubjectRuns, law: Mechanism, votes: Votes) -> None:
        self.runs, self.votes = runs, votes
        self.law = np.exp(for_rows(law, votes.queries).log_probabilities(votes))
        self.restart()

    def restart(self) -> None:
        """Forget what was counted."""
        self.counts = np.zeros(self.law.shape, dtype=np.int64)
        self.samples = 0

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[IntArray]:
        """See `SubjectRuns.draw`."""
        for answers in self.runs.draw(votes, runs, rng):
            self.count(answers)
            yield answers

    def count(self, answers: IntArray) -> None:
        """Add the outcomes of these runs."""
        self.samples += len(answers)
        columns = self.law.shape[1]
        flat = np.where(answers < 0, columns - 1, answers) + np.arange(len(self.law)) * columns
        self.counts += np.bincount(flat.ravel(), minlength=self.law.size).reshape(self.law.shape)

    def broken(self, *, error: float) -> str | None:
        """The outcome farthest out of its interval, in words; all intervals together fail with probability `error`."""
        each = error / (2 * self.law.size)
        lower, upper = clopper_pearson(self.counts, samples=self.samples, error=each)
        # The law itself is computed to about ten digits.
        out = np.maximum(lower - self.law * (1 + 1e-8), self.law * (1 - 1e-8) - upper)
        if not (out > 1e-12).any():
            return None
        query, outcome = np.unravel_index(int(np.argmax(out)), out.shape)
        what = "no answer" if outcome == self.votes.classes else f"answer {outcome}"
        return (
            f"with votes {tuple(self.votes.counts[query].tolist())}, {what} has frequency "
            f"{self.counts[query, outcome] / self.samples:.4g} in the samples and probability "
            f"{self.law[query, outcome]:.4g} by the law"
        )


def _statistics(answers: IntArray, law: Mechanism, votes: Votes) -> Sequence[Statistic]:
    logs = for_rows(law, votes.queries).log_probabilities(votes)
    shares = outcome_shares(answers, kinds_of(votes), votes.classes + 1)
    found = [table_statistic(np.log(shares) - np.maximum(logs, np.log(_TINY)))]
    # One vote more for the leader, in a room of one teacher more: what an off-by-one does to every query; and what it
    # does to whether there is an answer at all.
    counts = votes.counts + (np.arange(votes.classes) == votes.plurality[:, None])
    raised = Votes(counts, teachers=votes.teachers + 1, abstentions=True)
    shifted = for_rows(law, votes.queries).log_probabilities(raised)
    found.append(table_statistic(_difference(shifted, logs)))
    if (logs[:, -1] > -np.inf).any():
        found.append(table_statistic(_difference(_answered(shifted), _answered(logs))))
    if votes.queries > 1:
        found.append(agreement)
    return found


def _difference(first: FloatArray, second: FloatArray) -> FloatArray:
    """First less second where both are finite, else 0."""
    finite = (first > -np.inf) & (second > -np.inf)
    return np.where(finite, np.where(finite, first, 0.0) - np.where(finite, second, 0.0), 0.0)


def _answered(logs: FloatArray) -> FloatArray:
    """The same with every label's probability replaced by that of any label."""
    some = np.logaddexp.reduce(logs[:, :-1], axis=1)
    return np.column_stack([np.repeat(some[:, None], logs.shape[1] - 1, axis=1), logs[:, -1]])
