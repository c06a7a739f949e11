"""`ostrakon demo`: the whole pipeline on a built-in task, without a download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ostrakon.cli.app import app, console
from ostrakon.cli.train import say

PRIVATE, PUBLIC, TEST, TEACHERS = 30_000, 4_000, 2_000, 250


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("demo-run"),
    epsilon: Annotated[float, typer.Option(help="Keep the worst case within this.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Of the images and the models, never of the noise.")] = 0,
    mechanism: Annotated[str, typer.Option(help="As in ostrakon train; bounded-gnmax: per-record teachers.")] = (
        "confident-gnmax"
    ),
    small: Annotated[bool, typer.Option("--small", help="A tenth of the images, to see that it runs.")] = False,
) -> None:
    """Letters A to J in many fonts: 30,000 private images, 250 teachers, one student that may leave."""
    from ostrakon.data.datasets import glyphs
    from ostrakon.mechanisms.registry import is_per_record
    from ostrakon.report.plots import picture
    from ostrakon.report.release import publish
    from ostrakon.report.table import run_table
    from ostrakon.run.inputs.task import task_from_dataset
    from ostrakon.run.pipeline import run
    from ostrakon.run.settings.options import AUTO, Options

    scale = 10 if small else 1
    # A tenth of the teachers would need more noise than there are votes.
    seats = TEACHERS // 2 if small else TEACHERS
    say(f"Drawing {PRIVATE // scale:,} private, {PUBLIC // scale:,} public and {TEST // scale:,} test images")
    data = glyphs(PRIVATE // scale, PUBLIC // scale, TEST // scale, random_state=seed)
    teachers = None if is_per_record(mechanism) else seats
    # One network where there is PyTorch: to compare several, as a run does by default, would take minutes.
    student = "cnn(network='quick-cnn')" if teachers is not None and find_spec("torch") is not None else AUTO
    options = Options(teachers=teachers, mechanism=mechanism, epsilon=epsilon, seed=seed, student=student)
    outcome = run(out, task_from_dataset(data), options, progress=True, say=say)
    release = publish(outcome, publish_accuracy=True)
    console.print(run_table(outcome, release=release))
    console.print(f"[bold]Picture[/]             {picture(outcome)}", highlight=False, soft_wrap=True)
    if teachers is not None:
        console.print(
            "\nThe same letters at the same epsilon, every image a teacher of its own:\n"
            "  [bold]ostrakon demo --mechanism bounded-gnmax --out demo-per-record[/]",
            highlight=False,
            soft_wrap=True,
        )
    console.print(
        "\nNext, with a table of your own:\n"
        "  [bold]ostrakon train --private private.csv --public public.csv --target COLUMN --epsilon 2 --out my-run[/]",
        highlight=False,
        soft_wrap=True,
    )
