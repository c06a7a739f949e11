"""From pilot runs to one event that distinguishes two laws, and from fresh runs to its frequency."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray, Votes

Observed = NDArray[Any]
"""Results of runs, (runs, ...)."""

Statistic = Callable[[Observed], FloatArray]
"""One number for each run, (runs,); large on the first side of an experiment."""

Gain = Callable[[FloatArray, FloatArray], FloatArray]
"""From the numbers of samples with an event, on its own side and on the other, to its value; elementwise."""


_SHARES = np.concatenate(
    [[0.0], np.geomspace(1e-4, 0.05, 20), np.linspace(0.06, 0.94, 45), 1 - np.geomspace(0.05, 1e-4, 20), [1.0]]
)


class Runs(Protocol):
    """A subject that can be run on votes many times."""

    def draw(self, votes: Votes, runs: int, rng: np.random.Generator) -> Iterator[Observed]:
        """Yield the results of independent runs in chunks."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Two sides to distinguish. statistics: from pilot runs of both to the statistics to try."""

    sides: tuple[tuple[Runs, Votes], tuple[Runs, Votes]]
    statistics: Callable[[Observed, Observed], Sequence[Statistic]]

    def draw(self, side: int, runs: int, rng: np.random.Generator) -> Iterator[Observed]:
        """Yield fresh runs of one side in chunks."""
        subject, votes = self.sides[side]
        return subject.draw(votes, runs, rng)


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """`sign * statistic >= threshold`, likelier on side `here`; expected: its gain by the pilot."""

    experiment: Experiment
    statistic: Statistic
    sign: int
    here: int
    threshold: float
    expected: float

    @property
    def sides(self) -> tuple[tuple[Runs, Votes], tuple[Runs, Votes]]:
        """The subjects and their votes, the side where the event is likelier first."""
        sides = self.experiment.sides
        return sides if self.here == 0 else (sides[1], sides[0])

    def frequency(self, observed: Observed) -> int:
        """Return the number of these runs with the event."""
        return int((self.sign * self.statistic(observed) >= self.threshold).sum())


