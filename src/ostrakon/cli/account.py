"""`ostrakon account VOTES`: the cost of a mechanism on existing votes."""

import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from ostrakon.accounting.account import Account
from ostrakon.accounting.account import account as price
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.accounting.rdp import Conversion
from ostrakon.cli.app import app, bar, console, print_json
from ostrakon.cli.options import Stages, mechanism_parameters, votes_file, with_options
from ostrakon.cli.stages import earlier_of, number, only, show_stages, stages_of, text
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import build
from ostrakon.noise import secure_rng
from ostrakon.options.call import with_own_parameters
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import PublicVotes, Votes


@app.command()
@with_options(parameters=mechanism_parameters(), shape=votes_file())
def account(
    *,
    votes: Annotated[Path, typer.Argument(help="Counts (queries x classes) or predictions (queries x teachers).")],
    mechanism: Annotated[
        list[str], typer.Option(help="How votes become answers. May be repeated: several run in sequence.")
    ] = ["confident-gnmax"],  # noqa: B006
    parameters: dict[str, Any],
    queries: Stages.queries = None,
    max_answers: Stages.max_answers = None,
    earlier: Annotated[
        str | None, typer.Option(help="EPSILON,DELTA of an earlier release of the same data, for the same neighbours.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta)-DP.")] = 1e-5,
    conversion: Annotated[str, typer.Option(help="Conversion from Rényi DP to epsilon: cks or mironov.")] = "cks",
    public: Annotated[
        bool, typer.Option("--public", help="VOTES do not depend on private records: plan a gate on them.")
    ] = False,
    plurality: Annotated[
        float | None, typer.Option(help="Plan a gate on simulated votes; mean share of votes for the winner.")
    ] = None,
    dispersion: Annotated[float, typer.Option(help="Variation of that share between queries, 0 to 1.")] = 0.15,
    shape: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compute the cost of a mechanism on votes: the worst case (a guarantee) and the exact cost (private).

    VOTES is .npy, .npz, .csv or .parquet. `ostrakon draw` draws the answers and charges a ledger.
    """
    read_counts = functools.partial(read_votes, votes, **shape)
    if conversion not in ("cks", "mironov"):
        raise InvalidInput(f"--conversion must be cks or mironov, got {conversion!r}.")
    if len(mechanism) > 1 or earlier is not None:
        if public or plurality is not None or conversion != "cks":
            raise InvalidInput("--public, --plurality and --conversion are for one mechanism without --earlier.")
        laws = [mechanism_of(one, parameters) for one in mechanism]
        counts = read_counts()
        stages = stages_of(laws, queries, max_answers, rows=counts.queries)
        before = earlier_of(earlier)
        return show_stages(counts, stages, earlier=before, delta=delta, as_json=as_json)
    law = mechanism_of(mechanism[0], parameters)
    counts = first_queries(read_counts(max_contributions=law.contribution_bound), only("--queries", queries))
    converted: Conversion = "cks" if conversion == "cks" else "mironov"
    with bar("Planning a gate") as report:
        cost = price(
            counts,
            law,
            delta=delta,
            conversion=converted,
            max_answers=only("--max-answers", max_answers),
            public_votes=planning_votes(counts, public=public, plurality=plurality, dispersion=dispersion),
            rng=secure_rng(),
            report=report,
        )
    _show(counts, law, cost, as_json=as_json)


def _show(votes: Votes, law: Mechanism, cost: Account, *, as_json: bool) -> None:
    if as_json:
        answer = as_object(votes, cost)
        claimed = law.claimed_epsilon(queries=votes.queries, delta=cost.worst_case.delta)
        if claimed is not None:
            answer |= {"claimed": claimed, "warning": law.warning}
        print_json(answer)
    else:
        console.print(as_table(votes, law, cost))
        whole_run, delta = law.run_cost(queries=votes.queries) if votes.queries else None, cost.worst_case.delta
        if whole_run is not None and whole_run.failure >= delta:
            console.print(
                f"{law.name} has no epsilon at a delta of {delta:g}: it may fail in these queries with a probability "
                f"of {whole_run.failure:.2g}, which must be below delta. A larger threshold or fewer queries lower it."
            )
        if law.warning:
            console.print(law.warning, style="bold red")
        console.print(cost.notice, style="dim")


def read_votes(path: Path, **shape: Any) -> Votes:
    """Return the votes of a file; shape: of `load_votes`, None where it was not given. Errors: `InvalidInput`."""
    from ostrakon.data.votes_file import load_votes

    return load_votes(path, **{name: value for name, value in shape.items() if value is not None})


def mechanism_of(text: str, parameters: dict[str, Any]) -> Mechanism:
    """Return the mechanism NAME or NAME(parameter=value, ...), with `parameters` that were given as options."""
    own = with_own_parameters({"mechanism": text, **parameters})
    return build(own.pop("mechanism"), own)


def first_queries(votes: Votes, queries: int | None) -> Votes:
    """Return the first `queries` rows of the votes."""
    if queries is None:
        return votes
    return votes[: whole("--queries", queries, at_least=1, at_most=votes.queries)]


def planning_votes(votes: Votes, *, public: bool, plurality: float | None, dispersion: float) -> PublicVotes | None:
    """Return the votes for planning a gate: the given ones if declared public, or simulated ones of their shape."""
    if public:
        return PublicVotes(votes.counts, teachers=votes.teachers, abstentions=votes.abstentions)
    if plurality is None:
        return None
    if votes.abstentions:
        raise InvalidInput("--plurality must be left out where teachers abstain: simulated teachers always vote.")
    return simulate_votes(
        np.random.default_rng(0),
        queries=votes.queries,
        teachers=votes.teachers,
        classes=votes.classes,
        plurality=plurality,
        dispersion=dispersion,
    )


def as_object(votes: Votes, cost: Account) -> dict[str, Any]:
    """Return the output of `--json`. An infinite epsilon is the text "infinity", because JSON has no such number."""
    local = published = None
    if cost.data_dependent is not None and cost.forecast is not None:
        private_cost = cost.data_dependent.reveal()
        expected_answers = cost.forecast.reveal()["expected_answers"]
        local = {
            "epsilon": number(private_cost["epsilon"]),
            "order": private_cost.get("order"),
            "expected_answers": expected_answers,
        }
    if cost.published is not None:
        private_cost = cost.published.reveal()
        published = {"epsilon": number(private_cost["epsilon"]), "order": private_cost["order"]}
    gated = sanitized = None
    if cost.gated is not None:
        gate = dataclasses.asdict(cost.gated)
        gated = {
            "epsilon": number(gate["epsilon"]),
            "delta": gate["delta"],
            "pass_probability": cost.pass_probability,
            "levels": [list(level) for level in gate["levels"]],
            "grid": gate["grid"],
        }
    if cost.sanitized is not None:
        sanitized = dataclasses.asdict(cost.sanitized)
    return {
        "queries": votes.queries,
        "teachers": votes.teachers,
        "classes": votes.classes,
        "worst_case": {"epsilon": number(cost.worst_case.epsilon), "delta": cost.worst_case.delta},
        "data_dependent": local,
        "published": published,
        "gated": gated,
        "sanitized": sanitized,
        "notice": cost.notice,
    }


def as_table(votes: Votes, mechanism: Mechanism, cost: Account) -> Table:
    """Return the same as a small table."""
    classes = f"{votes.classes:,} classes"
    if not votes.classes_are_public:
        classes += " seen (the worst case is for any number: --classes may lower it)"
    table = Table(
        title=f"{mechanism.name}: {votes.queries:,} queries, {votes.teachers:,} teachers, {classes}",
        title_justify="left",
    )
    table.add_column("epsilon of", style="bold")
    for name in ("epsilon", "delta", "Rényi order", "by"):
        table.add_column(name, justify="left" if name == "by" else "right")
    worst = cost.worst_case
    basis = worst.basis if mechanism.releasable else f"{worst.basis}; no release may rest on it"
    kind = "worst case (publishable)" if mechanism.releasable else "worst case (true)"
    table.add_row(kind, text(worst.epsilon), repr(worst.delta), "", basis)
    delta = repr(worst.delta)
    claimed = mechanism.claimed_epsilon(queries=votes.queries, delta=worst.delta)
    if claimed is not None:
        table.add_row("[red]claimed (not true)[/]", text(claimed), delta, "", "what its papers charge")
    if cost.gated is not None:
        by = f"a gate that votes like the planned ones pass with probability {cost.pass_probability:g}"
        table.add_row("gated (publishable)", text(cost.gated.epsilon), delta, "", by)
    if cost.sanitized is not None:
        by = f"noisy estimate, sd {cost.sanitized.sd:g}, at most {cost.sanitized.upper:g}; not a guarantee"
        table.add_row("sanitized (publishable once)", text(cost.sanitized.mean), delta, "", by)
    if cost.data_dependent is not None and cost.forecast is not None:
        private_cost, expected_answers = cost.data_dependent.reveal(), cost.forecast.reveal()["expected_answers"]
        order = f"{private_cost['order']:g}" if "order" in private_cost else ""
        by = f"{'exact' if order else 'adaptive composition'}; {expected_answers:,.2f} answers expected"
        table.add_row("[red]data-dependent (private)[/]", text(private_cost["epsilon"]), delta, order, by)
    if cost.published is not None:
        private_cost = cost.published.reveal()
        by = "the papers' bound"
        table.add_row(
            "[red]published (private)[/]", text(private_cost["epsilon"]), delta, f"{private_cost['order']:g}", by
        )
    return table
