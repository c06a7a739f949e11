"""`ostrakon study`: one student from the data of several owners, who keep their data."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostrakon.cli.app import Commands, app, console
from ostrakon.cli.options import HelpAll, options_of, with_options
from ostrakon.data.classes import labels_in
from ostrakon.ledger.location import default_url
from ostrakon.options.report_details import ReportDetails

if TYPE_CHECKING:
    from ostrakon.study.study import Study

study = Commands(help="A study of several owners: create, show, join, sum, finish.", no_args_is_help=True)
app.add_typer(study, name="study")

Folder = Annotated[Path, typer.Argument(help="The study's folder.", metavar="STUDY")]
Shares = Annotated[
    Path | None, typer.Option(help=r"Folder of the owners' shares. \[default: STUDY-shares beside the study]")
]
Exchange = Annotated[
    str,
    typer.Option(
        help="trusted: an aggregator adds the noise; files: every owner adds noise to its own table; secure-sum: the "
        "same, but only the sum is opened."
    ),
]
PeoplePerTeacher = Annotated[int | None, typer.Option(help=r"Announced people per teacher. \[default: 100]")]
Colluders = Annotated[
    int | None,
    typer.Option(help=r"Number of owners that may collude (secure-sum). \[default: a minority, at least 1]"),
]
Dropouts = Annotated[
    int | None, typer.Option(help=r"Number of owners that may be missing from the sum (secure-sum). \[default: 0]")
]


@study.command()
@with_options(report=options_of(ReportDetails))
def create(
    *,
    public: Annotated[Path, typer.Option(help="Public rows without labels: one CSV or Parquet file.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    classes: Annotated[str, typer.Option(help="All classes, as a,b,c.")],
    owners: Annotated[Path, typer.Option(help=r"TOML file of the owners: tables \[\[owner]] with name and people.")],
    out: Annotated[Path, typer.Option(help="The study's folder, a new one.")] = Path("study"),
    exchange: Exchange = "trusted",
    epsilon: Annotated[float, typer.Option(help="Upper limit of epsilon for every person.")] = 2.0,
    delta: Annotated[
        float | None, typer.Option(help=r"Probability of failure. \[default: below 1 / number of people]")
    ] = None,
    queries: Annotated[
        int | None, typer.Option(help=r"Number of public rows to label. \[default: what epsilon allows]")
    ] = None,
    max_contributions: Annotated[int, typer.Option(help="Public rows on which a person votes, per owner.")] = 1,
    max_owners_per_person: Annotated[
        int, typer.Option(help="Number of owners at which a person may have rows; the noise grows with it.")
    ] = 1,
    teacher: Annotated[
        str | None,
        typer.Option(help=r"Teacher that owners train, by a short name (logistic, …). \[default: every person votes]"),
    ] = None,
    people_per_teacher: PeoplePerTeacher = None,
    colluders: Colluders = None,
    dropouts: Dropouts = None,
    representation: Annotated[str, typer.Option(help="Features of a row, fitted to public rows.")] = "auto",
    student: Annotated[str, typer.Option(help="As in train, but only by a short name: a study has no code.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of models, never of noise.")] = 0,
    report: Mapping[str, Any],
    help_all: HelpAll = False,
) -> None:
    """Write the public description of a study, for review before owners join."""
    from ostrakon.cli.train import say
    from ostrakon.progress import showing
    from ostrakon.study.create import create_study

    say("Learning features from the public data, and choosing queries")
    with showing(True):
        created = create_study(
            out,
            public=public,
            target=target,
            classes=labels_in(classes) or (),
            owners=owners,
            exchange=exchange,
            epsilon=epsilon,
            delta=delta,
            queries=queries,
            max_contributions=max_contributions,
            max_owners_per_person=max_owners_per_person,
            teacher=teacher,
            people_per_teacher=people_per_teacher,
            colluders=colluders,
            dropouts=dropouts,
            representation=representation,
            student=student,
            seed=seed,
            report=ReportDetails.of(report),
        )
    _show(created)


@study.command()
def show(folder: Folder) -> None:
    """Verify a study, and print its description, its hash, and the noise of each exchange."""
    from ostrakon.study.study import Study

    _show(Study.read(folder))


@study.command()
def join(
    folder: Folder,
    *,
    private: Annotated[Path, typer.Option(help="This owner's table (CSV, Parquet).")],
    by: Annotated[str, typer.Option(help="Column of people: protects all rows of a person together.")],
    owner: Annotated[str, typer.Option(help="Name of this owner in the study.")],
    keep: Annotated[
        Path | None, typer.Option(help=r"This owner's own folder. \[default: STUDY-OWNER beside the study]")
    ] = None,
    shares: Shares = None,
    expect: Annotated[str | None, typer.Option(help="Hash of the approved study.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which data would leave the owner; read no private row.")
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(help="Ledger that records the cost. With --budget, the default is budget.db beside the data."),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Open an account with this epsilon, if there is none.")] = None,
    ledger_account: Annotated[str | None, typer.Option(help="The account's name.")] = None,
    jobs: Annotated[int, typer.Option(help="Teachers trained at a time; -1: one per core.")] = -1,
) -> None:
    """Count the votes of this owner, and write the one table that it hands over.

    If it is killed, the same command continues with the same noise.
    """
    from ostrakon.cli.train import say
    from ostrakon.study.join import handed_over, join_study, require_expected
    from ostrakon.study.study import Study
    from ostrakon.study.study_table import handed_over_table

    terms = Study.read(folder)
    require_expected(terms, expect)
    console.print(handed_over_table(handed_over(terms, owner)))
    if dry_run:
        console.print("[dim]A dry run: no private row was read, nothing was written.[/]")
        return
    if ledger is None and budget is not None:
        ledger = default_url(private)
    spend = {"ledger": ledger, "budget": budget, "ledger_account": ledger_account}
    outcome = join_study(
        terms, private, owner=owner, by=by, keep=keep, shares=shares, expect=expect, ledger=spend, jobs=jobs, say=say
    )
    if not terms.exchange.summed:
        console.print(f"Hand over: {outcome.share}", markup=False)
    console.print(f"Keep private: {outcome.folder}", markup=False)
    if terms.exchange.summed:
        own = "" if keep is None else f" --keep {shlex.quote(str(keep))}"
        own += "" if shares is None else f" --shares {shlex.quote(str(shares))}"
        console.print(
            f"Next, at a time that all owners agree on: ostrakon study sum {shlex.quote(str(folder))} --owner {owner} "
            f"--key {owner}.key{own}",
            markup=False,
            soft_wrap=True,
        )


@study.command()
def certificate(
    *,
    owner: Annotated[str, typer.Option(help="Name of the owner in owners.toml.")],
    out: Annotated[Path, typer.Option(help="The folder for OWNER.key and OWNER.crt.")] = Path("."),
    days: Annotated[int, typer.Option(help="Number of days for which it is valid.")] = 730,
) -> None:
    """Create an owner's key (secret) and certificate (for owners.toml), for secure-sum."""
    from ostrakon.study.certificates import make_certificate

    key, public = make_certificate(owner, out, days=days)
    console.print(f"Keep secret: {key}", markup=False)
    console.print(f"Give to the coordinator: {public}", markup=False)


