"""The interface of a mechanism: public parameters, a sampler, the outcome law and the worst case."""

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.validation import InvalidInput, finite, marked_fields, positive, quote, scale, settle, whole
from ostrakon.votes import FloatArray, IntArray, Moments, Votes

NO_ANSWER = -1

DEFAULT_NOISE = 0.2
"""Default deviation of the vote noise as a share of the teachers: a lead of half the votes stays visible."""

Noise = Literal["gaussian", "laplace", "gumbel"]

Relation = Literal["add-remove", "replace", "take-out", "labels"]
"""add-remove: one data set has one record (or user) more. replace: both have the same size, and one record differs.
take-out: one record is removed while the published number of records stays. labels: the same rows and features; the
labels of one record (or user) differ, and membership is public.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """A public parameter of a mechanism, used in its annotation: `Annotated[float, Parameter(...)]`.

    Parameters
    ----------
    help : str
        One sentence with the unit, shown by the command line.
    check : callable
        From (name, value) to the accepted value, or an error.
    noise : {-1, 0, 1}
        1 if more noise means a larger value, -1 if it means a smaller one, 0 if the parameter is not noise.
    option : bool, default True
        Whether a plain number can give it, as on a command line.
    """

    help: str
    check: Callable[[str, Any], Any]
    noise: Literal[-1, 0, 1] = 0
    option: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteShares:
    """Whole numbers, each released with a sum of independent discrete Gaussians.

    Parameters
    ----------
    count : int
        Number of Gaussians in a sum, at least 1.
    scale : float
        Their parameter, in steps of the numbers; above 0.
    shift : float
        How far one unit's data move the numbers, in L2, in steps; above 0.
    cells : int
        How many numbers one unit's data move at most, at least 1.

    Raises
    ------
    InvalidInput
        For numbers out of range.
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
    """The cost of all queries of a run together: checks that are private themselves, and failures that delta pays for.

    Parameters
    ----------
    mu : float, optional
        The checks together are mu-Gaussian-DP.
    epsilon : float, optional
        Each of `checks` is epsilon-DP.
    shares : DiscreteShares, optional
        The run is one release of whole numbers with summed noise.
    checks : int
        Number of checks that are epsilon-DP.
    failure : float, default 0
        Probability of an event that is equally likely on both sides; inf means unbounded. Without it, the run is a
        function of its checks.

    Notes
    -----
    At most one of `mu`, `epsilon` and `shares` is given; without any, the cost is unbounded.
    `ostrakon.accounting.run_epsilon` turns it into an epsilon.
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
    """argmax_j (n_j + noise_j), the noise independent of everything else, after an optional `threshold_test`.

    noise: "gaussian" (scale: its standard deviation), "laplace" (scale: b) or "gumbel" (scale: that of the exponential
    mechanism softmax(n / scale)). All have a log-concave distribution function, which the accountant's pruning needs.
    """

    noise: Noise
    scale: float
    threshold_test: ThresholdTest | None = None


class Mechanism(ABC):
    """An aggregation mechanism: a frozen dataclass (keyword-only) of public parameters, each annotated by `Parameter`.

    Notes
    -----
    Everything else (exact data-dependent cost, audit, forecast, report) follows from the three abstract methods.
    Adjacency everywhere: one vote moves between two classes (or to or from "abstain") on every query.
    """

    name: ClassVar[str]
    """The name on the command line."""

    releasable: ClassVar[bool] = True
    """Whether this mechanism's worst case may be the guarantee of a release."""

    releases_counts: ClassVar[bool] = False
    """Whether the noisy histograms are released, too, under the same guarantee (on a public grid, see
    `noisy_counts`).
    """

    integer_noise: ClassVar[bool] = False
    """Whether its noise is `ostrakon.noise.discrete_gaussian`, as the statement then says; not other noise in steps."""

    ranked: ClassVar[bool] = False
    """Whether the order of the classes counts, from low to high: its answers are near the right class in ranks."""

    per_record: ClassVar[bool] = False
    """Whether every record (or user) of a run is a teacher, so that their number is public."""

    def __post_init__(self) -> None:
        settle(self, **{name: parameter.check for name, parameter in self.declared().items()})

    @classmethod
    def declared(cls) -> dict[str, Parameter]:
        """Return the parameters by name, in the order of the fields."""
        return dict(_declared(cls))

    @classmethod
    def defaults(cls, teachers: int, given: dict[str, Any]) -> dict[str, Any]:
        """Return values for parameters that are not given, in proportion to the number of teachers.

        Parameters
        ----------
        teachers : int
            Their public number.
        given : dict
            Parameters by name.

        Returns
        -------
        dict
            Empty if all parameters are required.
        """
        return {}

    @property
    def vote_noise(self) -> float | None:
        """Standard deviation of the noise on one count, in votes; None if counts get none."""
        return None

    @property
    def moment_noise(self) -> float | None:
        """Standard deviation of the noise on the released sums of features by class, in votes; None if none are
        released.
        """
        return None

    @property
    def error_noise(self) -> float | None:
        """Standard deviation of the noise on released counts of a student's errors, in votes; None without any."""
        return None

    @property
    def histogram_noise(self) -> float | None:
        """Standard deviation of the noise on a released histogram of the target, in votes; None without one."""
        return None

    @property
    def correction_noise(self) -> float | None:
        """Standard deviation of the noise on released sums that correct a student, in votes; None without any."""
        return None

    @property
    def cost_shares(self) -> dict[str, float]:
        """Shares of the cost (of mu squared), summing to 1, of everything released with the answers, by its
        description.
        """
        return {"answers": 1.0}

    @property
    def contribution_bound(self) -> int | None:
        """The number of queries on which a teacher may vote, if the guarantee needs that bound; else None."""
        return None

    @property
    def warning(self) -> str:
        """The warning to show with a mechanism that is not private as its authors claim; else empty."""
        return ""

    def claimed_epsilon(self, *, queries: int, delta: float) -> float | None:
        """Return the epsilon that the authors of a mechanism claim and that does *not* hold; None for all others."""
        return None

    def require_votes(self, votes: Votes) -> None:  # noqa: B027 (most have nothing to refuse)
        """Refuse votes for which the guarantee does not hold (`InvalidInput`); most mechanisms accept any."""

    @abstractmethod
    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        """Return one noisy answer per query.

        Parameters
        ----------
        votes : Votes
        rng : numpy.random.Generator
            The only source of noise (`ostrakon.noise.secure_rng()`); the same draws give the same answers.

        Returns
        -------
        array of int, shape (queries,)
            Classes; -1 (`NO_ANSWER`) if the mechanism refuses.
        """

    @property
    def relation(self) -> Relation:
        """The neighbours that the guarantee is for where a teacher is one record, or all that one record may change."""
        return "add-remove"

    def under(self, relation: Relation) -> "Mechanism":
        """Return the same noise, priced for other neighbours; refused if that price is unknown."""
        if relation != self.relation:
            raise InvalidInput(f"{self.name} has a price for {self.relation} alone, got {relation}.")
        return self

    def noisy_counts(self, votes: Votes, rng: np.random.Generator) -> FloatArray:
        """Return the histograms with noise, (queries, classes): publishable if `releases_counts`; refused otherwise."""
        raise InvalidInput(f"{self.name} releases answers alone, not counts.")

    def noisy_moments(self, moments: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the sums of features with noise, (directions, classes): publishable if there is `moment_noise`."""
        raise InvalidInput(f"{self.name} releases no sums of features.")

    def noisy_histogram(self, histogram: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the histogram of the target with noise, (bins, 1): publishable if there is `histogram_noise`."""
        raise InvalidInput(f"{self.name} releases no histogram of the target.")

    def noisy_corrections(self, corrections: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the sums that correct a student, with noise, (directions, classes): publishable if there is
        `correction_noise`. Draw them once.
        """
        raise InvalidInput(f"{self.name} releases no corrections.")

    def noisy_errors(self, errors: Moments, rng: np.random.Generator) -> FloatArray:
        """Return the counts of a student's errors by size, with noise, (bins, 1): publishable if there is
        `error_noise`.
        """
        raise InvalidInput(f"{self.name} releases no counts of errors.")

    @abstractmethod
    def log_probabilities(self, votes: Votes) -> FloatArray:
        """Return the natural logarithms of the outcome probabilities.

        Parameters
        ----------
        votes : Votes

        Returns
        -------
        array of float, shape (queries, classes + 1)
            The last column is "no answer".
        """

    @abstractmethod
    def worst_case(self, orders: FloatArray) -> FloatArray:
        """Return the data-independent Rényi cost of one query.

        Parameters
        ----------
        orders : array of float
            Above 1.

        Returns
        -------
        array of float, shape of orders
            Nats; inf if unbounded.
        """

    def gaussian_dp(self) -> tuple[float, float] | None:
        """Return (mu of the check of every query, mu of an answer) if the mechanism is Gaussian-DP, else None."""
        return None

    def pure_dp(self) -> float | None:
        """Return the epsilon of one query under pure differential privacy; None if it has none."""
        return None

    def run_cost(self, *, queries: int) -> RunCost | None:
        """Return the cost of all queries together, if it differs from the sum of their costs; else None.

        Parameters
        ----------
        queries : int
            At least 1.

        Returns
        -------
        RunCost or None
        """
        return None

    def for_queries(self, rows: NDArray[np.intp]) -> "Mechanism":
        """Return the mechanism for `votes[rows]`: itself, unless its parameters have one row per query."""
        return self

    @property
    def fixed_queries(self) -> int | None:
        """The number of queries that its parameters are for, if they have one row per query; None: any number."""
        return None

    def noisy_argmax(self, votes: Votes) -> NoisyArgmax | None:
        """Return the mechanism on these votes as an argmax of counts plus independent noise; None if it is not one.

        Its outcome law must be `log_probabilities` exactly: exact costs, gates and worst cases rest on it.
        """
        return None

    def comparison(self, classes: int) -> "Mechanism | None":
        """Return the two-class query by which the mechanism bisects ordered classes; None if it does not.

        Of the classes that are left, the votes at or below the middle one (rounded down) are compared with those above
        it. An answer must be a function of these comparisons alone, each with noise of its own; its price is theirs.
        """
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters by name, as in the statement."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(cast(Any, self))}

    def noise_parameters(self) -> dict[str, float]:
        """Return the given parameters that set the noise; calibration scales them."""
        values = {name: getattr(self, name) for name, parameter in self.declared().items() if parameter.noise}
        return {name: value for name, value in values.items() if value is not None}


class StatefulMechanism(Mechanism):
    """A mechanism whose queries share state (sparse vector): only its worst case has a price, not a single query."""


@functools.cache
def require_mechanism(mechanism: Any) -> None:
    """Refuse anything but a mechanism."""
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput(f"mechanism must be one of ostrakon.mechanisms, got {quote(mechanism)}.")


def _declared(kind: type[Mechanism]) -> tuple[tuple[str, Parameter], ...]:
    annotated = marked_fields(kind, Parameter)
    bare = [field.name for field in dataclasses.fields(cast(Any, kind)) if field.name not in annotated]
    if bare:
        raise TypeError(f"{kind.__name__}.{bare[0]} must be annotated by one Parameter, got 0.")
    return tuple(annotated.items())


def laplace_deviation(gamma: float) -> float:
    """Convert the inverse scale of Laplace noise to its standard deviation, in votes, or back."""
    return math.sqrt(2) / gamma


def gumbel_deviation(epsilon: float) -> float:
    """Convert the epsilon of Gumbel noise (scale 2 / epsilon) to its standard deviation, in votes, or back."""
    return 2 / epsilon * math.pi / math.sqrt(6)


def finite_orders(orders: ArrayLike) -> FloatArray:
    """Return the Rényi orders as floats, same shape; refused (`InvalidInput`) unless finite numbers above 1, at least
    one.
    """
    try:
        array = np.array(orders)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    if array.dtype.kind in "iuf" and array.size:
        array = array.astype(np.float64)
        if np.isfinite(array).all() and (array > 1).all():
            return array
    raise InvalidInput(f"orders must be finite numbers above 1, got {quote(orders)}.")


# Parameters that several mechanisms share.
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
