"""Search for a contradiction between the behaviour of a mechanism and the epsilon that it claims."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.audit.certify import Claims, certified_epsilon
from ostrakon.audit.events import (
    Event,
    Experiment,
    Observed,
    Statistic,
    agreement,
    choose_events,
    count_events,
    kinds_of,
    outcome_shares,
    stopped_statistic,
    table_statistic,
    until_last_answer,
)
from ostrakon.audit.law import law_contradiction
from ostrakon.audit.law_profile import law_epsilons, worst_neighbours
from ostrakon.audit.neighbours import Pair, diverse_votes, require_neighbours, votes_for
from ostrakon.audit.result import LAW_CLAIM, SAMPLES_CLAIM, SAMPLES_LAW, AuditResult, Finding
from ostrakon.audit.runs import CountRuns, Sampler, SubjectRuns, for_rows
from ostrakon.audit.table_noise import table_finding
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import Votes

_LAW_ROWS = 512
_MAX_QUERIES, _MIN_QUERIES, _TARGET_EPSILON = 64, 4, 4.0
_MIN_TEACHERS, _MAX_TEACHERS, _CLEAR_MAJORITY = 100, 6_400, 0.9

# Shares of the error 1 - confidence. The printed bound gets nearly all of it. The other tests get so little that
# hundreds of audits of sound mechanisms pass.
_BOUND, _CURVE, _LAW, _TABLES = 0.98, 0.009, 0.001, 0.001
_TOLERANCE = 1e-6
_MIN_LOG = -700.0


def audit(
    subject: Mechanism | Sampler,
    *,
    delta: float,
    rng: np.random.Generator,
    claimed: float | None = None,
    neighbours: Pair | Sequence[Pair] | None = None,
    like: Mechanism | None = None,
    queries: int | None = None,
    samples: int = 30_000,
    confidence: float = 0.95,
    teachers: int | None = None,
    classes: int = 3,
    independent: bool = False,
) -> AuditResult:
    """Search for a contradiction between what `subject` does and what it claims, on two neighbouring data sets.

    `findings` names each test: noise of the released tables (counts, sums of features), against its law; sampled
    outputs vs. claimed epsilon (at `delta`, and on the whole curve that a mechanism claims); sampled outputs vs. stated
    probabilities (of the mechanism); exact epsilon vs. claimed epsilon (by the stated probabilities on these
    neighbours; this test needs no samples).

    Parameters
    ----------
    subject : Mechanism or callable
        A mechanism, or a function of (votes, rng) that returns one answer per query, -1 for none.
    delta : float
        In (0, 1).
    rng : numpy.random.Generator
    claimed : float, optional
        The epsilon claimed at `delta` for all queries together. By default the worst case of the mechanism, at `delta`
        and at larger deltas (for the immutable one, what its papers claim).
    neighbours : pair of Votes, or a sequence of pairs, optional
        By default the pair of the largest epsilon by the law, and others that suit most mechanisms.
    like : Mechanism, optional
        The mechanism whose law and claims the subject should have; by default the subject itself if it is one.
    queries : int, optional
        Number of queries of one run, at least 1. By default 64, halved (at least 4) until the claimed epsilon is at
        most 4; 1 if `claimed` is given.
    samples : int, default 30000
        Number of runs on each data set, at least 100. About as many pilot runs choose the pair and the event.
    confidence : float, default 0.95
        In (0, 1).
    teachers, classes : int, optional
        Of the default neighbours, at least 2. By default, 3 classes, and enough teachers that noise seldom overturns
        a unanimous vote.
    independent : bool
        Whether the subject certainly draws its rows independently. Then many runs are drawn as one batch, and noise
        that rows share is not detected.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInput
        For votes that are not neighbours, and for a function without a claim.

    Notes
    -----
    A mechanism priced for one record removed is audited at its price for one replaced: neighbours differ in a vote.

    Guarantee: for any subject, `lower_bound` exceeds the true epsilon with probability at most 1 - confidence. All
    tests together refute a subject that follows its law and keeps its claims with at most that probability: pilot runs
    choose pair, statistic and event, and fresh runs are counted with Clopper and Pearson's exact intervals. A
    subject without a contradiction is not proved to be private.

    References
    ----------
    Clopper and Pearson 1934; Ding et al. 2018 and Jagielski, Ullman and Oprea 2020 (auditing by distinguishing
    neighbours).

    Examples
    --------
    >>> from ostrakon.mechanisms.contrib.immutable import Immutable
    >>> result = audit(Immutable(constant=100, gamma=0.1), delta=1e-5, samples=2_000, rng=np.random.default_rng(0))
    >>> result.refuted
    True
    """
    delta, confidence = fraction("delta", delta), fraction("confidence", confidence)
    samples, rng = whole("samples", samples, at_least=100), require_rng(rng)
    subject, mechanism, law = _under_replacement(subject, like)
    if law is None and claimed is None:
        raise InvalidInput("claimed must be given for a function that is not a mechanism of ostrakon, got None.")
    classes, error = whole("classes", classes, at_least=2), 1 - confidence
    queries = _default_queries(law, claimed, delta) if queries is None else whole("queries", queries, at_least=1)
    teachers = _default_teachers(law, classes) if teachers is None else whole("teachers", teachers, at_least=2)
    sizes = {"teachers": teachers, "classes": classes}
    pairs = _check_pairs(neighbours) or worst_neighbours(law, queries=queries, delta=delta, **sizes)
    claims = Claims.of(law, pairs[0][0], delta=delta, epsilon=claimed)
    runs = SubjectRuns(subject, independent=independent)

    def bound_at_delta(hits: FloatArray, other: FloatArray) -> FloatArray:
        return certified_epsilon(hits, other, samples=samples, delta=delta, confidence=1 - _BOUND * error)

    def excess_on_curve(hits: FloatArray, other: FloatArray) -> FloatArray:
        return claims.excess(hits, other, samples=samples, confidence=1 - _CURVE * error)[0]

    experiments = [_answer_experiment(runs, pair, law) for pair in pairs]
    if mechanism is not None and mechanism.releases_counts:
        experiments += [_count_experiment(CountRuns(mechanism), pair) for pair in pairs[:2]]
    events = choose_events(experiments, [bound_at_delta, excess_on_curve], samples=samples, rng=rng)
    at_delta, on_curve = count_events(events, samples=samples, rng=rng)
    bound = float(bound_at_delta(*_as_floats(at_delta)))
    curve = claims.excess(*_as_floats(on_curve), samples=samples, confidence=1 - _CURVE * error)
    findings = [_claim_finding(bound, claims, *map(float, curve))]
    if mechanism is not None and (tables := table_finding(mechanism, error=_TABLES * error, rng=rng)) is not None:
        findings.append(tables)
    if law is not None:
        votes = pairs[0][0] if neighbours is not None else _law_votes(law, **sizes)
        findings += _law_findings(runs, law, votes, pairs, claims, samples=samples, error=_LAW * error, rng=rng)
    return AuditResult(
        mechanism=mechanism.name if mechanism else getattr(subject, "__name__", "the sampler"),
        claimed=claims.epsilon,
        lower_bound=bound,
        confidence=confidence,
        delta=delta,
        queries=pairs[0][0].queries,
        samples=samples,
        neighbours=_first_counts(events[0]),
        seen=at_delta,
        findings=tuple(findings),
    )


def _under_replacement(
    subject: Mechanism | Sampler, like: Mechanism | None
) -> tuple[Mechanism | Sampler, Mechanism | None, Mechanism | None]:
    """Return subject, mechanism (None for a function) and law, all priced for one record replaced."""
    if isinstance(subject, Mechanism) and subject.relation == "take-out":
        subject = subject.under("replace")
    mechanism = subject if isinstance(subject, Mechanism) else None
    law = mechanism if like is None else like
    return subject, mechanism, law.under("replace") if law is not None and law.relation == "take-out" else law


def _claim_finding(bound: float, claims: Claims, excess: float, level: float) -> Finding:
    detail = None
    if not claims.epsilon >= bound:
        detail = f"samples certify at least {bound:.4g} where {claims.epsilon:.4g} is claimed"
    elif excess > 0:
        claimed = dict(claims.levels)[level]
        detail = f"at delta {level:g} samples certify at least {claimed + excess:.4g} where {claimed:.4g} is claimed"
    return Finding(test=SAMPLES_CLAIM, detail=detail)


def _first_counts(event: Event) -> tuple[tuple[int, ...], tuple[int, ...]]:
    (_, first), (_, second) = event.sides
    return tuple(first.counts[0].tolist()), tuple(second.counts[0].tolist())


def _law_findings(
    runs: SubjectRuns, law: Mechanism, votes: Votes, pairs: Sequence[Pair], claims: Claims, **settings: Any
) -> list[Finding]:
    """Compare samples on `votes` with the law, and for independent queries the law on all `pairs` with the claims."""
    findings = [Finding(test=SAMPLES_LAW, detail=law_contradiction(runs, law, votes, **settings))]
    return findings if isinstance(law, StatefulMechanism) else [*findings, _law_claim_finding(law, pairs, claims)]


def _law_claim_finding(law: Mechanism, pairs: Sequence[Pair], claims: Claims) -> Finding:
    """Compare the exact epsilon of the law with the claim, on each pair and at each delta."""
    for pair in pairs:
        costs = law_epsilons(law, pair, [delta for delta, _ in claims.levels])
        for (delta, claimed), exact in zip(claims.levels, costs, strict=True):
            if exact > claimed * (1 + _TOLERANCE) + _TOLERANCE:
                return Finding(
                    test=LAW_CLAIM,
                    detail=f"at delta {delta:g} the exact epsilon is {exact:.4g} with votes "
                    f"{tuple(pair[0].counts[0].tolist())} and {tuple(pair[1].counts[0].tolist())} where {claimed:.4g} "
                    "is claimed",
                )
    return Finding(test=LAW_CLAIM, detail=None)


def _answer_experiment(runs: SubjectRuns, pair: Pair, law: Mechanism | None) -> Experiment:
    """Return the experiment that distinguishes two neighbours by answers.

    Its statistics weight answers by the probabilities in a pilot or in the law, or count agreement.
    """
    queries, columns = pair[0].queries, pair[0].classes + 1
    kinds = kinds_of(*pair)

    def statistics(first: Observed, second: Observed) -> list[Statistic]:
        shares = [np.log(outcome_shares(answers, kinds, columns)) for answers in (first, second)]
        candidates = [table_statistic(shares[0] - shares[1])]
        if queries > 1 and any((answers < 0).any() for answers in (first, second)):
            logs = [
                np.log(outcome_shares(answers, kinds, columns, until_last_answer(answers)))
                for answers in (first, second)
            ]
            candidates.append(stopped_statistic(logs[0] - logs[1]))
        if law is not None and not isinstance(law, StatefulMechanism):
            logs = [for_rows(law, queries).log_probabilities(votes) for votes in pair]
            possible = np.maximum(logs[0], logs[1]) > -np.inf
            ratio = np.where(possible, np.maximum(logs[0], _MIN_LOG) - np.maximum(logs[1], _MIN_LOG), 0.0)
            candidates.append(table_statistic(ratio))
        if queries > 1:
            candidates.append(agreement)
        return candidates

    return Experiment(sides=((runs, pair[0]), (runs, pair[1])), statistics=statistics)


def _count_experiment(runs: CountRuns, pair: Pair) -> Experiment:
    """Return the experiment that projects released noisy counts on the difference of the exact counts."""
    difference = (pair[0].counts - pair[1].counts).ravel().astype(np.float64)
    return Experiment(
        sides=((runs, pair[0]), (runs, pair[1])), statistics=lambda first, second: [lambda counts: counts @ difference]
    )


def _as_floats(counts: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    return np.array(float(counts[0])), np.array(float(counts[1]))


def _default_queries(law: Mechanism | None, claimed: float | None, delta: float) -> int:
    """Return a number of queries whose claim can be measured, several if possible to detect shared noise."""
    if law is None or claimed is not None:
        return 1
    if law.fixed_queries is not None:
        return law.fixed_queries
    queries = _MAX_QUERIES
    while queries > _MIN_QUERIES and not worst_case(law, queries=queries, delta=delta).epsilon <= _TARGET_EPSILON:
        queries //= 2
    return queries


def _default_teachers(law: Mechanism | None, classes: int) -> int:
    """Return the first number of teachers whose unanimous vote nearly always wins, or the largest that is tried."""
    teachers = _MIN_TEACHERS
    while law is not None and teachers < _MAX_TEACHERS:
        unanimous = Votes(np.array([[teachers] + [0] * (classes - 1)]))
        if np.exp(for_rows(law, 1).log_probabilities(votes_for(law, unanimous)))[0, 0] > _CLEAR_MAJORITY:
            break
        teachers *= 2
    return teachers


def _law_votes(law: Mechanism, *, teachers: int, classes: int) -> Votes:
    queries = _LAW_ROWS if law.fixed_queries is None else law.fixed_queries
    return votes_for(law, diverse_votes(teachers=teachers, classes=classes, queries=queries))


def _check_pairs(neighbours: Pair | Sequence[Pair] | None) -> list[Pair]:
    if neighbours is None:
        return []
    items: list[Any] = [neighbours] if isinstance(neighbours[0], Votes) else list(neighbours)
    pairs = [require_neighbours((pair[0], pair[1])) for pair in items]
    if len({pair[0].queries for pair in pairs}) != 1:
        raise InvalidInput(f"neighbours must all have the same number of queries, got {pairs!r}.")
    return pairs
