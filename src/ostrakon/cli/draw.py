"""`ostrakon draw VOTES`: noisy answers to existing votes, paid from a ledger."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ostrakon.cli.account import first_queries, mechanism_of, read_votes
from ostrakon.cli.app import app, console, print_json
from ostrakon.cli.options import Stages, mechanism_parameters, votes_file, with_options
from ostrakon.cli.stages import number, stages_of, text
from ostrakon.statements.statement import delta_in_words


@app.command()
@with_options(parameters=mechanism_parameters(), shape=votes_file())
def draw(
    *,
    votes: Annotated[Path, typer.Argument(help="Counts (queries x classes) or predictions (queries x teachers).")],
    ledger: Annotated[str, typer.Option(help="The ledger that pays: sqlite:///FILE or postgresql://HOST/DATABASE.")],
    ledger_account: Annotated[str, typer.Option(help="Its account, opened before by `ostrakon ledger open`.")],
    mechanism: Annotated[
        list[str], typer.Option(help="NAME or NAME(parameter=value, ...). May be repeated: several run in sequence.")
    ] = ["confident-gnmax"],  # noqa: B006
    parameters: dict[str, Any],
    out: Annotated[Path, typer.Option(help="The folder of the answers.")] = Path("answers"),
    queries: Stages.queries = None,
    max_answers: Stages.max_answers = None,
    delta: Annotated[float | None, typer.Option(help=r"Delta of the printed cost. \[default: the account's]")] = None,
    shape: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw noisy answers to VOTES once, charge a ledger, and write them to OUT/release.

    The same command finds the same answers again and pays nothing.
    """
    from ostrakon.report.budget_table import account_table
    from ostrakon.run.one_draw import draw_once

    laws = [mechanism_of(one, parameters) for one in mechanism]
    bound = laws[0].contribution_bound if len(laws) == 1 else None
    every = read_votes(votes, **shape, max_contributions=bound)
    stages = stages_of(laws, queries, max_answers, rows=every.queries)
    votes_read = first_queries(every, sum(one.queries for one in stages))
    result = draw_once(votes_read, stages, out, ledger=ledger, account=ledger_account, delta=delta)
    if as_json:
        worst = {"epsilon": number(result.cost.epsilon), "delta": result.cost.delta}
        answer = {"worst_case": worst, "labels": str(result.file), "account": result.account.as_dict()}
        print_json(answer)
        return
    console.print(account_table(result.account))
    answered = int((result.labels >= 0).sum())
    console.print(
        f"{answered:,} of {votes_read.queries:,} queries answered; paid: epsilon {text(result.cost.epsilon)} at delta "
        f"{delta_in_words(result.cost.delta)}.",
    )
    console.print(f"May be published: {result.file}", markup=False)
    console.print(f"Keep private: {out / 'private'}", markup=False)
