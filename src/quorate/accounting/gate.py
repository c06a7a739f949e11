"""The gate: release a batch of answers only where the votes agree so much that they cost little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr

from quorate.accounting.envelope import highest_cost
from quorate.accounting.epsilons import Gated
from quorate.accounting.gate_certificate import gate_delta, gate_epsilon
from quorate.accounting.gate_search import search_curve
from quorate.accounting.score import CostCurve, score
from quorate.accounting.worst_case import worst_case
from quorate.checks import InvalidInput, fraction, positive, whole
from quorate.mechanisms.base import NO_ANSWER, Mechanism
from quorate.noise import require_rng
from quorate.votes import IntArray, PublicVotes, Votes


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate on one batch of queries: all its parameters are public and fixed before private votes are seen.

    mechanism: what answers. queries, teachers, classes, abstentions: the shape of the batch of votes. delta: of the
    certificate. order, B, kappa: the cost curve `r(t) = B e^{kappa t}` at a Rényi order. s: standard deviation of the
    noise on the score, in teachers. prefix: after a refusal, the first `prefix` queries are answered all the same, by
    the same mechanism, as a data-independent release that the certificate covers.

    Guarantee: `release` is (epsilon, delta)-DP as `certificate()` says, whatever the votes: when one teacher's votes
    change arbitrarily on all queries of the batch. The queries must be chosen before the batch is asked. Batches
    compose as any (epsilon, delta): `compose`.
    Errors: `InvalidInput` for numbers out of range, or a mechanism that is not an argmax of counts plus noise.
    Source: MATH.md D6.
    """

    mechanism: Mechanism
    queries: int
    teachers: int
    classes: int
    delta: float
    order: float
    B: float
    kappa: float
    s: float
    prefix: int = 0
    abstentions: bool = False

    def __post_init__(self) -> None:
        whole("queries", self.queries, at_least=1)
        whole("teachers", self.teachers, at_least=1)
        whole("classes", self.classes, at_least=2)
        fraction("delta", self.delta)
        for name in ("order", "B", "kappa", "s"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        whole("prefix", self.prefix, at_most=self.queries)
        if self.prefix and self.mechanism.gaussian_dp() is None:
            raise InvalidInput(f"prefix must be 0 for {self.mechanism.name}, which is not Gaussian-DP.")
        _ = self.curve

    @property
    def curve(self) -> CostCurve:
        """r, cut off at the data-independent cost of the batch."""
        highest = highest_cost(
            self.mechanism,
            queries=self.queries,
            teachers=self.teachers,
            classes=self.classes,
            order=self.order,
            abstentions=self.abstentions,
        )
        return CostCurve(order=self.order, B=self.B, kappa=self.kappa, highest=highest)

    @property
    def prefix_mu(self) -> float:
        """Gaussian DP of the answers that follow a refusal."""
        return _prefix_mu(self.mechanism, self.prefix)

    @classmethod
    def plan(
        cls,
        public_votes: PublicVotes,
        mechanism: Mechanism,
        *,
        delta: float,
        epsilon: float | None = None,
        pass_probability: float = 0.99,
        prefix_epsilon: float | None = None,
    ) -> Self:
        """The gate for votes like these: the smallest epsilon, or the most queries, that passes with this probability.

        public_votes: votes that depend on no private record (`PublicVotes`): simulated (`simulate_votes`), published,
        or of teachers of public data. Plain `Votes` are refused: a gate fitted to the votes it guards leaks them.
        epsilon: None: the smallest epsilon for all queries. A number: the longest run of the first queries that stays
        within it. prefix_epsilon: after a refusal, as many first answers as cost this much by themselves; default:
        none.

        Errors: `InvalidInput` for plain `Votes`; where not even one query fits into epsilon.
        """
        if not isinstance(public_votes, PublicVotes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                "public_votes must be PublicVotes (simulated, published, or cast on public data): a gate planned on "
                f"the private votes would leak them, got {type(public_votes).__name__}."
            )
        delta, probability = fraction("delta", delta), fraction("pass_probability", pass_probability)
        if epsilon is None:
            return cls._smallest(public_votes, mechanism, delta, probability, prefix_epsilon)
        epsilon = positive("epsilon", epsilon)
        gate = cls._smallest(public_votes, mechanism, delta, probability, prefix_epsilon)
        few, many, found = 0, public_votes.queries + 1, None
        if gate.certificate().epsilon <= epsilon:
            return gate
        many = public_votes.queries
        while many - few > 1:
            middle = (few + many) // 2
            gate = cls._smallest(public_votes[slice(0, middle)], mechanism, delta, probability, prefix_epsilon)
            if gate.certificate().epsilon <= epsilon:
                few, found = middle, gate
            else:
                many = middle
        if found is None:
            raise InvalidInput(
                f"epsilon must allow at least one query at these votes and this noise, got {epsilon!r}: "
                f"one query needs {gate.certificate().epsilon:.3g}."
            )
        return found

    @classmethod
    def _smallest(
        cls,
        votes: PublicVotes,
        mechanism: Mechanism,
        delta: float,
        probability: float,
        prefix_epsilon: float | None,
    ) -> Self:
        prefix = 0
        if prefix_epsilon is not None:
            prefix = _affordable(mechanism, votes.queries, positive("prefix_epsilon", prefix_epsilon), delta)
        order, b, kappa, s = search_curve(
            votes, mechanism, delta=delta, probability=probability, prefix_mu=_prefix_mu(mechanism, prefix)
        )
        return cls(
            mechanism=mechanism,
            queries=votes.queries,
            teachers=votes.teachers,
            classes=votes.classes,
            delta=delta,
            order=order,
            B=b,
            kappa=kappa,
            s=s,
            prefix=prefix,
            abstentions=votes.abstentions,
        )

    def certificate(self) -> Gated:
        """The unconditional guarantee of `release`, rounded upward."""
        epsilon = gate_epsilon(self.curve, s=self.s, delta=self.delta, prefix_mu=self.prefix_mu)
        return Gated(epsilon=epsilon, delta=self.delta, order=self.order, B=self.B, kappa=self.kappa, s=self.s)

    def delta_at(self, epsilon: float) -> float:
        """An upper bound on the delta at which `release` is (epsilon, delta)-DP."""
        return gate_delta(self.curve, s=self.s, epsilon=epsilon, prefix_mu=self.prefix_mu)

    def score(self, votes: Votes) -> float:
        """phi of these votes. Private where the votes are."""
        self._require_shape(votes)
        return score(votes, self.mechanism, self.curve)

    def pass_probability(self, votes: Votes) -> float:
        """The probability that `decide` releases at these votes. Private where the votes are."""
        return float(ndtr(-self.score(votes) / self.s))

    def decide(self, votes: Votes, rng: np.random.Generator) -> bool:
        """Whether the outputs may be released: one noisy comparison, drawn from `rng`. To be asked once per batch.

        The decision itself is covered by the certificate and may be published; a second one would be a second cost.
        """
        noise = self.s * float(require_rng(rng).normal())
        return self.score(votes) + noise <= 0

    def release(self, votes: Votes, rng: np.random.Generator) -> tuple[bool, IntArray]:
        """(whether the gate passed, one answer per query; -1 for none): all that may leave, covered by the certificate.

        Passed: the mechanism's answers. Refused: those of the first `prefix` queries, and none for the rest.
        """
        passed = self.decide(votes, rng)
        answers = np.full(votes.queries, NO_ANSWER)
        asked = votes.queries if passed else self.prefix
        if asked:
            rows = np.arange(asked)
            answers[:asked] = self.mechanism.for_queries(rows).sample(votes[slice(0, asked)], rng)
        return passed, answers

    def _require_shape(self, votes: Votes) -> None:
        shape = (votes.queries, votes.teachers, votes.classes, votes.abstentions)
        planned = (self.queries, self.teachers, self.classes, self.abstentions)
        if shape != planned:
            raise InvalidInput(
                f"votes must have the (queries, teachers, classes, abstentions) of the gate, {planned}, got {shape}."
            )


def compose(*batches: Gated) -> tuple[float, float]:
    """(epsilon, delta) of several gated batches together, queries of later ones chosen in sight of earlier answers.

    Source: Dwork and Roth 2014, Theorem 3.16 (basic composition, valid adaptively).
    """
    return math.fsum(g.epsilon for g in batches), math.fsum(g.delta for g in batches)


def _prefix_mu(mechanism: Mechanism, prefix: int) -> float:
    gaussian = mechanism.gaussian_dp()
    if prefix == 0 or gaussian is None:
        return 0.0
    check, answer = gaussian
    return math.sqrt(prefix * (check**2 + answer**2))


def _affordable(mechanism: Mechanism, queries: int, epsilon: float, delta: float) -> int:
    few, many = 0, queries + 1
    while many - few > 1:
        middle = (few + many) // 2
        cost = worst_case(mechanism, queries=middle, delta=delta).epsilon
        few, many = (middle, many) if cost <= epsilon else (few, middle)
    return few
