"""What the entries of a ledger add up to: its accounts, and what each run has spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ostrakon.accounting.adjacent import Relation
from ostrakon.ledger.chain import Link
from ostrakon.ledger.cost import Cost
from ostrakon.ledger.filter import Filter
from ostrakon.statements.statement import Unit


@dataclass(frozen=True, kw_only=True)
class Spend:
    """What one run has taken. settled: it said what it drew; before that, it may have been stopped anywhere.

    drawn: a keyed checksum of that. parts: of what it drew before, by name, and went on from.

    sequence: of its entry. epsilon, delta: its own guarantee, as its statement has it; None where it has none. when: by
    the clock of whoever wrote it, and for reading alone: the order is that of `sequence`.
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
    """One data set's budget. fingerprints: of the data that it was bound to (see `ostrakon.ledger.fingerprint`)."""

    name: str
    cap: Filter
    unit: Unit
    relation: Relation
    fingerprints: tuple[str, ...] = ()
    spends: tuple[Spend, ...] = field(default=())
    closed: bool = False

    @property
    def costs(self) -> list[Cost]:
        """What every run took, in the order of the entries; a reservation counts as spent."""
        return [each.cost for each in self.spends]

    @property
    def spent(self) -> float:
        """See `Filter.spent`."""
        return self.cap.spent(self.costs)

    def remaining(self, *, delta: float | None = None) -> float:
        """See `Filter.remaining`; 0 where the account is closed."""
        return 0.0 if self.closed else self.cap.remaining(self.costs, delta=delta)

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
            "used": _finite(self.cap.fraction_used(self.costs)),
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


def accounts_of(links: Iterable[Link]) -> dict[str, Account]:
    """The accounts by name, in the order in which they were opened."""
    found: dict[str, Account] = {}
    for link in links:
        content = link.fields
        name, kind = content["account"], content["event"]
        if kind == "open":
            found[name] = Account(
                name=name,
                cap=Filter.of_dict(content["cap"]),
                unit=content["unit"],
                relation=content["relation"],
                fingerprints=() if content["fingerprint"] is None else (content["fingerprint"],),
            )
            continue
        account = found[name]
        if kind == "bind":
            account = replace(account, fingerprints=(*account.fingerprints, content["fingerprint"]))
        elif kind == "close":
            account = replace(account, closed=True)
        elif kind == "reserve":
            spend = Spend(
                sequence=link.sequence,
                hash=link.hash,
                run=content["run"],
                what=content["what"],
                cost=Cost.of_dict(content["cost"]),
                epsilon=content["epsilon"],
                delta=content["delta"],
                when=content["when"],
            )
            account = replace(account, spends=(*account.spends, spend))
        elif kind == "settle":
            spends = (
                replace(each, settled=True, drawn=content["drawn"]) if each.run == content["run"] else each
                for each in account.spends
            )
            account = replace(account, spends=tuple(spends))
        elif kind == "draw":
            spends = (
                replace(each, parts={**each.parts, content["part"]: content["drawn"]})
                if each.run == content["run"]
                else each
                for each in account.spends
            )
            account = replace(account, spends=tuple(spends))
        found[name] = account
    return found


def _finite(value: float) -> float | str:
    return value if value < float("inf") else "infinite"
