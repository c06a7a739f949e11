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


def law_contradiction(
    runs: SubjectRuns, law: Mechanism, votes: Votes, *, samples: int, error: float, rng: np.random.Generator
) -> str | None:
    """Return a contradiction between answers to `votes` and the law, in words; None without one.

    The frequency of each outcome of each query is tested by Clopper and Pearson's bounds. If the queries are
    independent, the frequency of an event of whole runs is compared with its exact probability. A pilot chooses the
    event among three kinds: answers weighted by the difference between the pilot and the law; answers weighted by the
    effect of one more vote, to detect an offset; and agreement of equal queries, to detect shared noise. `samples`
    fresh runs are counted.

    Guarantee: a sampler of exactly this law is refuted with probability at most `error`.
    """
    stated = np.exp(for_rows(law, votes.queries).log_probabilities(votes))
    score, sign, threshold = (None, 1, 0)
    if not isinstance(law, StatefulMechanism):
        pilot = np.concatenate(list(runs.draw(votes, max(400, samples // 5), rng)))
        score, sign, threshold = _choose_event(pilot, law, votes, stated)
    counts = np.zeros(stated.shape, dtype=np.int64)
    hits = 0
    for answers in runs.draw(votes, samples, rng):
        counts += _outcomes(answers, votes)
        if score is not None:
            hits += int((sign * score.of(answers) >= threshold).sum())
    contradiction = _wrong_frequency(counts, stated, votes, samples=samples, error=error / 2)
    if contradiction is not None or score is None:
        return contradiction
    p = float(score.probability(sign=sign, threshold=np.array(threshold)))
    lower, upper = clopper_pearson(hits, samples=samples, error=error / 4)
    if lower <= p + _NUMERICAL and p - _NUMERICAL <= upper:
        return None
    return f"a set of outputs has frequency {hits / samples:.4g} in the samples and a stated probability of {p:.4g}"


def _choose_event(pilot: IntArray, law: Mechanism, votes: Votes, stated: FloatArray) -> "tuple[Score, int, int]":
    """Return (score, sign, threshold) of the event sign * score >= threshold that contradicts the law most in a
    pilot."""
    half = len(pilot) // 2
    largest_gain, best = -1.0, None
    for score in _scores(pilot[:half], law, votes, stated):
        values = score.of(pilot[half:])
        for sign in (1, -1):
            levels, multiplicity = np.unique(sign * values, return_counts=True)
            hits = np.cumsum(multiplicity[::-1])[::-1]
            share = np.maximum(hits - np.sqrt(hits), 0.0) / len(values)
            expected = np.clip(score.probability(sign=sign, threshold=levels), _NUMERICAL, 1.0)
            gains = np.where(share > expected, rel_entr(share, expected) + rel_entr(1 - share, 1 - expected), 0.0)
            index = int(np.argmax(gains))
            if gains[index] > largest_gain:
                largest_gain, best = float(gains[index]), (score, sign, int(levels[index]))
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
        weights.append(_difference(_answer_log_probabilities(shifted), _answer_log_probabilities(logs)))
    weighted = [weighted_score(weight, stated) for weight in weights]
    return [*weighted, agreement_score(stated)] if votes.queries > 1 else weighted


def _outcomes(answers: IntArray, votes: Votes) -> IntArray:
    """Count the outcomes of each query, (queries, classes + 1)."""
    columns = votes.classes + 1
    flat = np.where(answers < 0, votes.classes, answers) + np.arange(votes.queries) * columns
    return np.bincount(flat.ravel(), minlength=votes.queries * columns).reshape(votes.queries, columns)


def _wrong_frequency(counts: IntArray, law: FloatArray, votes: Votes, *, samples: int, error: float) -> str | None:
    """Return the outcome farthest outside its interval, in words; all intervals fail with probability `error`."""
    lower, upper = clopper_pearson(counts, samples=samples, error=error / (2 * law.size))
    excess = np.maximum(lower - law * (1 + _NUMERICAL), law * (1 - _NUMERICAL) - upper)
    if not (excess > 1e-12).any():
        return None
    query, outcome = np.unravel_index(int(np.argmax(excess)), excess.shape)
    what = "no answer" if outcome == votes.classes else f"answer {outcome}"
    return (
        f"with votes {tuple(votes.counts[query].tolist())}, {what} has frequency "
        f"{counts[query, outcome] / samples:.4g} in the samples and a stated probability of {law[query, outcome]:.4g}"
    )


def _difference(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return first minus second where both are finite, else 0."""
    finite = (first > -np.inf) & (second > -np.inf)
    return np.where(finite, np.where(finite, first, 0.0) - np.where(finite, second, 0.0), 0.0)


def _answer_log_probabilities(logs: FloatArray) -> FloatArray:
    """Return log probabilities with that of every label replaced by that of any label."""
    any_label = np.logaddexp.reduce(logs[:, :-1], axis=1)
    return np.column_stack([np.repeat(any_label[:, None], logs.shape[1] - 1, axis=1), logs[:, -1]])


_GRID = 2**16
_MAX_WEIGHT = 4.0
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
    """Return the sum over the queries of the weight of each answer, in whole steps of a grid.

    weights, law: of every outcome of every query, (queries, classes + 1), the last column for no answer.
    """
    clipped = np.clip(weights, -_MAX_WEIGHT, _MAX_WEIGHT)
    shifted_weights = clipped - clipped.min(axis=1, keepdims=True)
    total = float(shifted_weights.max(axis=1).sum())
    positions = np.floor(shifted_weights * ((_GRID - 1) / total if total > 0 else 0.0)).astype(np.int64)
    rows = np.arange(len(positions))
    # Index -1 is the last column: no answer.
    return Score(of=lambda answers: positions[rows, answers].sum(axis=1), tail=_tail(positions, law))


def agreement_score(law: FloatArray) -> Score:
    """Return the score that counts neighbouring queries (first and second, ...) with the same answer."""
    even = len(law) - len(law) % 2
    equal = (law[0:even:2] * law[1:even:2]).sum(axis=1)
    return Score(
        of=lambda answers: (answers[:, 0:even:2] == answers[:, 1:even:2]).sum(axis=1),
        tail=_tail(np.tile([0, 1], (len(equal), 1)), np.column_stack([1 - equal, equal])),
    )


def _tail(positions: IntArray, law: FloatArray) -> FloatArray:
    """Return P(sum >= i) for a sum of independent terms with values `positions[r]` and probabilities `law[r]`."""
    size = int(positions.max(axis=1).sum()) + 1
    length = 2 ** (size - 1).bit_length()
    kinds, multiplicity = np.unique(np.column_stack([positions, law]), axis=0, return_counts=True)
    transformed = np.ones(length // 2 + 1, dtype=np.complex128)
    for kind, times in zip(kinds, multiplicity, strict=True):
        step, mass = np.split(kind, 2)
        transformed *= np.fft.rfft(np.bincount(step.astype(np.int64), weights=mass, minlength=length)) ** int(times)
    mass = np.fft.irfft(transformed, length)[:size]
    return np.clip(np.cumsum(mass[::-1])[::-1], 0.0, 1.0)
