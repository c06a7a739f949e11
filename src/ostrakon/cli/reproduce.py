"""`ostrakon reproduce PAPER`: the papers' tables, as printed and as recomputed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from ostrakon.cli.app import app, console
from ostrakon.report.reproduce.table import Cell, Table


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="pate-2017, pate-2018, near-zero-cost or exponential-2024.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder with the published votes (votes/*.npy); default: OSTRAKON_DATA.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Recompute a paper's tables from the published votes: as printed, published bound, exact, worst-case."""
    from ostrakon.report.reproduce import reproduce as recompute

    tables = recompute(paper, data=data)
    if as_json:
        typer.echo(json.dumps({"paper": paper, "tables": [table.as_json() for table in tables]}, indent=2))
        return
    for table in tables:
        console.print(rich_table(table))
        if table.note:
            console.print(table.note, style="dim", highlight=False, markup=False)
        console.print()


def rich_table(table: Table) -> RichTable:
    """`table` as Rich prints it: numbers to four digits, an empty cell where there is none."""
    drawn = RichTable(*table.columns, title=table.title, title_justify="left", title_style="bold")
    for column in drawn.columns[1:]:
        column.justify = "right"
    for row in table.rows:
        drawn.add_row(*(_text(cell) for cell in row))
    return drawn


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
