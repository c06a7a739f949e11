"""The registry of mechanisms: from a name to its class, and from plain values to an instance."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from ostrakon.mechanisms.base import Mechanism, Parameter
from ostrakon.plugins import from_entry_point
from ostrakon.validation import InvalidInput, did_you_mean

M = TypeVar("M", bound=type[Mechanism])

_registered: dict[str, type[Mechanism]] = {}

MECHANISMS: Mapping[str, type[Mechanism]] = MappingProxyType(_registered)
"""Every registered mechanism by its name. Read-only: `register` adds to it."""


def register(kind: M) -> M:
    """Register a mechanism under its `name` for command line, calibration, audit, comparison and runs. A decorator.

    Parameters
    ----------
    kind : type
        A frozen, keyword-only dataclass derived from `Mechanism`, its parameters annotated by `Parameter`.

    Returns
    -------
    type
        `kind` itself.

    Raises
    ------
    InvalidInput
        For a class that is abstract, a name that is taken or is not of lower-case words and hyphens.
    TypeError
        For a field that is not annotated by `Parameter`.
    """
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise InvalidInput(f"name must be lower-case words joined by hyphens, got {name!r}.")
    if _registered.get(name, kind) is not kind:
        raise InvalidInput(f"name must be free, got {name!r}, which is {_registered[name].__name__}.")
    if inspect.isabstract(kind) or not dataclasses.is_dataclass(kind):
        raise InvalidInput(
            f"{kind.__name__} must be a dataclass that defines sample, log_probabilities and worst_case."
        )
    kind.declared()
    _registered[name] = kind
    return kind


def find(name: str) -> type[Mechanism]:
    """Return the mechanism of that name.

    Parameters
    ----------
    name : str
        Of a registered mechanism, or of an entry point in the group "ostrakon.mechanisms".

    Returns
    -------
    type
        A class derived from `Mechanism`.

    Raises
    ------
    InvalidInput
        For an unknown name; the message lists the known ones.

    Examples
    --------
    >>> find("gnmax").__name__
    'GNMax'
    """
    if name not in _registered and (kind := from_entry_point("ostrakon.mechanisms", name)) is not None:
        register(kind)
    if name not in _registered:
        raise InvalidInput(
            f"mechanism must be one of {', '.join(_registered)}, got {name!r}.{did_you_mean(name, _registered)}"
        )
    return _registered[name]


def declared_parameters() -> dict[str, Parameter]:
    """Return all parameters of all mechanisms that are options, by name, in the order of registration."""
    parameters_by_name: dict[str, Parameter] = {}
    for kind in _registered.values():
        for name, parameter in kind.declared().items():
            if parameter.option:
                parameters_by_name.setdefault(name, parameter)
    return parameters_by_name


def build(name: str, parameters: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of that name with these parameters.

    Parameters
    ----------
    name : str
        As for `find`.
    parameters : mapping
        Values by name; None counts as not given.

    Returns
    -------
    Mechanism

    Raises
    ------
    InvalidInput
        Naming the parameter that is missing, unknown or out of range.

    Examples
    --------
    >>> build("gnmax", {"sigma2": 40, "gamma": None})
    GNMax(sigma2=40.0)
    """
    kind: Any = find(name)
    given = require_own(name, parameters)
    required = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
    missing = [key for key in required if key not in given]
    settled = next((key for key in missing if not kind.declared()[key].option), None)
    if settled is not None:
        raise InvalidInput(f"{name} has a price within a run alone, which settles its {settled}: ask `ostrakon train`.")
    if missing:
        raise InvalidInput(f"{name} needs {', '.join(missing)}.")
    return kind(**given)


def build_with_defaults(name: str, teachers: int, parameters: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism of that name, with missing parameters in proportion to the number of teachers.

    Parameters
    ----------
    name, parameters
        As for `build`.
    teachers : int
        At least 1.

    Returns
    -------
    Mechanism

    Raises
    ------
    InvalidInput
        As `build`.

    References
    ----------
    `Mechanism.defaults` of each mechanism.

    Examples
    --------
    >>> build_with_defaults("gnmax", 250, {})
    GNMax(sigma2=50.0)
    """
    given = require_own(name, parameters)
    return build(name, {**find(name).defaults(teachers, given), **given})


def require_own(name: str, parameters: Mapping[str, Any], *, shown: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the given entries of `parameters`; refused if the mechanism of that name has no such parameter.

    shown: how a refusal writes a parameter.
    """
    known = find(name).declared()
    given = {key: value for key, value in parameters.items() if value is not None}
    foreign = [key for key in given if key not in known]
    if foreign:
        takes = ", ".join(map(shown, known))
        raise InvalidInput(f"{shown(foreign[0])} is not a parameter of {name}, which takes {takes}.")
    return given
