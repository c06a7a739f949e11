"""What a release costs a record whose contribution is scaled: a guarantee for each public level of consent."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.mechanisms.base import RunCost
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of consent: its name, and the weight of its records.

    Parameters
    ----------
    name : str
        Public.
    weight : int
        Steps of 1/1024: what a record of this level adds is scaled to at most this length; 1 to 1024.
    """

    name: str
    weight: int

    def cost(self, whole: RunCost, *, secret: bool = False) -> RunCost:
        """Return what a run costs a record of this level.

        Parameters
        ----------
        whole : RunCost
            Of a record of full weight; Gaussian.
        secret : bool
            Whether the record is replaced by one of any level, instead of one of its own.

        Notes
        -----
        Guarantee: at weight w, mu is w times that of full weight, or sqrt((w^2 + 1) / 2) times where the level is
        secret. Proof: docs/mathematics.md H.
        """
        assert whole.mu is not None
        share = self.weight / STEPS
        share = math.sqrt((share**2 + 1) / 2) if secret else share
        # The factor covers rounding, so that the cost is not underestimated.
        return replace(whole, mu=whole.mu * share * (1 + 1e-12 if share < 1 else 1))


@dataclass(frozen=True, kw_only=True)
class LevelClaim:
    """What a statement claims for the records of one level.

    Parameters
    ----------
    level : str
    weight : float in (0, 1]
    epsilon, delta : float
        Where one record differs, and its level is the same in both data sets (or it is removed).
    if_secret : float
        The epsilon at the same delta where its level may differ too.
    """

    level: str
    weight: float
    epsilon: float
    delta: float
    if_secret: float


def levels_within(epsilons: Mapping[str, float], whole: RunCost, *, delta: float) -> tuple[Level, ...]:
    """Return the largest weights at which every level keeps its epsilon.

    Parameters
    ----------
    epsilons : mapping
        From the name of a level to the epsilon that its records allow.
    whole : RunCost
        Of a record of full weight; Gaussian.
    delta : float
        In (0, 1).

    Raises
    ------
    InvalidInput
        For an epsilon so far below the largest one that its weight would be below 1/1024.

    Examples
    --------
    >>> levels_within({"part": 0.5, "all": 2.0}, RunCost(mu=0.5), delta=1e-5)
    (Level(name='part', weight=291), Level(name='all', weight=1024))
    """
    levels: list[Level] = []
    for name, epsilon in epsilons.items():
        # The epsilon grows with the weight: as many of the weights from 1 on are within it as the largest one is.
        weight = bisect_right(
            range(1, STEPS + 1),
            epsilon,
            key=lambda weight: run_epsilon(Level(name=name, weight=weight).cost(whole), delta=delta),
        )
        if weight == 0:
            raise InvalidInput(
                f"consent must allow every level a weight of at least 1/{STEPS} of the largest, got {epsilon:g} for "
                f"{name!r}: leave its records out."
            )
        levels.append(Level(name=name, weight=weight))
    return tuple(levels)


def claims_of(levels: Sequence[Level], whole: RunCost, *, delta: float, removed: bool) -> tuple[LevelClaim, ...]:
    """Return the claim of every level. removed: whether `whole` is the cost of a record that is removed."""

    def claim(level: Level) -> LevelClaim:
        entry: Any = {"level": level.name, "weight": level.weight / STEPS, "delta": delta}
        epsilon = run_epsilon(level.cost(whole), delta=delta)
        secret = epsilon if removed else run_epsilon(level.cost(whole, secret=True), delta=delta)
        return LevelClaim(**entry, epsilon=epsilon, if_secret=secret)

    return tuple(claim(level) for level in levels)
