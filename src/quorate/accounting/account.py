"""One call that prices a run: worst case, exact local cost, the papers' bound and a forecast."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from quorate.accounting.curve import DEFAULT_ORDERS, Conversion, Curve, require_orders
from quorate.accounting.epsilons import LOCAL_NOTICE, Local, WorstCase
from quorate.accounting.exact import local_costs
from quorate.accounting.forecast import Forecast, forecast
from quorate.accounting.published import published_curve
from quorate.accounting.worst_case import worst_case
from quorate.checks import fraction
from quorate.mechanisms.base import Mechanism, TiedMechanism
from quorate.votes import Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Account:
    """What a run costs, in types that are not mixed.

    worst_case: the guarantee; publishable. local: exact data-dependent cost, private (None where the mechanism has
    none). published: the papers' data-dependent bound, private (None where there is none). forecast: private.
    """

    worst_case: WorstCase
    local: Local | None
    published: Local | None
    forecast: Forecast | None
    notice: str = LOCAL_NOTICE


def account(
    votes: Votes,
    mechanism: Mechanism,
    *,
    delta: float,
    orders: ArrayLike = DEFAULT_ORDERS,
    conversion: Conversion = "cks",
    max_answers: int | None = None,
) -> Account:
    """Price `mechanism` on `votes`: worst case (publishable), exact local cost and published bound (private).

    delta: of (epsilon, delta)-DP. orders: Rényi orders to minimise over. conversion: "cks" or "mironov", for the
    two data-dependent epsilons. max_answers: a cap on the answers fixed before the votes were seen, if any.

    Guarantee: only `worst_case` is one. `local` and `published` depend on the votes and must not be published.
    Errors: `InvalidInput` for values out of range.
    Source: MATH.md A to C.

    >>> from quorate.mechanisms import GNMax
    >>> cost = account(Votes([[240, 10], [130, 120]]), GNMax(sigma2=40), delta=1e-5)
    >>> cost.worst_case.kind, cost.worst_case.epsilon < 0.2
    ('worst-case', True)
    >>> cost.local
    Local(<private: call reveal() inside the room>)
    """
    delta = fraction("delta", delta)
    a = require_orders(orders)
    bound = worst_case(
        mechanism,
        queries=votes.queries,
        delta=delta,
        max_answers=max_answers,
        teachers=votes.teachers,
        classes=votes.classes,
        abstentions=votes.abstentions,
    )
    if isinstance(mechanism, TiedMechanism):
        return Account(worst_case=bound, local=None, published=None, forecast=None)
    costs = local_costs(votes, mechanism, a)
    local, order = _local(Curve(a, costs.sum(axis=0)), delta, conversion)
    curve = published_curve(votes, mechanism, a)
    return Account(
        worst_case=bound,
        local=local,
        published=None if curve is None else _local(curve, delta, conversion)[0],
        forecast=forecast(votes, mechanism, costs=costs, orders=a, curve_order=order),
    )


def _local(curve: Curve, delta: float, conversion: Conversion) -> tuple[Local, float]:
    epsilon, order = curve.epsilon(delta=delta, conversion=conversion)
    return Local(epsilon=epsilon, delta=delta, order=order), order
