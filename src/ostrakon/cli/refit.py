"""`ostrakon refit RELEASE`: another student from a finished release, without private data."""

from pathlib import Path
from typing import Annotated

import typer

from ostrakon.cli.app import app, console


@app.command()
def refit(
    release: Annotated[Path, typer.Argument(help="The folder of a finished release.")],
    out: Annotated[Path, typer.Option(help="The folder of the new release, new or empty.")],
    public: Annotated[
        Path | None, typer.Option(help="The public table that the release was made with; its checksum is verified.")
    ] = None,
    student: Annotated[
        str, typer.Option(help=r"As for train. \[default: best of several]", show_default=False)
    ] = "auto",
    objective: Annotated[str, typer.Option(help="accuracy, balanced, log-loss or ordered, as for train.")] = "accuracy",
) -> None:
    """Train another student from RELEASE alone and write a new release.

    It costs no privacy: no private file is read, and the guarantee of RELEASE covers both.
    """
    from ostrakon.api import refit as refitted
    from ostrakon.report.table import refit_table

    done = refitted(release, out=out, public=public, student=student, objective=objective)
    console.print(refit_table(done.finished, release=done.release))
