"""Search for the gate's table with the smallest epsilon on public votes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr

from ostrakon.accounting.composition.rdp_to_delta import renyi_delta
from ostrakon.accounting.gate.certificate import Level, Points, gate_epsilon
from ostrakon.accounting.gate.envelope import Envelope
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.accounting.gate.profile_envelope import ProfileEnvelope, grid_around, has_profiles
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, PublicVotes

_ORDERS = np.array([2.0, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 21, 25, 30, 38, 50, 70, 100, 150, 250])
_DISTANCES = 64
_STEPS = 64
"""Distances beyond the teachers in hand that are computed one by one."""

_BETTER = 12
"""Scores below the planned one that pass with a higher probability."""

_LONGEST = 96
"""Scores of a table at an epsilon of 1 or more, and times epsilon below: shorter tables are quicker to check."""
_LEAST, _HIGHEST = 0.01, 500.0
_TIGHT = 1e-4
_DIGITS = 6

_MOST_WORK = 2e10
"""Products of a profile near the end of a table; a score needs some forty profiles, a second each at most."""

_IN_HAND = 0.4

Released = Callable[[int, float], tuple[float, float, float]]
"""From a distance and the largest delta of the released part: what a level limits, and the least epsilon of both."""


def teachers_in_hand(teachers: int) -> int:
    """Return the default number of teachers that may vote otherwise than planned: 0.4 times the root of their number.

    Votes of two ensembles of N teachers on the same queries differ by some root of N.
    """
    return int(_IN_HAND * math.sqrt(teachers))


class _Search(ABC):
    """Searches for a table, whatever its levels limit."""

    teachers: int
    in_hand: int

    @property
    @abstractmethod
    def grid(self) -> Points | None:
        """Of the levels; None for Rényi costs."""

    @abstractmethod
    def released(self, queries: int) -> Released:
        """Return what the first `queries` queries may cost."""

    def best(
        self, *, queries: int, delta: float, probability: float, prefix_mu: float = 0.0
    ) -> tuple[float, list[Level]]:
        """Return (epsilon, table) of the first `queries` queries; (inf, []) if no noise of this size has a bound."""
        steepest = self._steepest(queries, delta=delta, probability=probability, mu=prefix_mu)
        low, high = 0.0, 0.25
        while not steepest.table(high):
            low, high = high, 2 * high
            if high > _HIGHEST:
                return math.inf, []
        while high - low > _TIGHT * high:
            middle = (low + high) / 2
            low, high = (low, middle) if steepest.table(middle) else (middle, high)
        table = steepest.table(high)
        return gate_epsilon(table, delta=delta, prefix_mu=prefix_mu, grid=self.grid), table

    def within(
        self, *, queries: int, delta: float, probability: float, epsilon: float, prefix_mu: float
    ) -> list[Level]:
        """Return the table for this epsilon; empty if there is none."""
        return self._steepest(queries, delta=delta, probability=probability, mu=prefix_mu).table(epsilon)

    def _steepest(self, queries: int, *, delta: float, probability: float, mu: float) -> "_Steepest":
        released = self.released(queries)
        return _Steepest(released, self.in_hand, self.teachers, delta=delta, probability=probability, mu=mu)


@dataclass(frozen=True, kw_only=True, eq=False)
class GateSearch(_Search):
    """The envelopes of public votes at several orders, for searches with any number of first queries.

    The search may be heuristic: the certificate is computed from its result.
    queries: of the votes. in_hand: the number of teachers that may vote otherwise. orders: shape (K,). steps:
    distances.
    cost: of the first queries together, by their number, shape (K, queries, distances), or of all of them alone,
    (K, 1, distances).
    """

    queries: int
    teachers: int
    in_hand: int
    orders: FloatArray
    steps: IntArray
    cost: FloatArray

    @classmethod
    def of(
        cls, votes: PublicVotes, mechanism: Mechanism, *, in_hand: int | None = None, every_number: bool = True,
        report: Report | None = None,
    ) -> Self:  # fmt: skip
        """Return the envelopes of these votes.

        in_hand: default `teachers_in_hand`. every_number: whether any number of first queries may be searched; False:
        only all, in less memory. report: called with (done, total) distinct histograms.
        """
        require_public(votes)
        n = votes.teachers
        hand = teachers_in_hand(n) if in_hand is None else in_hand
        spread = np.round(np.linspace(0, n, min(n, _DISTANCES) + 1)).astype(np.int64)
        steps = np.unique(np.concatenate([spread, np.minimum(np.arange(hand, hand + _STEPS), n)]))
        envelope = Envelope.of(votes, mechanism, orders=_ORDERS)
        if every_number:
            cost = envelope.by_query(steps, report)
            np.cumsum(cost, axis=1, out=cost)
        else:
            cost = envelope.summed(steps, report)[:, None]
        return cls(queries=votes.queries, teachers=n, in_hand=hand, orders=_ORDERS, steps=steps, cost=cost)

    @property
    def grid(self) -> None:
        """No grid: Rényi costs."""

    def costs(self, queries: int) -> FloatArray:
        """Return the envelope of the first `queries` queries, rounded up, shape (K, distances)."""
        if self.cost.shape[1] < self.queries != queries:
            raise InvalidInput(f"queries must be all {self.queries}, whose envelopes alone were kept, got {queries!r}.")
        cost = self.cost[:, min(queries, self.cost.shape[1]) - 1]
        with np.errstate(all="ignore"):
            unit = 10.0 ** (np.floor(np.log10(cost)) - _DIGITS + 1)
            return np.where(np.isfinite(cost), np.ceil(cost / unit * (1 + 1e-12)) * unit, np.inf)

    def released(self, queries: int) -> Released:
        """Return levels of the best Rényi order."""
        costs = self.costs(queries)
        # An order too high for the noise has no bound, or none that could be the best.
        kept = np.isfinite(costs).all(axis=1)
        orders, costs = self.orders[kept], costs[kept]
        offset = orders * np.log1p(-1 / orders) - np.log(orders - 1)

        def released(distance: int, target: float) -> tuple[float, float, float]:
            if not len(orders):
                return math.inf, math.inf, math.inf
            cost, log_target = costs[:, int(np.searchsorted(self.steps, distance))], math.log(target)
            estimates = cost + (offset - log_target) / (orders - 1)
            k = int(np.argmin(estimates))
            a, r, x = float(orders[k]), float(cost[k]), float(estimates[k])
            for _ in range(4):
                delta = float(renyi_delta(np.array([r]), np.array([x]), a)[0])
                x = max(x - 0.9 * (log_target - math.log(max(delta, 1e-300))) / (a - 1), 0.0)
            return a, r, x

        return released


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileSearch(_Search):
    """The privacy profiles of public votes, for searches of all queries together.

    steps: the distances at which profiles are computed; others take the next larger one.
    """

    teachers: int
    in_hand: int
    steps: IntArray
    envelope: ProfileEnvelope

    @classmethod
    def of(cls, votes: PublicVotes, mechanism: Mechanism, *, epsilon: float, delta: float, in_hand: int) -> Self | None:
        """Return the search around an epsilon by Rényi costs; None where profiles are not known, or take too long."""
        n = votes.teachers
        if not has_profiles(mechanism, teachers=n, classes=votes.classes, abstentions=votes.abstentions):
            return None
        grid = grid_around(epsilon, queries=votes.queries, delta=delta)
        envelope = ProfileEnvelope.of(votes, mechanism, grid)
        if envelope.work(in_hand + _STEPS) > _MOST_WORK:
            return None
        spread = np.concatenate([np.arange(12), np.arange(12, 36, 2), np.arange(36, n + 4, 4)])
        steps = np.minimum(in_hand + spread, n)
        return cls(teachers=n, in_hand=in_hand, steps=steps, envelope=envelope)

    @property
    def grid(self) -> Points:
        """Of the envelope."""
        return self.envelope.grid.step, self.envelope.grid.count

    def released(self, queries: int) -> Released:
        """Return levels of the smallest point of the grid."""

        def released(distance: int, target: float) -> tuple[float, float, float]:
            values = self.envelope.at(int(self.steps[np.searchsorted(self.steps, distance)]))
            unit = 10.0 ** (math.floor(math.log10(target)) - _DIGITS + 1)
            most = min(math.floor(target / unit * (1 - 1e-12)) * unit, 1.0)
            allowed = np.flatnonzero(values[1:] <= most)
            if not len(allowed):
                return math.inf, math.inf, math.inf
            point = int(allowed[0]) + 1
            return float(point), most, point * self.grid[0]

        return released


class _Steepest:
    """The table whose probabilities fall fastest, for every epsilon: a lower one allows a lower one next."""

    def __init__(
        self, released: Released, hand: int, teachers: int, *, delta: float, probability: float, mu: float
    ) -> None:
        self.released, self.hand, self.teachers = released, hand, teachers
        self.delta, self.probability, self.mu = delta, probability, mu

    def table(self, epsilon: float) -> list[Level]:
        """Return the table at this epsilon; empty if there is none."""
        passes = self._better(epsilon)
        planned = len(passes) - 1
        table: list[Level] = []
        for t in range(int(_LONGEST / min(epsilon, 1.0)) if epsilon > _LEAST else 0):
            # Scores better than planned are held to the planned cost.
            distance = min(self.hand + max(t - planned, 0), self.teachers)
            order, cost, x = self.released(distance, min(self._of_released() / passes[t], 1.0))
            if x > epsilon:
                return []
            table.append((passes[t], order, cost))
            if passes[t] <= self._of_released():
                return table
            if t >= planned:
                passes.append(self._next(passes[t], epsilon, x))
                if passes[t + 1] > passes[t] * (1 - 1e-6):
                    return []
            if math.log(passes[t] / passes[t + 1]) > epsilon - x + 1e-12:
                return []
        return []

    def _of_released(self) -> float:
        return self.delta * (1 - 1e-6) * (0.9 if self.mu else 1.0)

    def _better(self, epsilon: float) -> list[float]:
        """Return probabilities of the scores up to the planned one."""
        refused = [1 - self.probability]
        for _ in range(min(self.hand, _BETTER)):
            low, high = -epsilon, 0.0
            for _ in range(40 if self.mu else 0):
                middle = (low + high) / 2
                fine = self._refused_allowed(refused[0] * math.exp(middle), -middle, epsilon)
                low, high = (low, middle) if fine else (middle, high)
            refused.insert(0, refused[0] * math.exp(high if self.mu else -epsilon * (1 - 1e-9)))
        return [_rounded(1 - value) for value in refused]

    def _next(self, passes: float, epsilon: float, x: float) -> float:
        """Return the least probability that may follow."""
        refused = 1 - passes
        grows = epsilon * (1 - 1e-9)
        if self.mu:
            low, high = 0.0, grows
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (middle, high) if self._refused_allowed(refused, middle, epsilon) else (low, middle)
            grows = low
        most = min(refused * math.exp(grows), 1.0) if refused else self.delta / 2
        fewest = passes * math.exp(-(epsilon - max(x, 0.0)))
        return _rounded(max(1 - most, fewest, self.delta * 1e-3))

    def _refused_allowed(self, refused: float, grows: float, epsilon: float) -> bool:
        """Return whether refusals may grow by e^grows: what the prefix then adds to delta."""
        if not self.mu:
            return grows <= epsilon
        x, mu = epsilon - grows, self.mu
        added = float(ndtr(mu / 2 - x / mu) - math.exp(min(x, 700.0)) * ndtr(-mu / 2 - x / mu))
        return min(refused * math.exp(grows), 1.0) * added <= self.delta * 0.09


def _rounded(probability: float) -> float:
    """Return the probability with few digits: upward, and nearer to 1 where it is near 1."""
    if probability > 0.9:
        unit = 10.0 ** (math.floor(math.log10(max(1 - probability, 1e-12))) - _DIGITS + 1)
        return 1 - round(math.floor((1 - probability) / unit) * unit, 17)
    unit = 10.0 ** (math.floor(math.log10(probability)) - _DIGITS + 1)
    return math.ceil(probability / unit) * unit


def require_public(votes: PublicVotes) -> None:
    """Refuse votes that are not public, or empty."""
    if not isinstance(votes, PublicVotes):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise InvalidInput(
            "public_votes must be PublicVotes (simulated, published, or cast on public data): what is planned on the "
            f"private votes would leak them, got {type(votes).__name__}."
        )
    if not votes.queries:
        raise InvalidInput("public_votes must hold at least one query, got 0.")
