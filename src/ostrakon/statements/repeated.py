"""The statement of a repeated fit on private records that may be the same: the cost of all fits together."""

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

from ostrakon.accounting.adjacent import Adjacent
from ostrakon.accounting.consent import LevelClaim
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.accounting.privacy_curve import PrivacyCurve
from ostrakon.statements.statement import Statement, delta_in_words, epsilon_in_words, weak_remark

_MANY = "a search, a cross-validation or an ensemble of scikit-learn"
_NO_CLAIM = "This release is not differentially private: "

_ELSEWHERE = "Choose settings on public or simulated data in another process, and fit once."
_SAME = "private records that may be the same"

IN_SEARCH = (
    f"{_NO_CLAIM}the estimator was fitted within {_MANY}, which fits many times on the same private records and "
    f"chooses or scores by them; no guarantee covers all of that. {_ELSEWHERE}"
)
AFTER_SEARCH = (
    f"{_NO_CLAIM}{_MANY} was run before in this process, on {_SAME}, and no guarantee covers it and this fit together. "
    f"If it was of other people, or nothing of it left, fit once in a new process. {_ELSEWHERE}"
)
AFTER_FAILURE = (
    f"{_NO_CLAIM}an earlier fit, on {_SAME}, drew its noise and then ended with an error. Its cost is not known here "
    "and cannot be added. Fit in a new process, and count the failed fit as spent."
)
IN_WORKER = (
    f"{_NO_CLAIM}the estimator was fitted in a worker or forked process, where fits of other processes on the same "
    "private records are not known and cannot be added. Fit in the main process, or give every fit a ledger."
)
FROM_ELSEWHERE = (
    f"{_NO_CLAIM}an estimator in this process was fitted, pickled and loaded from another process, on {_SAME}; other "
    "fits there are not known and cannot be added. Fit in a process that has loaded no fitted estimator, or give "
    "every fit a ledger."
)
AFTER_UNPROTECTED = (
    f"{_NO_CLAIM}{_SAME} were fitted before in this process without a guarantee, and this release cannot protect them "
    "any more. If the earlier fit was of other people, or nothing of it left, fit once in a new process."
)
OTHER_NEIGHBOURS = (
    f"{_NO_CLAIM}{_SAME} were fitted before in this process with another definition of neighbouring data sets, and the "
    "two guarantees cannot be added. If the earlier fit was of other people, fit once in a new process."
)
BEYOND_NUMBERS = f"{_NO_CLAIM}all fits of this process together have no finite epsilon with a delta below 1."

WITHDRAWN = frozenset(
    (
        IN_SEARCH,
        AFTER_SEARCH,
        AFTER_FAILURE,
        IN_WORKER,
        FROM_ELSEWHERE,
        AFTER_UNPROTECTED,
        OTHER_NEIGHBOURS,
        BEYOND_NUMBERS,
    )
)
"""Why a fit claims nothing, because of other fits."""


def without_claim(statement: Statement, reason: str) -> Statement:
    """Return the statement without its guarantee; `reason` says why, unless it already claims nothing."""
    if statement.guarantee is None:
        return statement
    return dataclasses.replace(
        statement,
        guarantee=None,
        not_private=reason,
        adjacent=(),
        consent=(),
        curve=None,
        remarks=_without_warning(statement),
    )


