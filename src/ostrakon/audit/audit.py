"""The audit: does a mechanism's own behaviour contradict the epsilon it claims?"""

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
    best_events,
    kinds_of,
    outcome_shares,
    seen,
    stopped_statistic,
    table_statistic,
    until_last_answer,
)
from ostrakon.audit.law import samples_follow
from ostrakon.audit.law_profile import law_epsilons, worst_neighbours
from ostrakon.audit.neighbours import Pair, diverse_votes, require_neighbours, votes_for
from ostrakon.audit.result import LAW_CLAIM, SAMPLES_CLAIM, SAMPLES_LAW, AuditResult, Finding
from ostrakon.audit.runs import CountRuns, Sampler, SubjectRuns, for_rows
from ostrakon.audit.table_noise import tables_follow
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism
from ostrakon.noise import require_rng
from ostrakon.validation import InvalidInput, fraction, whole
from ostrakon.votes import Votes

_LAW_ROWS = 512
_MOST_QUERIES, _FEWEST_QUERIES, _WANTED = 64, 4, 4.0
_TEACHERS, _MOST_TEACHERS, _AGREED = 100, 6_400, 0.9

# Shares of the error that the confidence leaves: the bound that is printed has nearly all of it; what else may refute
# a claim has so little that hundreds of audits of sound mechanisms pass.
_BOUND, _CURVE, _LAW, _TABLES = 0.98, 0.009, 0.001, 0.001
_NUMERICAL = 1e-6
_LEAST = -700.0


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
    """Look for a contradiction between what `subject` does and what it claims, on two neighbouring data sets.

    Tests, each named in `findings`: the noise of released tables (counts, sums of features) against its
    law; samples against the claim (at `delta`, and on the whole curve that a mechanism claims); samples against the law
    (do the answers have the probabilities that the mechanism states?); law against the claim (is the exact epsilon of
    that law on these neighbours above the claim? This needs no sampling).

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
        Of one run, at least 1. By default a number whose claimed epsilon is about 4, from 4 to 64; 1 if `claimed` is
        given.
    samples : int, default 30000
        Runs on each data set that count, at least 100; pilots of about as many choose pair and event.
    confidence : float, default 0.95
        In (0, 1).
    teachers, classes : int, optional
        Of the default neighbours, at least 2. By default a number of teachers whose unanimous vote is seldom
        overturned, and 3 classes.
    independent : bool
        Whether the subject draws its rows independently *without doubt*, so that many runs may be drawn as one batch;
        noise that rows share is then not noticed.

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

    Guarantee: whatever the subject is, `lower_bound` exceeds its true epsilon with probability at most 1 - confidence,
    and a subject that follows its law and keeps its claims is refuted with at most that probability, all tests
    together: pair, statistic and event are fixed by pilot runs; fresh runs count, by Clopper and Pearson's exact
    intervals. Finding nothing proves nothing.

    References
    ----------
    Clopper and Pearson 1934; Ding et al. 2018 and Jagielski, Ullman and Oprea 2020 (auditing by distinguishing
    neighbours).

    Examples
    --------
    >>> from ostrakon.mechanisms.contrib.immutable import Immutable
    >>> found = audit(Immutable(constant=100, gamma=0.1), delta=1e-5, samples=2_000, rng=np.random.default_rng(0))
    >>> found.refuted
    True
    """
    delta, confidence = fraction("delta", delta), fraction("confidence", confidence)
    samples, rng = whole("samples", samples, at_least=100), require_rng(rng)
    subject, mechanism, law = _priced_for_a_replaced_vote(subject, like)
    if law is None and claimed is None:
        raise InvalidInput("claimed must be given for a function that is not a mechanism of ostrakon, got None.")
    classes, error = whole("classes", classes, at_least=2), 1 - confidence
    queries = _queries(law, claimed, delta) if queries is None else whole("queries", queries, at_least=1)
    teachers = _teachers(law, classes) if teachers is None else whole("teachers", teachers, at_least=2)
    sizes = {"teachers": teachers, "classes": classes}
    pairs = _pairs(neighbours) or worst_neighbours(law, queries=queries, delta=delta, **sizes)
    claims = Claims.of(law, pairs[0][0], delta=delta, epsilon=claimed)
    runs = SubjectRuns(subject, independent=independent)

    def over_delta(hits: FloatArray, other: FloatArray) -> FloatArray:
        return certified_epsilon(hits, other, samples=samples, delta=delta, confidence=1 - _BOUND * error)

    def over_curve(hits: FloatArray, other: FloatArray) -> FloatArray:
        return claims.excess(hits, other, samples=samples, confidence=1 - _CURVE * error)[0]

    experiments = [_on_answers(runs, pair, law) for pair in pairs]
    if mechanism is not None and mechanism.releases_counts:
        experiments += [_on_counts(CountRuns(mechanism), pair) for pair in pairs[:2]]
    events = best_events(experiments, [over_delta, over_curve], samples=samples, rng=rng)
    at_delta, on_curve = seen(events, samples=samples, rng=rng)
    bound = float(over_delta(*_as_floats(at_delta)))
    curve = claims.excess(*_as_floats(on_curve), samples=samples, confidence=1 - _CURVE * error)
    findings = [_against_claim(bound, claims, *map(float, curve))]
    if mechanism is not None and (tables := tables_follow(mechanism, error=_TABLES * error, rng=rng)) is not None:
        findings.append(tables)
    if law is not None:
        votes = pairs[0][0] if neighbours is not None else _law_votes(law, **sizes)
        findings += _of_law(runs, law, votes, pairs, claims, samples=samples, error=_LAW * error, rng=rng)
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


