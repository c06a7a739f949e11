"""What the entries of a ledger add up to: its accounts, and what each run has spent."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ostrakon.ledger.chain import Link, Tampered
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.total import Total
from ostrakon.mechanisms.base import Relation
from ostrakon.statements.statement import Unit
from ostrakon.validation import quote


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one run has spent.

    Parameters
    ----------
    sequence : int
        Of its entry.
    hash : str
    run : str
    what : str
        A description of the run.
    cost : Cost
    epsilon, delta : float or None
        The run's own guarantee, as in its statement; None without one.
    when : str
        By the clock of the machine that wrote it, for display only: `sequence` decides the order.
    settled : bool
        Whether the run said what it drew. A run that did not may have been stopped at any moment.
    drawn : str or None
        A keyed checksum of what it drew.
    parts : mapping of str to str
        The same for what it drew before, by name.
    """

    sequence: int
    hash: str
    run: str
    what: str
    cost: Cost
    epsilon: float | None
    delta: float | None
    when: str
    settled: bool = False
    drawn: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Account:
    """The budget of one data set.

    Parameters
    ----------
    name : str
    cap : Filter
    unit : {"record", "user"}
    relation : {"add-remove", "replace", "take-out", "labels"}
        The neighbours of all guarantees in this account.
    total : Total
        Exact sums of what every run spent; a reservation counts as spent.
    fingerprints : tuple of str
        Of the data that the account is bound to.
    closed : bool
    """

    name: str
    cap: Filter
    unit: Unit
    relation: Relation
    total: Total
    fingerprints: tuple[str, ...] = ()
    closed: bool = False

    @property
    def spent(self) -> float:
        """The epsilon that all runs together cost so far: see `Filter.spent`."""
        return self.cap.spent(self.total)

    def remaining(self, *, delta: float | None = None) -> float:
        """Return the epsilon of one more run that fits: see `Filter.remaining`; 0 if the account is closed."""
        return 0.0 if self.closed else self.cap.remaining(self.total, delta=delta)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> "Account":
        """Read an entry that opens an account, or what `State.as_text` wrote."""
        cap = Filter.of_dict(content["cap"])
        return Account(
            name=content["name"],
            cap=cap,
            unit=content["unit"],
            relation=content["relation"],
            total=Total.of_dict(content["total"]) if "total" in content else cap.total(),
            fingerprints=tuple(content["fingerprints"]),
            closed=content.get("closed", False),
        )


