"""`ostrakon train`: from a sensitive table to a published model."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from ostrakon.cli.app import app, console
from ostrakon.cli.options import with_mechanism_parameters
from ostrakon.mechanisms.registry import declared_parameters
from ostrakon.validation import InvalidInput

_OPTION = typer.Option
_DATA = "Data"
_PRIVACY = "Privacy"
_LEARNING = "Learning"


@app.command()
@with_mechanism_parameters
def train(
    *,
    context: typer.Context,
    private: Annotated[
        str | None,
        _OPTION(
            help="The sensitive table (CSV, Parquet) or images (.npz, or a folder per class).", rich_help_panel=_DATA
        ),
    ] = None,
    public: Annotated[
        str | None, _OPTION(help="Rows or images of the same kind, free to publish.", rich_help_panel=_DATA)
    ] = None,
    target: Annotated[str | None, _OPTION(help="The column to predict (of tables).", rich_help_panel=_DATA)] = None,
    out: Annotated[Path, _OPTION(help="The run's folder; the same command resumes it.")] = Path("my-run"),
    by: Annotated[
        str | None, _OPTION(help="The column that says whose a row is: protects users.", rich_help_panel=_DATA)
    ] = None,
    test: Annotated[str | None, _OPTION(help="Labelled rows to measure the student on.", rich_help_panel=_DATA)] = None,
    names: Annotated[
        str | None, _OPTION(help="Column names (a,b,c or a file) of tables without header.", rich_help_panel=_DATA)
    ] = None,
    classes: Annotated[str | None, _OPTION(help="All labels, as a,b,c.", rich_help_panel=_DATA)] = None,
    epsilon: Annotated[
        float | None,
        _OPTION(
            help="Keep the guarantee within this. [default: 2, unless all noise is given]", rich_help_panel=_PRIVACY
        ),
    ] = None,
    delta: Annotated[
        float | None, _OPTION(help="[default: below 1 / number of records]", rich_help_panel=_PRIVACY)
    ] = None,
    guarantee: Annotated[
        str | None,
        _OPTION(
            help="worst-case, or gate: less noise, and no release where teachers disagree.", rich_help_panel=_PRIVACY
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        _OPTION(help="Share of teachers expected to agree, for the gate. [default: 0.85]", rich_help_panel=_PRIVACY),
    ] = None,
    teachers: Annotated[
        int | None, _OPTION(help="Train so many. [default: every record is one]", rich_help_panel=_PRIVACY)
    ] = None,
    queries: Annotated[
        int | None, _OPTION(help="Public rows to ask about. [default: what epsilon allows]", rich_help_panel=_PRIVACY)
    ] = None,
    max_answers: Annotated[int | None, _OPTION(help="Stop after so many answers.", rich_help_panel=_PRIVACY)] = None,
    mechanism: Annotated[
        str | None,
        _OPTION(
            help="How votes become answers. [default: bounded-gnmax; confident-gnmax of trained teachers]",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    parameters: dict[str, Any],
    teacher: Annotated[
        str | None,
        _OPTION(
            help="A scikit-learn classifier: short name or import path, with (options).", rich_help_panel=_LEARNING
        ),
    ] = None,
    student: Annotated[
        str | None,
        _OPTION(
            help="As --teacher, or self-training[:NAME], label-spreading, graph. [default: the best of several]",
            rich_help_panel=_LEARNING,
        ),
    ] = None,
    representation: Annotated[
        str | None, _OPTION(help="What learners see of a row, learned from public rows.", rich_help_panel=_LEARNING)
    ] = None,
    queries_strategy: Annotated[
        str | None,
        _OPTION(help="Which public rows to ask about: representatives or random.", rich_help_panel=_LEARNING),
    ] = None,
    smooth: Annotated[
        bool, _OPTION("--smooth", help="Smooth teachers over the public neighbour graph.", rich_help_panel=_LEARNING)
    ] = False,
    seed: Annotated[
        int | None,
        _OPTION(help="Of data splitting and models, never of noise. [default: 0]", rich_help_panel=_LEARNING),
    ] = None,
    jobs: Annotated[int, _OPTION(help="Teachers trained at a time; -1: one per core.", rich_help_panel=_LEARNING)] = -1,
    publish_accuracy: Annotated[
        bool, _OPTION("--publish-accuracy", help="The test file is public too: put the accuracy into the card.")
    ] = False,
    config: Annotated[Path | None, _OPTION(help="TOML file of these options, such as another run's run.toml.")] = None,
) -> None:
    """Train on data that must not leave; publish a student that may.

    Splits the private table between teachers, lets their noisy votes label public rows, trains a student on those,
    and writes OUT/private (must stay) and OUT/release (may leave: student, labels, privacy statement, model card).
    Killed at any moment, the same command goes on from there.
    """
    given = {
        key: value
        for key, value in context.params.items()
        if key not in ("out", "config", "jobs") and value is not None and value is not False
    }
    asked = {**(read_config(config) if config is not None else {}), **given}
    missing = [name for name in ("private", "public") if name not in asked]
    if missing:
        raise InvalidInput(f"--{missing[0]} must be given.")
    train_from(asked, out=out, jobs=jobs)


def read_config(path: Path) -> dict[str, Any]:
    """Options from a TOML file: its [asked] table, or else its top level."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--config must be a readable TOML file, got {path} ({error}).") from None
    options = content.get("asked", content)
    if not isinstance(options, dict):
        raise InvalidInput(f"{path} must have options under [asked], got {options!r}.")
    unknown = [key for key in options if key.replace("-", "_") not in KNOWN]
    if unknown:
        raise InvalidInput(f"{path} has the option {unknown[0]!r}, which ostrakon train does not know.")
    return {key.replace("-", "_"): _of_type(path, key.replace("-", "_"), value) for key, value in options.items()}


