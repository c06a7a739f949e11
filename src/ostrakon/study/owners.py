"""Who takes part in a study: names, announced numbers of people, addresses and certificates, all public."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostrakon.data.files import read_toml
from ostrakon.study.certificates import read_certificate, require_certificate
from ostrakon.validation import InvalidInput, settle, shown, whole

MOST_OWNERS = 1000
RESERVED = ("shares", "finished", "partial")
"""Folders beside a study are named STUDY-OWNER, and these."""
NEEDED, OPTIONAL = {"name", "people"}, {"address", "certificate"}
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def owner_name(name: str, value: Any) -> str:
    """`value` as the name of an owner. Errors: `InvalidInput`."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidInput(
            f"{name} of an owner must be up to 40 small letters, digits and inner hyphens, got {shown(value)}."
        )
    if value in RESERVED:
        raise InvalidInput(
            f"{name} of an owner must not be {' or '.join(RESERVED)}, which name folders, got {value!r}."
        )
    return value


def _people(name: str, value: Any) -> int:
    return whole(name, value, at_least=1)


def _address(name: str, value: Any) -> str | None:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    plain = bool(host) and not re.search(r"\s|[^!-~]", host)
    if value is not None and not (plain and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise InvalidInput(f"{name} of an owner must be HOST:PORT, where the others reach it, got {shown(value)}.")
    return value


def _certificate(name: str, value: Any) -> str | None:
    return None if value is None else require_certificate(f"{name} of an owner", value)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One owner. people: about how many people it has data of: a public number that it announces, not a count.

    address, certificate: HOST:PORT and a certificate in PEM, by which the others reach and know it (`secure-sum` needs
    them).
    Errors: `InvalidInput` for a name that is no word, people that are not a whole number of at least 1, and what is no
    address or certificate.
    """

    name: str
    people: int
    address: str | None = None
    certificate: str | None = None

    def __post_init__(self) -> None:
        settle(self, name=owner_name, people=_people, address=_address, certificate=_certificate)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for TOML."""
        held = {"name": self.name, "people": self.people, "address": self.address, "certificate": self.certificate}
        return {name: value for name, value in held.items() if value is not None}

    @property
    def place(self) -> tuple[str, int]:
        """(host, port) of its address."""
        host, _, port = (self.address or "").rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)


def read_owners(path: str | os.PathLike[str]) -> tuple[Owner, ...]:
    """The owners in a TOML file: tables [[owner]] with a name and people, in their order.

    An owner may have an address, and as certificate the name of a file, from the folder of `path`.
    Errors: `InvalidInput` for a file that cannot be read, other keys, two owners of one name, no owner.
    """
    content = read_toml("owners", path)
    held = content.get("owner")
    if not isinstance(held, list) or set(content) != {"owner"}:
        raise InvalidInput(f"{path} must hold tables [[owner]] with name and people, and nothing else.")
    for each in held:
        if isinstance(each, dict) and isinstance(each.get("certificate"), str):
            each["certificate"] = read_certificate(Path(path).parent / each["certificate"])
    return owners_from(held, source=str(path))


def owners_from(held: Sequence[Any], *, source: str) -> tuple[Owner, ...]:
    """The owners that plain values describe. source: where they are from, for the messages."""
    owners: list[Owner] = []
    for each in held:
        if not isinstance(each, dict) or not NEEDED <= set(each) <= NEEDED | OPTIONAL:
            raise InvalidInput(
                f"Every owner in {source} must have name and people, may have address and certificate, and nothing "
                f"else, got {shown(each)}."
            )
        owners.append(Owner(**each))
    return require_owners(owners)


def require_owners(owners: Sequence[Owner]) -> tuple[Owner, ...]:
    """`owners`, refused unless there are from 1 to 1000, each with a name of its own."""
    if not 1 <= len(owners) <= MOST_OWNERS:
        raise InvalidInput(f"owners must be from 1 to {MOST_OWNERS}, got {len(owners)}.")
    for what, held in (
        ("names", [owner.name for owner in owners]),
        ("addresses", [owner.address for owner in owners if owner.address]),
        ("certificates", [owner.certificate for owner in owners if owner.certificate]),
    ):
        twice = next((each for each in held if held.count(each) > 1), None)
        if twice is not None:
            told = "one" if what == "certificates" else repr(twice)
            raise InvalidInput(f"owners must have different {what}, got {told} twice.")
    return tuple(owners)


def require_reachable(owners: Sequence[Owner]) -> None:
    """Refuse owners that cannot sum among themselves: fewer than two, or one without an address or certificate."""
    if len(owners) < 2:
        raise InvalidInput(f"owners must be at least 2 to sum among themselves, got {len(owners)}.")
    lacking = next((owner for owner in owners if owner.address is None or owner.certificate is None), None)
    if lacking is not None:
        what = "address" if lacking.address is None else "certificate"
        raise InvalidInput(f"owners must each have address and certificate to sum, and {lacking.name} has no {what}.")
