"""Repeat a run's aggregation in memory, to test more noise and to audit sums and errors by canaries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ostrakon.audit.repeated_noise import repeated_noise_breaks
from ostrakon.audit.table_noise import noise_breaks
from ostrakon.features.labels import LabelMap
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.noise import secure_rng
from ostrakon.planning.plan import Plan
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import Answers, ask
from ostrakon.run.stages.features import View
from ostrakon.run.stages.narrowing import HISTOGRAM
from ostrakon.run.stages.student_errors import CORRECTIONS, ERRORS, draw_sums
from ostrakon.run.stages.votes import moment_map
from ostrakon.run_audit.canaries import targets
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Moments

COUNTS, SUMS = "noisy counts", "noisy sums of features"
FURTHER = {
    "noisy histogram of the target": HISTOGRAM,
    "noisy corrections": CORRECTIONS,
    "noisy counts of errors": ERRORS,
}
"""Further tables to which a record adds once, and their fields in `Answers`."""
HISTOGRAM_COUNTS, CORRECTION_SUMS, ERROR_COUNTS = FURTHER
_MAX_CANARIES, _MAX_NUMBERS = 2000, 200_000
"""Approximate number of canaries in the sums, and of tested numbers of a table."""


def table_noises(mechanism: Mechanism) -> dict[str, float | None]:
    """Return the standard deviation of the noise of each released table, in votes."""
    return {
        COUNTS: mechanism.vote_noise,
        SUMS: mechanism.moment_noise,
        HISTOGRAM_COUNTS: mechanism.histogram_noise,
        CORRECTION_SUMS: mechanism.correction_noise,
        ERROR_COUNTS: mechanism.error_noise,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """Results of repeated aggregations of one run, each with new noise.

    noise: by table, released minus exact numbers in votes, (repetitions, numbers). coins: of the canaries of all
    repetitions. scores: by table of sums or errors, the evidence for coin 0 of these canaries.
    """

    noise: dict[str, FloatArray]
    coins: IntArray
    scores: dict[str, FloatArray]

    def breaks(self, plan: Plan, others: list[dict[str, FloatArray]], *, error: float) -> str | None:
        """Return a contradiction between the noise of all runs and its law, or reused noise; None without one.

        others: the noise of finished runs, by table. error: bound on the probability that sound noise is refuted.
        """
        sigmas = table_noises(plan.mechanism)
        share, scaled = error / (3 * len(self.noise) + 1), list[FloatArray]()
        for what, noise in self.noise.items():
            sigma, finished = sigmas[what], [noises[what].ravel() for noises in others]
            assert sigma is not None
            # A sample no larger than the finished runs: among many numbers, reused noise is hard to detect.
            sample = np.concatenate([*finished, noise.ravel()[: sum(map(len, finished))]])
            contradiction = noise_breaks(sample, sigma, error=share) if finished else None
            contradiction = contradiction or noise_breaks(noise, sigma, error=share)
            contradiction = contradiction or repeated_noise_breaks(noise, sigma, error=share)
            if contradiction is not None:
                return f"{what} of several aggregations: {contradiction}"
            scaled.append(noise / sigma)
        if len(scaled) == 1:
            return None
        # Noise of one table that another one uses again.
        rounds = min(map(len, scaled))
        contradiction = noise_breaks(np.hstack([noises[:rounds] for noises in scaled]), 1.0, error=share)
        return None if contradiction is None else f"all tables of several aggregations: {contradiction}"


@dataclass(frozen=True, kw_only=True, eq=False)
class RepeatedErrors:
    """A histogram, corrections of a student or counts of its errors.

    without: sums over all records but the canaries. canary: contributions of a record with either of two targets, in
    steps, (2, *shape of the sums): both ends of a quantity, or the first two classes.
    """

    without: Moments
    canary: IntArray


def _scores_of_sums(sums: Any, residual: FloatArray, canary: IntArray, pairs: IntArray) -> FloatArray:
    """Return what noisy sums say of the coin of each pair of classes, (pairs,).

    sums: the map to the summed directions. residual: noisy sums minus those of the other records. canary: the steps of
    a canary.
    """
    if isinstance(sums, LabelMap):
        first, other = sums.signs(sums.ends)
        return canary @ sums.sums(residual) @ (first - other)
    if isinstance(sums, SumMap):
        return -2 * (canary @ sums.sums(residual))
    by_class = canary @ residual
    return by_class[pairs[:, 0]] - by_class[pairs[:, 1]]


def repeat(
    plan: Plan,
    without: BoundedVotes,
    view: View,
    queries: IntArray,
    *,
    rng: np.random.Generator,
    errors: Mapping[str, RepeatedErrors],
) -> Repeated:
    """Repeat the aggregation, with canaries at the query whose features are farthest from the public mean.

    Parameters
    ----------
    plan : Plan
        Plan of per-record teachers, canaries included.
    without : BoundedVotes
        The votes of all records but the canaries, with their sums of features if the run releases those.
    view, queries
        Features of the public rows, and positions of the queries.
    rng : numpy.random.Generator
        Draws the coins.
    errors : mapping of str to RepeatedErrors
        By table, of a run that releases errors of its student.

    Notes
    -----
    Every repetition has one canary for every two classes, and a coin decides the class, so that no canary hides
    another one. A coin changes one record of one repetition, which is mu-Gaussian-DP if the run is, so the guarantee of
    `ostrakon.audit.one_run` holds for the canaries of all repetitions together.
    """
    features, sums = view.public[queries], moment_map(plan, view, queries)
    steps = None if sums is None else sums.steps(features)
    far = 0 if steps is None else int(np.argmax(np.square(steps).sum(axis=1)))
    pairs = np.arange(2 if isinstance(sums, LabelMap) else plan.classes // 2 * 2).reshape(-1, 2)
    settings: Any = {"units": plan.teachers, "max_contributions": without.max_contributions, "moments": sums}
    contributions = [
        collect_per_record([([0], features[[far]], [label])], features, classes=plan.classes, **settings)
        for label in targets(np.arange(pairs.size), sums)
    ]
    size = without.counts.size
    rounds_kept = max(_MAX_NUMBERS // (size if steps is None else size + steps.shape[1] * without.classes), 2)
    rounds = rounds_kept if steps is None else -(-_MAX_CANARIES // len(pairs))
    coins = rng.integers(0, 2, size=(rounds, len(pairs)))
    tables = (COUNTS, *(() if steps is None else (SUMS,)), *errors)
    scores, secure = {what: np.zeros(coins.shape) for what in tables[1:]}, secure_rng()
    noise: dict[str, list[FloatArray]] = {what: [] for what in tables}
    for number, toss in enumerate(coins):
        votes = _add_votes(without, [contributions[label] for label in pairs[np.arange(len(pairs)), toss]], plan)
        answers = ask(plan, votes, log=Log(), rng=secure, interim_scores=_undecided)
        assert answers.counts is not None
        if number < rounds_kept:
            noise[COUNTS].append((answers.counts - votes.in_votes).ravel())
        for what, of_student in errors.items():
            residuals, scores[what][number] = _error_round(what, of_student, int(toss[0]), plan, answers, secure)
            if number < _MAX_NUMBERS // residuals.size:
                noise[what].append(residuals)
        if steps is not None:
            assert answers.moments is not None
            assert votes.moments is not None
            assert without.moments is not None
            if number < _MAX_NUMBERS // answers.moments.size:
                noise[SUMS].append((answers.moments - votes.moments.counts / STEPS).ravel())
            residual = answers.moments - without.moments.counts / STEPS
            scores[SUMS][number] = _scores_of_sums(sums, residual, steps[far], pairs)
    noisy = {what: np.stack(parts) for what, parts in noise.items()}
    return Repeated(noise=noisy, coins=coins.ravel(), scores={what: one.ravel() for what, one in scores.items()})


def _error_round(
    what: str, errors: RepeatedErrors, coin: int, plan: Plan, answers: Answers, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return (the noise of one table of errors with a canary, its evidence for coin 0)."""
    exact = errors.without.counts + errors.canary[coin]
    drawn = draw_sums(FURTHER[what], plan, answers, Moments(exact, teachers=plan.teachers), log=Log(), rng=rng)
    noisy = getattr(drawn, FURTHER[what])
    low, high = errors.canary
    score = float(((low - high) * (noisy - errors.without.counts / STEPS)).sum())
    return (noisy - exact / STEPS).ravel(), score


def _add_votes(without: BoundedVotes, others: list[BoundedVotes], plan: Plan) -> BoundedVotes:
    """Return the sum of the votes."""
    parts = [without, *others]
    counts = sum(one.counts for one in parts)
    votes = type(without)(counts, teachers=plan.teachers, max_contributions=without.max_contributions)
    if without.moments is not None:
        sums = [one.moments.counts for one in parts if one.moments is not None]
        votes.moments = Moments(sum(sums), teachers=plan.teachers)
    return votes


def _undecided(answered: IntArray, labels: IntArray, queries: Any) -> FloatArray:
    raise AssertionError("per-record teachers answer in one round")
