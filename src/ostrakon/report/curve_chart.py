"""The privacy curve of a release as a picture: epsilon over delta, in the colours and at the width of the page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from itertools import pairwise

from ostrakon.statements.statement import Statement, round_up

_WIDTH, _HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 44
_PARTS = 4
"""Pieces of the line between two points, on the chord in e^epsilon, which is an upper bound."""
_MOST_TICKS = 6


def curve_chart(statement: Statement) -> str:
    """An HTML figure of the curve; empty for a statement without one, or with a single point.

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
    claim = f"epsilon {round_up(guarantee.epsilon):.10g} at delta {guarantee.delta!r}"
    gaussian = "" if curve.mu is None else f" It is that of a Gaussian with mu {round_up(curve.mu):.10g}."
    return (
        "<figure>\n<figcaption><strong>Privacy curve: epsilon at other deltas</strong><br>"
        f"The dot is the guarantee, {html.escape(claim)}. Every point of the line holds.{gaussian}</figcaption>\n"
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="epsilon falls as delta grows; {html.escape(claim)}">\n'
        f"{_axes(first, top, position)}"
        f'<polyline points="{line}"/>\n<circle cx="{x:.1f}" cy="{y:.1f}" r="5"/>\n</svg>\n</figure>\n'
    )


def _line(points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """The points, and between two of them the chord of delta in e^epsilon."""
    drawn = [points[0]]
    for (high, few), (low, many) in pairwise(points):
        for part in range(1, _PARTS + 1):
            delta = few * (many / few) ** (part / _PARTS)
            left = (many - delta) / (many - few)
            drawn.append((low + math.log1p(max(left, 0.0) * math.expm1(min(high - low, 700.0))), delta))
    return drawn


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
    """A round distance of ticks, at most six of them up to `largest`.

    >>> _step(1.9), _step(0.43), _step(10.0)
    (0.5, 0.1, 2.0)
    """
    if not largest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(power * part for part in (0.1, 0.2, 0.5, 1.0, 2.0) if largest <= (_MOST_TICKS - 0.5) * power * part)
