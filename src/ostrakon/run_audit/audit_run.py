"""The audit of a whole run: canaries go into a copy of the private data, and are guessed from the finished release."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.audit.one_run import OneRunAudit, audit_one_run
from ostrakon.features.rowwise import take_rows
from ostrakon.mechanisms.base import FloatArray
from ostrakon.mechanisms.registry import MECHANISMS
from ostrakon.noise import require_rng
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.report.model_card import NOISY_COUNTS
from ostrakon.report.release import publish
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.run.steps import Say, plan_of
from ostrakon.run_audit.canaries import WithCanaries, plant
from ostrakon.run_audit.released_tables import release_breaks, table_of_file
from ostrakon.validation import InvalidInput, fraction


def audit_run(
    folder: Path,
    task: Task,
    options: Options,
    *,
    rng: np.random.Generator,
    plan: Plan | None = None,
    asked: dict[str, Any] | None = None,
    confidence: float = 0.95,
    say: Say = lambda stage: None,
) -> OneRunAudit:
    """Do the run again in the new `folder`, with canaries in a copy of the private data; guess them; bound its epsilon.

    rng: of the canaries' coins (`ostrakon.noise.secure_rng()`). plan: of the run that is audited; default: what the
    options settle. The audited run has its noise, its queries and its delta, on so many more records as there
    are canaries. Beside the canaries' coins the adversary knows everything: the other records' votes are counted apart.

    Guarantee: a run that is mu-Gaussian-DP, as the statement says, is given a bound above its epsilon with probability
    at most 1 - confidence (see `ostrakon.audit.one_run`). The release in `folder` is made to be attacked: it teaches
    from made-up records and must not be published.
    Errors: `InvalidInput` for a run with trained teachers or of a study, a folder that exists, queries too few to plant
    any canary.
    """
    confidence, rng = fraction("confidence", confidence), require_rng(rng)
    if folder.exists():
        raise InvalidInput(f"An audit needs a new folder, got {folder}, which exists.")
    plan = plan_of(task, options) if plan is None else plan
    mechanism = plan.mechanism
    if not mechanism.per_record:
        raise InvalidInput(
            f"A run can be audited by canaries where every record is a teacher, "
            f"got {mechanism.name}; poison its teachers instead (audit_teachers)."
        )
    if task.synthetic is not None:
        raise InvalidInput(
            "A run can be audited by canaries where public rows are given: of synthetic ones canaries move some."
        )
    cost = mechanism.run_cost(queries=plan.queries)
    if plan.trained or cost is None or cost.mu is None or mechanism.name not in MECHANISMS:
        raise InvalidInput(
            f"A run can be audited by canaries where one operator has all the rows and adds the noise, got "
            f"{mechanism.name}: the rows of a study stay with its owners."
        )
    view = view_of(task.X_public, options.representation, seed=options.seed)
    queries = queries_of(view, plan.queries, strategy=options.query_strategy, seed=options.seed)
    canaries = plant(view, queries, classes=plan.classes, rng=rng)
    X = take_rows(task.X_public, queries[canaries.cells])
    private = WithCanaries(base=task.private, X=X, y=canaries.labels)
    # The audited plan's numbers, given: nothing is settled again. A copy that is never published spends no budget.
    again = dataclasses.replace(
        options,
        ledger=None,
        budget=None,
        ledger_account=None,
        epsilon=None,
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        queries=plan.queries,
        delta=plan.delta,
    )
    digest = hashlib.sha256(canaries.coins.tobytes()).hexdigest()
    with_canaries = dataclasses.replace(task, private=private, fingerprints={**task.fingerprints, "canaries": digest})
    outcome = run(folder, with_canaries, again, asked=asked, say=say)
    counts = _released(publish(outcome) / NOISY_COUNTS, queries)
    error = 1 - confidence
    say("Guessing the canaries")
    without, _ = collect(plan, task.private, view, queries, options, folder=folder / "private" / "without")
    found = audit_one_run(
        canaries.scores(counts, without.counts),
        canaries.coins,
        mechanism=mechanism.name,
        claimed=outcome.plan.bound.epsilon,
        delta=plan.delta,
        mu=cost.mu,
        confidence=1 - _CANARIES * error,
    )
    planted = np.zeros_like(without.counts)
    np.add.at(planted, (canaries.cells, canaries.labels), 1)
    contradiction = release_breaks(folder, outcome.plan, without, planted, error=(1 - _CANARIES) * error)
    return dataclasses.replace(found, contradiction=contradiction, confidence=confidence)


_CANARIES = 0.98
"""Share of the error for the canaries; the tests of the released tables have the rest."""


def _released(path: Path, queries: Any) -> FloatArray:
    """The noisy counts of a release, (queries, classes), which must be about these public rows."""
    rows, counts = table_of_file(path)
    if not np.array_equal(rows, queries):
        raise InvalidInput(
            f"{path} must hold the queries that the canaries lie at, but the run chose others: its representation is "
            "not the same when it is learned twice; name one that is."
        )
    return counts
