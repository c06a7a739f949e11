"""An option: a field with everything that the command line, TOML files and Python need to know of it."""

import dataclasses
import typing
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from ostrakon.validation import InvalidInput, marked_fields, quote, settle

PLAIN = (str, int, float)
"""Types that a TOML file stores directly; anything else (an estimator) is stored as its repr."""
LONGEST = 1000
"""The most characters of a text."""

# Control, surrogate and format characters are invisible, and may make a report read otherwise than it is stored. Two of
# them only say whether letters join.
_UNSEEN = ("Cc", "Cs", "Cf")
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, kw_only=True)
class Option:
    """The declaration of an option, used in its annotation: `Annotated[int, Option(...)]`.

    help: one sentence with the default, shown by the command line under the heading `panel` (None: the first one).
    check: from (name, value) to the accepted value, or an error; None if the user of the value checks it. python: its
    name as an argument of `PATEClassifier`, if scikit-learn uses another word. asked: whether run.toml stores it and a
    resumed run compares it. from_toml: converts other values that a TOML file may contain to the field's type.
    advanced: hidden from `--help`; `--help-all` shows it.
    """

    help: str
    panel: str | None = None
    check: Callable[[str, Any], Any] | None = None
    python: str | None = None
    asked: bool = True
    from_toml: Callable[[Any], Any] | None = None
    advanced: bool = False


class Settings:
    """A frozen dataclass (keyword-only) whose fields are annotated by `Option`; it checks them all."""

    def __post_init__(self) -> None:
        settle(self, **{name: one.check for name, one in self.options().items() if one.check is not None})

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return the options by name, in the order of the fields."""
        return marked_fields(cls, Option)

    @classmethod
    def required(cls) -> tuple[str, ...]:
        """Return the names of the options without a default."""
        own = cls.options()
        fields = dataclasses.fields(cast(Any, cls))
        return tuple(field.name for field in fields if field.name in own and field.default is dataclasses.MISSING)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Build settings from plain values by name; other names are ignored.

        Errors: `InvalidInput` for a bad value, and if a required one is missing.
        """
        missing = [name for name in cls.required() if name not in values]
        if missing:
            raise InvalidInput(f"{missing[0]} must be given.")
        return cls(**{name: values[name] for name in cls.options() if name in values})

    def as_toml(self) -> dict[str, Any]:
        """Return the options as run.toml stores them: plain values by name, without None."""
        named = {name: getattr(self, name) for name, one in self.options().items() if one.asked}
        return {name: plain(value) for name, value in named.items() if value is not None}

    @classmethod
    def from_toml(cls, content: Mapping[str, Any], source: Any) -> dict[str, Any]:
        """Return the options in `content` (a table of the TOML file `source`) as plain values by name.

        A flag is true or false, not a word for it. Errors: `InvalidInput` for a value of another type.
        """
        types, plain_values = plain_types(cls), dict[str, Any]()
        for name, one in cls.options().items():
            if one.asked and name in content:
                value = content[name] if one.from_toml is None else one.from_toml(content[name])
                plain_values[name] = of_plain_type(name, value, types[name], source)
        return plain_values


def plain(value: Any) -> Any:
    """Return `value` as a TOML file stores it: a number of NumPy as Python's own, an estimator as its repr."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, PLAIN) else repr(value)


def plain_types(kind: type) -> dict[str, type]:
    """Return the types of a dataclass's fields in plain text: bool, int or float as annotated, else str."""
    hints = typing.get_type_hints(kind)
    return {name: _plain(hint) for name, hint in hints.items()}


def of_plain_type(name: str, value: Any, kind: type, source: Any) -> Any:
    """Return `value`, refused unless a TOML file (`source`) may contain it for the type `kind`."""
    allowed: Any = {bool: bool, str: str}.get(kind, (int, float))
    if not isinstance(value, allowed) or (kind is not bool and isinstance(value, bool)):
        expected = {bool: "true or false", str: "text"}.get(kind, "a number")
        raise InvalidInput(f"{name.replace('_', '-')} in {source} must be {expected}, got {value!r}.")
    return value


def _plain(hint: Any) -> type:
    return next((kind for kind in (bool, int, float) if hint is kind or kind in typing.get_args(hint)), str)


def sentence(name: str, value: Any) -> str:
    """Return a text of the operator as one line: line breaks become spaces. Refuses control characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InvalidInput(f"{name} must be text of 1 to {LONGEST} characters, got {quote(value)}.")
    line = " ".join(value.split())
    if any(unicodedata.category(field) in _UNSEEN and field not in _JOINERS for field in line):
        raise InvalidInput(f"{name} must be text without control characters, got {quote(value)}.")
    return line
