"""A table of a paper: plain data that the command line prints or writes as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Cell = str | float | int | None
"""None: the paper prints nothing here, or nothing could be computed."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table: `columns` names, `rows` of as many cells, a `note` on conventions and differences."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"The columns of {self.title!r} must have different names, got {self.columns}.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row of {self.title!r} has {len(row)} cells for {len(self.columns)} columns.")

    def as_json(self) -> dict[str, Any]:
        """{"title", "rows": [{column: cell}], "note"}."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "note": self.note}
