"""`ostrakon plan`: queries, noise and expected accuracy for an epsilon, from public rows and numbers alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostrakon.cli.app import app, begin, console, print_json
from ostrakon.cli.options import mechanism_parameters, options_of, with_options
from ostrakon.cli.train import say
from ostrakon.data.classes import labels_in
from ostrakon.data.files import require_writable
from ostrakon.data.labels import labels_of_rows
from ostrakon.data.quantity import Quantity
from ostrakon.data.target import other_target
from ostrakon.options.options import Options
from ostrakon.validation import InvalidInput, positive

if TYPE_CHECKING:
    from ostrakon.forecast.outlook import Outlook

_ASKED = (
    *("delta", "neighbours", "guarantee", "agreement", "teachers", "queries", "max_answers"),
    *("teacher", "student", "representation", "seed"),
)


Epsilons = Annotated[
    list[str] | None, typer.Option(help=r"One or several: --epsilons 0.5 1 2, or 0.5,1,2. \[default: 0.1 0.5 1 2 4]")
]
Targets = Annotated[
    str | None,
    typer.Option(help="Column to predict (of tables with labels), or several columns of 0 and 1, as a,b."),
]
Classes = Annotated[
    str | None, typer.Option(help="All classes, as a,b,c, if PUBLIC has none (a;b;c: several labels per row).")
]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        help="Mechanism to plan for, NAME or NAME(parameter=value, ...); may be repeated. "
        r"\[default: that of a run, confident-gnmax]"
    ),
]


@app.command()
@with_options(options={name: options_of(Options)[name] for name in _ASKED}, parameters=mechanism_parameters())
def plan(
    *,
    more: Annotated[list[str] | None, typer.Argument(help="More epsilons.", hidden=True)] = None,
    public: Annotated[Path, typer.Option(help="Public table, images or texts; with labels, runs are simulated on it.")],
    records: Annotated[int, typer.Option(help="Number of private records (with --by, of users).")],
    target: Targets = None,
    by: Annotated[str | None, typer.Option(help="Column of users, who are protected; nothing is simulated.")] = None,
    classes: Classes = None,
    range: Annotated[str | None, typer.Option(help="For regression: the public range of the target, LOW,HIGH.")] = None,
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, as a,b (of tables).")] = None,
    epsilons: Epsilons = None,
    mechanism: Mechanisms = None,
    accuracy: Annotated[
        float | None, typer.Option(help="Find the smallest epsilon with this accuracy, as 0.83.")
    ] = None,
    rehearse: Annotated[
        str, typer.Option(help="Simulations on PUBLIC: per-record (teachers), all (also trained ones; slow) or none.")
    ] = "per-record",
    repetitions: Annotated[int, typer.Option(help="Number of simulations of each run.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Write two plots into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    options: dict[str, object],
    parameters: dict[str, object],
) -> None:
    """Forecast queries, noise, cost and accuracy at several epsilons, without reading private data.

    The forecast is for --objective accuracy. If no epsilon has a plan, the exit status is 2.
    """
    if more and not epsilons:
        raise InvalidInput(f"epsilons must be given as --epsilons, got {more[0]} on its own.")
    epsilon_list = _numbers([*(epsilons or ()), *(more or ())])
    settings = Options.of({name: value for name, value in {**options, **parameters}.items() if value is not None})
    if out is not None:
        require_writable("out", out)
    begin("Reading the public rows")
    from ostrakon.features.text import reads_text
    from ostrakon.forecast.outlook import EPSILONS, outlook
    from ostrakon.forecast.public_rows import read_public

    text = reads_text(settings.representation)
    public_rows = read_public(public, **_target(target, classes, range), by=by, text=text, drop=labels_in(drop) or ())

    def report(done: int, total: int) -> None:
        # Without a terminal there is no bar: one line for every repetition.
        if done * repetitions % total == 0:
            say(f"Simulated {done} of {total}")

    begin("Computing privacy costs")
    result = outlook(
        public_rows,
        settings,
        records=records,
        epsilons=epsilon_list or EPSILONS,
        mechanisms=mechanism,
        unit="record" if by is None else "user",
        accuracy=accuracy,
        rehearsed=rehearse,
        repetitions=repetitions,
        progress=False if as_json else (True if console.is_terminal else report),
        on_offers=(lambda priced: None) if as_json else _show,
    )
    _show_forecast(result, out, as_json=as_json)
    if all(offer.plan is None for offer in result.offers):
        raise typer.Exit(2)


def _target(target: str | None, classes: str | None, range: str | None) -> dict[str, Any]:
    """Return the target and how it is read, as `read_public` takes them."""
    labels = labels_of_rows(target, classes)
    coding = other_target(None if range is None else Quantity.of(range), labels)
    if labels is None:
        return {"target": target, "classes": labels_in(classes), "coding": coding}
    return {"target": target if classes is not None else ",".join(labels.names), "coding": coding}


def _numbers(epsilons: list[str]) -> list[float]:
    try:
        return [positive("epsilons", float(part)) for one in epsilons for part in one.split(",")]
    except ValueError:  # of "0,5", which is 0 and 5, too
        text = " ".join(epsilons)
        raise InvalidInput(f"epsilons must be numbers above 0, as --epsilons 0.5 1 2, got {text!r}.") from None


def _show(priced: Outlook) -> None:
    from ostrakon.forecast.outlook import NOT_YET
    from ostrakon.report.forecast_table import outlook_sentences, outlook_table

    console.print(outlook_table(priced))
    _print(outlook_sentences(priced))
    if priced.not_rehearsed == NOT_YET:
        begin("Computing features of the public rows")


def _show_forecast(result: Outlook, out: Path | None, *, as_json: bool) -> None:
    """Draw the pictures into `out`, and print the forecast of the accuracy, or everything as JSON."""
    from ostrakon.report.forecast_table import accuracy_sentences, accuracy_table

    pictures = list[Path]()
    if out is not None:
        from ostrakon.report.forecast_picture import save_pictures

        pictures = save_pictures(result, out)
    if as_json:
        print_json(result.as_dict())
        return
    if result.rehearsal is not None:
        console.print(accuracy_table(result, result.rehearsal))
    _print([*accuracy_sentences(result), *(f"Picture: {path}" for path in pictures)])


def _print(sentences: list[str]) -> None:
    for sentence in sentences:
        console.print(sentence, markup=False)
