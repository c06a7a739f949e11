"""A small HTML table: how results show themselves in a notebook."""

import re
from collections.abc import Iterable
from html import escape


def html_table(title: str, rows: Iterable[tuple[str, object]], *, note: str = "") -> str:
    """Return a table of two columns with a caption, all text escaped. note: text in `backticks` is shown as code.

    >>> html_table("Cost", [("epsilon", "<1")])
    '<table><caption>Cost</caption><tr><th scope="row">epsilon</th><td>&lt;1</td></tr></table>'
    """
    cells = "".join(f'<tr><th scope="row">{escape(str(a))}</th><td>{escape(str(b))}</td></tr>' for a, b in rows)
    below = re.sub("`([^`]+)`", r"<code>\1</code>", f"<p>{escape(note)}</p>") if note else ""
    return f"<table><caption>{escape(title)}</caption>{cells}</table>{below}"
