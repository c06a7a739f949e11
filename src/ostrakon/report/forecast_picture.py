"""Two pictures of what an epsilon would buy: the accuracy, and what an attacker could gain."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ostrakon.data.files import writing
from ostrakon.forecast.interval import ACCURACY, CONFIDENCE
from ostrakon.forecast.offers import neighbours
from ostrakon.forecast.outlook import Outlook
from ostrakon.report.forecast_table import odds_in_words

ATTACKER = "attacker.png"
_COLOURS = ("#1b7f5c", "#1b3a5c", "#d98e04", "#7a5195", "#8b929c")


def save_pictures(outlook: Outlook, folder: str | os.PathLike[str]) -> list[Path]:
    """Write `accuracy.png` (`R2.png`, `macro_F1.png`) where there is a forecast, `attacker.png` where odds are known.

    Errors: `CannotWrite`.
    """
    target = Path(folder)
    files: list[Path] = []
    with writing(target):
        target.mkdir(parents=True, exist_ok=True)
        if outlook.rehearsal is not None and outlook.rehearsal.forecasts:
            files.append(_saved(_accuracy, outlook, target / f"{outlook.measures[0].replace(' ', '_')}.png"))
        if any(offer.odds is not None for offer in outlook.offers):
            files.append(_saved(_attacker, outlook, target / ATTACKER))
    return files


def _saved(draw: Callable[[Axes, Outlook], None], outlook: Outlook, path: Path) -> Path:
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    draw(axes, outlook)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    return path


def _accuracy(axes: Axes, outlook: Outlook) -> None:
    played = outlook.rehearsal
    assert played is not None
    measure = outlook.measures[0]
    times, percent = (100, ", %") if measure == ACCURACY else (1, "")
    names = list(dict.fromkeys(one.mechanism for one in played.forecasts))
    for name, colour in zip(names, _COLOURS * len(names), strict=False):
        same = (one for one in played.forecasts if (one.mechanism, one.measure) == (name, measure))
        line = sorted(same, key=lambda one: one.epsilon)
        epsilons = [one.epsilon for one in line]
        lost = [played.lost(one) for one in line] if played.simulated else []
        middle = [mean for mean, _, _ in lost] or [one.mean for one in line]
        ends = [ends for _, *ends in lost] or [one.interval() for one in line]
        axes.fill_between(
            epsilons, [times * low for low, _ in ends], [times * high for _, high in ends], color=colour, alpha=0.15
        )
        axes.plot(epsilons, [times * point for point in middle], "o-", color=colour, label=name)
    if not played.simulated:
        dashed: Any = {"color": "#333333", "linestyle": "--", "linewidth": 1, "label": "no privacy"}
        axes.axhline(times * played.not_private[0], **dashed)
        axes.axhline(times * played.constant[0], color="#8b929c", linestyle=":", linewidth=1.5, label="always the same")
    _epsilon_axis(axes, outlook)
    axes.set_ylabel("points below boosting without noise" if played.simulated else f"{measure} of the student{percent}")
    what = "with simulated labels: the public rows have none" if played.simulated else "simulated on public rows"
    simulations = f"least to most of {len(played.without_noise)} simulations"
    band = simulations if played.simulated else f"one run, {CONFIDENCE:.0%}"
    axes.set_title(
        f"What an epsilon would buy, {what}\n{outlook.records:,} records; band: {band}",
        loc="left",
        fontsize=11,
    )
    axes.legend(frameon=False, loc="lower right", fontsize=9)


def _attacker(axes: Axes, outlook: Outlook) -> None:
    priced = [offer for offer in outlook.offers if offer.odds is not None and offer.plan is not None]
    name = priced[0].mechanism
    line = sorted((one.epsilon, 100 * (one.odds or 0.0)) for one in priced if one.mechanism == name)
    axes.plot(*zip(*line, strict=True), "o-", color="#b00020")
    for epsilon, odds in line:
        axes.annotate(
            f"50% → at most {odds_in_words(odds / 100)}",
            (epsilon, odds),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            fontsize=9,
        )
    axes.axhline(50, color="#8b929c", linestyle=":", linewidth=1.5)
    axes.annotate("a coin", (0.995, 50), xycoords=("axes fraction", "data"), va="bottom", ha="right", fontsize=9)
    axes.set_ylim(45, 102)
    axes.margins(x=0.12)
    _epsilon_axis(axes, outlook)
    axes.set_ylabel("right guesses at most, %")
    plan = priced[0].plan
    assert plan is not None
    question = neighbours(per_record=plan.per_record, unit=outlook.unit, removed=priced[0].removed)
    axes.set_title(
        f"What an attacker could gain, {name}: guesses at\n{question}",
        loc="left",
        fontsize=11,
    )


def _epsilon_axis(axes: Axes, outlook: Outlook) -> None:
    epsilons = sorted({offer.epsilon for offer in outlook.offers})
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