def choose_events(
    experiments: Iterable[Experiment], gains: Sequence[Gain], *, samples: int, rng: np.random.Generator
) -> list[Event]:
    """Return, for each gain, the event with the largest expected gain over all experiments, statistics and thresholds.

    Everything is chosen by pilot runs, in rounds with fewer and fewer experiments and larger and larger pilots: the
    largest of many estimates is too high, so only the estimate of the last round decides.
    """
    survivors = {number: list(experiments) for number in range(len(gains))}
    best: dict[int, list[Event]] = {}
    for pilot, limit in ((samples // 30, 6), (samples // 10, 2), (samples // 5, 1)):
        unique = {id(experiment): experiment for kept in survivors.values() for experiment in kept}
        candidates = {
            key: _events(experiment, gains, samples=samples, pilot=max(400, pilot), rng=rng)
            for key, experiment in unique.items()
        }
        for number, kept in survivors.items():
            events = [candidates[id(experiment)][number] for experiment in kept]
            best[number] = sorted(events, key=lambda event: event.expected, reverse=True)[:limit]
            survivors[number] = [event.experiment for event in best[number]]
    return [best[number][0] for number in range(len(gains))]


def count_events(events: Sequence[Event], *, samples: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Count each event in `samples` fresh runs on its own side, and on the other.

    Events of one experiment are counted in the same runs.
    """
    counts = [[0, 0] for _ in events]
    for experiment in {id(event.experiment): event.experiment for event in events}.values():
        for side in (0, 1):
            for observed in experiment.draw(side, samples, rng):
                for count, event in zip(counts, events, strict=True):
                    if event.experiment is experiment:
                        count[0 if side == event.here else 1] += event.frequency(observed)
    return [(first, second) for first, second in counts]


def _events(
    experiment: Experiment, gains: Sequence[Gain], *, samples: int, pilot: int, rng: np.random.Generator
) -> list[Event]:
    """Return the best event for each gain, by one pilot: half of it for the statistics, half for their thresholds."""
    observed = [np.concatenate(list(experiment.draw(side, pilot, rng))) for side in (0, 1)]
    half = pilot // 2
    best: list[Event | None] = [None] * len(gains)
    for statistic in experiment.statistics(observed[0][:half], observed[1][:half]):
        values = [statistic(runs[half:]) for runs in observed]
        for here, sign in ((0, 1), (1, -1), (0, -1), (1, 1)):
            loss, other = sign * values[here], sign * values[1 - here]
            thresholds = np.unique(np.quantile(loss, _SHARES, method="nearest"))
            likely, rare = _cautious_shares(loss, other, thresholds)
            for number, gain in enumerate(gains):
                expected_gains = gain(likely * samples, rare * samples)
                index = int(np.argmax(expected_gains))
                previous = best[number]
                if previous is None or expected_gains[index] > previous.expected:
                    best[number] = Event(
                        experiment=experiment,
                        statistic=statistic,
                        sign=sign,
                        here=here,
                        # Just below the threshold: sums in another order may differ in the last digit.
                        threshold=float(thresholds[index]) - 1e-9 * (1 + abs(float(thresholds[index]))),
                        expected=float(expected_gains[index]),
                    )
    return [event for event in best if event is not None]


def _cautious_shares(loss: FloatArray, other: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a lower estimate of P(>= threshold) here, and an upper one there, by about one standard error each."""
    hits, other_hits = _at_least(loss, thresholds), _at_least(other, thresholds)
    likely = np.maximum(hits - np.sqrt(hits + 1), 0.0) / len(loss)
    return likely, np.minimum(other_hits + np.sqrt(other_hits + 1), len(other)) / len(other)


def _at_least(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return the number of `values` at or above each threshold."""
    below = np.searchsorted(np.sort(values), thresholds - 1e-9 * (1 + np.abs(thresholds)))
    return (len(values) - below).astype(np.float64)


def table_statistic(table: FloatArray) -> Statistic:
    """Return the sum over queries of `table` (queries, classes + 1) at the answers; the last column: no answer."""
    rows = np.arange(len(table))
    # Index -1 is the last column: no answer.
    return lambda answers: table[rows, answers].sum(axis=1)


def stopped_statistic(table: FloatArray) -> Statistic:
    """Return `table_statistic` up to each run's last answer: after a cap on answers, queries are not asked."""
    rows = np.arange(len(table))
    return lambda answers: np.where(until_last_answer(answers), table[rows, answers], 0.0).sum(axis=1)


def until_last_answer(answers: IntArray) -> NDArray[np.bool_]:
    """Return whether each query is not after its run's last answer, (runs, queries)."""
    return np.logical_or.accumulate(answers[:, ::-1] >= 0, axis=1)[:, ::-1]


def agreement(answers: IntArray) -> FloatArray:
    """Return how many neighbouring queries (first and second, third and fourth ...) have the same answer."""
    even = answers.shape[1] - answers.shape[1] % 2
    return (answers[:, 0:even:2] == answers[:, 1:even:2]).sum(axis=1).astype(np.float64)


def outcome_shares(
    answers: IntArray, kinds: IntArray, columns: int, mask: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Return smoothed shares of outcomes of queries, (queries, columns), pooled over queries of one kind.

    mask: whether a query counts, (runs, queries); None: all.
    """
    queries = answers.shape[1]
    flat = np.where(answers < 0, columns - 1, answers) + np.arange(queries) * columns
    outcomes = flat.ravel() if mask is None else flat[mask]
    counts = np.bincount(outcomes, minlength=queries * columns).reshape(queries, columns)
    pooled = np.zeros((int(kinds.max()) + 1, columns))
    np.add.at(pooled, kinds, counts)
    smooth = pooled + 0.5
    return (smooth / smooth.sum(axis=1, keepdims=True))[kinds]


def kinds_of(*sides: Votes) -> IntArray:
    """Return a number for each query, (queries,), equal for queries with equal histograms on all sides."""
    return np.unique(np.column_stack([side.counts for side in sides]), axis=0, return_inverse=True)[1].ravel()
