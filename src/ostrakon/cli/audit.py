"""`ostrakon audit`: does the behaviour of a mechanism, or of a whole run, contradict its epsilon?"""

import importlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ostrakon.cli.account import mechanism_of
from ostrakon.cli.app import app, begin, console, print_json
from ostrakon.cli.options import mechanism_parameters, with_options
from ostrakon.validation import InvalidInput

Run = Annotated[
    Path | None,
    typer.Option(help="Audit a whole run instead: its folder, or a TOML file with options of `ostrakon train`."),
]
Out = Annotated[
    Path | None,
    typer.Option(help=r"Folder of the repeated run with canaries (per-record teachers). \[default: RUN-audit]"),
]


@app.command()
@with_options(parameters=mechanism_parameters())
def audit(
    *,
    mechanism: Annotated[
        str | None, typer.Option(help="Mechanism to audit, or the mechanism that --sampler claims to be.")
    ] = None,
    parameters: dict[str, Any],
    sampler: Annotated[
        str | None,
        typer.Option(help="Your own function MODULE:FUNCTION of (votes, rng): one answer per query, -1 for none."),
    ] = None,
    claimed: Annotated[
        float | None, typer.Option(help=r"Claimed epsilon of all queries. \[default: the mechanism's worst case]")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta)-DP.")] = 1e-5,
    queries: Annotated[
        int | None,
        typer.Option(help=r"Number of queries per sample. \[default: up to 64, for a claim up to 4; 1 with --claimed]"),
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples on each of the two data sets.")] = 30_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.95,
    teachers: Annotated[
        int | None,
        typer.Option(help=r"Number of teachers. \[default: enough to exceed the noise]"),
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 3,
    run: Run = None,
    out: Out = None,
    jobs: Annotated[int, typer.Option(help="Workers of the audited run; -1: one per core.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute a certified lower bound on a mechanism's epsilon, and compare it with the claim.

    The audit samples answers on neighbouring votes. It compares them with the
    mechanism's probabilities, and these probabilities with the claim.

    With --run and per-record teachers, it repeats the run on a copy of the
    private data with canaries (artificial records with random labels), and
    guesses their labels from the release. With --run and trained teachers, it
    poisons all teachers but one, so that one record decides, and repeats the
    aggregation.

    The exit status is 1 if the claim is refuted, otherwise 0. An audit can
    refute a claim, but never prove it.
    """
    if run is not None:
        excluded = {"mechanism": mechanism, "sampler": sampler, "claimed": claimed}
        names = [name for name, value in excluded.items() if value is not None]
        if names:
            raise InvalidInput(f"--{names[0]} cannot be combined with --run, which audits what the run claims.")
        _audit_run(run, out=out, samples=samples, confidence=confidence, jobs=jobs, as_json=as_json)
        return
    from ostrakon.audit import audit as run_audit
    from ostrakon.noise import secure_rng

    law = None if mechanism is None else mechanism_of(mechanism, parameters)
    subject: Any = law if sampler is None else _function(sampler)
    if subject is None:
        raise InvalidInput("--mechanism, --sampler or --run must be given, got none.")
    with console.status("Sampling on neighbouring votes"):
        result = run_audit(
            subject,
            like=law,
            claimed=claimed,
            delta=delta,
            queries=queries,
            samples=samples,
            confidence=confidence,
            teachers=teachers,
            classes=classes,
            rng=secure_rng(),
        )
    chosen = [f"{what} (--{what})" for what, given in (("queries", queries), ("teachers", teachers)) if given is None]
    warning = "" if law is None else law.warning
    _tell(result, as_json=as_json, warning=warning, chosen=chosen, of=", of made-up teachers")


def _tell(result: Any, *, as_json: bool, warning: str = "", chosen: Sequence[str] = (), of: str = "") -> None:
    """Print the result; exit status 1 if it refutes the claim. chosen: numbers chosen by the audit. of: whose votes."""
    if as_json:
        print_json(result.as_json())
    else:
        from ostrakon.report.table import pairs_table

        table = pairs_table(())
        questions = "one query" if result.queries == 1 else f"{result.queries:,} queries together"
        table.add_row("Mechanism", result.mechanism)
        table.add_row("Claimed epsilon", f"{result.claimed:.4g} for {questions} at delta {result.delta:g}")
        table.add_row("Certified lower bound", f"{result.lower_bound:.4g} with {100 * result.confidence:g}% confidence")
        for finding in result.findings:
            table.add_row(finding.test.capitalize(), finding.detail or "no contradiction")
        table.add_row("Neighbouring votes", f"{result.neighbours[0]} and {result.neighbours[1]} on the first query{of}")
        if chosen:
            table.add_row("Chosen by the audit", f"the number of {' and of '.join(chosen)}")
        times = f"{result.seen[0]:,} and {result.seen[1]:,} times in {result.samples:,} runs on each"
        table.add_row("Distinguishing outputs", times)
        console.print(table)
        console.print(result.verdict, style="bold red" if result.refuted else "")
        if warning:
            console.print(warning)
    if result.refuted:
        raise typer.Exit(1)


def _audit_run(path: Path, *, out: Path | None, samples: int, confidence: float, jobs: int, as_json: bool) -> None:
    """Audit the run in the folder `path`, or one of the options in that file, by canaries or poisoned teachers."""
    from ostrakon.noise import secure_rng
    from ostrakon.run_audit.audit_run import audit_run
    from ostrakon.run_audit.audit_teachers import audit_teachers

    task, options, plan = _read_run(path, jobs)
    if out is not None and (plan.levels or not plan.per_record):
        raise InvalidInput(
            "--out cannot be given for a run that trains teachers or has levels: its audit writes nothing."
        )
    if plan.levels:
        _audit_levels(task, options, plan, samples=samples, confidence=confidence, as_json=as_json)
        return
    if not plan.per_record:
        rng = secure_rng()
        _tell(
            audit_teachers(task, options, plan, rng=rng, samples=samples, confidence=confidence, say=begin),
            as_json=as_json,
        )
        return
    folder = path.with_name(f"{path.resolve().stem}-audit") if out is None else out
    result = audit_run(
        folder,
        task,
        options,
        rng=secure_rng(),
        plan=plan,
        original=path if path.is_dir() else None,
        confidence=confidence,
        say=begin,
    )
    if as_json:
        print_json(result.as_json())
    else:
        console.print(result.verdict, style="bold red" if result.refuted else "")
        console.print(f"Keep private    {folder} (the audited run: nothing in it may be published)")
    if result.refuted:
        raise typer.Exit(1)


def _read_run(path: Path, jobs: int) -> tuple[Any, Any, Any]:
    """Return the task, the options and the plan of the run in the folder `path`, or of the options in that file."""
    from ostrakon.cli.train import read_config
    from ostrakon.features.text import reads_text
    from ostrakon.options.files import Files
    from ostrakon.options.options import Options
    from ostrakon.planning.plan import plan_from
    from ostrakon.run.folder import RunFolder
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.steps import plan_of

    description = path / "run.toml" if path.is_dir() else path
    if not description.is_file():
        inside = path.name == "release" and (path.parent / "run.toml").is_file()
        nearest = f"; {path.parent} is one" if inside else ""
        raise InvalidInput(f"--run must be the folder of a run, or a TOML file of options, got {path}{nearest}.")
    content = RunFolder(path).read() if path.is_dir() else None
    if content is not None and "study" in content.get("asked", {}):
        raise InvalidInput(f"--run must be a run of ostrakon train; the rows of the study of {path} are its owners'.")
    settings = read_config(description, given_as="--run")
    missing = [name for name in Files.required() if name not in settings]
    if missing:
        raise InvalidInput(f"{description} must name the run's {missing[0]} data.")
    text = reads_text(settings.get("representation"))
    task = task_from_files(**Files.of(settings).for_task(), text=text)
    if content is not None:
        # The claim of the run is about its own data only.
        RunFolder(path).refuse_other_run(content["asked"], task.fingerprints)
    options = Options.of({**settings, "jobs": jobs})
    plan = plan_of(task, options) if content is None else plan_from(content["settled"], classes=len(task.classes))
    return task, options, plan


def _audit_levels(task: Any, options: Any, plan: Any, *, samples: int, confidence: float, as_json: bool) -> None:
    """Print what an audit finds for every level of consent; exit status 1 if one is refuted."""
    if as_json:
        raise InvalidInput("--json cannot be given for a run with levels of consent.")
    from ostrakon.noise import secure_rng
    from ostrakon.run_audit.audit_levels import audit_levels_of_run

    audits = audit_levels_of_run(task, options, plan, rng=secure_rng(), samples=samples, confidence=confidence)
    title = f"One record replaced, at delta {plan.delta:g}"
    table = Table(
        "level", "claimed epsilon", "by the distance", "certified by samples", title=title, title_justify="left"
    )
    for one in audits:
        table.add_row(one.level, f"{one.claimed:.4g}", f"{one.distance:.4g}", f"{one.lower_bound:.4g}")
    console.print(table)
    refuted = [one.level for one in audits if one.refuted]
    sentence = "No level is refuted." if not refuted else f"Refuted: the claims of the levels {', '.join(refuted)}."
    console.print(sentence, style="bold red" if refuted else "")
    if refuted:
        raise typer.Exit(1)


def _function(name: str) -> Any:
    """Return the function named MODULE:FUNCTION, also from modules of the working directory."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"--sampler must be an importable MODULE:FUNCTION, got {name!r} ({error}).") from None
    if not callable(function):
        raise InvalidInput(f"--sampler must name a function, got {name!r}.")
    try:
        inspect.signature(function).bind("votes", "rng")
    except (TypeError, ValueError):
        raise InvalidInput(f"--sampler must name a function of (votes, rng), got {name!r}.") from None
    return function
