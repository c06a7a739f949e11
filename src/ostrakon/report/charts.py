"""Charts of released facts alone, as HTML: bars, and the privacy curve, in the page's width and colours."""

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.quantity import rounded
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.run.stages.answers import Answers
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.statement import Statement, delta_in_words, epsilon_in_words, round_up

Colour = Literal["answered", "check", "unused"]

MOST_CLASSES = 30
"""Classes that a chart shows; of more, those with the most labels."""
_RANGES, _ENOUGH = 10, 2.0
"""Ranges of a quantity that a chart shows; standard deviations of noise that the records of a cell must exceed."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """name: in words. share: of the full width, from 0 to 1. value: as printed. colour: by what it stands for."""

    name: str
    share: float
    value: str
    colour: Colour = "answered"


def bar_chart(title: str, bars: Sequence[Bar], *, note: str = "") -> str:
    """Return an HTML figure with one line for each bar; names are shown as text, whatever they hold.

    note: further words below the title.
    """
    lines = [
        f'<li><span>{html.escape(bar.name)}</span><span><b class="{bar.colour}" style="width: {bar.share:.1%}"></b>'
        f"{html.escape(bar.value)}</span></li>\n"
        for bar in bars
    ]
    below = f"<br>{html.escape(note)}" if note else ""
    return (
        f"<figure>\n<figcaption><strong>{html.escape(title)}</strong>{below}</figcaption>\n"
        f'<ul class="bars">\n{"".join(lines)}</ul>\n</figure>\n'
    )


def released_charts(outcome: FinishedRun) -> str:
    """Return where the privacy budget went, the privacy curve, and how many labels each class was given.

    Guarantee: a function of released and public numbers.
    """
    shares = budget_shares(outcome)
    budget = [
        Bar(name=what, share=share, value=percent, colour=colour)
        for (what, share, colour), percent in zip(shares, percents(share for _, share, _ in shares), strict=True)
    ]
    if outcome.several:
        student_charts = _rates(outcome)
    else:
        student_charts = _labels(outcome) if outcome.quantity is None else _quantities(outcome)
    curve = curve_chart(outcome.statement)
    title = f"Where the privacy budget went: {claim_in_short(outcome.statement)}"
    # A single bar of 100% says nothing that the curve does not.
    budget_chart = "" if curve and len(budget) == 1 else bar_chart(title, budget)
    return budget_chart + curve + student_charts


def claim_in_short(statement: Statement) -> str:
    """Return the guarantee, for the title of a picture."""
    claimed = statement.guarantee
    if claimed is None:
        return "no guarantee"
    return f"epsilon {epsilon_in_words(claimed.epsilon)}, delta {delta_in_words(claimed.delta)} ({claimed.kind})"


def _rates(outcome: FinishedRun) -> str:
    """Return the share of records that have each label, of many labels the most frequent ones."""
    if outcome.plan.labels is not None:
        answered = (outcome.answers.labels.reshape(-1, outcome.plan.labels) != NO_ANSWER).sum(axis=0)
        bars = [
            Bar(name=str(label), share=int(number) / outcome.plan.rows, value=f"{number:,}")
            for label, number in zip(outcome.classes, answered, strict=True)
        ]
        return bar_chart(f"Released answers on each label, for {outcome.plan.rows:,} public rows", bars)
    rates: FloatArray = outcome.student.student.rates_
    classes = range(len(rates)) if len(rates) <= MOST_CLASSES else np.argsort(-rates, kind="stable")[:MOST_CLASSES]
    most = max(float(rates.max()), 1e-9)
    bars = [Bar(name=str(outcome.classes[at]), share=rates[at] / most, value=f"{rates[at]:.1%}") for at in classes]
    return bar_chart("Released share of records with each label", bars)


def _quantities(outcome: FinishedRun) -> str:
    """Return how many public rows were given which mean of the quantity."""
    assert outcome.clipped is not None
    shares = cell_shares(outcome.answers, noise=float(outcome.plan.mechanism.parameters()["sigma2"]))
    finite = shares[np.isfinite(shares)]
    counts = np.histogram(finite, bins=_RANGES, range=(0, 1))[0]
    ends = outcome.clipped.values(np.linspace(0, 1, _RANGES + 1)).tolist()
    most = max(int(counts.max()), 1)
    bars = [
        Bar(name=f"{rounded(low)} to {rounded(high)}", share=int(count) / most, value=f"{int(count):,}")
        for low, high, count in zip(ends[:-1], ends[1:], counts, strict=True)
    ]
    return bar_chart(f"Released means for {len(finite):,} of {len(shares):,} public rows", bars)


def cell_shares(answers: Answers, *, noise: float) -> NDArray[np.float64]:
    """Return the mean of the quantity of the records nearest to each row asked about, as a share of the range, 0 to 1.

    NaN where the noisy number of records is below `_ENOUGH` standard deviations of its noise. noise: of one count.
    """
    assert answers.counts is not None
    records = answers.counts.sum(axis=1)
    enough = records > _ENOUGH * noise * 2**0.5
    return np.where(enough, np.clip(answers.counts[:, 1] / np.where(enough, records, 1), 0, 1), np.nan)


def _labels(outcome: FinishedRun) -> str:
    taught = outcome.answers.taught
    counts = np.bincount(taught[taught != NO_ANSWER], minlength=len(outcome.classes))
    classes = range(len(counts)) if len(counts) <= MOST_CLASSES else np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    most = max(int(counts.max()), 1)
    subjects = "public rows" if outcome.cells is None else "cells of columns (the most frequent class there)"
    title = f"Released labels by class: {int(counts.sum()):,} for {len(outcome.queries):,} {subjects}"
    if len(counts) > MOST_CLASSES:
        title += f"; the {MOST_CLASSES} of {len(counts)} classes with the most"
    bars = [
        Bar(name=str(outcome.classes[label]), share=int(counts[label]) / most, value=f"{int(counts[label]):,}")
        for label in classes
    ]
    return bar_chart(title, bars)


def percents(shares: Iterable[float], *, digits: int = 0) -> list[str]:
    """Return shares that add up to 1 as percentages that add up to 100 as printed: the largest remainders are raised.

    >>> percents([0.335, 0.335, 0.33]), percents([1 / 3] * 3, digits=1)
    (['34%', '33%', '33%'], ['33.4%', '33.3%', '33.3%'])
    """
    exact = np.array([*shares]) * 100 * 10**digits
    whole = np.floor(exact)
    raised = np.argsort(whole - exact, kind="stable")[: round(float(exact.sum() - whole.sum()))]
    whole[raised] += 1
    return [f"{number / 10**digits:.{digits}f}%" for number in whole]


def budget_shares(outcome: FinishedRun) -> list[tuple[str, float, Colour]]:
    """Return (what, share of the worst-case budget, colour): checks, answers, and answers that were paid for and not
    given.

    Shares of the squared Gaussian-DP parameter, which adds up over queries; all of it for answers where the mechanism
    has no such parameter.
    """
    plan = outcome.plan
    if plan.per_record:
        return [(what, share, "answered") for what, share in plan.cost_shares.items() if share > 0]
    queries = outcome.statement.queries
    if not queries:
        return [("the gate refused: nothing was asked", 1.0, "unused")]
    cost = plan.mechanism.gaussian_dp()
    charged = queries if plan.max_answers is None else min(queries, plan.max_answers)
    check, answer = (0.0, 1.0) if cost is None else (cost[0] ** 2 * queries, cost[1] ** 2 * charged)
    total = check + answer
    answer_share = outcome.statement.answered / charged if charged else 0.0
    parts: list[tuple[str, float, Colour]] = [
        (f"{queries} checks for agreement", check / total, "check"),
        (f"{outcome.statement.answered} answers", answer / total * answer_share, "answered"),
        (
            f"{charged - outcome.statement.answered} answers allowed, not given",
            answer / total * (1 - answer_share),
            "unused",
        ),
    ]
    return [part for part in parts if part[1] > 0]


_WIDTH, _HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 44
_PARTS = 4
"""Pieces of the line between two points, on the chord in e^epsilon, which is an upper bound."""
_MOST_TICKS = 6


def curve_chart(statement: Statement) -> str:
    """Return an HTML figure of the curve; empty for a statement without one, or with a single point.

    Guarantee: a function of the statement. Every point of the line is a pair (epsilon, delta) that holds.
    """
    curve, guarantee = statement.curve, statement.guarantee
    if curve is None or guarantee is None or len(curve.points) < 2:
        return ""
    first = math.floor(math.log10(curve.points[0][1]))
    top = _step(curve.points[0][0]) * max(1, math.ceil(curve.points[0][0] / _step(curve.points[0][0])))

    def position(epsilon: float, delta: float) -> tuple[float, float]:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log10(delta) - first) / -first
        return across, _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - epsilon / top)

    line = " ".join("{:.1f},{:.1f}".format(*position(*point)) for point in _line(curve.points))
    x, y = position(guarantee.epsilon, guarantee.delta)
    claim = f"epsilon {epsilon_in_words(guarantee.epsilon)} at delta {delta_in_words(guarantee.delta)}"
    gaussian = "" if curve.mu is None else f" It is the line of a Gaussian mechanism with mu {round_up(curve.mu):.10g}."
    return (
        "<figure>\n<figcaption><strong>Privacy curve: epsilon at other deltas</strong><br>"
        f"The dot is the guarantee, {html.escape(claim)}. Every point of the line holds.{gaussian}</figcaption>\n"
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="epsilon falls as delta grows; {html.escape(claim)}">\n'
        f"{_axes(first, top, position)}"
        f'<polyline points="{line}"/>\n<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>\n</svg>\n</figure>\n'
    )


def _line(points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Return the points, and between two of them the chord of delta in e^epsilon."""
    corners = [points[0]]
    for (high, few), (low, many) in pairwise(points):
        for part in range(1, _PARTS + 1):
            delta = few * (many / few) ** (part / _PARTS)
            left = (many - delta) / (many - few)
            corners.append((low + math.log1p(max(left, 0.0) * math.expm1(min(high - low, 700.0))), delta))
    return corners


def _axes(first: int, top: float, position: Callable[[float, float], tuple[float, float]]) -> str:
    parts: list[str] = []
    step, across = _step(top), max(1, math.ceil(-first / _MOST_TICKS))
    for number in range(round(top / step) + 1):
        x, y = position(number * step, 10.0**first)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{x - 7:.1f}" y="{y + 4:.1f}" text-anchor="end">{number * step:.3g}</text>')
    for power in range(0, first - 1, -across):
        x, y = position(0.0, 10.0**power)
        anchor = "end" if power == 0 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{y + 17:.1f}" text-anchor="{anchor}">{f"1e{power}" if power else 1}</text>')
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 7}" text-anchor="middle">delta</text>')
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">epsilon</text>\n')
    return "\n".join(parts)


def _step(largest: float) -> float:
    """Return a round distance of ticks, at most six of them up to `largest`.

    >>> _step(1.9), _step(0.43), _step(10.0)
    (0.5, 0.1, 2.0)
    """
    if not largest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if largest <= (_MOST_TICKS - 0.5) * power * part)
