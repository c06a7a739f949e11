"""`account` prices a run: worst case, exact data-dependent cost, the papers' bound and a forecast."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.data_dependent.adaptive import adaptive_epsilon
from ostrakon.accounting.data_dependent.exact import costs_and_chances
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE, DataDependent, Forecast, Gated, Sanitized, WorstCase
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.sanitizer import Sanitizer
from ostrakon.accounting.gate.search import GateSearch
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Conversion, Curve, require_orders
from ostrakon.html_table import html_table
from ostrakon.mechanisms.base import FloatArray, Mechanism, StatefulMechanism, require_mechanism
from ostrakon.validation import InvalidInput, fraction
from ostrakon.votes import PublicVotes, Votes

EFFORT = 6
"""`account` prices one run, where a plan prices several: it may take this much longer."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Account:
    """The costs of a run, as types that cannot be mixed.

    Parameters
    ----------
    worst_case : WorstCase
        The guarantee; publishable.
    data_dependent : DataDependent or None
        The exact cost of these votes; private.
    published : DataDependent or None
        The papers' data-dependent bound; private.
    forecast : DataDependent or None
        Private.
    gated : Gated or None
        The guarantee of a gate planned on public votes; publishable. None without public votes, or if the mechanism is
        not an argmax of counts plus noise.
    pass_probability : float or None
        The probability with which votes like the public ones pass the gate, as in `Gate.plan`.
    sanitized : Sanitized or None
        A noisy estimate; publishable. None in the same cases.
    notice : str
        The warning to print with the private numbers.
    """

    worst_case: WorstCase
    data_dependent: DataDependent | None
    published: DataDependent | None
    forecast: Forecast | None
    gated: Gated | None = None
    pass_probability: float | None = None
    sanitized: Sanitized | None = None
    notice: str = DATA_DEPENDENT_NOTICE

    def _repr_html_(self) -> str:
        """Return the publishable numbers alone."""
        guarantees = {"worst case": self.worst_case, "gated": self.gated}
        rows = [
            (name, f"epsilon {g.epsilon:.4g}, delta {g.delta:g}") for name, g in guarantees.items() if g is not None
        ]
        return html_table("Privacy cost", rows, note="Private costs are not shown: see data_dependent.reveal().")


def account(
    votes: Votes,
    mechanism: Mechanism,
    *,
    delta: float,
    orders: ArrayLike = DEFAULT_ORDERS,
    conversion: Conversion = "cks",
    max_answers: int | None = None,
    public_votes: PublicVotes | None = None,
    pass_probability: float = 0.95,
    rng: np.random.Generator | None = None,
    report: Report | None = None,
) -> Account:
    """Compute the epsilons of `mechanism` on `votes`.

    Parameters
    ----------
    votes : Votes
        Private vote counts.
    mechanism : Mechanism
    delta : float in (0, 1)
    orders : array-like of floats above 1
        Rényi orders to minimise over.
    conversion : {"cks", "mironov"}
        From Rényi to (epsilon, delta), for the two data-dependent epsilons.
    max_answers : int, optional
        A cap on the answers, fixed before the votes were seen.
    public_votes : PublicVotes, optional
        Votes of the same shape that depend on no private record (`simulate_votes`). A gate and a sanitizer are planned
        on them.
    pass_probability : float in (0, 1)
        Probability that the gate passes votes like `public_votes`, as in `Gate.plan`.
    rng : numpy.random.Generator, optional
        Noise of the sanitized estimate. Every call draws again, at its own cost: keep the first result. Default: no
        estimate.
    report : callable, optional
        Called with (done, total) for the distinct histograms of `public_votes`.

    Returns
    -------
    Account
        The costs; only `worst_case`, `gated` and `sanitized` may be published.

    Raises
    ------
    InvalidInput
        If a value is out of range.

    Notes
    -----
    Guarantee: `worst_case`, and `gated` for answers that were released through that gate. `data_dependent` and
    `published` depend on the votes and must not be published.

    References
    ----------
    docs/mathematics.md A to C.

    Examples
    --------
    >>> from ostrakon.mechanisms import GNMax
    >>> cost = account(Votes([[240, 10], [130, 120]]), GNMax(sigma2=40), delta=1e-5)
    >>> cost.worst_case.kind, cost.worst_case.epsilon < 0.2
    ('worst-case', True)
    >>> cost.data_dependent
    DataDependent(<private: call reveal() on the trusted side>)
    """
    delta = fraction("delta", delta)
    if not isinstance(votes, Votes):  # pyright: ignore[reportUnnecessaryIsInstance] (untyped callers)
        raise InvalidInput(f"votes must be ostrakon.Votes, got {type(votes).__name__}.")
    require_mechanism(mechanism)
    mechanism.require_votes(votes)
    a = require_orders(orders)
    bound = worst_case_of(votes, mechanism, delta=delta, max_answers=max_answers, adaptive=True, effort=EFFORT)
    if isinstance(mechanism, StatefulMechanism):
        return Account(worst_case=bound, data_dependent=None, published=None, forecast=None)
    gate, sanitized = _through_a_gate(votes, mechanism, public_votes, delta, pass_probability, rng, report)
    costs, chances = costs_and_chances(votes, mechanism, a)
    total = Curve(a, costs.sum(axis=0))
    local, order = _data_dependent(total, delta, conversion)
    if conversion == "cks":
        local = _adaptively(votes, mechanism, local, delta)
    curve = published_curve(votes, mechanism, a)
    return Account(
        worst_case=bound,
        data_dependent=local,
        published=None if curve is None else _data_dependent(curve, delta, conversion)[0],
        forecast=_forecast(costs[:, int(np.flatnonzero(a == order)[0])], chances, order),
        gated=None if gate is None else gate.certificate(),
        pass_probability=None if gate is None else pass_probability,
        sanitized=sanitized,
    )


