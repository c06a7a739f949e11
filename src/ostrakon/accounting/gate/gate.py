"""The gate: release a batch of answers only if the votes agree enough."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ostrakon.accounting.epsilons import Gated
from ostrakon.accounting.gate.certificate import Level, Points, gate_delta, gate_epsilon, require_grid, require_levels
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.accounting.gate.profile_envelope import has_profiles
from ostrakon.accounting.gate.score import level
from ostrakon.accounting.gate.search import GateSearch, ProfileSearch, require_public
from ostrakon.mechanisms.base import NO_ANSWER, Mechanism
from ostrakon.noise import require_rng
from ostrakon.numerics.inverse import most
from ostrakon.numerics.rounding import sum_above
from ostrakon.validation import InvalidInput, fraction, non_negative, positive, whole
from ostrakon.votes import IntArray, PublicVotes, Votes

_TOLERANCE = 1e-6
"""More than the relative error of `gate_epsilon`."""

_TRIES = 3
"""Guesses of the longest run by profiles."""


class Unbounded(InvalidInput):
    """No gate bounds the cost of these votes at this noise; more noise may help."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate on one batch of queries. All its parameters are public and fixed before private votes are seen.

    Parameters
    ----------
    mechanism : Mechanism
        An argmax of counts plus noise.
    queries, teachers, classes : int
    abstentions : bool
        The shape of the batch of votes.
    delta : float in (0, 1)
        Of the certificate.
    levels : sequence of (float, float, float)
        The table. Votes of score t pass with the probability of `levels[t]`, if their cost at its Rényi order is at
        most its cost; the next levels hold for votes of one teacher less consensus each. Votes of higher scores never
        pass.
    grid : (float, int), optional
        For two classes without abstentions: the step and the number of the epsilons at which privacy profiles by
        adaptive composition are compared. A level then has a point of the grid and the largest delta there, in place
        of an order and a cost.
    prefix : int
        After a refusal the first `prefix` queries are still answered by the same mechanism. The certificate covers this
        data-independent release.

    Raises
    ------
    InvalidInput
        For numbers out of range, or a mechanism that is not an argmax of counts plus noise.

    Notes
    -----
    Guarantee: `release` is (epsilon, delta)-DP as `certificate()` says, for all votes, when one teacher's votes change
    arbitrarily on all queries of the batch. The queries must be chosen before the teachers vote. Batches compose as any
    (epsilon, delta): `compose`.

    References
    ----------
    docs/mathematics.md D6.
    """

    mechanism: Mechanism
    queries: int
    teachers: int
    classes: int
    delta: float
    levels: Sequence[Level]
    prefix: int = 0
    abstentions: bool = False
    grid: Points | None = None

    def __post_init__(self) -> None:
        whole("queries", self.queries, at_least=1)
        whole("teachers", self.teachers, at_least=1)
        whole("classes", self.classes, at_least=2)
        fraction("delta", self.delta)
        object.__setattr__(self, "grid", require_grid(self.grid))
        object.__setattr__(self, "levels", require_levels(self.levels, self.grid))
        sizes = {"teachers": self.teachers, "classes": self.classes}
        if self.grid is not None and not has_profiles(self.mechanism, **sizes, abstentions=self.abstentions):
            raise InvalidInput(
                "grid must be None but for two classes, no abstentions and an argmax of counts plus noise whose law is "
                f"the same for every query, got {self.grid!r} for {self.mechanism.name} of {self.classes} classes."
            )
        whole("prefix", self.prefix, at_most=self.queries)
        if self.prefix and self.mechanism.gaussian_dp() is None:
            raise InvalidInput(f"prefix must be 0 for {self.mechanism.name}, which is not Gaussian-DP.")

    @property
    def prefix_mu(self) -> float:
        """Gaussian DP of the answers after a refusal."""
        return _prefix_mu(self.mechanism, self.prefix)

    @classmethod
    def plan(
        cls,
        public_votes: PublicVotes,
        mechanism: Mechanism,
        *,
        delta: float,
        epsilon: float | None = None,
        pass_probability: float = 0.95,
        in_hand: int | None = None,
        prefix_price: float = 0.0,
        adaptive: bool = True,
        search: GateSearch | None = None,
        report: Report | None = None,
    ) -> Self:
        """Plan the gate with the smallest epsilon, or the most queries, that passes votes like these.

        Parameters
        ----------
        public_votes : PublicVotes
            Votes that depend on no private record: simulated (`simulate_votes`), published, or of teachers of public
            data. Plain `Votes` are refused: a gate fitted to the votes that it guards leaks them.
        mechanism : Mechanism
        delta : float in (0, 1)
        epsilon : float, optional
            Default: the smallest epsilon for all queries. A number: the longest run of the first queries within it.
        pass_probability : float in (0, 1)
            Of all votes that up to `in_hand` teachers cast otherwise than the public ones. The public votes themselves
            pass with a higher probability.
        in_hand : int, optional
            Default: 0.4 times the root of the number of teachers, 6 of 250.
        prefix_price : float, at least 0
            The share of epsilon for answers after a refusal; 0: no answers.
        adaptive : bool
            Whether levels may limit profiles by adaptive composition: a smaller epsilon for two classes, in some
            seconds more. False: Rényi costs.
        search : GateSearch, optional
            Of the same votes and mechanism, to reuse.
        report : callable, optional
            Called with (done, total) for the distinct histograms of the votes.

        Returns
        -------
        Gate

        Raises
        ------
        InvalidInput
            For plain `Votes`, and if not even one query fits into epsilon.
        Unbounded
            If the noise is too small for any bound.
        """
        require_public(public_votes)
        delta, probability = fraction("delta", delta), fraction("pass_probability", pass_probability)
        price = non_negative("prefix_price", prefix_price)
        hand = None if in_hand is None else whole("in_hand", in_hand, at_most=public_votes.teachers)
        if search is None:
            search = GateSearch.of(
                public_votes, mechanism, in_hand=hand, every_number=epsilon is not None, report=report
            )
        if epsilon is None:
            return cls._closest(search, public_votes, mechanism, delta, probability, price, adaptive=adaptive)
        return cls._longest(
            search, public_votes, mechanism, delta, probability, price, positive("epsilon", epsilon), adaptive=adaptive
        )

    @classmethod
    def _longest(
        cls, search: GateSearch, votes: PublicVotes, mechanism: Mechanism, delta: float, probability: float,
        price: float, epsilon: float, *, adaptive: bool,
    ) -> Self:  # fmt: skip
        """Return the longest run of the first queries within `epsilon`, with its prefix."""

        def first(allowed: float) -> int:
            def fits(queries: int) -> bool:
                return search.best(queries=queries, delta=delta, probability=probability)[0] <= allowed

            return most(fits, at_least=0, below=votes.queries + 1)

        few = first(epsilon / (1 + price))
        if not few:
            raise InvalidInput(
                f"epsilon must allow at least one query at these votes and this noise, got {epsilon!r}: "
                f"one query needs {search.best(queries=1, delta=delta, probability=probability)[0]:.3g}."
            )

        def of(queries: int, *, adaptive: bool) -> Self:
            some = votes[slice(0, queries)]
            return cls._closest(search, some, mechanism, delta, probability, price, adaptive=adaptive)

        gate = of(few, adaptive=adaptive)
        if gate.grid is None:
            return gate
        # By profiles epsilon is smaller, so more queries fit; how many is guessed from what these gain.
        aim = epsilon * of(few, adaptive=False).certificate().epsilon / gate.certificate().epsilon
        for _ in range(_TRIES):
            longer = of(first(aim / (1 + price)), adaptive=True)
            if longer.certificate().epsilon <= epsilon:
                return longer
            aim *= 0.999 * epsilon / longer.certificate().epsilon
        return gate

    @classmethod
    def _closest(
        cls, search: GateSearch, votes: PublicVotes, mechanism: Mechanism, delta: float, probability: float,
        price: float, *, adaptive: bool,
    ) -> Self:  # fmt: skip
        """Return the gate of all these queries with the smaller epsilon: by Rényi costs, or by profiles."""
        gate = cls._fitted(search, votes, mechanism, delta, probability)
        if adaptive:
            epsilon, in_hand = gate.certificate().epsilon, search.in_hand
            closer = ProfileSearch.of(votes, mechanism, epsilon=epsilon, delta=delta, in_hand=in_hand)
            if closer is not None:
                smaller, levels = closer.best(queries=votes.queries, delta=delta, probability=probability)
                if smaller < epsilon:
                    return replace(gate, levels=levels, grid=closer.grid)._with_prefix(closer, probability, price)
        return gate._with_prefix(search, probability, price)

    @classmethod
    def _fitted(
        cls, search: GateSearch, votes: PublicVotes, mechanism: Mechanism, delta: float, probability: float
    ) -> Self:
        epsilon, levels = search.best(queries=votes.queries, delta=delta, probability=probability)
        if not math.isfinite(epsilon):
            raise Unbounded(f"{mechanism!r} has so little noise that no gate bounds what these votes cost.")
        return cls(
            mechanism=mechanism,
            queries=votes.queries,
            teachers=votes.teachers,
            classes=votes.classes,
            delta=delta,
            levels=levels,
            abstentions=votes.abstentions,
        )

    def _with_prefix(self, search: GateSearch | ProfileSearch, probability: float, price: float) -> Self:
        """Return the same gate with the number of answers after a refusal that raises its epsilon by this share."""
        if price == 0 or self.mechanism.gaussian_dp() is None:
            return self
        allowed = self.certificate().epsilon * (1 + price)
        aim = allowed * (1 - _TOLERANCE)

        def planned(prefix: int) -> Self | None:
            mu = _prefix_mu(self.mechanism, prefix)
            levels = search.within(
                queries=self.queries, delta=self.delta, probability=probability, epsilon=aim, prefix_mu=mu
            )
            gate = replace(self, prefix=prefix, levels=levels) if levels else None
            return gate if gate is not None and gate.certificate().epsilon <= allowed else None

        answers = most(lambda prefix: planned(prefix) is not None, at_least=0, below=self.queries + 1)
        return (planned(answers) if answers else None) or self

    def certificate(self) -> Gated:
        """Return the unconditional guarantee of `release`, rounded upward."""
        epsilon = gate_epsilon(self.levels, delta=self.delta, prefix_mu=self.prefix_mu, grid=self.grid)
        return Gated(epsilon=epsilon, delta=self.delta, levels=tuple(self.levels), grid=self.grid)

    def delta_at(self, epsilon: float) -> float:
        """Return an upper bound on the delta at which `release` is (epsilon, delta)-DP."""
        return gate_delta(self.levels, epsilon=epsilon, prefix_mu=self.prefix_mu, grid=self.grid)

    def score(self, votes: Votes) -> int:
        """Return phi of these votes: a whole number of teachers. Private if the votes are."""
        self.require_shape(votes)
        return level(votes, self.mechanism, self.levels, self.grid)

    def pass_probability(self, votes: Votes) -> float:
        """Return the probability that `decide` releases these votes. Private if the votes are."""
        score = self.score(votes)
        return self.levels[score][0] if score < len(self.levels) else 0.0

    def decide(self, votes: Votes, rng: np.random.Generator) -> bool:
        """Return whether the outputs may be released: one draw from `rng`. Call it once per batch.

        The certificate covers the decision, which may be published; a second decision would cost again.
        """
        uniform = float(require_rng(rng).random())
        return uniform < self.pass_probability(votes)

    def release(self, votes: Votes, rng: np.random.Generator) -> tuple[bool, IntArray]:
        """Return (whether the gate passed, one answer per query; -1 for none). The certificate covers both.

        Passed: the mechanism's answers. Refused: those of the first `prefix` queries only.
        """
        passed = self.decide(votes, rng)
        answers = np.full(votes.queries, NO_ANSWER)
        asked = votes.queries if passed else self.prefix
        if asked:
            rows = np.arange(asked)
            answers[:asked] = self.mechanism.for_queries(rows).sample(votes[slice(0, asked)], rng)
        return passed, answers

    def as_dict(self) -> dict[str, Any]:
        """Return the table and the prefix as plain values: with the mechanism and the shape of the votes,
        `Gate(**values)`.
        """
        grid = {} if self.grid is None else {"grid": list(self.grid)}
        return {"levels": [list(level) for level in self.levels], **grid, "prefix": self.prefix}

    def require_shape(self, votes: Votes) -> None:
        """Refuse votes of another shape than the gate was planned for."""
        shape = (votes.queries, votes.teachers, votes.classes, votes.abstentions)
        planned = (self.queries, self.teachers, self.classes, self.abstentions)
        if shape != planned:
            raise InvalidInput(
                f"votes must have the (queries, teachers, classes, abstentions) of the gate, {planned}, got {shape}."
            )


def compose(*batches: Gated) -> tuple[float, float]:
    """Return (epsilon, delta) of several gated batches together; queries of later ones may depend on earlier answers.

    Rounded upward.

    Source: Dwork and Roth 2014, Theorem 3.16 (basic composition, valid adaptively).
    """
    return sum_above(g.epsilon for g in batches), sum_above(g.delta for g in batches)


def _prefix_mu(mechanism: Mechanism, prefix: int) -> float:
    gaussian = mechanism.gaussian_dp()
    if prefix == 0 or gaussian is None:
        return 0.0
    check, answer = gaussian
    return math.sqrt(prefix * (check**2 + answer**2))
