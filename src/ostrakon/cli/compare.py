"""`ostrakon compare`: all mechanisms on the same votes at equal epsilon."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from ostrakon.cli.account import first_queries, read_votes
from ostrakon.cli.app import app, console, print_json
from ostrakon.cli.options import votes_file, with_options
from ostrakon.data.files import require_writable
from ostrakon.data.votes_file import class_names
from ostrakon.validation import InvalidInput, did_you_mean
from ostrakon.votes import IntArray, PublicVotes

if TYPE_CHECKING:
    from ostrakon.accounting.comparison import Comparison


@app.command()
@with_options(shape=votes_file())
def compare(
    *,
    votes: Annotated[Path, typer.Argument(help="Counts (queries x classes) or predictions (queries x teachers).")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help=r"True classes, one per query (.npy, .csv): numbers or names. \[default: agreement with the plurality]"
        ),
    ] = None,
    at: Annotated[
        str, typer.Option(help="Kind of epsilon to equalize: worst-case, data-dependent or gated.")
    ] = "worst-case",
    epsilon: Annotated[float, typer.Option(help="Epsilon of all mechanisms.")] = 2.0,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta)-DP.")] = 1e-5,
    queries: Annotated[int | None, typer.Option(help=r"Only the first N queries. \[default: all]")] = None,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="The classes are ordered from low to high: compare rank errors.")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="VOTES do not depend on private records (needed for --at gated).")
    ] = False,
    picture: Annotated[Path | None, typer.Option(help="File for a plot (.png, .svg, .pdf).")] = None,
    shape: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare all mechanisms on the same votes, with the noise for equal epsilon."""
    from ostrakon.accounting.comparison import AT
    from ostrakon.accounting.comparison import compare as run

    if at not in AT:
        raise InvalidInput(f"--at must be one of {', '.join(AT)}, got {at!r}.{did_you_mean(at, AT)}")
    if picture is not None:
        require_writable("picture", picture, endings=(".png", ".svg", ".pdf"))
    votes_read = read_votes(votes, **shape)
    counts = first_queries(votes_read, queries)
    if public:
        counts = PublicVotes(counts.counts, teachers=counts.teachers, abstentions=counts.abstentions)
    elif at == "gated":
        raise InvalidInput("--at gated needs --public: a gate may not be planned on votes of private data.")
    truth = None if labels is None else read_labels(labels, counts.queries, names=class_names(votes, votes_read))
    with console.status("Comparing") as status:
        comparison = run(
            counts,
            epsilon=epsilon,
            delta=delta,
            at=at,
            labels=truth,
            ordered=ordered,
            progress=lambda name: status.update(f"Comparing: {name}"),
        )
    if picture is not None:
        from ostrakon.report.pictures import save_picture

        save_picture(comparison, picture)
    if as_json:
        print_json(comparison.as_json())
        return
    _print(comparison)


def read_labels(path: Path, queries: int, *, names: Sequence[str] = ()) -> IntArray:
    """Return the first `queries` labels of a .npy file, or of a text file with a number or one of `names` per line."""
    try:
        if path.suffix == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            values = np.array(path.read_text(encoding="utf-8").split("\n"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"--labels must be a readable .npy or text file, got {path}: {error}.") from None
    if values.ndim == 1 and values.dtype.kind == "U":
        values = _numbered([word for cell in values if (word := cell.strip().strip("\"'"))], path, names)
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) < queries:
        raise InvalidInput(
            f"--labels must hold at least {queries} classes, one per query, got {values.dtype} of shape {values.shape}."
        )
    return values[:queries].astype(np.int64)


def _numbered(words: list[str], path: Path, names: Sequence[str]) -> NDArray[np.int64]:
    """Class numbers of labels that are numbers, or all among the names; a first line that is neither is a header."""
    numbers = {name: number for number, name in enumerate(names)}
    if not all(re.fullmatch(r"-?\d+", word) for word in words[1:]) or set(words[1:]) <= set(numbers):
        unknown = next((word for word in words[1:] if word not in numbers), None)
        if unknown is not None:
            listing = ", ".join(names) if names else "none: it names no classes, so that labels must be numbers"
            raise InvalidInput(f"--labels must name classes of VOTES ({listing}), got {unknown!r} in {path}.")
    else:
        numbers = {word: int(word) for word in words if re.fullmatch(r"-?\d+", word)}
    return np.array([numbers[word] for at, word in enumerate(words) if at or word in numbers], np.int64)


def _print(comparison: Comparison) -> None:
    from ostrakon.accounting.comparison import ADJACENCY, NOTICE

    console.print(_table(comparison))
    for row in comparison.rows:
        if row.claimed is not None:
            console.print(f"{row.name}: its epsilon of {row.claimed:.3g} is claimed, not true.", style="red")
    console.print(comparison.advice, style="bold")
    console.print(ADJACENCY, style="dim")
    console.print(NOTICE, style="dim")


def _table(comparison: Comparison) -> Table:
    right = "right" if comparison.labelled else f"the {'median' if comparison.ordered else 'plurality'}"
    table = Table(
        title=(
            f"{comparison.votes.queries:,} queries, {comparison.votes.teachers:,} teachers: "
            f"{comparison.at} epsilon {comparison.epsilon:g} at delta {comparison.delta:g}"
        ),
        title_justify="left",
    )
    table.add_column("mechanism", style="bold")
    ranks = ("rank error",) if comparison.ordered else ()
    for name in ("answers", right, *ranks, "worst case", "[red]data-dependent (private)[/]", "gated", "noise"):
        table.add_column(name, justify="left" if name == "noise" else "right")
    for row in comparison.rows:
        noise = ", ".join(
            f"{key} {value:.4g}" for key, value in row.mechanism.parameters().items() if value is not None
        )
        table.add_row(
            row.name if row.mechanism.releasable else f"[red]{row.name} (not private)[/]",
            f"{row.answers:,.1f}",
            f"{row.accuracy:.1%}" if row.answers >= 0.05 else "–",
            *([] if row.rank_error is None else [f"{row.rank_error:.3f}" if row.answers >= 0.05 else "–"]),
            *(_format(value) for value in (row.worst_case, row.data_dependent, row.gated)),
            noise,
        )
    return table


def _format(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if math.isfinite(value) else "∞"
