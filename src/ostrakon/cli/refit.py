"""`ostrakon refit RELEASE`: another student from a finished release, without private data."""

from pathlib import Path
from typing import Annotated

import typer

from ostrakon.cli.app import app, console


@app.command()
def refit(
    release: Annotated[Path, typer.Argument(help="The folder of a finished release.")],
    out: Annotated[Path, typer.Option(help="The folder of the new release, new or empty.")],
    public: Annotated[Path | None, typer.Option(help="Public rows of the release; their checksum is verified.")] = None,
    student: Annotated[
        str, typer.Option(help=r"As in train. \[default: best of several]", show_default=False)
    ] = "auto",
    objective: Annotated[str, typer.Option(help="accuracy, balanced, log-loss or ordered, as in train.")] = "accuracy",
    representation: Annotated[
        str | None, typer.Option(help="Encoder, if the release uses onnx:FILE or torch:MODULE:FACTORY.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Labelled rows to evaluate the student on; the result is not released.")
    ] = None,
) -> None:
    """Train another student from RELEASE alone and write a new release.

    It costs no privacy: no private file is read, and the guarantee of RELEASE covers both.
    """
    from ostrakon.api import refit as refitted
    from ostrakon.report.table import refit_table

    done = refitted(
        release, out=out, public=public, student=student, objective=objective, representation=representation, test=test
    )
    console.print(refit_table(done.finished, release=done.release))
