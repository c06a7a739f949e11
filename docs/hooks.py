"""Hooks of the site's build: formulas become MathML, which browsers draw without a script or a download."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([\w/.-]*)\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Files of the repository beside docs/ are named, not linked: the site stands on its own."""
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Every formula that arithmatex marked, drawn."""
    return _FORMULA.sub(_drawn, content)


def _drawn(found: re.Match[str]) -> str:
    block = found[1] == "div"
    formula = html.unescape(found[2]).strip()[2:-2]
    drawn = convert(formula, display="block" if block else "inline")
    return f'<div class="formula">{drawn}</div>' if block else drawn
