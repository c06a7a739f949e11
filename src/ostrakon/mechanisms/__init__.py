"""Aggregation mechanisms, one file each: the common ones here, rarely used ones in `contrib`.

`base` defines a mechanism; `registry` maps names to classes.
"""

from importlib import import_module
from pkgutil import iter_modules

from ostrakon.mechanisms import contrib
from ostrakon.mechanisms.base import NO_ANSWER, Mechanism, Parameter, RunCost, StatefulMechanism
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.mechanisms.exponential import ExponentialMechanism
from ostrakon.mechanisms.gnmax import GNMax
from ostrakon.mechanisms.interactive_gnmax import InteractiveGNMax
from ostrakon.mechanisms.labels_gnmax import LabelsGNMax
from ostrakon.mechanisms.lnmax import LNMax
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.mechanisms.quantity_gnmax import QuantityGNMax
from ostrakon.mechanisms.registry import MECHANISMS, register

__all__ = [
    "MECHANISMS",
    "NO_ANSWER",
    "BoundedGNMax",
    "ConfidentGNMax",
    "ExponentialMechanism",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "LabelsGNMax",
    "Mechanism",
    "MomentGNMax",
    "Parameter",
    "QuantityGNMax",
    "RunCost",
    "StatefulMechanism",
    "register",
]

for _kind in (
    LNMax,
    GNMax,
    ConfidentGNMax,
    InteractiveGNMax,
    ExponentialMechanism,
    BoundedGNMax,
    MomentGNMax,
    QuantityGNMax,
    LabelsGNMax,
):
    register(_kind)
for _module in iter_modules(contrib.__path__, f"{contrib.__name__}."):
    import_module(_module.name)
