"""What the entries of a ledger add up to: its accounts, and what each run has spent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ostrakon.accounting.adjacent import Relation
from ostrakon.ledger.chain import Link, Tampered
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.ledger.total import Total
from ostrakon.statements.statement import Unit
from ostrakon.validation import shown


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one run has taken. settled: it said what it drew; before that, it may have been stopped anywhere.

    drawn: a keyed checksum of that. parts: of what it drew before, by name, and went on from.

    sequence: of its entry. epsilon, delta: its own guarantee, as its statement has it; None where it has none. when: by
    the clock of the machine that wrote it, for display alone: the order is that of `sequence`.
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
    """One data set's budget. fingerprints: of the data that it was bound to (see `ostrakon.ledger.fingerprint`).

    total: exact sums of what every run took; a reservation counts as spent.
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
        """See `Filter.spent`."""
        return self.cap.spent(self.total)

    def remaining(self, *, delta: float | None = None) -> float:
        """See `Filter.remaining`; 0 where the account is closed."""
        return 0.0 if self.closed else self.cap.remaining(self.total, delta=delta)

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Account:
        """Of an entry that opens an account, or of what `State.as_text` wrote."""
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
        """What every run took."""
        return [each.cost for each in self.spends]

    def spend_of(self, run: str) -> Spend | None:
        """What the run of that id has taken, None where it has taken nothing."""
        return next((each for each in self.spends if each.run == run), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
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
                    "sequence": each.sequence,
                    "run": each.run,
                    "what": each.what,
                    "epsilon": each.epsilon,
                    "delta": each.delta,
                    "mu": each.cost.mu,
                    "pure": each.cost.pure,
                    "failure": each.cost.failure,
                    "settled": each.settled,
                    "when": each.when,
                }
                for each in self.spends
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
    """What all entries add up to: all that a new reservation is decided by. Stored under a keyed hash.

    accounts: by name, in the order in which they were opened. reserved: by run.
    """

    accounts: Mapping[str, Account] = field(default_factory=dict[str, Account])
    reserved: Mapping[str, Reservation] = field(default_factory=dict[str, Reservation])

    def after(self, links: Iterable[Link]) -> State:
        """The state after more entries."""
        accounts, reserved = dict(self.accounts), dict(self.reserved)
        for link in links:
            _take(link, accounts, reserved)
        return State(accounts=accounts, reserved=reserved)

    def as_text(self) -> str:
        """JSON, which `of_text` reads back exactly."""
        accounts = [
            {
                "name": each.name,
                "cap": each.cap.as_dict(),
                "unit": each.unit,
                "relation": each.relation,
                "total": each.total.as_dict(),
                "fingerprints": each.fingerprints,
                "closed": each.closed,
            }
            for each in self.accounts.values()
        ]
        reserved = {run: vars(each) for run, each in self.reserved.items()}
        return json.dumps({"accounts": accounts, "reserved": reserved}, allow_nan=False)

    @classmethod
    def of_text(cls, text: str) -> State:
        """What `as_text` wrote."""
        held = json.loads(text)
        accounts = map(Account.of_dict, held["accounts"])
        return State(
            accounts={each.name: each for each in accounts},
            reserved={run: Reservation(**each) for run, each in held["reserved"].items()},
        )


def _take(link: Link, accounts: dict[str, Account], reserved: dict[str, Reservation]) -> None:
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
            total = accounts[name].total.plus(Cost.of_dict(content["cost"]))
            accounts[name] = replace(accounts[name], total=total)
            reserved[run] = Reservation(account=name, sequence=link.sequence, hash=link.hash)
        case "draw":
            parts = {**reserved[run].parts, content["part"]: content["drawn"]}
            reserved[run] = replace(reserved[run], parts=parts)
        case "settle":
            del reserved[run]
        case other:
            raise Tampered(f"Entry {link.sequence} must be one that this version knows, got {shown(other)}.")


def histories(state: State, links: Iterable[Link]) -> dict[str, History]:
    """The accounts of a state with the runs that its entries tell of."""
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
            **{each.name: getattr(account, each.name) for each in fields(account)},
            spends=tuple(spends[run] for run in of[name]),
        )
        for name, account in state.accounts.items()
    }


def _finite(value: float) -> float | str:
    return value if value < float("inf") else "infinite"
