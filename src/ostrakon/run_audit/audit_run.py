"""The audit of a run: a copy of the private data gets canaries, whose labels are guessed from the finished release."""

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
from ostrakon.run.stages.corrections import rule_of_classes, rule_of_quantity
from ostrakon.run.stages.estimates import NOT_COPIED
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.narrowing import histogram_rule, without_features
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.student_errors import Estimates, collect_sums, error_rule
from ostrakon.run.stages.votes import collect, moment_map
from ostrakon.run.steps import Say, plan_of
from ostrakon.run_audit.canaries import WithCanaries, end_steps, plant, targets
from ostrakon.run_audit.rebuilt import first_difference
from ostrakon.run_audit.released_tables import RunNoise, check_release
from ostrakon.run_audit.repeated import CORRECTION_SUMS, COUNTS, ERROR_COUNTS, HISTOGRAM_COUNTS, RepeatedErrors, repeat
from ostrakon.students.calibration import uncalibrated
from ostrakon.students.share_student import ShareStudent
from ostrakon.teachers.corrections import CorrectionRule
from ostrakon.teachers.errors import ErrorRule
from ostrakon.validation import InvalidInput, fraction, quote
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Moments


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
    """Repeat a run in a new folder with canaries in a copy of its private data, and bound its epsilon by guessing them.

    The repeated run has the same noise, queries and delta, on the records and the canaries. The adversary knows
    everything except the canaries' coins, including the votes of all other records.

    Released sums of features and counts of errors have their own canaries in repetitions of the aggregation in memory
    (`ostrakon.run_audit.repeated`). The release must follow from its noise log to the last byte: it is built again from
    other private data and the same noise.

    Parameters
    ----------
    folder : Path
        A new folder. Its release was trained on synthetic records and must not be published.
    task : Task
    options : Options
    rng : numpy.random.Generator
        Draws the canaries' coins (`ostrakon.noise.secure_rng()`).
    plan : Plan, optional
        Plan of the audited run; by default that of `options`.
    original : Path, optional
        Folder of the audited run, to test whether its noise is reused; by default this is not tested.
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
        For a run with trained teachers or of a study, a folder that exists, too few queries for any canary, and a
        student that cannot be copied where its errors are counted.

    Notes
    -----
    Guarantee: for a run that is mu-Gaussian-DP, as its statement says, the bound exceeds its epsilon with probability
    at most 1 - confidence (see `ostrakon.audit.one_run`).
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
    same_options = _fixed_options(options, plan)
    say(f"Repeating the run with {len(canaries.cells):,} canaries (made-up records) beside the private rows")
    outcome = run(folder, with_canaries, same_options, say=say)
    if outcome.plan.tuned.get("errors") == NOT_COPIED:
        raise InvalidInput(
            "An audit needs a student that copy.deepcopy copies after its fit, or a mechanism with errors=0, got "
            f"{quote(options.student)}."
        )
    sums = moment_map(outcome.plan, view, queries)  # with canaries there are more records, and maybe more directions
    counts = _released_counts(publish(outcome) / NOISY_COUNTS, queries)
    say("Counting the votes without canaries")
    votes_folder = folder / "private" / "without"
    without, _ = collect(outcome.plan, task.private, view, queries, options, folder=votes_folder)
    assert isinstance(without, BoundedVotes)
    say("Repeating the aggregation")
    base_errors, errors, too_long = _sum_errors(outcome, task, view, options, planted=private, folder=votes_folder)
    repeated = repeat(outcome.plan, without, view, queries, rng=rng, errors=base_errors)
    say("Building the release again from other private data and the same noise")
    contradiction = too_long or first_difference(folder, outcome.plan, with_canaries, same_options, say=say)
    if contradiction is None:
        noise = RunNoise.of(folder, outcome.plan)
        expected = canaries.add_to(without, sums, view.public[queries])
        most = private.units * (1 if private.unit == "record" else expected.max_contributions)
        error = (1 - _CANARIES) * (1 - confidence) / 2
        contradiction = check_release(folder, outcome.plan, noise, expected, most=most, error=error, errors=errors)
        if contradiction is None:
            original_noise = None if original is None else RunNoise.of(original, plan)
            contradiction = repeated.breaks(plan, [run.noise for run in (original_noise, noise) if run], error=error)
    say("Guessing the canaries")
    evidence = {COUNTS: (canaries.scores(counts, without.in_votes, sums), canaries.coins)}
    evidence |= {what: (scores, repeated.coins) for what, scores in repeated.scores.items()}
    certified = _audits_by_table(evidence, outcome.plan, mu=mu, confidence=confidence)
    best = max(certified.values(), key=lambda audit: audit.lower_bound)
    bounds = {what: audit.lower_bound for what, audit in certified.items()}
    return dataclasses.replace(best, contradiction=contradiction, confidence=confidence, certified=bounds)


_CANARIES = 0.98
"""Share of the error for the canaries; the rest is for the tests of the noise."""


def _sum_errors(
    outcome: Outcome, task: Task, view: View, options: Options, *, planted: WithCanaries, folder: Path
) -> tuple[dict[str, RepeatedErrors], dict[str, Moments], str | None]:
    """Sum the errors of the students without and with canaries, by released table; also return a contradiction, if a
    canary may add more than a vote to the corrections.

    Repetitions have a canary at a public row where its two targets differ in their errors: for a quantity, that whose
    estimate is farthest from the middle of the range; for classes, one that is given one of them; for corrections, that
    where they differ most.
    """
    plan, released = outcome.plan, outcome.student
    transform = None if released.representation is None else released.representation.transform
    seen = task.X_public if transform is None else view.public
    ends = end_steps(np.arange(2)) if plan.target == "quantity" else np.arange(2)
    base, total, too_long = dict[str, RepeatedErrors](), dict[str, Moments](), None

    def add(what: str, rule: ErrorRule | CorrectionRule, without: Moments, inputs: FloatArray, at: int) -> None:
        planted_sums = rule.contributions_of((np.arange(len(inputs)), inputs, planted.y)).counts
        canary = [rule.contributions_of((np.zeros(1, int), inputs[[at]], ends[[end]])).counts for end in (0, 1)]
        base[what] = RepeatedErrors(without=without, canary=np.stack(canary))
        total[what] = Moments(without.counts + planted_sums, teachers=plan.teachers)

    if plan.mechanism.histogram_noise is not None:
        nothing = np.zeros((len(planted.y), 1))
        assert task.quantity is not None
        counts = histogram_rule(plan, task.quantity.zero)
        without = collect_sums(plan, task.private, counts, without_features, seed=options.seed, folder=folder)
        add(HISTOGRAM_COUNTS, counts, without, nothing, 0)
    if plan.mechanism.correction_noise is not None:
        corrected: Any = uncalibrated(released.student)
        if plan.target == "quantity":
            first = corrected.source if isinstance(corrected, ShareStudent) else corrected
            correction, says = rule_of_quantity(first)
        else:
            (correction, says), first = rule_of_classes(corrected.directions, plan.classes), corrected.student
        inputs = Estimates.of(first, transform, seen=seen, says=says)
        without = collect_sums(plan, task.private, correction, inputs, seed=options.seed, folder=folder)
        rows = inputs(planted.X)
        at, too_long = _longest(correction, rows)
        add(CORRECTION_SUMS, correction, without, rows, at)
    if plan.mechanism.error_noise is not None:
        estimates = Estimates.of(released.student, transform, seen=seen)
        predictions = estimates(planted.X)
        apart = np.abs(predictions - 0.5) if plan.target == "quantity" else predictions <= 1
        rule = error_rule(plan)
        without = collect_sums(plan, task.private, rule, estimates, seed=options.seed, folder=folder)
        add(ERROR_COUNTS, rule, without, predictions, int(apart.argmax()))
    return base, total, too_long


def _longest(rule: CorrectionRule, inputs: FloatArray) -> tuple[int, str | None]:
    """Return (the row of `inputs` at which the first two targets of `rule.ends` add the most different numbers; a
    contradiction if a row adds more than a vote for one of these targets, in Euclidean length).
    """
    rows, longest, widest, at = np.unique(inputs, axis=0, return_index=True)[1], 0, -1, 0
    for row in rows.tolist():
        added = [rule.contributions_of((np.zeros(1, int), inputs[[row]], np.array([one]))).counts for one in rule.ends]
        longest = max(longest, *(int(np.square(one).sum()) for one in added))
        apart = int(np.square(added[0] - added[1]).sum())
        if apart > widest:
            widest, at = apart, row
    if longest <= STEPS**2:
        return at, None
    return at, f"a record added {longest**0.5 / STEPS:.4g} votes to the corrections, where it may add one"


def _require_auditable(plan: Plan, task: Task) -> float:
    """Return the mu of a run that canaries can audit; refuse any other."""
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
    # A coin replaces the label of a record.
    cost = mechanism.under("replace").run_cost(queries=plan.queries)
    if plan.trained_by_owners or cost is None or cost.mu is None or mechanism.name not in MECHANISMS:
        raise InvalidInput(
            f"A run can be audited by canaries where one operator has all the rows and adds the noise, got "
            f"{mechanism.name}: the rows of a study stay with its owners."
        )
    return cost.mu


def _fixed_options(options: Options, plan: Plan) -> Options:
    """Return options with the values of `plan` and without a ledger, because the copy is not published."""
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


def _audits_by_table(
    evidence: dict[str, tuple[FloatArray, IntArray]], plan: Plan, *, mu: float, confidence: float
) -> dict[str, OneRunAudit]:
    """Return the audit of each released table, from (scores, coins) of its canaries."""
    return {
        what: audit_one_run(
            scores,
            coins,
            mechanism=plan.mechanism.name,
            claimed=plan.guarantee_under("replace")[0],
            delta=plan.delta,
            mu=mu,
            confidence=1 - _CANARIES * (1 - confidence) / len(evidence),
        )
        for what, (scores, coins) in evidence.items()
    }


def _released_counts(path: Path, queries: Any) -> FloatArray:
    """Return the noisy counts of a release, (queries, classes); refuse a release about other public rows."""
    rows, counts = table_of_file(path)
    if not np.array_equal(np.array(rows, np.int64), queries):
        raise InvalidInput(
            f"{path} must list the queries of the canaries, but the run chose others: its representation is "
            "not the same when it is learned twice; name one that is."
        )
    return counts
