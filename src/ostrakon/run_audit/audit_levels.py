"""The audit by level of consent: one record of each level is replaced, and the epsilon of its level must hold."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_epsilon
from ostrakon.audit.certify import certified_epsilon
from ostrakon.features.moments import MomentMap
from ostrakon.mechanisms.base import FloatArray
from ostrakon.noise import require_rng
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.task import Task
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.votes import moment_map
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import STEPS, BoundedVotes

_MAX_ROWS, _TOLERANCE = 64, 1e-9


@dataclass(frozen=True, kw_only=True)
class LevelAudit:
    """The result of an audit for one level of consent.

    Parameters
    ----------
    level : str
    claimed, delta : float
        The epsilon of the level at delta.
    distance : float
        The epsilon of the effect of one replaced record on the votes and sums, with the stated noise.
    lower_bound : float
        A lower bound on epsilon from samples of the noisy votes and sums.
    """

    level: str
    claimed: float
    delta: float
    distance: float
    lower_bound: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return max(self.distance, self.lower_bound) > self.claimed * (1 + _TOLERANCE)


def audit_levels_of_run(task: Task, options: Options, plan: Plan, **settings: Any) -> tuple[LevelAudit, ...]:
    """Attack every level of consent of the run that `plan` describes, at its public rows and queries.

    Parameters
    ----------
    task : Task
    options : Options
    plan : Plan
        With levels of consent.
    **how
        Keyword arguments of `audit_levels`, which also states what is refused.
    """
    view = view_of(task.X_public, options.representation, seed=options.seed)
    queries = queries_of(view, plan.queries, strategy=options.query_strategy, seed=options.seed)
    moments = moment_map(plan, view, queries)
    assert moments is None or isinstance(moments, MomentMap)
    return audit_levels(plan, view.public, queries, moments=moments, **settings)


def audit_levels(
    plan: Plan,
    public: FloatArray,
    queries: NDArray[Any],
    *,
    moments: MomentMap | None,
    rng: np.random.Generator,
    samples: int = 20_000,
    confidence: float = 0.95,
    collect: Callable[..., BoundedVotes] = collect_per_record,
) -> tuple[LevelAudit, ...]:
    """Attack every level of consent at its own epsilon.

    For each level, one record at a public row is replaced by a record of the same level with another class or another
    row. The pair that changes the votes and the sums of features most is attacked.

    Parameters
    ----------
    plan : Plan
        With levels of consent.
    public : array of shape (rows, features)
        Features of the public rows.
    queries : array of int, shape (queries,)
        Positions of the queries in `public`.
    moments : MomentMap or None
        The sums of features (`ostrakon.run.stages.votes.moment_map`).
    rng : numpy.random.Generator
        Draws the noise.
    samples : int, default 20000
        Draws of the noise on each data set, at least 100.
    confidence : float, default 0.95
        In (0, 1); of each lower bound.
    collect : callable
        Turns records into votes, as `collect_per_record` does.

    Returns
    -------
    tuple of LevelAudit
        One for each level.

    Raises
    ------
    InvalidInput
        For a plan without levels, or whose epsilon is for one record removed.

    Notes
    -----
    Guarantee: a level whose records are scaled by the plan's weight is refuted with probability at most 1 - confidence.

    References
    ----------
    Clopper and Pearson 1934.
    """
    samples, confidence = whole("samples", samples, at_least=100), fraction("confidence", confidence)
    if not plan.levels:
        raise InvalidInput("An audit by level needs a plan with levels of consent, got one without.")
    if plan.mechanism.relation == "take-out":
        raise InvalidInput("An audit by level replaces a record, and this plan's epsilon is for one removed.")
    rows = np.asarray(public)[np.unique(np.linspace(0, len(public) - 1, _MAX_ROWS).astype(int))]

    def votes_of(row: int, label: int, level: int) -> BoundedVotes:
        block = (np.zeros(1, int), rows[row : row + 1], np.array([[label, level]]))
        return collect(
            [block],
            np.asarray(public)[queries],
            classes=plan.classes,
            units=plan.teachers,
            max_contributions=plan.mechanism.contribution_bound,
            moments=moments,
            weights=[one.weight for one in plan.levels],
        )

    claims, audits = plan.level_claims(), list[LevelAudit]()
    for number, claim in enumerate(claims):
        first = votes_of(0, 0, number)
        others = [votes_of(row, label, number) for row in range(len(rows)) for label in range(min(plan.classes, 2))]
        mus = [math.hypot(*(np.linalg.norm(part) for part in _differences(plan, first, other))) for other in others]
        largest = int(np.argmax(mus))
        values: Any = {"delta": claim.delta, "samples": samples, "confidence": confidence, "rng": rng}
        bound = _certified_epsilon(plan, first, others[largest], **values)
        audits.append(
            LevelAudit(
                level=claim.level,
                claimed=claim.epsilon,
                delta=claim.delta,
                distance=gaussian_dp_epsilon(mus[largest], claim.delta),
                lower_bound=bound,
            )
        )
    return tuple(audits)


def _differences(plan: Plan, one: BoundedVotes, other: BoundedVotes) -> tuple[FloatArray, FloatArray]:
    """Return the differences of the counts and of the sums of features, in standard deviations of their noise."""
    sums = np.zeros((1, plan.classes))
    if one.moments is not None and other.moments is not None and plan.mechanism.moment_noise is not None:
        sums = (one.moments.counts - other.moments.counts) / (STEPS * plan.mechanism.moment_noise)
    assert plan.mechanism.vote_noise is not None
    return (one.in_votes - other.in_votes) / plan.mechanism.vote_noise, sums


def _certified_epsilon(
    plan: Plan,
    one: BoundedVotes,
    other: BoundedVotes,
    *,
    delta: float,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound on epsilon from samples of the released tables, projected on their difference."""
    rng = require_rng(rng)
    counts, sums = _differences(plan, one, other)
    changed = np.flatnonzero(counts.any(axis=1))

    def scores(votes: BoundedVotes) -> FloatArray:
        values = np.empty(samples)
        rows, mechanism = votes[changed], plan.mechanism
        for run in range(samples):
            score = float((mechanism.noisy_counts(rows, rng) * counts[changed]).sum()) / (mechanism.vote_noise or 1)
            if votes.moments is not None and mechanism.moment_noise is not None:
                score += float((mechanism.noisy_moments(votes.moments, rng) * sums).sum()) / mechanism.moment_noise
            values[run] = score
        return values

    # Half of the draws choose the event; the other half are counted.
    first, second = scores(one), scores(other)
    half = samples // 2
    edges = np.quantile(first[:half], np.linspace(0.5, 0.99, 12))
    level: Any = {"samples": half, "delta": delta, "confidence": confidence}

    def hits(edge: Any, part: slice) -> tuple[FloatArray, FloatArray]:
        return np.array(float((first[part] > edge).sum())), np.array(float((second[part] > edge).sum()))

    best = max(edges, key=lambda edge: float(certified_epsilon(*hits(edge, slice(0, half)), **level)))
    return float(certified_epsilon(*hits(best, slice(half, 2 * half)), **level))
