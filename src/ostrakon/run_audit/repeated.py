"""A run's aggregation, repeated in memory: more noise to look at, and canaries that show in sums and in errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ostrakon.audit.repeated_noise import repeated_noise_breaks
from ostrakon.audit.table_noise import noise_breaks
from ostrakon.features.labels import LabelMap
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms.base import FloatArray
from ostrakon.noise import secure_rng
from ostrakon.planning.plan import Plan
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.features import View
from ostrakon.run.stages.intervals import draw_errors
from ostrakon.run.stages.queries import Answers, ask
from ostrakon.run.stages.votes import moment_map
from ostrakon.run_audit.canaries import targets
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Moments

COUNTS, SUMS, OF_ERRORS = "noisy counts", "noisy sums of features", "noisy counts of errors"
_CANARIES, _NUMBERS = 2000, 200_000
"""Canaries in the sums, and numbers of a table that are looked at, about."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """What the aggregations of one run released, each with new noise.

    noise: by table, released minus exact numbers in votes, (repetitions, numbers). coins: of the canaries of all
    repetitions. scores: of these by table, positive where the released sums (or counts of errors) speak for coin 0;
    none without such tables.
    """

    noise: dict[str, FloatArray]
    coins: IntArray
    scores: dict[str, FloatArray]

    def breaks(self, plan: Plan, others: list[dict[str, FloatArray]], *, error: float) -> str | None:
        """A contradiction between the noise of all runs and its law, noise that is used again included; else None.

        others: the noise of finished runs, by table. error: probability with which sound noise is refuted at most.
        """
        mechanism = plan.mechanism
        sigmas = {COUNTS: mechanism.vote_noise, SUMS: mechanism.moment_noise, OF_ERRORS: mechanism.error_noise}
        share, scaled = error / (3 * len(self.noise) + 1), list[FloatArray]()
        for what, noise in self.noise.items():
            sigma, finished = sigmas[what], [noises[what].ravel() for noises in others]
            assert sigma is not None
            # Beside finished runs no more than their size: noise used again among few numbers shows among few alone.
            few = np.concatenate([*finished, noise.ravel()[: sum(map(len, finished))]])
            broken = noise_breaks(few, sigma, error=share) if finished else None
            broken = broken or noise_breaks(noise, sigma, error=share)
            broken = broken or repeated_noise_breaks(noise, sigma, error=share)
            if broken is not None:
                return f"{what} of several aggregations: {broken}"
            scaled.append(noise / sigma)
        if len(scaled) == 1:
            return None
        # Noise of one table that another one uses again.
        rounds = min(map(len, scaled))
        broken = noise_breaks(np.hstack([noises[:rounds] for noises in scaled]), 1.0, error=share)
        return None if broken is None else f"all tables of several aggregations: {broken}"


@dataclass(frozen=True, kw_only=True, eq=False)
class RepeatedErrors:
    """How far the student of a quantity is off.

    without: on all records but the canaries, by bin. canary: what one record adds whose quantity is the low and the
    high end, in steps, (2, bins, 1).
    """

    without: Moments
    canary: IntArray


def repeat(
    plan: Plan,
    without: BoundedVotes,
    view: View,
    queries: IntArray,
    *,
    rng: np.random.Generator,
    errors: RepeatedErrors | None = None,
) -> Repeated:
    """Aggregate again and again, with canaries at the query whose features are farthest from the public mean.

    Parameters
    ----------
    plan : Plan
        Of a run of per-record teachers, the canaries among them.
    without : BoundedVotes
        The votes of all records but the canaries, with their sums of features where the run releases those.
    view, queries
        What the learners see, and the public rows that are asked about.
    rng : numpy.random.Generator
        Of the coins.
    errors : RepeatedErrors, optional
        Of a run that counts errors.

    Notes
    -----
    Every repetition has one canary for every two classes, and a coin decides the class, so that no canary is seen
    through another one. A coin changes one record of one repetition, which is mu-Gaussian-DP if the run is: what
    `ostrakon.audit.one_run` proves holds for the canaries of all repetitions together.
    """
    features, sums = view.public[queries], moment_map(plan, view, queries)
    steps = None if sums is None else sums.steps(features)
    far = 0 if steps is None else int(np.argmax(np.square(steps).sum(axis=1)))
    pairs = np.arange(2 if isinstance(sums, LabelMap) else plan.classes // 2 * 2).reshape(-1, 2)
    asked: Any = {"units": plan.teachers, "max_contributions": without.max_contributions, "moments": sums}
    said = [
        collect_per_record([([0], features[[far]], [label])], features, classes=plan.classes, **asked)
        for label in targets(np.arange(pairs.size), sums)
    ]
    size = without.counts.size
    kept = max(_NUMBERS // (size if steps is None else size + steps.shape[1] * without.classes), 2)
    rounds = kept if steps is None else -(-_CANARIES // len(pairs))
    coins = rng.integers(0, 2, size=(rounds, len(pairs)))
    tables = (COUNTS, *(() if steps is None else (SUMS,)), *(() if errors is None else (OF_ERRORS,)))
    scores, secure = {what: np.zeros(coins.shape) for what in tables[1:]}, secure_rng()
    noise: dict[str, list[FloatArray]] = {what: [] for what in tables}
    for number, tossed in enumerate(coins):
        votes = _together(without, [said[label] for label in pairs[np.arange(len(pairs)), tossed]], plan)
        answers = ask(plan, votes, log=Log(), rng=secure, interim_scores=_undecided)
        assert answers.counts is not None
        if number < kept:
            noise[COUNTS].append((answers.counts - votes.in_votes).ravel())
        if errors is not None:
            residuals, scores[OF_ERRORS][number] = _of_errors(errors, int(tossed[0]), plan, answers, secure)
            if number < _NUMBERS // residuals.size:
                noise[OF_ERRORS].append(residuals)
        if steps is not None:
            assert answers.moments is not None
            assert votes.moments is not None
            assert without.moments is not None
            if number < _NUMBERS // answers.moments.size:
                noise[SUMS].append((answers.moments - votes.moments.counts / STEPS).ravel())
            rest = answers.moments - without.moments.counts / STEPS
            if isinstance(sums, LabelMap):
                first, other = sums.signs(sums.ends)
                scores[SUMS][number] = steps[far] @ sums.sums(rest) @ (first - other)
            elif isinstance(sums, SumMap):
                scores[SUMS][number] = -2 * (steps[far] @ sums.sums(rest))
            else:
                scores[SUMS][number] = (steps[far] @ rest)[pairs[:, 0]] - (steps[far] @ rest)[pairs[:, 1]]
    drawn = {what: np.stack(parts) for what, parts in noise.items()}
    return Repeated(noise=drawn, coins=coins.ravel(), scores={what: one.ravel() for what, one in scores.items()})


def _of_errors(
    errors: RepeatedErrors, coin: int, plan: Plan, answers: Answers, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """(the noise of one table of errors with a canary, how much the table speaks for coin 0)."""
    exact = errors.without.counts + errors.canary[coin]
    drawn = draw_errors(plan, answers, Moments(exact, teachers=plan.teachers), log=Log(), rng=rng).errors
    assert drawn is not None
    low, high = errors.canary
    score = float(((low - high) * (drawn - errors.without.counts / STEPS)).sum())
    return (drawn - exact / STEPS).ravel(), score


def _together(without: BoundedVotes, others: list[BoundedVotes], plan: Plan) -> BoundedVotes:
    """The votes of all records."""
    everyone = [without, *others]
    counts = sum(one.counts for one in everyone)
    votes = type(without)(counts, teachers=plan.teachers, max_contributions=without.max_contributions)
    if without.moments is not None:
        sums = [one.moments.counts for one in everyone if one.moments is not None]
        votes.moments = Moments(sum(sums), teachers=plan.teachers)
    return votes


def _undecided(answered: IntArray, labels: IntArray, asked: Any) -> FloatArray:
    raise AssertionError("per-record teachers answer in one round")
