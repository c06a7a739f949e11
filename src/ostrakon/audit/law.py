"""Test whether answers follow their stated outcome law."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from ostrakon.audit.certify import clopper_pearson
from ostrakon.audit.events import kinds_of, outcome_shares
from ostrakon.audit.runs import SubjectRuns, for_rows
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.votes import IntArray, Votes

_NUMERICAL = 1e-8
"""The law is computed to about ten digits."""


def samples_follow(
    runs: SubjectRuns, law: Mechanism, votes: Votes, *, samples: int, error: float, rng: np.random.Generator
) -> str | None:
    """Return how answers to `votes` contradict the law, in words; None without a contradiction.

    Each query's outcomes, by Clopper and Pearson's bounds on every outcome's frequency. All queries of a run together,
    for mechanisms whose queries are independent, by one event of whole runs that a pilot chose, beside its exact
    probability: answers weighed by how the pilot's shares differ from the law's, by how the law changes with one vote
    more (an offset), and how often equal queries agree (shared noise). `samples` fresh runs count.

    Guarantee: a sampler of exactly this law is accused with probability at most `error`.
    """
    stated = np.exp(for_rows(law, votes.queries).log_probabilities(votes))
    score, sign, threshold = (None, 1, 0)
    if not isinstance(law, StatefulMechanism):
        pilot = np.concatenate(list(runs.draw(votes, max(400, samples // 5), rng)))
        score, sign, threshold = _event(pilot, law, votes, stated)
    counts = np.zeros(stated.shape, dtype=np.int64)
    seen = 0
    for answers in runs.draw(votes, samples, rng):
        counts += _outcomes(answers, votes)
        if score is not None:
            seen += int((sign * score.of(answers) >= threshold).sum())
    broken = _broken_marginal(counts, stated, votes, samples=samples, error=error / 2)
    if broken is not None or score is None:
        return broken
    due = float(score.probability(sign=sign, threshold=np.array(threshold)))
    lower, upper = clopper_pearson(seen, samples=samples, error=error / 4)
    if lower <= due + _NUMERICAL and due - _NUMERICAL <= upper:
        return None
    return (
        f"an event of whole runs has frequency {seen / samples:.4g} in the samples and probability {due:.4g} by the law"
    )


def _event(pilot: IntArray, law: Mechanism, votes: Votes, stated: FloatArray) -> "tuple[Score, int, int]":
    """Return (score, sign, threshold) of the event sign * score >= threshold that contradicts the law most in a
    pilot."""
    half = len(pilot) // 2
    most, best = -1.0, None
    for score in _scores(pilot[:half], law, votes, stated):
        values = score.of(pilot[half:])
        for sign in (1, -1):
            levels, often = np.unique(sign * values, return_counts=True)
            hits = np.cumsum(often[::-1])[::-1]
            share = np.maximum(hits - np.sqrt(hits), 0.0) / len(values)
            due = np.clip(score.probability(sign=sign, threshold=levels), _NUMERICAL, 1.0)
            gains = np.where(share > due, rel_entr(share, due) + rel_entr(1 - share, 1 - due), 0.0)
            index = int(np.argmax(gains))
            if gains[index] > most:
                most, best = float(gains[index]), (score, sign, int(levels[index]))
    assert best is not None
    return best


def _scores(answers: IntArray, law: Mechanism, votes: Votes, stated: FloatArray) -> "Sequence[Score]":
    logs = for_rows(law, votes.queries).log_probabilities(votes)
    weights = [_difference(np.log(outcome_shares(answers, kinds_of(votes), votes.classes + 1)), logs)]
    # The effect of one more teacher who votes for the leader (an off-by-one error) on answers, and on whether there
    # is an answer.
    counts = votes.counts + (np.arange(votes.classes) == votes.plurality[:, None])
    raised = Votes(counts, teachers=votes.teachers + 1, abstentions=True)
    shifted = for_rows(law, votes.queries).log_probabilities(raised)
    weights.append(_difference(shifted, logs))
    if (logs[:, -1] > -np.inf).any():
        weights.append(_difference(_answered(shifted), _answered(logs)))
    weighted = [weighted_score(weight, stated) for weight in weights]
    return [*weighted, agreement_score(stated)] if votes.queries > 1 else weighted


def _outcomes(answers: IntArray, votes: Votes) -> IntArray:
    """Count the outcomes of each query, (queries, classes + 1)."""
    columns = votes.classes + 1
    flat = np.where(answers < 0, votes.classes, answers) + np.arange(votes.queries) * columns
    return np.bincount(flat.ravel(), minlength=votes.queries * columns).reshape(votes.queries, columns)


def _broken_marginal(counts: IntArray, law: FloatArray, votes: Votes, *, samples: int, error: float) -> str | None:
    """Return the outcome farthest outside its interval, in words; all intervals fail with probability `error`."""
    lower, upper = clopper_pearson(counts, samples=samples, error=error / (2 * law.size))
    out = np.maximum(lower - law * (1 + _NUMERICAL), law * (1 - _NUMERICAL) - upper)
    if not (out > 1e-12).any():
        return None
    query, outcome = np.unravel_index(int(np.argmax(out)), out.shape)
    what = "no answer" if outcome == votes.classes else f"answer {outcome}"
    return (
        f"with votes {tuple(votes.counts[query].tolist())}, {what} has frequency "
        f"{counts[query, outcome] / samples:.4g} in the samples and probability {law[query, outcome]:.4g} by the law"
    )


def _difference(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return first minus second where both are finite, else 0."""
    finite = (first > -np.inf) & (second > -np.inf)
    return np.where(finite, np.where(finite, first, 0.0) - np.where(finite, second, 0.0), 0.0)


