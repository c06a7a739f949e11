"""`ostrakon ledger`: budgets of data sets over many runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ostrakon.cli.app import Commands, app, console, print_json
from ostrakon.validation import InvalidInput

if TYPE_CHECKING:
    from ostrakon.ledger.ledger import Ledger
    from ostrakon.ledger.state import History
    from ostrakon.report.recorded import Recorded

ledger = Commands(help="Budgets of data sets over many runs: open, show, close, export, verify.", no_args_is_help=True)
app.add_typer(ledger, name="ledger")

Url = Annotated[str | None, typer.Argument(help="sqlite:///FILE or postgresql://HOST/DATABASE.")]
Name = Annotated[str | None, typer.Argument(help="The account's name.")]
Given = Annotated[str | None, typer.Option("--ledger", help="The ledger, instead of the first argument.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@ledger.command("open")
def open_account(
    url: Url = None,
    name: Name = None,
    *,
    given: Given = None,
    epsilon: Annotated[float | None, typer.Option(help="Limit of epsilon for all runs together.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of this limit.")] = None,
    kind: Annotated[
        str, typer.Option(help="Composition of costs: gaussian, renyi, pure (gates, Laplace) or mixed.")
    ] = "gaussian",
    order: Annotated[
        float | None, typer.Option(help=r"The Rényi order. \[default: the best for Gaussian runs]")
    ] = None,
    unit: Annotated[str, typer.Option(help="What is protected: record or user.")] = "record",
    relation: Annotated[
        str,
        typer.Option(
            help="Neighbours: replace or take-out (per-record teachers; take-out with --neighbours removed), "
            "add-remove (trained ones) or labels (--protect labels)."
        ),
    ] = "replace",
    private: Annotated[Path | None, typer.Option(help="Bind the account to these data.")] = None,
    by: Annotated[str | None, typer.Option(help="Column of users.")] = None,
    as_json: AsJson = False,
) -> None:
    """Open an account with a permanent limit, or bind an open account to a changed table."""
    url, name = _of_account(url, name, given)
    book = _ledger(url)
    options: Any = {"kind": kind, "order": order, "unit": unit, "relation": relation}
    from_table = epsilon is None and delta is None and private is not None
    if private is not None:
        _require_unit(book.account(name).unit if from_table else unit, name, by)
    if not from_table:
        book.open(name, epsilon=epsilon, delta=delta, **options)
    if private is not None:
        from ostrakon.run.inputs.files import fingerprint_of_file

        book.bind(name, book.fingerprint(lambda key: fingerprint_of_file(private, by=by, key=key)))
    history = book.account(name)
    _tell({name: history}, as_json=as_json)
    if private is not None and not as_json:
        console.print(f"Bound to account {name}: {private}, by {history.unit}.", markup=False)


@ledger.command()
def show(
    url: Url = None,
    *,
    given: Given = None,
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a plot of the costs into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every entry, and print what was spent and what remains."""
    book = _ledger(_of_ledger(url, given))
    accounts = book.accounts() if account is None else {account: book.account(account)}
    _tell(accounts, as_json=as_json)
    if out is not None:
        from ostrakon.report.pictures import save_burn_down

        picture = save_burn_down(accounts, out)
        if not as_json:
            console.print(f"Picture: {picture}", markup=False)


@ledger.command()
def close(url: Url = None, name: Name = None, *, given: Given = None, as_json: AsJson = False) -> None:
    """Close an account permanently; its entries remain."""
    url, name = _of_account(url, name, given)
    book = _ledger(url)
    book.close(name)
    _tell({name: book.account(name)}, as_json=as_json)


@ledger.command()
def verify(
    url: Url = None,
    release: Annotated[str | None, typer.Argument(help="The folder of a finished release.")] = None,
    *,
    given: Given = None,
) -> None:
    """Find the run of this ledger that drew the numbers in a release, and its cost; refuse a statement that differs."""
    url, folder = _of_both(url, release, given, what="the release", name="RELEASE")
    from ostrakon.report.recorded import find_recorded

    book = _ledger(url)
    for sentence in _facts(find_recorded(Path(folder), book), book.url):
        console.print(sentence, markup=False)