def with_earlier_fits(statement: Statement, earlier: Sequence[Statement]) -> Statement:
    """Return the statement of a fit, with the cost of all earlier fits added.

    Parameters
    ----------
    statement : Statement
        Of this fit alone.
    earlier : sequence of Statement
        Of every earlier fit alone.

    Returns
    -------
    Statement
        Its guarantee covers all fits together; or it claims nothing, and `not_private` says why.

    Notes
    -----
    Guarantee: epsilons and deltas add up, also where a later fit was chosen after an earlier one was seen (basic
    composition, Dwork and others 2006; Rogers and others 2016). Every fit protects the same unit, under the same
    definition of neighbours.
    """
    if statement.guarantee is None or not earlier:
        return statement
    claims = [one.guarantee for one in (*earlier, statement)]
    if any(claim is None for claim in claims):
        return without_claim(statement, AFTER_UNPROTECTED)
    own = statement.unit, statement.protects, statement.adjacency
    if any((one.unit, one.protects, one.adjacency) != own for one in earlier):
        return without_claim(statement, OTHER_NEIGHBOURS)
    epsilon = _sum([claim.epsilon for claim in claims if claim is not None])
    delta = _sum([claim.delta for claim in claims if claim is not None])
    if not (math.isfinite(epsilon) and delta < 1):
        return without_claim(statement, BEYOND_NUMBERS)
    own = statement.guarantee
    by_level = (
        " What is said of a level of consent is for records that had it in every fit." if statement.consent else ""
    )
    remark = (
        f"Fitted {len(claims)} times, on {_SAME}: the guarantee covers all {len(claims)} fits "
        "together, their epsilons and deltas added up. This fit alone has epsilon "
        f"{epsilon_in_words(own.epsilon)} and delta {delta_in_words(own.delta)}.{by_level} "
        "Fits of different people do not add up if each names its users (`users`)."
    )
    warning = weak_remark(epsilon, protects=statement.protects)
    return dataclasses.replace(
        statement,
        guarantee=WorstCase(epsilon=epsilon, delta=delta, basis=f"basic composition of {len(claims)} fits"),
        adjacent=_added([one.adjacent for one in (*earlier, statement)], epsilon, delta),
        consent=tuple(_level_added(one, earlier) for one in statement.consent),
        curve=PrivacyCurve(points=((epsilon, delta),)),
        remarks=(*([] if warning is None else [warning]), remark, *_without_warning(statement)),
    )


def _level_added(own: LevelClaim, earlier: Sequence[Statement]) -> LevelClaim:
    """Return a level's claim with the cost of all earlier fits; one without this level costs its whole guarantee."""
    epsilons, deltas, secret = [own.epsilon], [own.delta], [own.if_secret]
    for one in earlier:
        assert one.guarantee is not None
        same = next((claim for claim in one.consent if claim.level == own.level), None)
        epsilons.append(one.guarantee.epsilon if same is None else same.epsilon)
        deltas.append(one.guarantee.delta if same is None else same.delta)
        secret.append(one.guarantee.epsilon if same is None else same.if_secret)
    added = {"epsilon": epsilons, "delta": deltas, "if_secret": secret}
    return dataclasses.replace(own, **{name: _sum(all_) for name, all_ in added.items()})


def _sum(numbers: Sequence[float]) -> float:
    """Return the sum, never below the exact one."""
    total = math.fsum(numbers)
    exact = math.isfinite(total) and Fraction(total) >= sum(map(Fraction, numbers))
    return total if exact else math.nextafter(total, math.inf)


def _without_warning(statement: Statement) -> tuple[str, ...]:
    """Return the remarks without the one on a weak epsilon, which concerned this fit alone."""
    own = statement.guarantee
    weak = None if own is None else weak_remark(own.epsilon, protects=statement.protects)
    return tuple(remark for remark in statement.remarks if remark != weak)


def _added(fits: Sequence[tuple[Adjacent, ...]], epsilon: float, delta: float) -> tuple[Adjacent, ...]:
    """Return every definition of neighbours that all fits were priced for, the first with (epsilon, delta)."""
    if not all(fits):
        return ()
    first, *others = fits[-1]
    added = [dataclasses.replace(first, epsilon=epsilon, delta=delta)]
    for other in others:
        same = [
            one for fit in fits for one in fit if (one.relation, one.neighbours) == (other.relation, other.neighbours)
        ]
        total, failure = _sum([one.epsilon for one in same]), _sum([one.delta for one in same])
        if len(same) == len(fits) and failure < 1:
            added.append(dataclasses.replace(other, epsilon=total, delta=failure))
    return tuple(added)
