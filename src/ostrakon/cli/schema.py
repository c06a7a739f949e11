"""`ostrakon schema NAME`: what the keys of our JSON are, for a program that reads it."""

from __future__ import annotations

from typing import Annotated

import typer

from ostrakon.cli.app import app
from ostrakon.schemas import SCHEMAS, schema_text


@app.command()
def schema(name: Annotated[str, typer.Argument(help=f"One of {', '.join(SCHEMAS)}.")]) -> None:
    """Print the JSON Schema (2020-12) of `account --json`, of `audit --json` or of a release's JSON of that name."""
    typer.echo(schema_text(name).rstrip())
