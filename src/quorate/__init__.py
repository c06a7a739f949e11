"""quorate: the private aggregation of teacher ensembles (PATE).

`import quorate` loads NumPy alone; each name below is loaded when it is first used, so that the accounting
can be read and run without a learning framework.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "InvalidInput": "quorate.checks",
    "PublicVotes": "quorate.votes",
    "Votes": "quorate.votes",
    "ConfidentGNMax": "quorate.mechanisms",
    "ExponentialMechanism": "quorate.mechanisms",
    "GNMax": "quorate.mechanisms",
    "Immutable": "quorate.mechanisms",
    "InteractiveGNMax": "quorate.mechanisms",
    "LNMax": "quorate.mechanisms",
    "PermuteAndFlip": "quorate.mechanisms",
    "ProposeTestRelease": "quorate.mechanisms",
    "ScreenedExponential": "quorate.mechanisms",
    "SparseVector": "quorate.mechanisms",
    "account": "quorate.accounting",
    "PATEClassifier": "quorate.estimator",
}
_MODULES = ("accounting", "audit", "datasets", "mechanisms", "noise", "public", "students", "teachers")

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        home = "quorate.data.datasets" if name == "datasets" else f"quorate.{name}"
        return importlib.import_module(home)
    raise AttributeError(f"module 'quorate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
