"""Aggregation mechanisms, one file each; `base.Mechanism` says what a mechanism is."""

from quorate.mechanisms.base import NO_ANSWER, Mechanism, TiedMechanism
from quorate.mechanisms.confident_gnmax import ConfidentGNMax
from quorate.mechanisms.gnmax import GNMax

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        GNMax,
        ConfidentGNMax,
    )
}
"""Every mechanism by its name on the command line."""

__all__ = [
    "MECHANISMS",
    "NO_ANSWER",
    "ConfidentGNMax",
    "GNMax",
    "Mechanism",
    "TiedMechanism",
]
