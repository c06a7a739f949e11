"""Mechanisms, encoders and estimators of other packages, found by their entry points."""

from importlib.metadata import entry_points
from typing import Any, Literal

from ostrakon.validation import InvalidInput

Group = Literal["ostrakon.mechanisms", "ostrakon.encoders", "ostrakon.estimators"]


def from_entry_point(group: Group, name: str) -> Any:
    """Return the object that an installed package offers under `name`, None if no package does.

    Parameters
    ----------
    group : str
        "ostrakon.mechanisms" (classes derived from `Mechanism`), "ostrakon.encoders" (scikit-learn transformers) or
        "ostrakon.estimators" (classifiers for teachers and students).
    name : str
        The name of the entry point, as the user types it.

    Raises
    ------
    InvalidInput
        If two packages offer the name, or the object cannot be imported.

    Notes
    -----
    Loading an entry point runs the code of an installed package, so `name` must come from the user, never from data.

    Examples
    --------
    >>> from_entry_point("ostrakon.mechanisms", "not-installed") is None
    True
    """
    entries = list(entry_points(group=group, name=name))
    if not entries:
        return None
    if len(entries) > 1:
        packages = ", ".join(sorted(entry.dist.name if entry.dist else entry.value for entry in entries))
        raise InvalidInput(f"{name!r} must be offered by one package, got {packages}.")
    try:
        return entries[0].load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"{name!r} of {entries[0].value} cannot be imported: {error}.") from error
