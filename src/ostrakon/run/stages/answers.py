"""Asking the teachers: one round of noisy answers, or two with a student between them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ostrakon.accounting.gate.gate import Gate
from ostrakon.features.rowwise import take_rows
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.mechanisms.interactive_gnmax import reinforce
from ostrakon.planning.plan import Plan, second_round
from ostrakon.run.noise_log import Log, OneDraw
from ostrakon.run.stages.learning import Learning
from ostrakon.statements.statement import Round
from ostrakon.students.selection import Released
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Votes

CONFIDENCE = 0.95
"""gamma of Algorithm 2: the probability above which the student's own label is used if the teachers agree with it."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The released results of the noisy aggregation.

    Parameters
    ----------
    labels : array of int, shape (queries,)
        The class released for each query, -1 for no answer.
    taught : array of int, shape (queries,)
        Training labels of the final student: `labels`, and confident labels of the first round's student for refused
        queries.
    rounds : tuple of Round
    secure : bool
        Whether all noise came from the cryptographic source.
    passed : bool, optional
        The decision of the gate; None without one.
    counts : array of float, shape (queries, classes), optional
        Noisy histograms, if the mechanism releases them.
    moments : array of float, shape (directions, classes), optional
        Noisy sums of features by class, in votes, if the mechanism releases them.
    errors : array of float, optional
        Noisy counts of the errors of the student, in votes, if they were counted: of a quantity by size, shape
        (bins, 1); of classes right and wrong predictions, shape (classes or 1, 2).
    corrections : array of float, shape (directions, classes), optional
        Noisy sums of features times the errors of a first student, in votes, which correct it.
    histogram : array of float, shape (bins, 1), optional
        Noisy histogram of a quantity, in votes, which narrowed its range before everything else.
    """

    labels: IntArray
    taught: IntArray
    rounds: tuple[Round, ...]
    secure: bool
    passed: bool | None = None
    counts: FloatArray | None = None
    moments: FloatArray | None = None
    errors: FloatArray | None = None
    corrections: FloatArray | None = None
    histogram: FloatArray | None = None

    def as_bytes(self) -> bytes:
        """Return everything that was drawn."""
        tables = (self.histogram, self.counts, self.moments, self.errors, self.corrections)
        return self.labels.tobytes() + b"".join(b"" if table is None else table.tobytes() for table in tables)


NOTHING = Answers(labels=np.zeros(0, np.int64), taught=np.zeros(0, np.int64), rounds=(), secure=True)
"""Before anything is drawn."""


def answer_queries(
    plan: Plan,
    votes: Votes,
    *,
    queries: IntArray,
    learning: Learning,
    log: Log,
    rng: np.random.Generator,
) -> Answers:
    """Answer the chosen queries; between two rounds, a student predicts the remaining ones."""

    def interim(answered: NDArray[Any], labels: IntArray, others: NDArray[Any]) -> FloatArray:
        released = Released(queries=queries[answered], counts=np.eye(plan.classes)[labels])
        candidate = learning.interim(classes=plan.classes, queries=len(answered))
        rows = learning.rows(candidate)
        student = released.fit_student(clone(candidate.student), rows)
        proba = student.predict_proba(take_rows(rows, queries[others]))
        scores = np.zeros((len(others), plan.classes))
        scores[:, np.asarray(student.classes_)] = proba
        return scores / scores.sum(axis=1, keepdims=True)

    return ask(plan, votes, log=log, rng=rng, interim_scores=interim)


def ask(
    plan: Plan,
    votes: Votes,
    *,
    log: Log,
    rng: np.random.Generator,
    interim_scores: Callable[[NDArray[Any], IntArray, NDArray[Any]], FloatArray],
) -> Answers:
    """Draw the noisy answers to `votes` (queries, classes), once; the log stores them.

    interim_scores(answered query numbers, their labels, query numbers): probabilities over all classes, shape
    (query numbers, classes), of a student trained on public data and these released labels. For the second round.

    Guarantee: `plan.guarantee`, for both rounds together: they share the cap on answers.
    """
    if votes.queries != plan.queries:
        raise InvalidInput(f"votes must be on the {plan.queries} queries that the plan pays for, got {votes.queries}.")
    if plan.gate is not None:
        return _ask_through_gate(plan.gate, votes, log=log, rng=rng)
    if plan.mechanism.releases_counts:
        return _release_noisy_counts(plan.mechanism, votes, log=log, rng=rng)
    if not plan.interactive:
        labels, secure = log.draw("round-1", votes, plan.mechanism, rng, max_answers=plan.max_answers)
        return Answers(
            labels=labels, taught=labels, rounds=(_round(plan.mechanism, labels, plan.max_answers),), secure=secure
        )
    half = (votes.queries + 1) // 2
    first, secure_first = log.draw("round-1", votes[:half], plan.mechanism, rng, max_answers=plan.max_answers)
    answered = np.flatnonzero(first != NO_ANSWER)
    others = np.arange(half, votes.queries)

    def scores() -> FloatArray:
        if not len(answered):
            return np.full((len(others), votes.classes), 1 / votes.classes)
        return interim_scores(answered, first[answered], others)

    p = log.keep("scores-2", scores)
    remaining = None if plan.max_answers is None else plan.max_answers - len(answered)
    mechanism = second_round(plan.mechanism, p)
    second, secure_second = log.draw("round-2", votes[half:], mechanism, rng, max_answers=remaining)
    return Answers(
        labels=np.concatenate([first, second]),
        taught=np.concatenate([first, reinforce(second, p, confidence=CONFIDENCE)]),
        rounds=(_round(plan.mechanism, first, plan.max_answers), _round(mechanism, second, remaining)),
        secure=secure_first and secure_second,
    )


def _decision(gate: Gate) -> OneDraw:
    """Return a gate's noisy test as a draw: 1 for every query if it passed, else -1."""

    def decide(votes: Votes, rng: np.random.Generator) -> IntArray:
        return np.full(votes.queries, 1 if gate.decide(votes, rng) else NO_ANSWER)

    return OneDraw(name="gate", sample=decide, parameters=lambda: {**gate.as_dict(), "delta": gate.delta})


