"""Who takes part in a study: names and announced numbers of people, all public."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostrakon.validation import InvalidInput, settle, shown, whole

MOST_OWNERS = 1000
RESERVED = ("shares", "finished", "partial")
"""Folders beside a study are named STUDY-OWNER, and these."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


def _name(name: str, value: Any) -> str:
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


@dataclass(frozen=True, kw_only=True)
class Owner:
    """One owner. people: about how many people it has data of: a public number that it announces, not a count.

    Errors: `InvalidInput` for a name that is no word, or people that are not a whole number of at least 1.
    """

    name: str
    people: int

    def __post_init__(self) -> None:
        settle(self, name=_name, people=_people)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for TOML."""
        return {"name": self.name, "people": self.people}


def read_owners(path: str | os.PathLike[str]) -> tuple[Owner, ...]:
    """The owners in a TOML file: tables [[owner]] with a name and people, in their order.

    Errors: `InvalidInput` for a file that cannot be read, other keys, two owners of one name, no owner.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"owners must be a readable TOML file, got {path} ({reason}).") from None
    held = content.get("owner")
    if not isinstance(held, list) or set(content) != {"owner"}:
        raise InvalidInput(f"{path} must hold tables [[owner]] with name and people, and nothing else.")
    return owners_from(held, source=str(path))


def owners_from(held: Sequence[Any], *, source: str) -> tuple[Owner, ...]:
    """The owners that plain values describe. source: where they are from, for the messages."""
    owners: list[Owner] = []
    for each in held:
        if not isinstance(each, dict) or set(each) != {"name", "people"}:
            raise InvalidInput(
                f"Every owner in {source} must have name and people, and nothing else, got {shown(each)}."
            )
        owners.append(Owner(**each))
    return require_owners(owners)


def require_owners(owners: Sequence[Owner]) -> tuple[Owner, ...]:
    """`owners`, refused unless there are from 1 to 1000, each with a name of its own."""
    if not 1 <= len(owners) <= MOST_OWNERS:
        raise InvalidInput(f"owners must be from 1 to {MOST_OWNERS}, got {len(owners)}.")
    names = [owner.name for owner in owners]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"owners must have different names, got {twice!r} twice.")
    return tuple(owners)
