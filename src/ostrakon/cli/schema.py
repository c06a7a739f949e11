"""`ostrakon schema NAME`: the JSON Schema of an output; or a draft of a description of columns."""

from typing import Annotated

import typer

from ostrakon.cli.app import app
from ostrakon.data.domain import DRAFT, drafted
from ostrakon.schemas import SCHEMAS, schema_text
from ostrakon.validation import InvalidInput


@app.command()
def schema(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(SCHEMAS)}; or {DRAFT}.")],
    header: Annotated[
        list[str] | None,
        typer.Argument(help="With columns: NAME:TYPE ..., of the types number, whole, date and category."),
    ] = None,
) -> None:
    """Print the JSON Schema (2020-12) of an output, or the draft of a file for `train --columns`."""
    if name == DRAFT:
        typer.echo(drafted(header or []).rstrip())
        return
    if header:
        raise InvalidInput(f"Types of columns belong to {DRAFT}, got {header[0]!r} for {name}.")
    typer.echo(schema_text(name).rstrip())