def _priced_for_a_replaced_vote(
    subject: Mechanism | Sampler, like: Mechanism | None
) -> tuple[Mechanism | Sampler, Mechanism | None, Mechanism | None]:
    """The subject, itself if it is a mechanism, and the law. A price for a removed vote gives way to a higher one."""
    if isinstance(subject, Mechanism) and subject.relation == "take-out":
        subject = subject.under("replace")
    mechanism = subject if isinstance(subject, Mechanism) else None
    law = mechanism if like is None else like
    return subject, mechanism, law.under("replace") if law is not None and law.relation == "take-out" else law


def _against_claim(bound: float, claims: Claims, excess: float, level: float) -> Finding:
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


def _of_law(
    runs: SubjectRuns, law: Mechanism, votes: Votes, pairs: Sequence[Pair], claims: Claims, **settings: Any
) -> list[Finding]:
    """Samples on `votes` against the law, and the law on all `pairs` against the claims if queries have a law."""
    follow = Finding(test=SAMPLES_LAW, detail=samples_follow(runs, law, votes, **settings))
    return [follow] if isinstance(law, StatefulMechanism) else [follow, _law_against_claim(law, pairs, claims)]


def _law_against_claim(law: Mechanism, pairs: Sequence[Pair], claims: Claims) -> Finding:
    """The exact epsilon of the law, on each pair and at each delta, beside the claim there."""
    for pair in pairs:
        costs = law_epsilons(law, pair, [delta for delta, _ in claims.levels])
        for (delta, claimed), exact in zip(claims.levels, costs, strict=True):
            if exact > claimed * (1 + _NUMERICAL) + _NUMERICAL:
                return Finding(
                    test=LAW_CLAIM,
                    detail=f"at delta {delta:g} the law costs {exact:.4g} with votes "
                    f"{tuple(pair[0].counts[0].tolist())} and {tuple(pair[1].counts[0].tolist())} where {claimed:.4g} "
                    "is claimed",
                )
    return Finding(test=LAW_CLAIM, detail=None)


def _on_answers(runs: SubjectRuns, pair: Pair, law: Mechanism | None) -> Experiment:
    """Two neighbours distinguished by answers: weighted by probabilities of a pilot or the law, or by agreement."""
    queries, columns = pair[0].queries, pair[0].classes + 1
    kinds = kinds_of(*pair)

    def statistics(first: Observed, second: Observed) -> list[Statistic]:
        shares = [np.log(outcome_shares(answers, kinds, columns)) for answers in (first, second)]
        candidates = [table_statistic(shares[0] - shares[1])]
        if queries > 1 and any((answers < 0).any() for answers in (first, second)):
            asked = [
                np.log(outcome_shares(answers, kinds, columns, until_last_answer(answers)))
                for answers in (first, second)
            ]
            candidates.append(stopped_statistic(asked[0] - asked[1]))
        if law is not None and not isinstance(law, StatefulMechanism):
            logs = [for_rows(law, queries).log_probabilities(votes) for votes in pair]
            possible = np.maximum(logs[0], logs[1]) > -np.inf
            ratio = np.where(possible, np.maximum(logs[0], _LEAST) - np.maximum(logs[1], _LEAST), 0.0)
            candidates.append(table_statistic(ratio))
        if queries > 1:
            candidates.append(agreement)
        return candidates

    return Experiment(sides=((runs, pair[0]), (runs, pair[1])), statistics=statistics)


def _on_counts(runs: CountRuns, pair: Pair) -> Experiment:
    """Two neighbours distinguished by released noisy counts: along the direction in which the counts moved."""
    moved = (pair[0].counts - pair[1].counts).ravel().astype(np.float64)

    def along(counts: Observed) -> FloatArray:
        return counts @ moved

    def statistics(first: Observed, second: Observed) -> list[Statistic]:
        return [along]

    return Experiment(sides=((runs, pair[0]), (runs, pair[1])), statistics=statistics)


def _as_floats(counts: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    return np.array(float(counts[0])), np.array(float(counts[1]))


def _queries(law: Mechanism | None, claimed: float | None, delta: float) -> int:
    """Queries of one run: few enough to measure the claim, and several if possible, so that shared noise shows."""
    if law is None or claimed is not None:
        return 1
    if law.fixed_queries is not None:
        return law.fixed_queries
    queries = _MOST_QUERIES
    while queries > _FEWEST_QUERIES and not worst_case(law, queries=queries, delta=delta).epsilon <= _WANTED:
        queries //= 2
    return queries


def _teachers(law: Mechanism | None, classes: int) -> int:
    """A number of teachers whose unanimous vote is seldom overturned or refused, or the largest that is tried."""
    teachers = _TEACHERS
    while law is not None and teachers < _MOST_TEACHERS:
        unanimous = Votes(np.array([[teachers] + [0] * (classes - 1)]))
        if np.exp(for_rows(law, 1).log_probabilities(votes_for(law, unanimous)))[0, 0] > _AGREED:
            break
        teachers *= 2
    return teachers


def _law_votes(law: Mechanism, *, teachers: int, classes: int) -> Votes:
    queries = _LAW_ROWS if law.fixed_queries is None else law.fixed_queries
    return votes_for(law, diverse_votes(teachers=teachers, classes=classes, queries=queries))


def _pairs(neighbours: Pair | Sequence[Pair] | None) -> list[Pair]:
    if neighbours is None:
        return []
    given: list[Any] = [neighbours] if isinstance(neighbours[0], Votes) else list(neighbours)
    pairs = [require_neighbours((pair[0], pair[1])) for pair in given]
    if len({pair[0].queries for pair in pairs}) != 1:
        raise InvalidInput(f"neighbours must all have the same number of queries, got {pairs!r}.")
    return pairs