def _answered(logs: FloatArray) -> FloatArray:
    """Return log probabilities with that of every label replaced by that of any label."""
    some = np.logaddexp.reduce(logs[:, :-1], axis=1)
    return np.column_stack([np.repeat(some[:, None], logs.shape[1] - 1, axis=1), logs[:, -1]])


_GRID = 2**16
_LARGEST = 4.0
"""Larger weights are clipped, because rare outcomes contribute little to a sum."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """of: from answers (runs, queries) to one integer for each run. tail: by the law, P(score >= i), i = 0, 1 ..."""

    of: Callable[[IntArray], IntArray]
    tail: FloatArray

    def probability(self, *, sign: int, threshold: IntArray) -> FloatArray:
        """Return the probability of sign * score >= threshold, to about 1e-10, elementwise."""
        level = threshold if sign > 0 else 1 - threshold
        at_least = np.append(self.tail, 0.0)[np.clip(level, 0, len(self.tail))]
        return at_least if sign > 0 else 1 - at_least


def weighted_score(weights: FloatArray, law: FloatArray) -> Score:
    """The sum over the queries of the weight of each answer, in whole steps of a grid.

    weights, law: of every outcome of every query, (queries, classes + 1), the last column for no answer.
    """
    clipped = np.clip(weights, -_LARGEST, _LARGEST)
    above = clipped - clipped.min(axis=1, keepdims=True)
    longest = float(above.max(axis=1).sum())
    places = np.floor(above * ((_GRID - 1) / longest if longest > 0 else 0.0)).astype(np.int64)
    rows = np.arange(len(places))
    # Index -1 is the last column: no answer.
    return Score(of=lambda answers: places[rows, answers].sum(axis=1), tail=_tail(places, law))


def agreement_score(law: FloatArray) -> Score:
    """Return the score that counts neighbouring queries (first and second, ...) with the same answer."""
    even = len(law) - len(law) % 2
    equal = (law[0:even:2] * law[1:even:2]).sum(axis=1)
    return Score(
        of=lambda answers: (answers[:, 0:even:2] == answers[:, 1:even:2]).sum(axis=1),
        tail=_tail(np.tile([0, 1], (len(equal), 1)), np.column_stack([1 - equal, equal])),
    )


def _tail(places: IntArray, law: FloatArray) -> FloatArray:
    """Return P(sum >= i) for a sum of independent terms with values `places[r]` and probabilities `law[r]`."""
    size = int(places.max(axis=1).sum()) + 1
    length = 2 ** (size - 1).bit_length()
    kinds, often = np.unique(np.column_stack([places, law]), axis=0, return_counts=True)
    transformed = np.ones(length // 2 + 1, dtype=np.complex128)
    for kind, times in zip(kinds, often, strict=True):
        step, mass = np.split(kind, 2)
        transformed *= np.fft.rfft(np.bincount(step.astype(np.int64), weights=mass, minlength=length)) ** int(times)
    mass = np.fft.irfft(transformed, length)[:size]
    return np.clip(np.cumsum(mass[::-1])[::-1], 0.0, 1.0)
