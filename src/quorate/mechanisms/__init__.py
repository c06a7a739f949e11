"""Aggregation mechanisms, one file each; `base.Mechanism` says what a mechanism is."""

from quorate.mechanisms.base import NO_ANSWER, Mechanism, RunCost, TiedMechanism
from quorate.mechanisms.confident_gnmax import ConfidentGNMax
from quorate.mechanisms.exponential import ExponentialMechanism
from quorate.mechanisms.gnmax import GNMax
from quorate.mechanisms.immutable import Immutable
from quorate.mechanisms.interactive_gnmax import InteractiveGNMax
from quorate.mechanisms.lnmax import LNMax
from quorate.mechanisms.permute_and_flip import PermuteAndFlip
from quorate.mechanisms.propose_test_release import ProposeTestRelease
from quorate.mechanisms.rationed_gnmax import RationedGNMax
from quorate.mechanisms.screened_exponential import ScreenedExponential
from quorate.mechanisms.sparse_vector import SparseVector

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        LNMax,
        GNMax,
        ConfidentGNMax,
        InteractiveGNMax,
        ExponentialMechanism,
        ScreenedExponential,
        PermuteAndFlip,
        ProposeTestRelease,
        SparseVector,
        RationedGNMax,
        Immutable,
    )
}
"""Every mechanism by its name on the command line."""

__all__ = [
    "MECHANISMS",
    "NO_ANSWER",
    "ConfidentGNMax",
    "ExponentialMechanism",
    "GNMax",
    "Immutable",
    "InteractiveGNMax",
    "LNMax",
    "Mechanism",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "RationedGNMax",
    "RunCost",
    "ScreenedExponential",
    "SparseVector",
    "TiedMechanism",
]