def _forecast(costs: FloatArray, chances: FloatArray, order: float) -> Forecast:
    """Return the forecast from the queries' costs at that order, and their chances of an answer and of the plurality's.

    Of tied classes the lowest is the plurality.
    """
    answers = float(chances[:, 0].sum())
    return Forecast(
        queries=len(costs),
        expected_answers=answers,
        expected_agreement=float(chances[:, 1].sum()) / answers if answers > 0 else math.nan,
        data_dependent_cost=float(costs.sum()),
        order=order,
    )


def _through_a_gate(
    votes: Votes,
    mechanism: Mechanism,
    public_votes: PublicVotes | None,
    delta: float,
    pass_probability: float,
    rng: np.random.Generator | None,
    report: Report | None,
) -> tuple[Gate | None, Sanitized | None]:
    if public_votes is None or answer_law(mechanism, teachers=votes.teachers, classes=votes.classes) is None:
        return None, None
    if not votes.classes_are_public:
        raise InvalidInput(
            f"classes must be given where a gate is planned: {votes.classes} were read off the private predictions."
        )
    # Gate and sanitizer share one search, so each distinct histogram is priced once.
    search = GateSearch.of(public_votes, mechanism, every_number=False, report=report)
    gate = Gate.plan(public_votes, mechanism, delta=delta, pass_probability=pass_probability, search=search)
    gate.require_shape(votes)
    if rng is None:
        return gate, None
    return gate, Sanitizer.plan(public_votes, mechanism, delta=delta, search=search).publish(votes, rng)


def _data_dependent(curve: Curve, delta: float, conversion: Conversion) -> tuple[DataDependent, float]:
    epsilon, order = curve.epsilon(delta=delta, conversion=conversion)
    return DataDependent(epsilon=epsilon, delta=delta, order=order), order


def _adaptively(votes: Votes, mechanism: Mechanism, known: DataDependent, delta: float) -> DataDependent:
    """Return the cost by adaptive composition, if it is smaller."""
    by_curve = known.reveal()
    if not 0 < by_curve["epsilon"] < math.inf:
        return known
    epsilon = adaptive_epsilon(votes, mechanism, epsilon=by_curve["epsilon"], delta=delta)
    return DataDependent(epsilon=epsilon, delta=delta) if epsilon < by_curve["epsilon"] else known
