"""ostrakon: the private aggregation of teacher ensembles (PATE).

`import ostrakon` loads NumPy alone; each name below is loaded when it is first used, so that the accounting
can be read and run without a learning framework.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "InvalidInput": "ostrakon.validation",
    "PublicVotes": "ostrakon.votes",
    "Votes": "ostrakon.votes",
    "BoundedGNMax": "ostrakon.mechanisms",
    "ConfidentGNMax": "ostrakon.mechanisms",
    "ExponentialMechanism": "ostrakon.mechanisms",
    "GNMax": "ostrakon.mechanisms",
    "Immutable": "ostrakon.mechanisms",
    "InteractiveGNMax": "ostrakon.mechanisms",
    "LNMax": "ostrakon.mechanisms",
    "MomentGNMax": "ostrakon.mechanisms",
    "PermuteAndFlip": "ostrakon.mechanisms",
    "ProposeTestRelease": "ostrakon.mechanisms",
    "ScreenedExponential": "ostrakon.mechanisms",
    "SparseVector": "ostrakon.mechanisms",
    "SyntheticGNMax": "ostrakon.mechanisms",
    "Domain": "ostrakon.data.domain",
    "account": "ostrakon.accounting",
    "PATEClassifier": "ostrakon.estimator",
    "plan": "ostrakon.forecast",
}
_MODULES = ("accounting", "audit", "datasets", "mechanisms", "noise", "public", "students", "teachers")

__all__ = [*_HOME, *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll] (each name stands in one place)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        home = "ostrakon.data.datasets" if name == "datasets" else f"ostrakon.{name}"
        return importlib.import_module(home)
    raise AttributeError(f"module 'ostrakon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
