"""Pictures of a run. Those that show votes are private and say so on their face."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ostrakon.data.files import write_atomically
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.run.pipeline import Outcome
from ostrakon.run.stages.votes import votes_from
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.statement import round_up
from ostrakon.votes import Votes

_ANSWERED, _REFUSED, _CHECK, _UNUSED = "#1b7f5c", "#8b929c", "#d98e04", "#dcdfe4"
_NAMED = 30


def picture(outcome: Outcome, path: Path | None = None) -> Path:
    """One PNG of where the votes and the budget went; default: `private/picture.png`, because it shows votes."""
    return side_by_side({"": outcome}, outcome.folder / "private" / "picture.png" if path is None else path)


def side_by_side(outcomes: Mapping[str, Outcome], path: Path) -> Path:
    """The same of several runs, by name, in one PNG at `path`. Private: it shows votes."""
    figure = Figure(figsize=(10 if len(outcomes) == 1 else 6.4 * len(outcomes), 6.8), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(1, len(outcomes), squeeze=False, wspace=0.03)[0]
    for part, (name, outcome) in zip(parts, outcomes.items(), strict=True):
        top, bottom = part.subplots(2, 1, height_ratios=[3, 1])
        votes = votes_from(outcome.plan, np.load(outcome.folder / "private" / "votes.npy", allow_pickle=False))
        _consensus(top, outcome, votes)
        _budget(bottom, outcome)
        if name:
            measured = "" if outcome.accuracy is None else f": student right on {outcome.accuracy:.1%} of test rows"
            part.suptitle(f"{name}{measured}", fontsize=13, fontweight="bold")
    figure.text(0.995, 0.005, "private: shows votes, must not leave", ha="right", color="#b00020", fontsize=9)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    write_atomically(path, image.getvalue())
    return path


def released_picture(outcome: FinishedRun) -> bytes:
    """One PNG of released facts alone: where the budget went, and how many labels each class was given."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subplots(2, 1, height_ratios=[1, 1.6])
    _budget(top, outcome)
    _labels(bottom, outcome)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    return image.getvalue()


def _labels(axes: Axes, outcome: FinishedRun) -> None:
    taught = outcome.answers.taught
    counts = np.bincount(taught[taught != NO_ANSWER], minlength=len(outcome.classes))
    axes.bar(range(len(counts)), counts, color=_ANSWERED)
    if len(counts) <= _NAMED:
        names = [textwrap.shorten(str(label), width=18, placeholder="…") for label in outcome.classes]
        crowded = sum(map(len, names)) > 110
        axes.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    else:
        axes.set_xlabel(f"{len(counts)} classes, in order")
    axes.set_ylabel("labels")
    axes.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    asked = len(outcome.queries)
    axes.set_title(
        f"What was learned: {int(counts.sum())} labels for {asked} public rows", loc="left", fontweight="bold"
    )
    axes.spines[["top", "right"]].set_visible(False)


def _consensus(axes: Axes, outcome: Outcome, votes: Votes) -> None:
    per_record = outcome.plan.per_record
    # Per-record teachers vote on the nearest query alone.
    share = votes.top / np.maximum(votes.counts.sum(axis=1), 1) if per_record else votes.top / votes.teachers
    answered = outcome.answers.labels != NO_ANSWER
    cap = outcome.plan.max_answers
    after = np.zeros(len(answered), bool) if cap is None else np.cumsum(answered) - answered >= cap
    kinds = {
        "answered": answered,
        "refused by the noisy check": ~answered & ~after,
        "not reached: the cap on answers": after,
    }
    kinds = {what: rows for what, rows in kinds.items() if rows.any()}
    colours = {"answered": _ANSWERED, "refused by the noisy check": _REFUSED}
    axes.hist(
        [share[rows] for rows in kinds.values()],
        bins=np.linspace(0, 1, 26).tolist(),
        stacked=True,
        color=[colours.get(what, _UNUSED) for what in kinds],
        label=[f"{what}: {int(rows.sum())}" for what, rows in kinds.items()],
    )
    threshold = outcome.plan.mechanism.parameters().get("threshold")
    if threshold is not None and 0 <= threshold <= votes.teachers:
        axes.axvline(threshold / votes.teachers, color="#333333", linestyle="--", linewidth=1)
        axes.annotate(
            "threshold,\nbefore noise",
            (threshold / votes.teachers, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-6, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=9,
        )
    axes.set_xlim(0, 1)
    who = "votes at a query" if per_record else f"{votes.teachers} teachers"
    axes.set_xlabel(f"share of the {who} that agree on the leading class")
    axes.set_ylabel("queries")
    axes.set_title(f"What the teachers thought of {votes.queries} public rows", loc="left", fontweight="bold")
    axes.legend(loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def budget_shares(outcome: FinishedRun) -> list[tuple[str, float, str]]:
    """(what, share of the worst-case budget, colour): checks, answers, and answers that were paid for and not given.

    Shares of the squared Gaussian-DP parameter, which adds up over queries; all of it for answers where the mechanism
    has no such parameter.
    """
    plan = outcome.plan
    if plan.per_record:
        shares = plan.mechanism.cost_shares
        together = f"all {outcome.statement.answered} answers together, for everyone speaks on few of them"
        told = [(together if len(shares) == 1 else what, share) for what, share in shares.items() if share > 0]
        return [(what, share, _ANSWERED if at % 2 == 0 else _CHECK) for at, (what, share) in enumerate(told)]
    asked = outcome.statement.queries
    if not asked:
        return [("the gate refused: nothing was asked", 1.0, _UNUSED)]
    cost = plan.mechanism.gaussian_dp()
    charged = asked if plan.max_answers is None else min(asked, plan.max_answers)
    check, answer = (0.0, 1.0) if cost is None else (cost[0] ** 2 * asked, cost[1] ** 2 * charged)
    total = check + answer
    given = outcome.statement.answered / charged if charged else 0.0
    parts = [
        (f"{asked} checks for agreement", check / total, _CHECK),
        (f"{outcome.statement.answered} answers", answer / total * given, _ANSWERED),
        (f"{charged - outcome.statement.answered} answers allowed, not given", answer / total * (1 - given), _UNUSED),
    ]
    return [part for part in parts if part[1] > 0]


def _budget(axes: Axes, outcome: FinishedRun) -> None:
    left = 0.0
    for what, share, colour in budget_shares(outcome):
        axes.barh(0, share, left=left, color=colour, edgecolor="white")
        # A narrow piece has its words below it.
        inside = share > 0.2
        axes.text(
            left + share / 2 if inside else left,
            0 if inside else -0.55,
            f"{what}\n{share:.0%}",
            ha="center" if inside else "left",
            va="center" if inside else "top",
            fontsize=9,
            color="white" if inside and colour != _UNUSED else "#333333",
        )
        left += share
    guarantee = outcome.statement.guarantee
    claim = (
        "no guarantee"
        if guarantee is None
        else (f"epsilon {round_up(guarantee.epsilon):.10g}, delta {guarantee.delta!r} ({guarantee.kind})")
    )
    axes.set_title(f"Where the privacy budget went\n{claim}", loc="left", fontweight="bold")
    axes.set_xlim(0, 1)
    axes.set_ylim(-1.2, 0.5)
    axes.axis("off")
