"""Aggregation mechanisms, one file each. `base` defines a mechanism; `registry` maps names to classes."""

from ostrakon.mechanisms.base import NO_ANSWER, Mechanism, Parameter, RunCost, StatefulMechanism
from ostrakon.mechanisms.bounded_gnmax import BoundedGNMax
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.mechanisms.exponential import ExponentialMechanism
from ostrakon.mechanisms.gnmax import GNMax
from ostrakon.mechanisms.immutable import Immutable
from ostrakon.mechanisms.interactive_gnmax import InteractiveGNMax
from ostrakon.mechanisms.lnmax import LNMax
from ostrakon.mechanisms.moment_gnmax import MomentGNMax
from ostrakon.mechanisms.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.registry import MECHANISMS, register
from ostrakon.mechanisms.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.sparse_vector import SparseVector
from ostrakon.mechanisms.synthetic_gnmax import SyntheticGNMax

__all__ = [
    "MECHANISMS",
    "NO_ANSWER",
    "BoundedGNMax",
    "ConfidentGNMax",
    "ExponentialMechanism",
    "GNMax",
    "Immutable",
    "InteractiveGNMax",
    "LNMax",
    "Mechanism",
    "MomentGNMax",
    "Parameter",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "RunCost",
    "ScreenedExponential",
    "SparseVector",
    "StatefulMechanism",
    "SyntheticGNMax",
    "register",
]
