"""Words of others in a page of Markdown: shown as they are, whatever they hold."""

import re

_MARKS = re.compile(r"([\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;))")


def escaped(text: str) -> str:
    """Return `text` in one line, without effect: no mark-up, no HTML, no cell of a table begins in it.

    >>> escaped("<b>Ward 3</b> | *open*\\nnow")
    '\\\\<b\\\\>Ward 3\\\\</b\\\\> \\\\| \\\\*open\\\\* now'
    """
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
