"""What an option is: a field that says all that the command line, TOML files and Python must know of it."""

from __future__ import annotations

import dataclasses
import typing
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from ostrakon.validation import InvalidInput, marked_fields, settle, shown

PLAIN = (str, int, float)
"""What a TOML file holds as it is; anything else (an estimator) is kept as its repr."""
LONGEST = 1000
"""Characters of one answer."""

# Control, surrogate and format characters: unseen, they may make a report read otherwise than it is stored. Two of them
# only say whether letters join.
_UNSEEN = ("Cc", "Cs", "Cf")
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, kw_only=True)
class Option:
    """What all must know of an option; stands in its annotation, as `Annotated[int, Option(...)]`.

    help: one sentence with the default, shown by the command line under the heading `panel` (None: the first one).
    check: from (name, value) to the value that is kept, or a refusal; None where whoever uses the value refuses it.
    python: its name as an argument of `PATEClassifier`, where scikit-learn has a word for it. asked: whether it belongs
    to what was asked: run.toml keeps it, and a resumed run compares it. from_toml: from what a TOML file may hold
    besides to a value of the field's type. advanced: left out of `--help`; `--help-all` shows it.
    """

    help: str
    panel: str | None = None
    check: Callable[[str, Any], Any] | None = None
    python: str | None = None
    asked: bool = True
    from_toml: Callable[[Any], Any] | None = None
    advanced: bool = False


class Settings:
    """A frozen dataclass (keyword-only) whose fields are annotated by `Option`; each is checked once, here."""

    def __post_init__(self) -> None:
        settle(self, **{name: one.check for name, one in self.options().items() if one.check is not None})

    @classmethod
    def options(cls) -> dict[str, Option]:
        """The options by name, in the order of the fields."""
        return marked_fields(cls, Option)

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Names of the options without a default."""
        own = cls.options()
        fields = dataclasses.fields(cast(Any, cls))
        return tuple(each.name for each in fields if each.name in own and each.default is dataclasses.MISSING)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From plain values by name; what is no option here is left out.

        Errors: `InvalidInput` for a value that is refused, and where a required one is missing.
        """
        missing = [name for name in cls.required() if name not in values]
        if missing:
            raise InvalidInput(f"{missing[0]} must be given.")
        return cls(**{name: values[name] for name in cls.options() if name in values})

    def as_toml(self) -> dict[str, Any]:
        """What was asked, as run.toml keeps it: plain values by name, None left out."""
        named = {name: getattr(self, name) for name, one in self.options().items() if one.asked}
        return {name: plain(value) for name, value in named.items() if value is not None}

    @classmethod
    def from_toml(cls, content: Mapping[str, Any], source: Any) -> dict[str, Any]:
        """The options in `content` (the table of a TOML file, which is the file `source`) as plain values by name.

        A flag is true or false, never a word for it. Errors: `InvalidInput` for a value of another type.
        """
        types, found = plain_types(cls), dict[str, Any]()
        for name, one in cls.options().items():
            if one.asked and name in content:
                value = content[name] if one.from_toml is None else one.from_toml(content[name])
                found[name] = of_plain_type(name, value, types[name], source)
        return found


def plain(value: Any) -> Any:
    """`value` as a TOML file holds it: a number of NumPy as Python's own, an estimator as its repr."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, PLAIN) else repr(value)


def plain_types(kind: type) -> dict[str, type]:
    """What the fields of a dataclass are where plain text gives them: bool, int or float as annotated, else str."""
    hints = typing.get_type_hints(kind)
    return {name: _plain(hint) for name, hint in hints.items()}


def of_plain_type(name: str, value: Any, kind: type, source: Any) -> Any:
    """`value`, refused unless a TOML file (`source`) may hold it where `kind` is wanted."""
    allowed: Any = {bool: bool, str: str}.get(kind, (int, float))
    if not isinstance(value, allowed) or (kind is not bool and isinstance(value, bool)):
        told = {bool: "true or false", str: "text"}.get(kind, "a number")
        raise InvalidInput(f"{name.replace('_', '-')} in {source} must be {told}, got {value!r}.")
    return value


def _plain(hint: Any) -> type:
    return next((kind for kind in (bool, int, float) if hint is kind or kind in typing.get_args(hint)), str)


def sentence(name: str, value: Any) -> str:
    """What the operator says in words: one line, breaks between lines become spaces. Refuses control characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InvalidInput(f"{name} must be text of 1 to {LONGEST} characters, got {shown(value)}.")
    line = " ".join(value.split())
    if any(unicodedata.category(each) in _UNSEEN and each not in _JOINERS for each in line):
        raise InvalidInput(f"{name} must be text without control characters, got {shown(value)}.")
    return line
