"""What a mechanism is: public parameters, a sampler, its outcome law and its worst case."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ostrakon.votes import IntArray, Votes

FloatArray = NDArray[np.float64]

NO_ANSWER = -1

Noise = Literal["gaussian", "laplace", "gumbel"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCost:
    """What all queries of a run cost together: checks that are private by themselves, and failures that delta pays for.

    Either `mu`: the checks together are mu-Gaussian-DP; or `epsilon`: each of `checks` is epsilon-DP. Outside an event
    of probability at most `failure`, equal on both sides, the run is a function of its checks; inf where unbounded.
    `ostrakon.accounting.run_epsilon` turns it into an epsilon.
    """

    mu: float | None = None
    epsilon: float | None = None
    checks: int = 0
    failure: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdTest:
    """Answer iff max_j (n_j - offsets_j) + noise >= threshold.

    noise: "gaussian" (scale: its standard deviation) or "laplace" (scale: b). threshold, scale: in votes.
    offsets: public, shape (queries, classes), or None for 0.
    """

    threshold: float
    noise: Noise
    scale: float
    offsets: FloatArray | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyArgmax:
    """argmax_j (n_j + noise_j), the noise independent of everything else, after `threshold_test` where there is one.

    noise: "gaussian" (scale: its standard deviation), "laplace" (scale: b) or "gumbel" (scale: that of the
    exponential mechanism softmax(n / scale)). All have a log-concave distribution function, which is what the
    accountant's pruning rests on.
    """

    noise: Noise
    scale: float
    threshold_test: ThresholdTest | None = None


class Mechanism(ABC):
    """An aggregation mechanism: a frozen dataclass (keyword-only) of public parameters.

    Everything else (exact data-dependent cost, audit, forecast, report) follows from the three abstract methods.
    Adjacency everywhere: one vote moves between two classes (or to or from "abstain") on every query.
    """

    name: ClassVar[str]
    """The name on the command line."""

    releasable: ClassVar[bool] = True
    """Whether this mechanism's worst case may be the guarantee of a release."""

    releases_counts: ClassVar[bool] = False
    """Whether the noisy histograms leave, too, under the same guarantee (on a public grid, see `noisy_counts`)."""

    def require_votes(self, votes: Votes) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse votes on which the guarantee would not hold (`InvalidInput`); most mechanisms take any."""

    @abstractmethod
    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        """One noisy answer per query, shape (queries,); -1 (`NO_ANSWER`) where the mechanism refuses.

        rng: the only source of noise (`ostrakon.noise.secure_rng()`); the same draws give the same answers.
        """

    @abstractmethod
    def log_probabilities(self, votes: Votes) -> FloatArray:
        """Natural-log outcome probabilities, shape (queries, classes + 1); the last column is "no answer"."""

    @abstractmethod
    def worst_case(self, orders: FloatArray) -> FloatArray:
        """Data-independent Rényi cost of one query at each order (> 1), same shape as `orders`; inf where unbounded."""

    def gaussian_dp(self) -> tuple[float, float] | None:
        """(mu of the check that every query pays, mu of an answer), where the mechanism is Gaussian-DP; else None."""
        return None

    def pure_dp(self) -> float | None:
        """The epsilon of one query under pure differential privacy, where there is one; else None."""
        return None

    def run_cost(self, *, queries: int) -> RunCost | None:
        """What `queries` (at least 1) cost together where that is not so much for each of them; else None."""
        return None

    def for_queries(self, rows: NDArray[np.intp]) -> Mechanism:
        """The mechanism for `votes[rows]`: itself, unless its parameters hold one row per query."""
        return self

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax | None:
        """The mechanism on these votes as an argmax of counts plus independent noise, where it is one; else None.

        A faster way to the exact cost, never a different answer: the outcome law must be `log_probabilities`.
        """
        return None

    def parameters(self) -> dict[str, Any]:
        """The public parameters by name, as the statement prints them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(cast(Any, self))}


class StatefulMechanism(Mechanism):
    """A mechanism whose queries share state (sparse vector): charged worst-case only, never query by query."""
