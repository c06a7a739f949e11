"""`ostrakon reproduce PAPER`: the papers' tables, as printed and as recomputed."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable

from ostrakon.cli.app import app, console, errors
from ostrakon.papers.table import Table
from ostrakon.papers.written import text


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="pate-2017, pate-2018, near-zero-cost or exponential-2024.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the published votes (votes/*.npy), with images (mnist/, cifar10.zip) or with votes of "
            "our own teachers (*.npz); default: OSTRAKON_DATA."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for every table as CSV, every figure as PNG, and one page. With it, near-zero-cost and "
            "exponential-2024 train the teachers whose votes are not in the data folder (minutes), and students."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Recompute a paper's tables and figures: as printed, published bound, exact, worst-case."""
    from ostrakon.papers import reproduce as recompute

    def say(sentence: str) -> None:
        errors.print(sentence, style="dim", markup=False)

    tables = recompute(paper, data=data, out=out, say=say, progress=console.is_terminal and not as_json)
    if as_json:
        typer.echo(json.dumps({"paper": paper, "tables": [table.as_json() for table in tables]}, indent=2))
        return
    for table in tables:
        console.print(rich_table(table))
        if table.note:
            console.print(table.note, style="dim", markup=False)
        console.print()


def rich_table(table: Table) -> RichTable:
    """Return `table` as Rich prints it: numbers to four digits, an empty cell where there is none."""
    result = RichTable(*table.columns, title=table.title, title_justify="left", title_style="bold")
    for column in result.columns[1:]:
        column.justify = "right"
    for row in table.rows:
        result.add_row(*(text(cell) for cell in row))
    return result
