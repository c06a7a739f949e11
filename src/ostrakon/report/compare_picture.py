"""The picture of `ostrakon compare`: what each mechanism gives, and what it costs."""

from __future__ import annotations

import math
from pathlib import Path

from ostrakon.accounting.comparison import Comparison
from ostrakon.validation import InvalidInput


def save_picture(comparison: Comparison, path: Path) -> None:
    """Write the comparison as an image: right, wrong and refused queries beside the epsilons, one line per mechanism.

    The format is that of the file's ending (.png, .svg, .pdf). Errors: `InvalidInput` where it cannot be written.
    """
    from matplotlib.figure import Figure

    rows = comparison.rows[::-1]
    names = [row.name + ("" if row.mechanism.releasable else " (not private)") for row in rows]
    figure = Figure(figsize=(11, 0.55 * len(rows) + 1.9), layout="constrained")
    given, cost = figure.subplots(1, 2, sharey=True)
    right = [row.answers * row.accuracy for row in rows]
    wrong = [row.answers * (1 - row.accuracy) for row in rows]
    refused = [comparison.votes.queries - row.answers for row in rows]
    what = "right" if comparison.labelled else "the plurality"
    given.barh(names, right, color="#2a7f62", label=what)
    given.barh(names, wrong, left=right, color="#c8553d", label="wrong" if comparison.labelled else "another class")
    given.barh(names, refused, left=[r + w for r, w in zip(right, wrong, strict=True)], color="#dddddd", label="none")
    given.set_xlabel("expected answers")
    given.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9)
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
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"--picture must be a file that can be written (.png, .svg, .pdf), got {path}: {error}."
        ) from None
