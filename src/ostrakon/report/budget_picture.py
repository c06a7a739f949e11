"""One picture of what remains of a budget, run after run."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
    FigureCanvasAgg(figure)
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
