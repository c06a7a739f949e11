"""Pictures of budgets and comparisons: what remains after every run, and what mechanisms give and cost."""

import io
import math
import os
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ostrakon.accounting.comparison import Comparison
from ostrakon.data.files import write_atomically, writing
from ostrakon.ledger.state import History
from ostrakon.validation import InvalidInput

BURN_DOWN = "burn-down.png"
_LEFT, _CAP, _OPEN = "#1b3a5c", "#8b929c", "#d98e04"


def save_burn_down(accounts: Mapping[str, History], folder: str | os.PathLike[str]) -> Path:
    """Write `burn-down.png` into `folder`: of every account, what remained after each run. Returns its path.

    Errors: `InvalidInput` without accounts, and where it cannot be written.
    """
    if not accounts:
        raise InvalidInput("The ledger must have an account to draw, and it has none.")
    figure = Figure(figsize=(8, 1 + 3.2 * len(accounts)), layout="constrained")
    for axes, account in zip(figure.subplots(len(accounts), squeeze=False)[:, 0], accounts.values(), strict=True):
        _burn_down(axes, account)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=130)
    target = Path(folder)
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
    write_atomically(target / BURN_DOWN, image.getvalue(), mode=0o644)
    return target / BURN_DOWN


def _burn_down(axes: Axes, account: History) -> None:
    costs, cap = account.costs, account.cap
    left = [cap.remaining(costs[:number]) for number in range(len(costs) + 1)]
    axes.step(range(len(left)), left, where="post", color=_LEFT, linewidth=2)
    axes.plot(range(len(left)), left, "o", color=_LEFT, markersize=4)
    reserved = [number for number, run in enumerate(account.spends, start=1) if not run.settled]
    axes.plot(reserved, [left[number] for number in reserved], "o", color=_OPEN, label="reserved, not settled")
    axes.axhline(cap.epsilon, color=_CAP, linestyle=":", linewidth=1.5)
    axes.set_ylim(0, cap.epsilon * 1.08)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("runs")
    axes.set_ylabel("epsilon of one more run")
    axes.set_title(
        f"{account.name}: {left[-1]:g} of {cap.epsilon:g} remains at delta {cap.delta:g}"
        f"{', closed' if account.closed else ''}",
        loc="left",
        fontsize=11,
        parse_math=False,
    )
    if reserved:
        axes.legend(frameon=False, loc="upper right", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def save_picture(comparison: Comparison, path: Path) -> None:
    """Write the comparison as an image: right, wrong and refused queries beside the epsilons, one line per mechanism.

    The format is that of the file's ending (.png, .svg, .pdf). Errors: `CannotWrite`.
    """
    rows = comparison.rows[::-1]
    names = [row.name + ("" if row.mechanism.releasable else " (not private)") for row in rows]
    figure = Figure(figsize=(11, 0.55 * len(rows) + 1.9), layout="constrained")
    answer_axes, cost = figure.subplots(1, 2, sharey=True)
    right = [row.answers * row.accuracy for row in rows]
    wrong = [row.answers * (1 - row.accuracy) for row in rows]
    refusals = [comparison.votes.queries - row.answers for row in rows]
    what = "right" if comparison.labelled else "the plurality"
    answer_axes.barh(names, right, color="#2a7f62", label=what)
    answer_axes.barh(
        names, wrong, left=right, color="#c8553d", label="wrong" if comparison.labelled else "another class"
    )
    answer_axes.barh(
        names, refusals, left=[r + w for r, w in zip(right, wrong, strict=True)], color="#dddddd", label="none"
    )
    answer_axes.set_xlabel("expected answers")
    answer_axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9)
    for kind, colour, marker in (
        ("worst_case", "#1b3a5c", "o"),
        ("gated", "#7a5195", "s"),
        ("data_dependent", "#ef9b20", "d"),
        ("claimed", "#c8553d", "x"),
    ):
        points = [(getattr(row, kind), name) for row, name in zip(rows, names, strict=True)]
        points = [(value, name) for value, name in points if value is not None and math.isfinite(value) and value > 0]
        if points:
            label = {
                "worst_case": "worst case",
                "data_dependent": "data-dependent (private)",
                "claimed": "claimed",
            }.get(kind, kind)
            cost.scatter(*zip(*points, strict=True), color=colour, marker=marker, label=label, zorder=3)
    cost.axvline(comparison.epsilon, color="#999999", linewidth=1, linestyle=":")
    cost.set_xscale("log")
    cost.set_xlabel(f"epsilon at delta {comparison.delta:g}")
    cost.grid(axis="x", alpha=0.3)
    cost.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)
    with writing(path):
        figure.savefig(path, dpi=150)
