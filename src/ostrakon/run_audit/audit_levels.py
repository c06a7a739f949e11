"""The audit by level of consent: one record of every level is changed, and the release must keep its own epsilon."""

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
from ostrakon.run.stages.votes import moment_map, queries_of
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import STEPS, BoundedVotes

_ROWS, _NUMERICAL = 64, 1e-9


@dataclass(frozen=True, kw_only=True)
class LevelAudit:
    """What an audit found for one level of consent.

    Parameters
    ----------
    level : str
    claimed, delta : float
        The epsilon of the level at delta.
    distance : float
        The epsilon that follows from how far the sums move when a record is replaced, the noise being as stated.
    lower_bound : float
        An epsilon that samples of the noisy sums certify.
    """

    level: str
    claimed: float
    delta: float
    distance: float
    lower_bound: float

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return max(self.distance, self.lower_bound) > self.claimed * (1 + _NUMERICAL)


def audit_levels_of_run(task: Task, options: Options, plan: Plan, **how: Any) -> tuple[LevelAudit, ...]:
    """Attack every level of consent of a run that `plan` settles, at its public rows and its queries.

    Parameters
    ----------
    task : Task
    options : Options
    plan : Plan
        With levels of consent.
    **how
        As of `audit_levels`.

    Raises
    ------
    InvalidInput
        As of `audit_levels`.
    """
    view = view_of(task.X_public, options.representation, seed=options.seed)
    queries = queries_of(view, plan.queries, strategy=options.query_strategy, seed=options.seed)
    moments = moment_map(plan, view, queries)
    assert moments is None or isinstance(moments, MomentMap)
    return audit_levels(plan, view.public, queries, moments=moments, **how)


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

    For each level, one record at a public row is replaced by another one of the same level: of another class at the
    same row, or at another row. Of all pairs that are tried, the one that moves the votes and the sums of features
    most is attacked.

    Parameters
    ----------
    plan : Plan
        With levels of consent.
    public : array of shape (rows, features)
        Features of the public rows.
    queries : array of int, shape (queries,)
        The rows that are asked about.
    moments : MomentMap or None
        The sums of features (`ostrakon.run.stages.votes.moment_map`).
    rng : numpy.random.Generator
        Of the noise.
    samples : int, default 20000
        Draws of the noise on each data set, at least 100.
    confidence : float, default 0.95
        In (0, 1); of each lower bound.
    collect : callable
        What turns records into votes, as `collect_per_record`.

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
    Guarantee: a level whose records are scaled as the plan says is refuted with probability at most 1 - confidence.

    References
    ----------
    Clopper and Pearson 1934.
    """
    samples, confidence = whole("samples", samples, at_least=100), fraction("confidence", confidence)
    if not plan.levels:
        raise InvalidInput("An audit by level needs a plan with levels of consent, got one without.")
    if plan.mechanism.relation == "take-out":
        raise InvalidInput("An audit by level replaces a record, and this plan's epsilon is for one removed.")
    rows = np.asarray(public)[np.unique(np.linspace(0, len(public) - 1, _ROWS).astype(int))]

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
        mus = [math.hypot(*(np.linalg.norm(part) for part in _moved(plan, first, other))) for other in others]
        most = int(np.argmax(mus))
        drawn: Any = {"delta": claim.delta, "samples": samples, "confidence": confidence, "rng": rng}
        bound = _certified(plan, first, others[most], **drawn)
        audits.append(
            LevelAudit(
                level=claim.level,
                claimed=claim.epsilon,
                delta=claim.delta,
                distance=gaussian_dp_epsilon(mus[most], claim.delta),
                lower_bound=bound,
            )
        )
    return tuple(audits)


def _moved(plan: Plan, one: BoundedVotes, other: BoundedVotes) -> tuple[FloatArray, FloatArray]:
    """How far the counts and the sums of features move, in standard deviations of their noise."""
    sums = np.zeros((1, plan.classes))
    if one.moments is not None and other.moments is not None and plan.mechanism.moment_noise is not None:
        sums = (one.moments.counts - other.moments.counts) / (STEPS * plan.mechanism.moment_noise)
    assert plan.mechanism.vote_noise is not None
    return (one.in_votes - other.in_votes) / plan.mechanism.vote_noise, sums


def _certified(
    plan: Plan,
    one: BoundedVotes,
    other: BoundedVotes,
    *,
    delta: float,
    samples: int,
    confidence: float,
    rng: np.random.Generator,
) -> float:
    """An epsilon that samples of the released tables certify: along the direction in which they move."""
    rng = require_rng(rng)
    along, sums = _moved(plan, one, other)
    kept = np.flatnonzero(along.any(axis=1))

    def scores(votes: BoundedVotes) -> FloatArray:
        drawn = np.empty(samples)
        some, noise = votes[kept], plan.mechanism
        for run in range(samples):
            score = float((noise.noisy_counts(some, rng) * along[kept]).sum()) / float(noise.vote_noise or 1)
            if votes.moments is not None and noise.moment_noise is not None:
                score += float((noise.noisy_moments(votes.moments, rng) * sums).sum()) / noise.moment_noise
            drawn[run] = score
        return drawn

    # Half of the draws choose the event, the others count.
    here, there = scores(one), scores(other)
    half = samples // 2
    edges = np.quantile(here[:half], np.linspace(0.5, 0.99, 12))
    level: Any = {"samples": half, "delta": delta, "confidence": confidence}

    def hits(edge: Any, part: slice) -> tuple[FloatArray, FloatArray]:
        return np.array(float((here[part] > edge).sum())), np.array(float((there[part] > edge).sum()))

    best = max(edges, key=lambda edge: float(certified_epsilon(*hits(edge, slice(0, half)), **level)))
    return float(certified_epsilon(*hits(best, slice(half, 2 * half)), **level))
