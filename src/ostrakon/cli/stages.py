"""Runs of several mechanisms on the command line: what each is asked, and what all of them cost together."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from ostrakon.accounting.account import EFFORT
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.cli.app import console, print_json
from ostrakon.mechanisms import Mechanism
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput, fraction, non_negative, whole
from ostrakon.votes import Votes


def text(epsilon: float) -> str:
    """Return an epsilon in digits, rounded up."""
    return f"{round_up(epsilon):.10g}" if math.isfinite(epsilon) else "∞"


def number(epsilon: float) -> float | str:
    """Return an epsilon for JSON, which has no infinity."""
    return epsilon if math.isfinite(epsilon) else "infinity"


def only(name: str, values: list[int] | None) -> int | None:
    """Return the value of an option that may be given once, where there is one mechanism."""
    if values is not None and len(values) > 1:
        raise InvalidInput(f"{name} must be given once for one mechanism, got {len(values)} times.")
    return values[0] if values else None


def stages_of(
    mechanisms: Sequence[Mechanism], queries: list[int] | None, max_answers: list[int] | None, *, rows: int
) -> list[Stage]:
    """Return one stage for each mechanism. rows: how many queries there are votes on.

    Errors: `InvalidInput` for numbers that do not fit.
    """
    sizes = [rows] if queries is None and len(mechanisms) == 1 else queries or []
    caps: Sequence[int | None] = max_answers or [None] * len(mechanisms)
    for name, values in (("--queries", sizes), ("--max-answers", caps)):
        if len(values) != len(mechanisms):
            raise InvalidInput(
                f"{name} must be given once for each of {len(mechanisms)} mechanisms, got {len(values)} times."
            )
    whole("the sum of --queries", sum(whole("--queries", one, at_least=1) for one in sizes), at_most=rows)
    return [
        Stage(mechanism=one, queries=count, max_answers=cap)
        for one, count, cap in zip(mechanisms, sizes, caps, strict=True)
    ]


def earlier_of(earlier: str | None) -> WorstCase | None:
    """Return the earlier release of EPSILON,DELTA. Errors: `InvalidInput` for anything else."""
    if earlier is None:
        return None
    try:
        epsilon, delta = map(float, earlier.split(","))
    except ValueError:
        raise InvalidInput(f"--earlier must be EPSILON,DELTA, such as 0.5,1e-6, got {earlier!r}.") from None
    epsilon = non_negative("the epsilon of --earlier", epsilon)
    delta = delta if delta == 0 else fraction("the delta of --earlier", delta)
    return WorstCase(epsilon=epsilon, delta=delta, basis="an earlier release")


def show_stages(
    votes: Votes, stages: Sequence[Stage], *, earlier: WorstCase | None, delta: float, as_json: bool
) -> None:
    """Print what all stages, and the earlier release, cost together."""
    first = 0
    for one in stages:
        one.mechanism.require_votes(votes[first : first + one.queries])
        first += one.queries
    classes = votes.classes if votes.classes_are_public else None
    shape: dict[str, Any] = {"teachers": votes.teachers, "classes": classes, "abstentions": votes.abstentions}
    worst = worst_case_of_stages(stages, delta=delta, earlier=earlier, effort=EFFORT, **shape)
    unsound = [one.mechanism.name for one in stages if not one.mechanism.releasable]
    if earlier is not None and earlier.delta >= delta and math.isinf(worst.epsilon) and not unsound:
        raise InvalidInput(
            f"--delta is for everything together and must be above the delta of --earlier, {earlier.delta:g}, "
            f"got {delta:g}."
        )
    if unsound:
        worst = replace(worst, basis=f"{worst.basis}; no release may rest on {unsound[0]}")
    if as_json:
        content = [
            {"mechanism": one.mechanism.name, "queries": one.queries, "max_answers": one.max_answers} for one in stages
        ]
        answer: dict[str, Any] = {"queries": first, "teachers": votes.teachers, "classes": votes.classes}
        answer |= {"stages": content, "worst_case": {"epsilon": number(worst.epsilon), "delta": worst.delta}}
        before = None if earlier is None else {"epsilon": earlier.epsilon, "delta": earlier.delta}
        print_json({**answer, "earlier": before})
        return
    words = [f"{one.queries:,} {'query' if one.queries == 1 else 'queries'} of {one.mechanism.name}" for one in stages]
    if earlier is not None:
        words.insert(0, f"epsilon {earlier.epsilon:g} at delta {earlier.delta:g} before")
    table = Table(title=f"{', then '.join(words)}; {votes.teachers:,} teachers", title_justify="left")
    for name in ("epsilon of", "epsilon", "delta", "by"):
        table.add_column(name, justify="right" if name in ("epsilon", "delta") else "left")
    kind = "worst case (true)" if unsound else "worst case (publishable)"
    table.add_row(f"{kind}, all together", text(worst.epsilon), repr(worst.delta), worst.basis)
    console.print(table)
