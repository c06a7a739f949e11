"""What a mechanism is: public parameters, a sampler, its outcome law and its worst case."""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.validation import InvalidInput, finite, marked_fields, positive, scale, settle, shown, whole
from ostrakon.votes import IntArray, Moments, Votes

FloatArray = NDArray[np.float64]

NO_ANSWER = -1

DEFAULT_NOISE = 0.2
"""Default deviation of the vote noise in numbers of teachers: a lead of half the votes stays legible."""

Noise = Literal["gaussian", "laplace", "gumbel"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """What all must know of a public parameter; stands in its annotation, as `Annotated[float, Parameter(...)]`.

    help: one sentence with the unit, shown by the command line. check: from (name, value) to the value that is kept,
    or a refusal. noise: 1 where more noise means a larger value, -1 where it means a smaller one, 0 for what is none.
    option: whether a plain number can give it, as on a command line.
    """

    help: str
    check: Callable[[str, Any], Any]
    noise: Literal[-1, 0, 1] = 0
    option: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteShares:
    """Whole numbers, each released under a sum of `count` independent discrete Gaussians of parameter `scale`.

    shift: how far one unit's data move the numbers, in L2; cells: how many of them they move at most. scale and shift
    are in steps of the numbers, all are above 0. Errors: `InvalidInput` for others.
    """

    count: int
    scale: float
    shift: float
    cells: int

    def __post_init__(self) -> None:
        for name in ("count", "cells"):
            whole(name, getattr(self, name), at_least=1)
        for name in ("scale", "shift"):
            positive(name, getattr(self, name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCost:
    """What all queries of a run cost together: checks that are private by themselves, and failures that delta pays for.

    Either `mu`: the checks together are mu-Gaussian-DP; or `epsilon`: each of `checks` is epsilon-DP; or `shares`: the
    run is one release of whole numbers under summed noise. Outside an event of probability at most `failure`, equal on
    both sides, the run is a function of its checks; inf where unbounded. `ostrakon.accounting.run_epsilon` turns it
    into an epsilon.
    """

    mu: float | None = None
    epsilon: float | None = None
    shares: DiscreteShares | None = None
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
    """An aggregation mechanism: a frozen dataclass (keyword-only) of public parameters, each annotated by `Parameter`.

    Everything else (exact data-dependent cost, audit, forecast, report) follows from the three abstract methods.
    Adjacency everywhere: one vote moves between two classes (or to or from "abstain") on every query.
    """

    name: ClassVar[str]
    """The name on the command line."""

    releasable: ClassVar[bool] = True
    """Whether this mechanism's worst case may be the guarantee of a release."""

    releases_counts: ClassVar[bool] = False
    """Whether the noisy histograms leave, too, under the same guarantee (on a public grid, see `noisy_counts`)."""

    integer_noise: ClassVar[bool] = False
    """Whether its noise is drawn in whole steps by an exact sampler (`ostrakon.noise.discrete_gaussian`)."""

    per_record: ClassVar[bool] = False
    """Whether a run with it makes every record (or user) a teacher of its own, so that their number is public."""

    def __post_init__(self) -> None:
        settle(self, **{name: parameter.check for name, parameter in self.declared().items()})

    @classmethod
    def declared(cls) -> dict[str, Parameter]:
        """The parameters by name, in the order of the fields."""
        return dict(_declared(cls))

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        """Values for what is not `given`, in proportion to the number of teachers (public); {}: all must be given."""
        return {}

    @property
    def vote_noise(self) -> float | None:
        """Standard deviation of the noise on one count, in votes; None where counts get none."""
        return None

    @property
    def moment_noise(self) -> float | None:
        """Standard deviation of the noise on the sums of features by class that leave, too, in votes; None: none do."""
        return None

    @property
    def cost_shares(self) -> dict[str, float]:
        """Shares of the cost (of mu squared), summing to 1, of what leaves together with the answers, in words."""
        return {"answers": 1.0}

    @property
    def contribution_bound(self) -> int | None:
        """Queries on which a teacher may vote, where the guarantee rests on that bound; else None."""
        return None

    @property
    def warning(self) -> str:
        """What must be said wherever a mechanism that is not private as its authors claim is shown; else empty."""
        return ""

    def claimed_epsilon(self, *, queries: int, delta: float) -> float | None:
        """The epsilon that the authors of a mechanism claim and that is *not* true; None for all others."""
        return None

    def require_votes(self, votes: Votes) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse votes on which the guarantee would not hold (`InvalidInput`); most mechanisms take any."""

    @abstractmethod
    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        """One noisy answer per query, shape (queries,); -1 (`NO_ANSWER`) where the mechanism refuses.

        rng: the only source of noise (`ostrakon.noise.secure_rng()`); the same draws give the same answers.
        """

    def absence_cost(self, *, queries: int) -> RunCost:
        """What all queries cost when a teacher abstains on all of them instead; refused where unknown."""
        raise InvalidInput(f"{self.name} has no price for a teacher that abstains everywhere.")

    def noisy_counts(self, votes: Votes, rng: np.random.Generator) -> FloatArray:
        """The histograms with noise, (queries, classes): publishable where `releases_counts`; refused otherwise."""
        raise InvalidInput(f"{self.name} releases answers alone, not counts.")

    def noisy_moments(self, moments: Moments, rng: np.random.Generator) -> FloatArray:
        """The sums of features with noise, (directions, classes): publishable where there is `moment_noise`."""
        raise InvalidInput(f"{self.name} releases no sums of features.")

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

    @property
    def fixed_queries(self) -> int | None:
        """How many queries its parameters are for, where they hold one row per query; None: for any number."""
        return None

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax | None:
        """The mechanism on these votes as an argmax of counts plus independent noise, where it is one; else None.

        A faster way to the exact cost, never a different answer: the outcome law must be `log_probabilities`.
        """
        return None

    def parameters(self) -> dict[str, Any]:
        """The public parameters by name, as the statement prints them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(cast(Any, self))}

    def noise_parameters(self) -> dict[str, float]:
        """Those of the parameters that set the noise, where they are given: what calibration scales."""
        values = {name: getattr(self, name) for name, parameter in self.declared().items() if parameter.noise}
        return {name: value for name, value in values.items() if value is not None}


class StatefulMechanism(Mechanism):
    """A mechanism whose queries share state (sparse vector): charged worst-case only, never query by query."""


@functools.cache
def _declared(kind: type[Mechanism]) -> tuple[tuple[str, Parameter], ...]:
    found = marked_fields(kind, Parameter)
    bare = [field.name for field in dataclasses.fields(cast(Any, kind)) if field.name not in found]
    if bare:
        raise TypeError(f"{kind.__name__}.{bare[0]} must be annotated by one Parameter, got 0.")
    return tuple(found.items())


def laplace_deviation(gamma: float) -> float:
    """Standard deviation of Laplace noise of inverse scale gamma, in votes; and the gamma of a deviation."""
    return math.sqrt(2) / gamma


def gumbel_deviation(epsilon: float) -> float:
    """Standard deviation of the Gumbel noise of scale 2 / epsilon, in votes; and the epsilon of a deviation."""
    return 2 / epsilon * math.pi / math.sqrt(6)


def finite_orders(orders: ArrayLike) -> FloatArray:
    """Rényi orders as floats, same shape; refused (`InvalidInput`) unless finite numbers above 1, at least one."""
    try:
        array = np.array(orders)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind in "iuf" and array.size:
        array = array.astype(np.float64)
        if np.isfinite(array).all() and (array > 1).all():
            return array
    raise InvalidInput(f"orders must be finite numbers above 1, got {shown(orders)}.")


# Parameters that several mechanisms have, with the same meaning.
VoteSigma = Annotated[float, Parameter(help="Standard deviation of the vote noise, in votes.", check=scale, noise=1)]
ThresholdSigma = Annotated[
    float, Parameter(help="Standard deviation of the threshold test's noise, in votes.", check=scale, noise=1)
]
Gamma = Annotated[float, Parameter(help="Inverse scale of the Laplace vote noise, per vote.", check=scale, noise=-1)]
EpsilonPerQuery = Annotated[float, Parameter(help="Pure epsilon of one answer.", check=scale, noise=-1)]
Threshold = Annotated[float, Parameter(help="Votes that count as agreement.", check=finite)]
StabilityThreshold = Annotated[
    float, Parameter(help="Votes that must move before the plurality changes, for an answer.", check=scale)
]
ThresholdScale = Annotated[
    float, Parameter(help="Laplace scale of the threshold test's noise, in votes.", check=scale, noise=1)
]
