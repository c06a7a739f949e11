"""The tables of the papers, recomputed: one file per paper, one row here.

`ostrakon reproduce NAME` prints what `PAPERS[NAME]` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ostrakon.report.reproduce import exponential_2024, near_zero_cost, pate_2017, pate_2018
from ostrakon.report.reproduce.table import Table
from ostrakon.validation import InvalidInput

PAPERS: dict[str, Callable[[Path | None], list[Table]]] = {
    "pate-2017": pate_2017.tables,
    "pate-2018": pate_2018.tables,
    "near-zero-cost": near_zero_cost.tables,
    "exponential-2024": exponential_2024.tables,
}
"""Paper by name → function of the data folder (None: where `OSTRAKON_DATA` says) that returns its tables."""


def reproduce(paper: str, *, data: Path | None = None) -> list[Table]:
    """The tables of one paper, recomputed from the published votes.

    Errors: `InvalidInput` for an unknown paper, or where the votes are not found.
    """
    if paper not in PAPERS:
        raise InvalidInput(f"paper must be one of {', '.join(PAPERS)}, got {paper!r}.")
    return PAPERS[paper](data)


__all__ = ["PAPERS", "Table", "reproduce"]
