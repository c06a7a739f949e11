"""A table of a paper: plain data that the command line prints or writes as JSON, CSV, Markdown or a picture."""

from dataclasses import dataclass
from typing import Any

Cell = str | float | int | None
"""None: the paper prints nothing here, or nothing could be computed."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """How a table is drawn: one panel for each of the columns `panels`, all against the column `x`.

    by: the column that tells the lines of a panel apart, or None for one line. log: logarithmic heights, of one scale.
    """

    x: str
    panels: tuple[str, ...]
    by: str | None = None
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table: `columns` names, `rows` of as many cells, a `note` on conventions and differences, a `chart`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    chart: Chart | None = None

    def __post_init__(self) -> None:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError(f"The columns of {self.title!r} must have different names, got {self.columns}.")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row of {self.title!r} has {len(row)} cells for {len(self.columns)} columns.")
        if self.chart is not None:
            drawn = {self.chart.x, *self.chart.panels, *([self.chart.by] if self.chart.by else [])}
            if not drawn <= set(self.columns):
                raise ValueError(f"The chart of {self.title!r} names no column: {sorted(drawn - set(self.columns))}.")

    def column(self, name: str) -> list[Cell]:
        """Return the cells of one column, from the top."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def as_json(self) -> dict[str, Any]:
        """{"title", "rows": [{column: cell}], "note"}."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "note": self.note}
