"""The ledger: runs reserve before they draw noise and settle after it, and no account passes its cap."""

import functools
import hashlib
import hmac
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, ParamSpec, Self, TypeVar

from ostrakon.ledger.chain import Link
from ostrakon.ledger.cost import Cost, require_cost
from ostrakon.ledger.filter import GAUSSIAN, Filter
from ostrakon.ledger.fits import describe, require_fits, require_unbound
from ostrakon.ledger.state import Account, History, Reservation, Spend
from ostrakon.ledger.store import Interrupted, Store, Turn
from ostrakon.mechanisms.base import Relation
from ostrakon.statements.statement import UNITS, Unit
from ostrakon.validation import LONGEST_LINE, InvalidInput, fraction, line, non_negative, one_of, quote

RELATIONS: tuple[Relation, ...] = ("add-remove", "replace", "take-out", "labels")
PAUSES = (0.05, 0.2, 1.0, 3.0)
"""Seconds before each further try of a transaction that the database ended."""


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Proof, stored by the run, that it reserved in a ledger: an older copy of the ledger does not match it.

    Parameters
    ----------
    ledger : str
        URL.
    account, run : str
    sequence : int
        Of the entry.
    hash : str
        Of the entry.
    """

    ledger: str
    account: str
    run: str
    sequence: int
    hash: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for run.toml."""
        return asdict(self)

    @classmethod
    def of_dict(cls, content: dict[str, Any]) -> Self:
        """Read what `as_dict` wrote."""
        return cls(**content)


_P = ParamSpec("_P")
_R = TypeVar("_R")
_A = TypeVar("_A", bound=Account)


