"""How docstrings become pages: examples as code, and a paragraph for every part that has a name."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PART = re.compile(r"^(Guarantee[^:\n]*|Proof|Derivation|Errors|Raises|Returns|Source)([:.])(?= )", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Loaded by mkdocstrings (see mkdocs.yml)."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of whatever was read."""
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)


def shown(text: str) -> str:
    """A docstring as Markdown."""
    text = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return _PART.sub(r"\n**\1\2**", text)
