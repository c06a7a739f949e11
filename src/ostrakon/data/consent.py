"""Consent: the public levels that records have, and the epsilon that each of them allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ostrakon.data.classes import label_indices
from ostrakon.data.quantity import NUMBER
from ostrakon.validation import InvalidInput, positive, quote

_CALLED = ("level of consent", "level of consent", "levels")
_FORM = "COLUMN:LEVEL=EPSILON,LEVEL=EPSILON,... such as consent:1=0.5,2=1,3=2"


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The levels of consent with the epsilon of each, and the column that says which level a record has.

    Parameters
    ----------
    epsilons : mapping of str to float
        Public: from a level to the epsilon that a record of it allows.
    column : str, optional
        The column of the private table; None in memory.

    Raises
    ------
    InvalidInput
        For no level, an empty one, and an epsilon that is not a positive number.

    Examples
    --------
    >>> Consent.of("consent:1=0.5,2=2")
    Consent(epsilons={'1': 0.5, '2': 2.0}, column='consent')
    """

    epsilons: Mapping[str, float]
    column: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epsilons, Mapping) or not self.epsilons:
            raise InvalidInput(f"consent must be a mapping from levels to epsilons, got {quote(self.epsilons)}.")
        levels = [str(level) for level in self.epsilons]
        if "" in levels or len(set(levels)) < len(levels):
            raise InvalidInput(f"consent must name every level once, and none empty, got {', '.join(levels)}.")
        named = {
            level: positive(f"consent of level {level!r}", epsilon)
            for level, epsilon in zip(levels, self.epsilons.values(), strict=True)
        }
        object.__setattr__(self, "epsilons", named)

    @classmethod
    def of(cls, levels_text: str) -> Self:
        """Return the levels of `consent:1=0.5,2=1,3=2`. Errors: `InvalidInput` for anything else."""
        column, colon, _ = levels_text.partition("=")[0].rpartition(":")
        parts = [part.rpartition("=") for part in levels_text[len(column + colon) :].split(",")]
        if not column.strip() or not colon or not all(equals for _, equals, _ in parts):
            raise InvalidInput(f"consent must be {_FORM}, got {quote(levels_text)}.")
        levels = [level.strip() for level, _, _ in parts]
        if len(set(levels)) < len(levels):
            raise InvalidInput(f"consent must name every level once, got {', '.join(levels)}.")
        for level, (_, _, text) in zip(levels, parts, strict=True):
            if not NUMBER.fullmatch(text.strip()):
                raise InvalidInput(f"consent must be {_FORM}, got {quote(text)} as the epsilon of {quote(level)}.")
        return cls(column=column.strip(), epsilons=dict(zip(levels, (float(text) for *_, text in parts), strict=True)))

    @property
    def epsilon(self) -> float:
        """The largest epsilon, that of the whole run."""
        return max(self.epsilons.values())

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, in order."""
        return tuple(self.epsilons)

    def numbers(self, levels: Any) -> NDArray[np.int64]:
        """Return the number of every record's level, (rows,). Errors: `InvalidInput` for missing and unknown levels."""
        return level_numbers(levels, self.levels)

    def require_levels(self, rows: Mapping[str | None, int]) -> None:
        """Refuse missing and unknown levels. rows: how many rows have each level. Errors: `InvalidInput`."""
        level_numbers(list(rows), self.levels, rows=list(rows.values()))


def level_numbers(levels: Any, allowed_levels: Sequence[str], *, rows: Any = None) -> NDArray[np.int64]:
    """Return levels, text or whole numbers, as indices into `allowed_levels`, (rows,). rows: as in `label_indices`.

    Errors: `InvalidInput` for missing levels, and for one that is not allowed.

    >>> level_numbers([2, "1", 2.0], ("1", "2")).tolist()
    [1, 0, 1]
    """
    return label_indices([_text(level) for level in levels], allowed_levels, rows=rows, called=_CALLED)


def _text(level: Any) -> Any:
    if pd.api.types.is_scalar(level) and pd.isna(level):
        return None
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level).strip()