@dataclass(frozen=True, kw_only=True)
class History(Account):
    """An account with all of its runs, in the order of the entries."""

    spends: tuple[Spend, ...] = ()

    @property
    def costs(self) -> list[Cost]:
        """What every run spent."""
        return [spend.cost for spend in self.spends]

    def spend_of(self, run: str) -> Spend | None:
        """Return what the run of that id has spent; None if it has spent nothing."""
        return next((spend for spend in self.spends if spend.run == run), None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "epsilon": self.cap.epsilon,
            "delta": self.cap.delta,
            "kind": self.cap.kind,
            "order": self.cap.order,
            "unit": self.unit,
            "relation": self.relation,
            "closed": self.closed,
            "spent": _finite(self.spent),
            "remaining": self.remaining(),
            "used": _finite(self.cap.fraction_used(self.total)),
            "runs": [
                {
                    "sequence": spend.sequence,
                    "run": spend.run,
                    "what": spend.what,
                    "epsilon": spend.epsilon,
                    "delta": spend.delta,
                    "mu": spend.cost.mu,
                    "pure": spend.cost.pure,
                    "failure": spend.cost.failure,
                    "settled": spend.settled,
                    "when": spend.when,
                }
                for spend in self.spends
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What a run has reserved and not settled: its account, its entry, and the parts that it drew (see `Spend`)."""

    account: str
    sequence: int
    hash: str
    parts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class State:
    """What all entries add up to, which decides about a new reservation. It is stored under a keyed hash.

    Parameters
    ----------
    accounts : mapping of str to Account
        By name, in the order in which they were opened.
    reserved : mapping of str to Reservation
        By run.
    """

    accounts: Mapping[str, Account] = field(default_factory=dict[str, Account])
    reserved: Mapping[str, Reservation] = field(default_factory=dict[str, Reservation])

    def with_entries(self, links: Iterable[Link]) -> "State":
        """Return the state after more entries."""
        accounts, reserved = dict(self.accounts), dict(self.reserved)
        for link in links:
            _apply(link, accounts, reserved)
        return State(accounts=accounts, reserved=reserved)

    def as_text(self) -> str:
        """Return JSON, which `of_text` reads back exactly."""
        accounts = [
            {**vars(account), "cap": account.cap.as_dict(), "total": account.total.as_dict()}
            for account in self.accounts.values()
        ]
        reserved = {run: vars(reservation) for run, reservation in self.reserved.items()}
        return json.dumps({"accounts": accounts, "reserved": reserved}, allow_nan=False)

    @classmethod
    def of_text(cls, text: str) -> "State":
        """Read what `as_text` wrote."""
        content = json.loads(text)
        accounts = map(Account.of_dict, content["accounts"])
        return State(
            accounts={account.name: account for account in accounts},
            reserved={run: Reservation(**reservation) for run, reservation in content["reserved"].items()},
        )


def _apply(link: Link, accounts: dict[str, Account], reserved: dict[str, Reservation]) -> None:
    """Change accounts and reservations as one entry says."""
    content = link.fields
    name, run = content["account"], content.get("run", "")
    match content["event"]:
        case "open":
            bound = () if content["fingerprint"] is None else (content["fingerprint"],)
            accounts[name] = Account.of_dict({**content, "name": name, "fingerprints": bound})
        case "bind":
            bound = (*accounts[name].fingerprints, content["fingerprint"])
            accounts[name] = replace(accounts[name], fingerprints=bound)
        case "close":
            accounts[name] = replace(accounts[name], closed=True)
        case "reserve":
            total = accounts[name].total.add(Cost.of_dict(content["cost"]))
            accounts[name] = replace(accounts[name], total=total)
            reserved[run] = Reservation(account=name, sequence=link.sequence, hash=link.hash)
        case "draw":
            parts = {**reserved[run].parts, content["part"]: content["drawn"]}
            reserved[run] = replace(reserved[run], parts=parts)
        case "settle":
            del reserved[run]
        case other:
            raise Tampered(f"Entry {link.sequence} must be one that this version knows, got {quote(other)}.")


def read_histories(state: State, links: Iterable[Link]) -> dict[str, History]:
    """Return the accounts of a state with the runs of its entries."""
    spends: dict[str, Spend] = {}
    of: dict[str, list[str]] = {name: [] for name in state.accounts}
    for link in links:
        content = link.fields
        run = content.get("run", "")
        match content["event"]:
            case "reserve":
                of[content["account"]].append(run)
                spends[run] = Spend(
                    sequence=link.sequence,
                    hash=link.hash,
                    run=run,
                    what=content["what"],
                    cost=Cost.of_dict(content["cost"]),
                    epsilon=content["epsilon"],
                    delta=content["delta"],
                    when=content["when"],
                )
            case "draw":
                parts = {**spends[run].parts, content["part"]: content["drawn"]}
                spends[run] = replace(spends[run], parts=parts)
            case "settle":
                spends[run] = replace(spends[run], settled=True, drawn=content["drawn"])
            case _:
                pass
    return {
        name: History(
            **{one.name: getattr(account, one.name) for one in fields(account)},
            spends=tuple(spends[run] for run in of[name]),
        )
        for name, account in state.accounts.items()
    }


def _finite(value: float) -> float | str:
    return value if value < float("inf") else "infinite"
