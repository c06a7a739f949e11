"""Pictures of a run that show votes: private, and marked as such."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ostrakon.data.files import write_atomically
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.report.charts import budget_shares, claim_in_short, percents
from ostrakon.run.pipeline import Outcome
from ostrakon.run.stages.votes import votes_from
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.sentences import changed_in_words
from ostrakon.votes import Votes

_ANSWERED, _REFUSED, _CHECK, _UNUSED = "#1b7f5c", "#8b929c", "#d98e04", "#dcdfe4"
_COLOURS = {"answered": _ANSWERED, "check": _CHECK, "unused": _UNUSED}


def picture(outcome: Outcome, path: Path | None = None) -> Path:
    """Return one PNG of where the votes and the budget went; default: `private/picture.png`, because it shows votes."""
    return side_by_side({"": outcome}, outcome.folder / "private" / "picture.png" if path is None else path)


def side_by_side(outcomes: Mapping[str, Outcome], path: Path) -> Path:
    """Return the same of several runs, by name, in one PNG at `path`. Private: it shows votes."""
    figure = Figure(figsize=(10 if len(outcomes) == 1 else 6.4 * len(outcomes), 6.8), layout="constrained")
    parts = figure.subfigures(1, len(outcomes), squeeze=False, wspace=0.03)[0]
    for part, (name, outcome) in zip(parts, outcomes.items(), strict=True):
        top, bottom = part.subplots(2, 1, height_ratios=[3, 1])
        votes = votes_from(outcome.plan, np.load(outcome.folder / "private" / "votes.npy", allow_pickle=False))
        _consensus(top, outcome, votes)
        _budget(bottom, outcome)
        if name:
            accuracy = "" if outcome.accuracy is None else f": student right on {outcome.accuracy:.1%} of test rows"
            part.suptitle(f"{name}{accuracy}", fontsize=13, fontweight="bold")
    figure.text(0.995, 0.005, "private: shows votes, must not leave", ha="right", color="#b00020", fontsize=9)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    write_atomically(path, image.getvalue())
    return path


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


def _budget(axes: Axes, outcome: FinishedRun) -> None:
    left = 0.0
    shares = budget_shares(outcome)
    for (what, share, kind), percent in zip(shares, percents(share for _, share, _ in shares), strict=True):
        colour = _COLOURS[kind]
        axes.barh(0, share, left=left, color=colour, edgecolor="white")
        # A narrow piece has its words below it.
        inside, last = share > 0.2, left > 0.8
        axes.text(
            left + share / 2 if inside else left + share * last,
            0 if inside else -0.55,
            f"{what}\n{percent}",
            ha="center" if inside else "right" if last else "left",
            va="center" if inside else "top",
            fontsize=9,
            color="white" if inside and colour != _UNUSED else "#333333",
        )
        left += share
    statement = outcome.statement
    claim = claim_in_short(statement)
    if statement.adjacent:
        # Epsilons of other neighbours cannot be compared.
        claim += f",\nfor {changed_in_words(statement.adjacent[0].relation, statement.unit)}"
    axes.set_title(f"Where the privacy budget went\n{claim}", loc="left", fontsize=11, fontweight="bold")
    axes.set_xlim(0, 1)
    axes.set_ylim(-1.2, 0.5)
    axes.axis("off")
