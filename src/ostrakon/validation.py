"""Checks of arguments with one sentence for an error: every public function checks its numbers here."""

import dataclasses
import difflib
import math
import numbers
import os
import typing
from collections.abc import Callable, Collection, Iterable
from typing import Any, Never, TypeVar

M = TypeVar("M")

LARGEST_WHOLE = 2**53
"""Maximum of whole numbers: up to here floats represent all of them, so no formula rounds a count down."""

LONGEST_LINE = 200
"""Maximum number of characters of a name."""


class InvalidInput(ValueError):
    """Invalid input; the message names the value and what is allowed."""


def _refuse(name: str, value: Any, allowed: str) -> Never:
    raise InvalidInput(f"{name} must be {allowed}, got {quote(value)}.")


def quote(value: Any) -> str:
    """Return the repr of `value` for a message; a long one is cut off."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of many thousand digits
        return f"a number of type {type(value).__name__} with thousands of digits"
    return text if len(text) <= 200 else f"{text[:60]}… ({len(text)} characters)"


def require_path(name: str, value: Any) -> None:
    """Refuse anything but a path.

    >>> require_path("private", [1])
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: private must be the path of a file or folder, got a list.
    """
    if not isinstance(value, str | os.PathLike):
        raise InvalidInput(f"{name} must be the path of a file or folder, got a {type(value).__name__}.")


def one_of(name: str, value: Any, allowed: Collection[str]) -> str:
    """Return `value`; refuse it unless it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}, got {quote(value)}.{hint}")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known name nearest to `name`, ignoring case; empty if none is near.

    >>> did_you_mean("gnmx", ["gnmax", "lnmax"]), did_you_mean("T", ["t"]), did_you_mean("x", ["gnmax"])
    (" Did you mean 'gnmax'?", " Did you mean 't'?", '')
    """
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


def _real(name: str, value: Any, allowed: str, *, holds: Callable[[float], bool] = math.isfinite) -> float:
    # In Python, bool is a number, and every comparison with NaN is false: neither is accepted.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _refuse(name, value, allowed)
    try:
        number = float(value)
    except OverflowError:
        _refuse(name, value, allowed)
    if not (math.isfinite(number) and holds(number)):
        _refuse(name, value, allowed)
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a float, refused unless it is a finite real number above 0 (no bool, no string).

    >>> positive("sigma", 40)
    40.0
    """
    return _real(name, value, "a finite number above 0", holds=lambda number: number > 0)


def scale(name: str, value: Any, *, at_most: float = 1e50) -> float:
    """Return `value` as a float, refused unless it is a real number from 1e-50 to `at_most` (a noise scale).

    Within that, no product or square of two of them leaves the range of a float.
    """
    number = positive(name, value)
    if not 1e-50 <= number <= at_most:
        _refuse(name, value, f"a number from 1e-50 to {at_most:g}")
    return number


def non_negative(name: str, value: Any) -> float:
    """Return `value` as a float, refused unless it is a finite real number of at least 0."""
    return _real(name, value, "a finite number of at least 0", holds=lambda number: number >= 0)


def finite(name: str, value: Any) -> float:
    """Return `value` as a float, refused unless it is a finite real number."""
    return _real(name, value, "a finite number")


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float, refused unless it lies strictly between 0 and 1 (delta, a probability)."""
    return _real(name, value, "a number strictly between 0 and 1", holds=lambda number: 0 < number < 1)


def fraction_or_zero(name: str, value: Any) -> float:
    """Return `value` as a float, refused unless it is at least 0 and below 1 (delta, also of pure DP)."""
    return _real(name, value, "a number of at least 0 and below 1", holds=lambda number: 0 <= number < 1)


def whole(name: str, value: Any, *, at_least: int = 0, at_most: int | None = None) -> int:
    """Return `value` as an int, refused unless it is an integer (no bool) within the bounds and `LARGEST_WHOLE`."""
    allowed = f"an integer of at least {at_least}" + ("" if at_most is None else f" and at most {at_most}")
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        _refuse(name, value, allowed)
    number = int(value)
    if number > LARGEST_WHOLE and at_most is None:
        allowed += f" and at most {LARGEST_WHOLE}"
    if not at_least <= number <= (LARGEST_WHOLE if at_most is None else at_most):
        _refuse(name, value, allowed)
    return number


def line(name: str, value: Any) -> str:
    """Return `value`, refused unless it is one line of printable text, short enough to be a name."""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_LINE or not value.isprintable():
        _refuse(name, value, f"printable text of 1 to {LONGEST_LINE} characters")
    return value


def settle(instance: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Replace fields of a frozen dataclass by what their checks return, in its `__post_init__`.

    None is accepted only where it is the default of a field. No other function writes to a frozen instance.
    """
    optional = {field.name for field in dataclasses.fields(instance) if field.default is None}
    for name, check in checks.items():
        value = getattr(instance, name)
        if value is not None or name not in optional:
            object.__setattr__(instance, name, check(name, value))


def marked_fields(kind: type, mark: type[M]) -> dict[str, M]:
    """Field name → the `mark` in its annotation, for the fields of a dataclass that have one.

    Errors: `TypeError` for a field with more than one.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    marked: dict[str, M] = {}
    for field in dataclasses.fields(kind):
        marks = _marks(hints[field.name], mark)
        if len(marks) > 1:
            raise TypeError(f"{kind.__name__}.{field.name} must be annotated by one {mark.__name__}, got {len(marks)}.")
        if marks:
            marked[field.name] = marks[0]
    return marked


def _marks(hint: Any, mark: type[M]) -> list[M]:
    """Return the marks in an annotation, also within `... | None`."""
    inner = [one for part in typing.get_args(hint) for one in _marks(part, mark)]
    return inner + [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, mark)]
