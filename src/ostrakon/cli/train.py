"""`ostrakon train`: from a sensitive table to a published model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ostrakon.cli.app import app, console
from ostrakon.cli.options import HelpAll, options_of, with_options
from ostrakon.data.files import read_toml
from ostrakon.ledger.location import default_url
from ostrakon.options.call import with_own_parameters
from ostrakon.options.files import Files
from ostrakon.options.options import ORDERED, Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.validation import InvalidInput

_KINDS = (Files, Options, ReportDetails)


@app.command()
@with_options(
    files=options_of(Files),
    options=options_of(Options),
    details=options_of(ReportDetails),
)
def train(
    *,
    out: Annotated[Path, typer.Option(help="The run's folder; the same command resumes it.")] = Path("my-run"),
    files: Mapping[str, Any],
    options: Mapping[str, Any],
    details: Mapping[str, Any],
    config: Annotated[
        Path | None, typer.Option(help="TOML file of these options, such as another run's run.toml.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            hidden=True,
            help="Where teachers are trained: local, dask:HOST:PORT or ray:HOST:PORT, whose workers see OUT.",
        ),
    ] = "local",
    store: Annotated[
        str | None,
        typer.Option(hidden=True, help="s3://BUCKET/FOLDER for the run, so that another machine can resume it."),
    ] = None,
    store_options: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of ACL, ServerSideEncryption, SSEKMSKeyId, BucketKeyEnabled.",
            hidden=True,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and its cost; train and write nothing.")
    ] = False,
    help_all: HelpAll = False,
) -> None:
    """Train on confidential data and release a differentially private student.

    Teachers learn from the private table, their noisy votes label public rows, and a student learns from these labels.
    OUT/release may be published: the student, labels, privacy statement and report. Keep OUT/private private.
    The same command resumes a run that was stopped.
    """
    every = {**files, **options, **details}
    flags = {name: value for name, value in every.items() if value is not None}
    settings = {**(read_config(config) if config is not None else {}), **with_own_parameters(flags)}
    if "budget" in settings and "ledger" not in settings and "private" in settings:
        settings["ledger"] = default_url(settings["private"])
    missing = [name for name in Files.required() if name not in settings]
    if missing:
        raise InvalidInput(f"--{missing[0]} must be given.")
    if dry_run:
        show_plan(settings, engine=engine)
    else:
        train_from(settings, out=out, engine=engine, store=store, store_options=store_options)


def read_config(path: Path, *, given_as: str = "--config") -> dict[str, Any]:
    """Read options from a TOML file: its tables [asked] and [report], or else its top level.

    given_as: the option that named the file.
    """
    content = read_toml(given_as, path)
    tables = [content[name] for name in ("asked", "report") if name in content] if "asked" in content else [content]
    foreign = [table for table in tables if not isinstance(table, dict)]
    if foreign:
        raise InvalidInput(f"{path} must have options under [asked] and [report], got {foreign[0]!r}.")
    entries: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for key, value in (pair for table in tables for pair in table.items()):
        name = key.replace("-", "_")
        if name in spellings:
            raise InvalidInput(f"{path} must give each option once, got both {spellings[name]!r} and {key!r}.")
        entries[name], spellings[name] = value, key
    settings = {name: value for kind in _KINDS for name, value in kind.from_toml(entries, path).items()}
    unknown = [key for name, key in spellings.items() if name not in settings]
    if unknown:
        raise InvalidInput(f"{path} has the option {unknown[0]!r}, which ostrakon train does not know.")
    return settings


def train_from(settings: Mapping[str, Any], *, out: Path, **where: Any) -> None:
    """Run with these settings, by name, and print the table. where: engine and store, as of `ostrakon.train`."""
    # Importing the learning libraries takes seconds, so the options are checked before.
    for kind in _KINDS:
        kind.of(settings)
    from ostrakon.api import train as trained
    from ostrakon.report.table import run_table, understood_table

    done = trained(
        out=out,
        progress=True,
        say=say,
        show_understood=lambda understood: console.print(understood_table(understood)),
        **where,
        **settings,
    )
    console.print(run_table(done.outcome, release=done.release))
    if done.repeated:
        console.print("This run was finished before: its release is as it was, and nothing more was spent.")


def show_plan(settings: Mapping[str, Any], *, engine: str = "local") -> None:
    """Print how the files were read and the plan of a run with these options; writes nothing, uses no engine.

    Of the private file it reads the columns, the classes and the number of records, which the plan needs.
    """
    files, options = Files.of(settings), Options.of(settings)
    from ostrakon.data.classes import require_order_given
    from ostrakon.estimators.choices import require_choices
    from ostrakon.features.text import reads_text
    from ostrakon.forecast.offers import Offer
    from ostrakon.report.forecast_table import offer_table
    from ostrakon.report.table import understood_table
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.stages.votes import require_engine_fits
    from ostrakon.run.steps import plan_of
    from ostrakon.teachers.engines import check_engine

    ReportDetails.of(settings)
    check_engine("engine", engine)
    require_choices(teacher=options.teacher, student=options.student, representation=options.representation)
    if options.objective == ORDERED and files.range is None and files.labels is None:
        require_order_given(files.for_task()["classes"])
    task = task_from_files(**files.for_task(), text=reads_text(options.representation))
    console.print(understood_table(task.understood))
    plan = plan_of(task, options)
    require_engine_fits(engine, task.private, described=task.domain is not None)
    name = options.mechanism if plan.interactive else plan.mechanism.name
    odds = plan.membership_guess() if plan.claimable else None
    epsilon, unit = plan.guarantee.epsilon, task.private.unit
    console.print(
        offer_table(
            Offer(epsilon=epsilon, mechanism=name, plan=plan, odds=odds, unit=unit, protects=task.private.protects)
        )
    )
    console.print("[dim]A dry run: nothing was trained, asked or written.[/]")


def say(stage: str) -> None:
    """Print the name of a stage when it begins."""
    console.print(f"[dim]{stage} …[/]")
