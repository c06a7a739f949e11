"""One call that prices a run: worst case, exact data-dependent cost, the papers' bound and a forecast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.accounting.data_dependent.exact import costs_and_chances
from ostrakon.accounting.data_dependent.forecast import Forecast, forecast
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE, DataDependent, Gated, Sanitized, WorstCase
from ostrakon.accounting.gate.envelope_tables import Report
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.sanitizer import Sanitizer
from ostrakon.accounting.gate.search import GateSearch
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Conversion, Curve, require_orders
from ostrakon.html_table import html_table
from ostrakon.mechanisms.base import Mechanism, StatefulMechanism
from ostrakon.validation import InvalidInput, fraction
from ostrakon.votes import PublicVotes, Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Account:
    """What a run costs, in types that are not mixed.

    worst_case: the guarantee; publishable. data_dependent: the exact cost at these votes, private (None where there is
    none). published: the papers' data-dependent bound, private (None where there is none). forecast: private.
    gated: the guarantee of a gate planned on public votes, publishable, with the pass_probability it was planned
    for. sanitized: a noisy estimate, publishable. Both None where no public votes were given to plan on, or the
    mechanism is not an argmax of counts plus noise. notice: what must be said beside the private ones.
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
        """The publishable numbers; what is private does not show itself."""
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
    pass_probability: float = 0.99,
    rng: np.random.Generator | None = None,
    report: Report | None = None,
) -> Account:
    """Price `mechanism` on `votes`: worst case (publishable), exact data-dependent cost and published bound (private).

    delta: of (epsilon, delta)-DP. orders: Rényi orders to minimise over. conversion: "cks" or "mironov", for the
    two data-dependent epsilons. max_answers: a cap on the answers fixed before the votes were seen, if any.
    public_votes: votes of the same shape that depend on no private record (`simulate_votes`); a gate that passes them
    with `pass_probability` and a sanitizer are planned on them. rng: the source of the sanitized estimate's noise;
    every call draws it anew, at its own cost, so keep the first. None: no estimate.
    report: told (done, total) as the distinct histograms of `public_votes` are done.

    Guarantee: only `worst_case` and `gated` are one, the latter for answers released through that gate.
    `data_dependent` and `published` depend on the votes and must not be published.
    Errors: `InvalidInput` for values out of range.
    Source: docs/mathematics.md A to C.

    >>> from ostrakon.mechanisms import GNMax
    >>> cost = account(Votes([[240, 10], [130, 120]]), GNMax(sigma2=40), delta=1e-5)
    >>> cost.worst_case.kind, cost.worst_case.epsilon < 0.2
    ('worst-case', True)
    >>> cost.data_dependent
    DataDependent(<private: call reveal() on the trusted side>)
    """
    delta = fraction("delta", delta)
    mechanism.require_votes(votes)
    a = require_orders(orders)
    bound = worst_case_of(votes, mechanism, delta=delta, max_answers=max_answers, adaptive=True)
    if isinstance(mechanism, StatefulMechanism):
        return Account(worst_case=bound, data_dependent=None, published=None, forecast=None)
    gate, sanitized = _through_a_gate(votes, mechanism, public_votes, delta, pass_probability, rng, report)
    costs, chances = costs_and_chances(votes, mechanism, a)
    local, order = _data_dependent(Curve(a, costs.sum(axis=0)), delta, conversion)
    curve = published_curve(votes, mechanism, a)
    return Account(
        worst_case=bound,
        data_dependent=local,
        published=None if curve is None else _data_dependent(curve, delta, conversion)[0],
        forecast=forecast(votes, costs=costs, chances=chances, orders=a, curve_order=order),
        gated=None if gate is None else gate.certificate(),
        pass_probability=None if gate is None else pass_probability,
        sanitized=sanitized,
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
    # Votes of one kind are looked at once, for both.
    search = GateSearch.of(public_votes, mechanism, every_number=False, report=report)
    gate = Gate.plan(public_votes, mechanism, delta=delta, pass_probability=pass_probability, search=search)
    gate.require_shape(votes)
    if rng is None:
        return gate, None
    return gate, Sanitizer.plan(public_votes, mechanism, delta=delta, search=search).publish(votes, rng)


def _data_dependent(curve: Curve, delta: float, conversion: Conversion) -> tuple[DataDependent, float]:
    epsilon, order = curve.epsilon(delta=delta, conversion=conversion)
    return DataDependent(epsilon=epsilon, delta=delta, order=order), order