def _ask_through_gate(gate: Gate, votes: Votes, *, log: Log, rng: np.random.Generator) -> Answers:
    """Do the same as `Gate.release`; the decision and the answers are each drawn once and stored."""
    decided, secure = log.draw("gate-1", votes, _decision(gate), rng)
    passed = bool((decided == 1).all())
    allowed = votes.queries if passed else gate.prefix
    labels = np.full(votes.queries, NO_ANSWER, np.int64)
    if allowed:
        mechanism = gate.mechanism.for_queries(np.arange(allowed))
        labels[:allowed], secure_answers = log.draw("round-1", votes[:allowed], mechanism, rng)
        secure = secure and secure_answers
    rounds = (_round(gate.mechanism, labels[:allowed], None),)
    return Answers(labels=labels, taught=labels, rounds=rounds, secure=secure, passed=passed)


def rounded_draw(name: str, draw: Callable[[Any, np.random.Generator], FloatArray], mechanism: Mechanism) -> OneDraw:
    """Return the draw of a noisy table in whole steps of its public grid."""
    return OneDraw(
        name=name,
        sample=lambda votes, rng: np.rint(draw(votes, rng) * STEPS).astype(np.int64),
        parameters=mechanism.parameters,
    )


def _release_noisy_counts(mechanism: Mechanism, votes: Votes, *, log: Log, rng: np.random.Generator) -> Answers:
    """Return noisy counts, drawn once and stored, and their largest classes, under one guarantee."""
    drawn, secure = log.draw("round-1", votes, rounded_draw("noisy counts", mechanism.noisy_counts, mechanism), rng)
    moments = None
    if mechanism.moment_noise is not None:
        if not isinstance(votes, BoundedVotes) or votes.moments is None:
            raise InvalidInput(f"votes for {mechanism.name} must come with sums of features, got {votes!r}.")
        draw_sums = rounded_draw("noisy moments", mechanism.noisy_moments, mechanism)
        sums, secure_sums = log.draw("moments-1", votes.moments, draw_sums, rng)
        moments, secure = sums / STEPS, secure and secure_sums
    counts = drawn / STEPS
    labels = counts.argmax(axis=1)
    rounds = (_round(mechanism, labels, None),)
    return Answers(labels=labels, taught=labels, rounds=rounds, secure=secure, counts=counts, moments=moments)


def _round(mechanism: Any, labels: IntArray, cap: int | None) -> Round:
    answered = int((labels != NO_ANSWER).sum())
    return Round(mechanism=mechanism, queries=len(labels), answered=answered, max_answers=cap)