def _retry(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Try a call again if the database ended its transaction. Every call finds what it has written before."""

    @functools.wraps(call)
    def retrying(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for pause in PAUSES:
            try:
                return call(*args, **kwargs)
            except Interrupted:
                time.sleep(pause * random.uniform(0.5, 1))
        return call(*args, **kwargs)

    return retrying


class Ledger:
    """Budgets of data sets over many runs, in a database (see `ostrakon.ledger.store`).

    Parameters
    ----------
    url : str
        ``sqlite:///FILE`` or ``postgresql://HOST/DATABASE``. Any number of processes may use it at the same time.

    Raises
    ------
    InvalidInput
        If a value is not allowed, or the database cannot be used.
    Refused
        If a run does not fit.
    Tampered
        If the ledger is not as it was written.

    Notes
    -----
    Guarantee: the runs of one account together are (epsilon, delta)-DP as its cap says, for its unit and its relation
    of neighbours (proof: `Filter`), in any order and for any adaptive choice of runs, if every run draws its noise only
    after `reserve` has returned and costs at most what it reserved. A run that was killed after that counts as spent,
    once.

    References
    ----------
    docs/ledger.md, docs/mathematics.md L.
    """

    def __init__(self, url: str) -> None:
        self._store = Store(url)

    @property
    def url(self) -> str:
        """URL of the database."""
        return self._store.url

    @_retry
    def fingerprint(self, sums: Callable[[bytes], str], *, create: bool = False) -> str:
        """Return the fingerprint of data under this ledger's key.

        Parameters
        ----------
        sums : callable
            Returns the fingerprint under a key (bytes).
        create : bool
            Make the ledger if it is missing.
        """
        with self._store.turn(create=create) as turn:
            key = hmac.new(turn.key, b"fingerprints", hashlib.sha256).digest()
        # Outside of the turn: reading the data may take minutes.
        return sums(key)

    @_retry
    def open(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        kind: str = GAUSSIAN,
        order: float | None = None,
        cap: Filter | None = None,
        unit: Unit = "record",
        relation: Relation = "replace",
        fingerprint: str | None = None,
    ) -> Account:
        """Open an account, whose cap never changes. An account that is open with the same cap is returned.

        Parameters
        ----------
        name : str
        epsilon, delta, kind, order
            As of `Filter.create`.
        cap : Filter, optional
            Instead of epsilon, delta, kind and order.
        unit : {"record", "user"}
        relation : {"add-remove", "replace", "take-out", "labels"}
        fingerprint : str, optional
            Of the data, as of `fingerprint`.

        Raises
        ------
        InvalidInput
            If the open account has another cap, unit or relation, or another account of this ledger is bound to the
            data.
        """
        if cap is None:
            if epsilon is None or delta is None:
                raise InvalidInput("epsilon and delta must be given to open an account.")
            cap = Filter.create(epsilon=epsilon, delta=delta, kind=kind, order=order)
        elif not isinstance(cap, Filter):
            raise InvalidInput(f"cap must be a Filter, got {quote(cap)}.")
        cap.require_sound()
        fingerprint = None if fingerprint is None else line("fingerprint", fingerprint)
        content = {
            "event": "open",
            "account": line("account", name),
            "cap": cap.as_dict(),
            "unit": one_of("unit", unit, UNITS),
            "relation": one_of("relation", relation, RELATIONS),
            "fingerprint": fingerprint,
            "when": _now(),
        }
        with self._store.turn(create=True) as turn:
            accounts = turn.state.accounts
            require_unbound(accounts, fingerprint, name=name, unit=unit, relation=relation)
            account = accounts.get(name)
            if account is None:
                turn.append(content)
            else:
                asked = (cap.as_dict(), unit, relation)
                if (account.cap.as_dict(), account.unit, account.relation) != asked:
                    raise InvalidInput(
                        f"The account {name!r} must keep the cap that it was opened with, {describe(account)}; "
                        "choose another name, or those settings."
                    )
                if fingerprint is not None and fingerprint not in account.fingerprints:
                    raise InvalidInput(f"The account {name!r} is bound to other data; bind these, or open another.")
            return turn.state.accounts[name]

    @_retry
    def bind(self, name: str, fingerprint: str) -> Account:
        """Let changed data (with added rows, say) keep their account: their people have spent as much as before."""
        fingerprint = line("fingerprint", fingerprint)
        with self._store.turn() as turn:
            accounts = turn.state.accounts
            account = _find(accounts, name)
            require_unbound(accounts, fingerprint, name=name, unit=account.unit, relation=account.relation)
            if fingerprint not in account.fingerprints:
                turn.append({"event": "bind", "account": name, "fingerprint": fingerprint, "when": _now()})
            return turn.state.accounts[name]

    @_retry
    def reserve(
        self,
        name: str,
        run: str,
        cost: Cost,
        *,
        unit: Unit,
        relation: Relation,
        what: str = "",
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> Receipt:
        """Take the cost of a run out of an account, before its noise is drawn. It is on the disk when this returns.

        Parameters
        ----------
        name : str
            The account.
        run : str
            The run's id. The same run again finds what it has reserved and pays nothing more.
        cost : Cost
        unit, relation
            Of the run's guarantee.
        what : str
            A description of the run.
        epsilon, delta : float, optional
            The run's own guarantee, for display.

        Raises
        ------
        Refused
            If the run does not fit. The message names the epsilon that does.
        InvalidInput
            If the account is missing or closed, is for another unit or relation, or the id has another reservation.
        """
        run = line("run", run)
        epsilon = None if epsilon is None else non_negative("epsilon", epsilon)
        delta = None if delta is None else fraction("delta", delta)
        require_cost(cost)
        if not isinstance(what, str):
            raise InvalidInput(f"what must be text, got {quote(what)}.")
        with self._store.turn() as turn:
            account = _find(turn.state.accounts, name)
            if turn.may_have(run):
                mine = _find(turn.histories(), name).spend_of(run)
                if mine is None:
                    raise InvalidInput(f"The run {run} has its reservation in another account of this ledger.")
                if (unit, relation) != (account.unit, account.relation) or not mine.cost.is_near(cost):
                    raise InvalidInput(
                        f"The run {run} has reserved another cost, or for other neighbours, in this ledger: its plan "
                        "was changed, or another version of ostrakon prices it differently; restore the plan, finish "
                        "the run with that version, or start a new run."
                    )
                return Receipt(ledger=self.url, account=name, run=run, sequence=mine.sequence, hash=mine.hash)
            require_fits(account, cost, unit=unit, relation=relation, epsilon=epsilon, delta=delta)
            content = {
                "event": "reserve",
                "account": name,
                "run": run,
                "cost": cost.as_dict(),
                "what": what[:LONGEST_LINE],
            }
            link = turn.append({**content, "epsilon": epsilon, "delta": delta, "when": _now()})
            return Receipt(ledger=self.url, account=name, run=run, sequence=link.sequence, hash=link.hash)

    @_retry
    def settle(self, receipt: Receipt, drawn: str, *, part: str | None = None) -> None:
        """Note what a run drew, before any of it is released: one reservation pays for one draw.

        Nothing is given back, because what a run costs does not depend on its data.

        Parameters
        ----------
        receipt : Receipt
        drawn : str
            A checksum of what was drawn. The ledger stores a keyed hash of it.
        part : str, optional
            For a run that draws more than once, the name of what it drew before the rest. Default: everything.

        Raises
        ------
        InvalidInput
            If the same run has drawn something else, in a copy of its folder for example. What was drawn now is not
            paid for and must not be released.
        """
        _require_receipt(receipt)
        drawn = line("drawn", drawn)
        with self._store.turn() as turn:
            reserved = _reserved(turn, receipt)
            if reserved is None:
                # It has settled before, or the receipt is not of this ledger.
                turn.require_seen(receipt.sequence, receipt.hash, by=f"run {receipt.run}")
                spend = _find(turn.histories(), receipt.account).spend_of(receipt.run)
                if spend is None or (spend.sequence, spend.hash) != (receipt.sequence, receipt.hash):
                    raise InvalidInput(f"receipt must be of the entry in which run {quote(receipt.run)} has reserved.")
                checksum = spend.drawn if part is None else spend.parts.get(part)
            else:
                checksum = None if part is None else reserved.parts.get(part)
            keyed = _keyed(turn, drawn)
            if checksum is None and reserved is not None:
                event = {"event": "settle"} if part is None else {"event": "draw", "part": line("part", part)}
                content = {**event, "account": receipt.account, "run": receipt.run, "drawn": keyed}
                turn.append({**content, "when": _now()})
            elif checksum != keyed:
                raise InvalidInput(
                    f"The run {receipt.run} has drawn its noise already, in another copy of its folder: what this one "
                    "drew is not paid for and does not leave; start a new run in a new folder."
                )

    @_retry
    def find_drawn(self, drawn: str) -> list[tuple[History, Spend]]:
        """Return the runs that have settled with this checksum, with their accounts, after verifying every entry.

        Parameters
        ----------
        drawn : str
            As of `settle`.
        """
        with self._store.turn() as turn:
            keyed = _keyed(turn, drawn)
            return [
                (account, spend)
                for account in turn.histories().values()
                for spend in account.spends
                if spend.settled and spend.drawn == keyed
            ]

    @_retry
    def require_kept(self, receipt: Receipt) -> None:
        """Raise `Tampered` unless the ledger still has what a run reserved: it may be an older copy."""
        _require_receipt(receipt)
        with self._store.turn() as turn:
            if _reserved(turn, receipt) is None:
                turn.require_seen(receipt.sequence, receipt.hash, by=f"run {receipt.run}")

    @_retry
    def close(self, name: str) -> Account:
        """Close an account: nothing more can be reserved, and what was spent stays written."""
        with self._store.turn() as turn:
            if not _find(turn.state.accounts, name).closed:
                turn.append({"event": "close", "account": name, "when": _now()})
            return turn.state.accounts[name]

    @_retry
    def balance(self, name: str) -> Account:
        """Return the account of that name without its runs, from the verified state alone."""
        with self._store.turn() as turn:
            return _find(turn.state.accounts, name)

    @_retry
    def accounts(self) -> dict[str, History]:
        """Return all accounts by name with their runs, after verifying every entry."""
        with self._store.turn() as turn:
            return turn.histories()

    def account(self, name: str) -> History:
        """Return the account of that name with its runs, after verifying every entry."""
        return _find(self.accounts(), name)

    @_retry
    def entries(self) -> list[Link]:
        """Return all entries as they are stored, after verifying their chain."""
        with self._store.turn() as turn:
            return turn.links()


def _keyed(turn: Turn, drawn: str) -> str:
    """Return the hash of a checksum under the ledger's key."""
    return hmac.new(turn.key, f"drawn {drawn}".encode(), hashlib.sha256).hexdigest()


def _reserved(turn: Turn, receipt: Receipt) -> Reservation | None:
    """Return what a run has reserved, unless it has settled."""
    reserved = turn.state.reserved.get(receipt.run)
    own = Reservation(account=receipt.account, sequence=receipt.sequence, hash=receipt.hash)
    return reserved if reserved is not None and replace(reserved, parts={}) == own else None


def _find(known: Mapping[str, _A], name: str) -> _A:
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(
            f"account must be one of this ledger ({', '.join(known) or 'it has none'}), got {quote(name)}."
        )
    return known[name]


def _require_receipt(value: Any) -> Receipt:
    whole = isinstance(value, Receipt) and type(value.sequence) is int and isinstance(value.hash, str)
    if not whole:
        raise InvalidInput(f"receipt must be one that reserve gave, got {quote(value)}.")
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
