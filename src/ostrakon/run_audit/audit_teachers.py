"""The audit of a run with trained teachers: all private records but one are poisoned, and aggregation is repeated."""

import dataclasses
from typing import Any

import numpy as np

from ostrakon.audit import AuditResult, Finding, Pair, audit, worst_neighbours
from ostrakon.audit.result import ONE_RECORD
from ostrakon.data.partition import assign_teachers, key_from_seed
from ostrakon.features.rowwise import take_rows
from ostrakon.mechanisms.base import FloatArray, StatefulMechanism
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import ask
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.votes import collect
from ostrakon.run.steps import Say
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes


def audit_teachers(
    task: Task,
    options: Options,
    plan: Plan,
    *,
    rng: np.random.Generator,
    samples: int = 30_000,
    confidence: float = 0.95,
    say: Say = lambda stage: None,
) -> AuditResult:
    """Attack the run of `plan` with poisoned teachers, and certify a lower bound on its epsilon.

    The adversary chooses all private records but one; the public rows are those of the task. Each teacher learns one
    record and predicts its label for every query. The numbers of teachers per class have the largest cost by the
    mechanism's law. Two worlds differ in the label of one record, which moves its teacher's vote on every query. In
    each world the run's own code splits the records, trains the teachers and collects their votes; then it aggregates
    `samples` times with fresh noise, in memory. No private data and no run's folder are read, and nothing is written.
    Between the two rounds of an interactive run, the student's scores are uniform.

    samples, confidence: as in `ostrakon.audit.audit`. rng: of the noise (`ostrakon.noise.secure_rng()`).

    Guarantee: that of `ostrakon.audit.audit`; besides, a record that moves more than one teacher's vote refutes the
    run. Training on many records, the private data and the student, which sees released labels alone, are not tested.
    Errors: `InvalidInput` for per-record teachers, and for a run behind a gate.
    Source: Chadha, Jagielski, Papernot, Choquette-Choo and Nasr 2024 (arXiv 2402.09403), sections 3 and 4.
    """
    if plan.per_record:
        raise InvalidInput(f"Poisoned teachers are for runs that train teachers, got {plan.mechanism.name}.")
    if plan.gate is not None:
        raise InvalidInput(
            "A run behind a gate cannot be repeated thousands of times; audit the mechanism itself with --mechanism."
        )
    view = view_of(task.X_public, options.representation, seed=options.seed)
    queries = queries_of(view, plan.rows, strategy=options.query_strategy, seed=options.seed)
    users = _choose_users(plan.teachers, seed=options.seed)
    say(f"Poisoning {plan.teachers} teachers")
    pairs: list[Pair] = []
    for counts in _histograms(plan):
        before = np.repeat(np.arange(plan.classes), counts[0])
        after = before.copy()
        after[np.argmax(before == np.argmax(counts[0] - counts[1]))] = np.argmax(counts[1] - counts[0])
        worlds = [_votes(task, options, plan, view, queries, users=users, labels=labels) for labels in (before, after)]
        pairs.append((worlds[0], worlds[1]))
    contradiction = next(filter(None, map(_more_than_one_vote, pairs)), None)
    if contradiction is not None:
        return _refuted(plan, pairs[0], contradiction, samples=samples, confidence=confidence)
    say("Repeating the aggregation")

    def aggregation(votes: Votes, source: np.random.Generator) -> IntArray:
        return ask(plan, votes, log=Log(), rng=source, interim_scores=_uniform_scores(plan.classes)).labels

    result = audit(
        aggregation,
        # Where a cap or a second round shapes the answers, their law is not the mechanism's.
        like=plan.mechanism if plan.max_answers is None and not plan.interactive else None,
        neighbours=pairs,
        claimed=plan.guarantee.epsilon,
        delta=plan.guarantee.delta,
        samples=samples,
        confidence=confidence,
        rng=rng,
    )
    findings = (Finding(test=ONE_RECORD, detail=None), *result.findings)
    return dataclasses.replace(result, mechanism=_name(plan), findings=findings)


def _histograms(plan: Plan) -> list[tuple[IntArray, IntArray]]:
    """Return histograms of all queries in the two worlds, those of the largest cost first."""
    pairs = worst_neighbours(
        plan.mechanism, teachers=plan.teachers, classes=plan.classes, queries=plan.queries, delta=plan.delta
    )
    # A teacher of one class predicts it everywhere, so histograms must be equal on all queries.
    equal = [pair for pair in pairs if all((votes.counts == votes.counts[0]).all() for votes in pair)]
    candidates = [(before.counts[0], after.counts[0]) for before, after in equal]
    if isinstance(plan.mechanism, StatefulMechanism):  # no law says what costs most
        return candidates
    # What costs most where the noise is as stated, and where a missing noise shows: a tie, and the threshold.
    threshold = getattr(plan.mechanism, "threshold", None)
    tie = min(candidates, key=lambda pair: abs(int(pair[0][0] - pair[0][1])))
    edge = candidates[1] if threshold is None else min(candidates, key=lambda pair: abs(pair[0].max() - threshold))
    chosen = [candidates[0], candidates[1], tie, edge]
    return list({tuple(pair[0].tolist() + pair[1].tolist()): pair for pair in chosen}.values())


def _choose_users(teachers: int, *, seed: int) -> IntArray:
    """Return a user for each teacher, by the run's own split."""
    users = 64
    while True:
        users *= 2
        shards = assign_teachers(np.arange(users), teachers, key=key_from_seed(seed))
        teachers_present, first = np.unique(shards, return_index=True)
        if len(teachers_present) == teachers:
            return first.astype(np.int64)


def _votes(
    task: Task, options: Options, plan: Plan, view: View, queries: IntArray, *, users: IntArray, labels: IntArray
) -> Votes:
    """Return the votes of teachers that each learned one public row with a label chosen by the adversary."""
    rows = np.arange(plan.teachers) % task.pool
    # Of several labels, a record has all or none.
    labels = labels if plan.labels is None else np.repeat(labels[:, None], plan.labels, axis=1)
    poison = Rows(X=take_rows(task.X_public, rows), y=labels, users=users)
    return collect(plan, poison, view, queries, options)[0]


def _more_than_one_vote(pair: Pair) -> str | None:
    differences = np.abs(pair[0].counts - pair[1].counts).sum(axis=1)
    if (differences <= 2).all():
        return None
    query = int(np.argmax(differences))
    return f"the label of one record moved {differences[query] // 2} votes on query {query}"


def _refuted(plan: Plan, pair: Pair, contradiction: str, *, samples: int, confidence: float) -> AuditResult:
    first, second = (tuple(int(count) for count in votes.counts[0]) for votes in pair)
    return AuditResult(
        mechanism=_name(plan),
        claimed=plan.guarantee.epsilon,
        lower_bound=0.0,
        confidence=confidence,
        delta=plan.guarantee.delta,
        queries=plan.queries,
        samples=samples,
        neighbours=(first, second),
        seen=(0, 0),
        findings=(Finding(test=ONE_RECORD, detail=contradiction),),
    )


def _uniform_scores(classes: int) -> Any:
    def scores(answered: IntArray, labels: IntArray, asked: IntArray) -> FloatArray:
        return np.full((len(asked), classes), 1 / classes)

    return scores


def _name(plan: Plan) -> str:
    return f"the run ({plan.mechanism.name}, {plan.teachers} teachers)"
