"""Refuse runs that do not fit into an account."""

from collections.abc import Mapping

from ostrakon.ledger.cost import Cost
from ostrakon.ledger.state import Account
from ostrakon.mechanisms.base import Relation
from ostrakon.statements.statement import Unit, round_up
from ostrakon.validation import InvalidInput


class Refused(InvalidInput):
    """A run does not fit into what is left of an account. Nothing was spent."""


def require_fits(
    account: Account,
    cost: Cost,
    *,
    unit: Unit,
    relation: Relation,
    epsilon: float | None = None,
    delta: float | None = None,
) -> None:
    """Refuse a run that an account has no room for.

    Parameters
    ----------
    account : Account
    cost, unit, relation, epsilon, delta
        As of `Ledger.reserve`.

    Raises
    ------
    Refused
        If the run would pass the cap; the message names the epsilon that fits.
    InvalidInput
        If the account is closed, or is for another unit or relation.
    """
    name = account.name
    if account.closed:
        raise InvalidInput(f"The account {name!r} is closed: nothing more may be spent on its data.")
    if (unit, relation) != (account.unit, account.relation):
        raise InvalidInput(
            f"The account {name!r} adds up guarantees for {account.relation} of one {account.unit}, got a run for "
            f"{relation} of one {unit}: they cannot be added; open another account for it, or choose such a run."
        )
    if account.cap.admits(account.total.add(cost)):
        return
    cap, wanted = account.cap, "" if epsilon is None else f" of epsilon {round_up(epsilon):g}"
    run_delta = delta if delta is not None else cap.delta
    left = account.remaining(delta=run_delta)
    failing = cap.admits(account.total) and not cap.admits(account.total.add(Cost.of(pure=0.0, failure=cost.failure)))
    if failing and cost.failure:
        room = cap.failure - float(account.total.failure)
        raise Refused(
            f"The run{wanted} may fail with probability {cost.failure:.3g}, and account {name!r} "
            f"({describe(account)}) has {max(0.0, room):.3g} left for that; choose a mechanism that does not "
            "fail, or a smaller delta."
        )
    remains = f"epsilon {left:g} remains for a run at delta {run_delta:g}" if left > 0 else "nothing remains."
    if left > 0:
        dearer = epsilon is not None and epsilon <= left
        advice = "an account of this kind charges this run more than its own epsilon; ask for less."
        remains += f", but {advice}" if dearer else "; ask for that, or less."
    raise Refused(f"The run{wanted} would pass the cap of account {name!r} ({describe(account)}): {remains}")


def describe(account: Account) -> str:
    """Return the cap of an account and what the account is for, in words."""
    cap = account.cap
    return f"epsilon {cap.epsilon:g} at delta {cap.delta:g}, {cap.lanes}, {account.relation} of one {account.unit}"


def require_unbound(
    known: Mapping[str, Account], fingerprint: str | None, *, name: str, unit: Unit, relation: Relation
) -> None:
    """Refuse data that are bound to another account than `name` for the same neighbours."""
    for account in known.values():
        same = (unit, relation) == (account.unit, account.relation)
        if fingerprint is not None and same and account.name != name and fingerprint in account.fingerprints:
            raise InvalidInput(
                f"These data have an account already, {account.name!r}: a second one would not know what was spent."
            )