@study.command(name="sum")
def sum_tables(
    folder: Folder,
    *,
    owner: Annotated[str, typer.Option(help="Name of this owner in the study.")],
    key: Annotated[Path, typer.Option(help="The private key of this owner's certificate.")],
    keep: Annotated[
        Path | None, typer.Option(help=r"This owner's own folder. \[default: STUDY-OWNER beside the study]")
    ] = None,
    shares: Shares = None,
    without: Annotated[str | None, typer.Option(help="Owners that dropped out, as a,b; the same for all.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the others.")] = 300.0,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen on, if another one is forwarded to it.")
    ] = None,
    expect: Annotated[str | None, typer.Option(help="Hash of the approved study.")] = None,
) -> None:
    """Sum the tables with the other owners, who run this at the same time (secure-sum). Only the sum is opened."""
    from ostrakon.cli.train import say
    from ostrakon.study.secure_sum import sum_study

    left = labels_in(without) or ()
    done = sum_study(
        folder,
        owner=owner,
        key=key,
        keep=keep,
        shares=shares,
        without=left,
        wait=wait,
        listen=listen,
        expect=expect,
        say=say,
    )
    console.print(
        f"Opened: the sum of {len(done.owners)} tables, in {done.seconds:.1f} s; {done.bytes_sent:,} bytes sent by "
        f"{owner}.",
        markup=False,
    )
    console.print(f"The same for all owners: {done.path}", markup=False)


@study.command()
def finish(
    folder: Folder,
    *,
    shares: Shares = None,
    out: Annotated[
        Path | None, typer.Option(help=r"The folder of this run. \[default: STUDY-finished beside the study]")
    ] = None,
    without: Annotated[str | None, typer.Option(help="Owners that dropped out, as a,b.")] = None,
    test: Annotated[Path | None, typer.Option(help="Public labelled rows to evaluate the student on.")] = None,
    publish_accuracy: Annotated[
        bool, typer.Option("--publish-accuracy", help="Add the accuracy on them to the card.")
    ] = False,
) -> None:
    """Sum the shares, train the student, and write release/ with statement and report."""
    from ostrakon.cli.train import say
    from ostrakon.report.release import publish
    from ostrakon.report.table import run_table
    from ostrakon.study.finish import finish_study
    from ostrakon.study.study import Study

    left = labels_in(without) or ()
    terms = Study.read(folder)
    outcome = finish_study(terms, shares=shares, out=out, without=left, test=test, say=say)
    release = publish(outcome, terms.report, publish_accuracy=publish_accuracy)
    console.print(run_table(outcome, release=release))


def _show(study: Study) -> None:
    from ostrakon.study.study_table import price_table, study_table

    console.print(study_table(study))
    console.print(price_table(study))
