"""ostrakon: the private aggregation of teacher ensembles (PATE).

`import ostrakon` loads NumPy alone. Each name below is loaded when it is first used, so that the accounting
can be read and run without a learning framework.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ostrakon import accounting, audit, estimators, export, features, mechanisms, noise, students, teachers
    from ostrakon.accounting import account
    from ostrakon.api import refit, train
    from ostrakon.data import datasets
    from ostrakon.data.domain import Domain
    from ostrakon.estimator import PATEClassifier
    from ostrakon.forecast import plan
    from ostrakon.mechanisms import (
        BoundedGNMax,
        ConfidentGNMax,
        ExponentialMechanism,
        GNMax,
        InteractiveGNMax,
        LabelsGNMax,
        LNMax,
        MomentGNMax,
        QuantityGNMax,
    )
    from ostrakon.regressor import PATERegressor
    from ostrakon.validation import InvalidInput
    from ostrakon.votes import PublicVotes, Votes

    __version__: str

__all__ = [
    "BoundedGNMax",
    "ConfidentGNMax",
    "Domain",
    "ExponentialMechanism",
    "GNMax",
    "InteractiveGNMax",
    "InvalidInput",
    "LNMax",
    "LabelsGNMax",
    "MomentGNMax",
    "PATEClassifier",
    "PATERegressor",
    "PublicVotes",
    "QuantityGNMax",
    "Votes",
    "account",
    "accounting",
    "audit",
    "datasets",
    "estimators",
    "export",
    "features",
    "mechanisms",
    "noise",
    "plan",
    "refit",
    "students",
    "teachers",
    "train",
]

_MODULE_OF = {
    "InvalidInput": "ostrakon.validation",
    "PublicVotes": "ostrakon.votes",
    "Votes": "ostrakon.votes",
    "Domain": "ostrakon.data.domain",
    "account": "ostrakon.accounting",
    "PATEClassifier": "ostrakon.estimator",
    "PATERegressor": "ostrakon.regressor",
    "plan": "ostrakon.forecast",
    "refit": "ostrakon.api",
    "train": "ostrakon.api",
}
_FOLDERS = ("accounting", "audit", "estimators", "export", "features", "mechanisms", "noise", "students", "teachers")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("ostrakon")
    if name not in __all__:
        raise AttributeError(f"module 'ostrakon' has no attribute {name!r}")
    if name in _FOLDERS:
        return importlib.import_module(f"ostrakon.{name}")
    if name == "datasets":
        return importlib.import_module("ostrakon.data.datasets")
    return getattr(importlib.import_module(_MODULE_OF.get(name, "ostrakon.mechanisms")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
