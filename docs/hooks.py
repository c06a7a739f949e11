"""Hooks of the site's build."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([\w/.-]*)\)")
_CODE = re.compile(r"<code>([^<]*)</code>")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Files of the repository beside docs/ are named, not linked: the site stands on its own."""
    return _OUTSIDE.sub(r"\1 (`\2`)", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Formulas as MathML, which browsers draw; names in cells of tables break at dots and underscores, not in words."""
    content = _FORMULA.sub(_formula, content)
    return re.sub(r"(<td>|<td .*?>)(.*?)(?=</td>)", lambda cell: cell[1] + _CODE.sub(_breaking, cell[2]), content)


def _breaking(found: re.Match[str]) -> str:
    parts = re.sub(r"([._/])(?=.)", r"\1<wbr>", found[1])
    return f"<code>{parts}</code>"


def _formula(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    return convert(html.unescape(found[2]).strip(), display=display)
