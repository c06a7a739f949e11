"""`ostrakon audit`: does a mechanism's own behaviour contradict the epsilon it claims?"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Annotated, Any

import typer
from rich.table import Table

from ostrakon.cli.app import app, console
from ostrakon.cli.options import with_mechanism_parameters
from ostrakon.validation import InvalidInput


@app.command()
@with_mechanism_parameters
def audit(
    *,
    mechanism: Annotated[
        str | None, typer.Option(help="The mechanism to audit, or whose law --sampler claims.")
    ] = None,
    parameters: dict[str, Any],
    sampler: Annotated[
        str | None,
        typer.Option(help="Your own mechanism, MODULE:FUNCTION of (votes, rng), one answer per query, -1 for none."),
    ] = None,
    claimed: Annotated[
        float | None, typer.Option(help="The epsilon claimed for all queries. [default: the mechanism's worst case]")
    ] = None,
    delta: Annotated[float, typer.Option(help="Of (epsilon, delta)-DP.")] = 1e-5,
    queries: Annotated[int, typer.Option(help="Queries answered together; more of them show small costs better.")] = 1,
    samples: Annotated[int, typer.Option(help="Runs on each of the two datasets.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    teachers: Annotated[int, typer.Option(help="Teachers of the neighbouring votes that are tried.")] = 100,
    classes: Annotated[int, typer.Option(help="Classes of the neighbouring votes that are tried.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Certify a lower bound on a mechanism's epsilon from its samples on neighbouring votes, beside its claim.

    Exit status 1 if the claim is refuted, 0 if nothing contradicts it. An audit refutes; it never proves.
    """
    from ostrakon.audit import audit as run_audit
    from ostrakon.mechanisms.registry import build
    from ostrakon.noise import secure_rng

    law = None
    if mechanism is not None:
        law = build(mechanism, parameters)
    subject: Any = law if sampler is None else _function(sampler)
    if subject is None:
        raise InvalidInput("--mechanism or --sampler must be given, got neither.")
    with console.status("Sampling on neighbouring votes"):
        found = run_audit(
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
    if as_json:
        typer.echo(json.dumps(found.as_json(), allow_nan=False))
    else:
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        asked = "one query" if found.queries == 1 else f"{found.queries:,} queries together"
        table.add_row("Mechanism", found.mechanism)
        table.add_row("Claimed epsilon", f"{found.claimed:.4g} for {asked} at delta {found.delta:g}")
        table.add_row("Certified lower bound", f"{found.lower_bound:.4g} with {100 * found.confidence:g}% confidence")
        table.add_row("Neighbouring votes", f"{found.neighbours[0]} and {found.neighbours[1]}")
        table.add_row("Event seen", f"{found.seen[0]:,} and {found.seen[1]:,} times in {found.samples:,} runs on each")
        console.print(table)
        console.print(found.verdict, style="bold red" if found.refuted else "", highlight=False)
        if law is not None and law.warning:
            console.print(law.warning, highlight=False)
    if found.refuted:
        raise typer.Exit(1)


def _function(name: str) -> Any:
    """The function named MODULE:FUNCTION; modules of the working directory count."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"--sampler must be an importable MODULE:FUNCTION, got {name!r} ({error}).") from None
    if not callable(found):
        raise InvalidInput(f"--sampler must name a function, got {name!r}.")
    try:
        inspect.signature(found).bind("votes", "rng")
    except (TypeError, ValueError):
        raise InvalidInput(f"--sampler must name a function of (votes, rng), got {name!r}.") from None
    return found
