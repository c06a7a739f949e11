"""The audit of a whole run: canaries go into a copy of the private data, and are guessed from the finished release."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.audit.one_run import OneRunAudit, audit_one_run
from ostrakon.features.labels import LabelMap
from ostrakon.features.rowwise import take_rows
from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.registry import MECHANISMS
from ostrakon.noise import require_rng
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.report.earlier import table_of_file
from ostrakon.report.model_card import NOISY_COUNTS
from ostrakon.report.release import publish
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import Outcome, run
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.intervals import Estimates, collect_errors
from ostrakon.run.stages.votes import collect, moment_map, queries_of
from ostrakon.run.steps import Say, plan_of
from ostrakon.run_audit.canaries import WithCanaries, at_ends, plant, targets
from ostrakon.run_audit.rebuilt import rebuilt_differs
from ostrakon.run_audit.released_tables import RunNoise, release_breaks
from ostrakon.run_audit.repeated import COUNTS, RepeatedErrors, repeat
from ostrakon.students.prediction_intervals import edges_of
from ostrakon.teachers.errors import ErrorRule
from ostrakon.validation import InvalidInput, fraction
from ostrakon.votes import BoundedVotes, IntArray, Moments


def audit_run(
    folder: Path,
    task: Task,
    options: Options,
    *,
    rng: np.random.Generator,
    plan: Plan | None = None,
    original: Path | None = None,
    confidence: float = 0.95,
    say: Say = lambda stage: None,
) -> OneRunAudit:
    """Do the run again in the new `folder`, with canaries in a copy of the private data; guess them; bound its epsilon.

    The audited run has its noise, its queries and its delta, on its records and the canaries. The adversary knows
    everything but the canaries' coins: the votes of all other records are counted separately.

    Released sums of features and counts of errors have canaries of their own, in the aggregation alone, which is
    repeated in memory (`ostrakon.run_audit.repeated`). The release must be what its noise log implies, to the last
    byte: it is built again from other private data and the same noise.

    Parameters
    ----------
    folder : Path
    task : Task
    options : Options
    rng : numpy.random.Generator
        Of the canaries' coins (`ostrakon.noise.secure_rng()`).
    plan : Plan, optional
        Of the run that is audited; by default what the options settle.
    original : Path, optional
        Folder of that run, to see whether its noise was used again; by default this is not checked.
    confidence : float, default 0.95
        In (0, 1).
    say : callable
        Receives one sentence at the start of each step.

    Returns
    -------
    OneRunAudit

    Raises
    ------
    InvalidInput
        For a run with trained teachers or of a study, a folder that exists, and too few queries for any canary.

    Notes
    -----
    Guarantee: a run that is mu-Gaussian-DP, as the statement says, is given a bound above its epsilon with probability
    at most 1 - confidence (see `ostrakon.audit.one_run`). The release in `folder` was trained on made-up records and
    must not be published.
    """
    confidence, rng = fraction("confidence", confidence), require_rng(rng)
    if folder.exists():
        raise InvalidInput(f"An audit needs a new folder, got {folder}, which exists.")
    plan = plan_of(task, options) if plan is None else plan
    mu = _require_auditable(plan, task)
    view = view_of(task.X_public, options.representation, seed=options.seed)
    queries = queries_of(view, plan.queries, strategy=options.query_strategy, seed=options.seed)
    sums = moment_map(plan, view, queries)
    canaries = plant(view, queries, classes=2 if isinstance(sums, LabelMap) else plan.classes, rng=rng)
    X = take_rows(task.X_public, queries[canaries.cells])
    private = WithCanaries(base=task.private, X=X, y=targets(canaries.labels, sums))
    digest = hashlib.sha256(canaries.coins.tobytes()).hexdigest()
    with_canaries = dataclasses.replace(task, private=private, fingerprints={**task.fingerprints, "canaries": digest})
    again = _same_numbers(options, plan)
    outcome = run(folder, with_canaries, again, say=say)
    counts = _released(publish(outcome) / NOISY_COUNTS, queries)
    say("Counting the votes without canaries")
    without, _ = collect(outcome.plan, task.private, view, queries, options, folder=folder / "private" / "without")
    assert isinstance(without, BoundedVotes)
    say("Repeating the aggregation")
    off, errors = _errors(outcome, task, view, options, planted=private, folder=folder / "private" / "without")
    repeated = repeat(outcome.plan, without, view, queries, rng=rng, errors=off)
    say("Building the release again from other private data and the same noise")
    contradiction = rebuilt_differs(folder, outcome.plan, with_canaries, again, say=say)
    if contradiction is None:
        stored = RunNoise.of(folder, outcome.plan)
        expected = canaries.added_to(without, sums, view.public[queries])
        most = private.units * (1 if private.unit == "record" else expected.max_contributions)
        error = (1 - _CANARIES) * (1 - confidence) / 2
        contradiction = release_breaks(folder, outcome.plan, stored, expected, most=most, error=error, errors=errors)
        if contradiction is None:
            before = None if original is None else RunNoise.of(original, plan)
            contradiction = repeated.breaks(plan, [run.noise for run in (before, stored) if run], error=error)
    say("Guessing the canaries")
    guessed = {COUNTS: (canaries.scores(counts, without.in_votes, sums), canaries.coins)}
    guessed |= {what: (scores, repeated.coins) for what, scores in repeated.scores.items()}
    certified = _certified(guessed, outcome.plan, mu=mu, confidence=confidence)
    best = max(certified.values(), key=lambda audit: audit.lower_bound)
    bounds = {what: audit.lower_bound for what, audit in certified.items()}
    return dataclasses.replace(best, contradiction=contradiction, confidence=confidence, certified=bounds)


_CANARIES = 0.98
"""Share of the error for the canaries; the tests of the noise have the rest."""


def _errors(
    outcome: Outcome, task: Task, view: View, options: Options, *, planted: WithCanaries, folder: Path
) -> tuple[RepeatedErrors | None, Moments | None]:
    """How far the released student is off on all records, and on these and the canaries; None if that is not counted.

    A canary of a repetition is at the public row whose estimate is farthest from the middle of the range: there the two
    ends of the range are the most different errors.
    """
    plan, noise = outcome.plan, outcome.plan.mechanism.error_noise
    if noise is None:
        return None, None
    released = outcome.student
    transform = None if released.representation is None else released.representation.transform
    seen = task.X_public if transform is None else view.public
    estimates = Estimates.of(released.student, transform, seen=seen)
    without = collect_errors(plan, task.private, estimates, options, folder=folder)
    asked, said = ErrorRule(edges=edges_of(plan.teachers, noise)), estimates(planted.X)
    of_canaries = asked.contributions_of((np.arange(len(said)), said, planted.y)).counts
    far = said[[int(np.abs(said - 0.5).argmax())]]
    canary = np.stack(
        [asked.contributions_of((np.zeros(1, int), far, at_ends(np.array([end])))).counts for end in (0, 1)]
    )
    together = Moments(without.counts + of_canaries, teachers=plan.teachers)
    return RepeatedErrors(without=without, canary=canary), together


def _require_auditable(plan: Plan, task: Task) -> float:
    """The mu of a run that canaries can audit; refuses any other."""
    mechanism = plan.mechanism
    if not mechanism.per_record:
        raise InvalidInput(
            f"A run can be audited by canaries if every record is a teacher, "
            f"got {mechanism.name}; poison its teachers instead (audit_teachers)."
        )
    if plan.levels:
        raise InvalidInput(
            "A run can be audited by canaries where all records weigh the same; `ostrakon audit --run` attacks every "
            "level of consent at its own epsilon."
        )
    if task.domain is not None:
        raise InvalidInput("A run can be audited by canaries if public rows are given: canaries are copies of them.")
    # The canaries' labels are drawn, so data sets differ in the content of a record.
    cost = mechanism.under("replace").run_cost(queries=plan.queries)
    if plan.trained or cost is None or cost.mu is None or mechanism.name not in MECHANISMS:
        raise InvalidInput(
            f"A run can be audited by canaries where one operator has all the rows and adds the noise, got "
            f"{mechanism.name}: the rows of a study stay with its owners."
        )
    return cost.mu


def _same_numbers(options: Options, plan: Plan) -> Options:
    """Options that settle what `plan` settles. A copy that is never published spends no budget."""
    return dataclasses.replace(
        options,
        ledger=None,
        budget=None,
        ledger_account=None,
        epsilon=None,
        mechanism=plan.mechanism.name,
        parameters=plan.mechanism.parameters(),
        queries=plan.queries,
        delta=plan.delta,
    )


def _certified(
    guessed: dict[str, tuple[FloatArray, IntArray]], plan: Plan, *, mu: float, confidence: float
) -> dict[str, OneRunAudit]:
    """The audit of each released table, from (scores, coins) of its canaries."""
    return {
        what: audit_one_run(
            scores,
            coins,
            mechanism=plan.mechanism.name,
            claimed=plan.guarantee_under("replace")[0],
            delta=plan.delta,
            mu=mu,
            confidence=1 - _CANARIES * (1 - confidence) / len(guessed),
        )
        for what, (scores, coins) in guessed.items()
    }


def _released(path: Path, queries: Any) -> FloatArray:
    """The noisy counts of a release, (queries, classes), which must be about these public rows."""
    rows, counts = table_of_file(path)
    if not np.array_equal(np.array(rows, np.int64), queries):
        raise InvalidInput(
            f"{path} must list the queries of the canaries, but the run chose others: its representation is "
            "not the same when it is learned twice; name one that is."
        )
    return counts