def _of_type(path: Path, key: str, value: Any) -> Any:
    """A TOML value as the command line would have it: a flag is true or false, never a word for it."""
    if key == "classes" and isinstance(value, list):
        value = ",".join(str(each) for each in value)
    if key in ("target", "by") and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    kind = bool if key in _FLAGS else (int, float) if key in _NUMBERS else str
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        told = {bool: "true or false", str: "text"}.get(kind, "a number")
        raise InvalidInput(f"{key.replace('_', '-')} in {path} must be {told}, got {value!r}.")
    return value


_FLAGS = ("smooth", "publish_accuracy")
MECHANISM_PARAMETERS = tuple(declared_parameters())
_NUMBERS = (*MECHANISM_PARAMETERS, "epsilon", "delta", "teachers", "queries", "max_answers", "seed", "agreement")


KNOWN = {
    *("private", "public", "target", "by", "test", "names", "classes", "epsilon", "delta", "teachers", "queries"),
    *("max_answers", "mechanism", *MECHANISM_PARAMETERS, "teacher", "student", "representation", "seed"),
    *("queries_strategy", "smooth", "publish_accuracy", "guarantee", "agreement"),
}


def train_from(asked: dict[str, Any], *, out: Path, jobs: int = -1) -> None:
    """Run what was asked and print the table."""
    # Learning libraries take seconds to import: not before the options are known to be sound.
    from ostrakon.report.release import publish
    from ostrakon.report.table import run_table
    from ostrakon.run.folder import RunFolder
    from ostrakon.run.pipeline import run

    asked = {**asked, **{key: str(Path(asked[key]).resolve()) for key in ("private", "public", "test") if key in asked}}
    RunFolder(out).refuse_other_run(asked, {})
    task, recipe = task_and_recipe(asked, jobs=jobs)
    outcome = run(out, task, recipe, asked=asked, progress=True, say=say)
    release = publish(outcome, publish_accuracy=bool(asked.get("publish_accuracy")))
    console.print(run_table(outcome, release=release))


def task_and_recipe(asked: dict[str, Any], *, jobs: int = -1) -> tuple[Any, Any]:
    """The (Task, Recipe) of options as the command line or run.toml gives them."""
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.pipeline import Recipe
    from ostrakon.run.settings.defaults import AUTO
    from ostrakon.run.settings.plan import Request

    settings = ("teachers", "mechanism", "queries", "max_answers", "epsilon", "delta", "guarantee", "agreement")
    request = Request(
        **{key: asked[key] for key in settings if key in asked},
        parameters={key: asked[key] for key in MECHANISM_PARAMETERS if key in asked},
    )
    recipe = Recipe(
        request=request,
        teacher=asked.get("teacher", AUTO),
        student=asked.get("student", AUTO),
        representation=asked.get("representation", AUTO),
        queries=asked.get("queries_strategy", "representatives"),
        smooth=bool(asked.get("smooth")),
        seed=asked.get("seed", 0),
        n_jobs=jobs,
    )
    task = task_from_files(
        asked["private"],
        asked["public"],
        test=asked.get("test"),
        target=asked.get("target"),
        by=asked.get("by"),
        names=asked.get("names"),
        classes=[label.strip() for label in asked["classes"].split(",")] if "classes" in asked else None,
    )
    return task, recipe


def say(stage: str) -> None:
    """Tell the user which stage begins."""
    console.print(f"[dim]{stage} …[/]", highlight=False)