def _facts(recorded: Recorded, url: str) -> list[str]:
    """Return what the ledger says of a run, what was compared with it, and what was not."""
    from ostrakon.statements.statement import round_up

    account, run = recorded.account, recorded.spend
    number = account.spends.index(run) + 1
    cost = round_up(account.spent) if math.isfinite(account.spent) else account.spent
    levels = [
        f"Level {level} of consent: epsilon {round_up(paid.epsilon or 0):g} at delta {paid.delta:g}."
        for level, paid in recorded.levels.items()
    ]
    return [
        f"Recorded in {url}: run {number} of account {account.name} (entry {run.sequence} of the ledger), {run.when}: "
        f"{run.what}.",
        f"Its guarantee in the ledger: epsilon {round_up(run.epsilon or 0):g} at delta {run.delta:g}, for "
        f"one {account.unit} (neighbours: {account.relation}).",
        *levels,
        f"All runs of this account ({len(account.spends)}): epsilon {cost:g} of {account.cap.epsilon:g} at delta "
        f"{account.cap.delta:g}.",
        *([f"Other runs of this ledger that drew the same numbers: {recorded.others}."] if recorded.others else []),
        f"Compared: the {recorded.compared}, in their order, with what this run drew; and the statement's guarantee "
        "(epsilon and delta, also of each level of consent), unit and neighbours with the ledger. They are the same.",
        "Not compared: every other number and sentence of the statement, such as epsilons for other neighbours and "
        "other deltas; names of classes and the column of users; which rows, and which table, the numbers belong to; "
        "and any other file (labels.csv or values.csv beside noisy counts, the student, the pages).",
    ]


@ledger.command()
def export(
    url: Url = None,
    *,
    given: Given = None,
    out: Annotated[Path | None, typer.Option(help=r"Write into this file. \[default: print]")] = None,
) -> None:
    """Verify every entry, and print all entries with their hashes as JSON."""
    book = _ledger(_of_ledger(url, given))
    entries = [{"sequence": link.sequence, **link.fields, "hash": link.hash} for link in book.entries()]
    if out is None:
        print_json({"ledger": book.url, "entries": entries})
        return
    from ostrakon.data.files import write_json

    write_json(out, {"ledger": book.url, "entries": entries})


def _require_unit(unit: str, name: str, by: str | None) -> None:
    """Refuse data whose fingerprint would be of the other unit: no run on the account would find them."""
    if unit == "user" and by is None:
        raise InvalidInput(
            f"--by COLUMN must be given: the account {name!r} is of users; it names the user of each row."
        )
    if unit == "record" and by is not None:
        raise InvalidInput(f"--by must not be given: the account {name!r} is of records; open one with --unit user.")


def _of_ledger(url: str | None, option: str | None) -> str:
    """Return the ledger's URL, given in one of two places."""
    if (url is None) == (option is None):
        raise InvalidInput("The ledger must be given once, as `ostrakon ledger show URL` or with --ledger URL.")
    return url if url is not None else str(option)


def _of_account(url: str | None, name: str | None, option: str | None) -> tuple[str, str]:
    """Return the ledger's URL and the account's name."""
    return _of_both(url, name, option, what="the account", name="NAME")


def _of_both(first: str | None, second: str | None, option: str | None, *, what: str, name: str) -> tuple[str, str]:
    """Return the ledger's URL and another argument, which is the only one with --ledger."""
    url, other = (first, second) if option is None else (option, first)
    if url is None or other is None or (option is not None and second is not None):
        raise InvalidInput(f"The ledger and {what} must be given, as URL {name} or as {name} with --ledger URL.")
    return url, other


def _ledger(url: str) -> Ledger:
    from ostrakon.ledger.ledger import Ledger

    return Ledger(url)


def _tell(accounts: dict[str, History], *, as_json: bool) -> None:
    if as_json:
        print_json({"accounts": [history.as_dict() for history in accounts.values()]})
        return
    from ostrakon.report.budget_table import account_table

    for history in accounts.values():
        console.print(account_table(history))
    if not accounts:
        console.print("No account yet.")
