"""`ostrakon demo`: the whole pipeline on a built-in task, without a download."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ostrakon.cli.app import app, console
from ostrakon.cli.train import say

if TYPE_CHECKING:
    from ostrakon.run.pipeline import Outcome

PRIVATE, PUBLIC, TEST, TEACHERS = 30_000, 4_000, 2_000, 250


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder of both runs.")] = Path("demo-run"),
    epsilon: Annotated[float, typer.Option(help="Upper limit of the worst-case epsilon.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Seed of pictures and models, never of noise.")] = 0,
    small: Annotated[bool, typer.Option("--small", help="Use a tenth of the images, as a quick test.")] = False,
) -> None:
    """Train on 30,000 generated images of letters, with 250 trained teachers and with per-record teachers."""
    from ostrakon.data.datasets import glyphs
    from ostrakon.options.options import AUTO, Options
    from ostrakon.options.report_details import ReportDetails
    from ostrakon.report.plots import side_by_side
    from ostrakon.report.release import publish
    from ostrakon.report.table import tables_side_by_side
    from ostrakon.run.inputs.task import task_from_dataset
    from ostrakon.run.pipeline import run

    scale = 10 if small else 1
    # With a tenth of the teachers, the noise would be larger than the number of votes.
    seats = TEACHERS // 2 if small else TEACHERS
    say(
        f"Drawing {PRIVATE // scale:,} private images, a tenth of them with a wrong label on purpose, "
        f"{PUBLIC // scale:,} public images and {TEST // scale:,} test images with right labels"
    )
    task = task_from_dataset(glyphs(PRIVATE // scale, PUBLIC // scale, TEST // scale, random_state=seed))
    # One network if PyTorch is installed: comparing several, as a run does by default, takes minutes.
    student = "cnn(network='quick-cnn')" if find_spec("torch") is not None else AUTO
    ways = {
        f"{seats} trained teachers": ("trained", Options(teachers=seats, epsilon=epsilon, seed=seed, student=student)),
        "Per-record teachers": ("per-record", Options(epsilon=epsilon, seed=seed, student=student)),
    }
    who = ReportDetails(purpose="A demonstration on letters that were drawn for it", data_name="drawn letters A to J")
    done: dict[str, tuple[Outcome, Path]] = {}
    for name, (folder, options) in ways.items():
        say(name)
        outcome = run(out / folder, task, options, progress=True, say=say)
        done[name] = outcome, publish(outcome, who, publish_accuracy=True)
    console.print(tables_side_by_side(done))
    console.print(
        "\nWith per-record teachers, the estimated accuracy is below the student accuracy and the calibration error is "
        "large, because a tenth of the private labels are wrong; the test labels are right. The two epsilons are for "
        "different neighbours: do not compare them.\n",
        soft_wrap=True,
    )
    picture = side_by_side({name: outcome for name, (outcome, _) in done.items()}, out / "both-ways.png")
    console.print(f"[bold]Picture[/]           {picture} (keep private: it shows votes)", soft_wrap=True)
    console.print(
        "\nNext, with a table of your own:\n"
        "  [bold]ostrakon train --private private.csv --public public.csv --target COLUMN "
        "--classes A,B --epsilon 2 --out my-run[/]",
        soft_wrap=True,
    )
