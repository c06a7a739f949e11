"""The owners of a study: names, announced numbers of people, addresses and certificates, all public."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostrakon.data.files import read_toml
from ostrakon.study.certificates import owner_name, read_certificate, require_certificate
from ostrakon.validation import InvalidInput, quote, settle, whole

MOST_OWNERS = 1000
NEEDED, OPTIONAL = {"name", "people"}, {"address", "certificate"}


def _people(name: str, value: Any) -> int:
    return whole(name, value, at_least=1)


def _address(name: str, value: Any) -> str | None:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    plain = bool(host) and not re.search(r"\s|[^!-~]", host)
    if value is not None and not (plain and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise InvalidInput(f"{name} of an owner must be HOST:PORT, where the others reach it, got {quote(value)}.")
    return value


def _certificate(name: str, value: Any) -> str | None:
    return None if value is None else require_certificate(f"{name} of an owner", value)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One owner.

    Parameters
    ----------
    name : str
        Up to 40 small letters, digits and inner hyphens.
    people : int of at least 1
        The approximate number of people of whom it has data: a public number that it announces, not a count.
    address : str, optional
        HOST:PORT, where the others reach it (for `secure-sum`).
    certificate : str, optional
        PEM, by which the others recognise it (for `secure-sum`).

    Raises
    ------
    InvalidInput
        If a value is not allowed.
    """

    name: str
    people: int
    address: str | None = None
    certificate: str | None = None

    def __post_init__(self) -> None:
        settle(self, name=owner_name, people=_people, address=_address, certificate=_certificate)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for TOML."""
        values = {"name": self.name, "people": self.people, "address": self.address, "certificate": self.certificate}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Host and port of its address."""
        host, _, port = (self.address or "").rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)


def read_owners(path: str | os.PathLike[str]) -> tuple[Owner, ...]:
    """Read the owners of a TOML file: tables ``[[owner]]`` with the fields of `Owner`.

    Parameters
    ----------
    path : str or path-like
        The field `certificate` of an owner names a file, relative to the folder of this file.

    Returns
    -------
    tuple of Owner
        In the order of the file.

    Raises
    ------
    InvalidInput
        If the file cannot be read or has other keys, and as of `require_owners`.
    """
    content = read_toml("owners", path)
    tables = content.get("owner")
    if not isinstance(tables, list) or set(content) != {"owner"}:
        raise InvalidInput(f"{path} must hold tables [[owner]] with name and people, and nothing else.")
    for table in tables:
        if isinstance(table, dict) and isinstance(table.get("certificate"), str):
            table["certificate"] = read_certificate(Path(path).parent / table["certificate"])
    return owners_from(tables, source=str(path))


def owners_from(tables: Sequence[Any], *, source: str) -> tuple[Owner, ...]:
    """Return the owners that plain values describe. The messages name `source`."""
    owners: list[Owner] = []
    for table in tables:
        if not isinstance(table, dict) or not NEEDED <= set(table) <= NEEDED | OPTIONAL:
            raise InvalidInput(
                f"Every owner in {source} must have name and people, may have address and certificate, and nothing "
                f"else, got {quote(table)}."
            )
        owners.append(Owner(**table))
    return require_owners(owners)


def require_owners(owners: Sequence[Owner]) -> tuple[Owner, ...]:
    """Return `owners`, refused unless they are 1 to 1000, with different names, addresses and certificates."""
    if not 1 <= len(owners) <= MOST_OWNERS:
        raise InvalidInput(f"owners must be from 1 to {MOST_OWNERS}, got {len(owners)}.")
    for field, values in (
        ("names", [owner.name for owner in owners]),
        ("addresses", [owner.address for owner in owners if owner.address]),
        ("certificates", [owner.certificate for owner in owners if owner.certificate]),
    ):
        repeated = next((value for value in values if values.count(value) > 1), None)
        if repeated is not None:
            value = "one" if field == "certificates" else repr(repeated)
            raise InvalidInput(f"owners must have different {field}, got {value} twice.")
    return tuple(owners)


def require_reachable(owners: Sequence[Owner]) -> None:
    """Refuse owners that cannot add up their tables: fewer than two, or one without an address or certificate."""
    if len(owners) < 2:
        raise InvalidInput(f"owners must be at least 2 to sum among themselves, got {len(owners)}.")
    lacking = next((owner for owner in owners if owner.address is None or owner.certificate is None), None)
    if lacking is not None:
        what = "address" if lacking.address is None else "certificate"
        raise InvalidInput(f"owners must each have address and certificate to sum, and {lacking.name} has no {what}.")
