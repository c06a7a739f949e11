"""The model card as one page to read in a browser or to print: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import html

from markdown_it import MarkdownIt

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2126; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; margin: 2rem 0 .75rem; }
h2 + p > strong:only-child { display: block; padding: .75rem 1rem; }
h2 + p > strong:only-child, pre { border-left: .3rem solid #515863; background: #f4f5f7; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th, td { border-bottom: 1px solid #dcdfe4; padding: .4rem .75rem .4rem 0; }
th, td { text-align: left; vertical-align: top; }
td:first-child { width: 32%; color: #515863; }
thead th:empty { display: none; }
pre { padding: .75rem 1rem; white-space: pre-wrap; font-size: .875rem; }
code { overflow-wrap: anywhere; }
img { width: 100%; height: auto; }
"""
# Nothing runs and nothing is loaded, whatever the names of labels and columns hold.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(card: str, *, picture: bytes, told: str) -> str:
    """One HTML document: the card (Markdown, as `model_card` writes it) with a picture below its claim.

    picture: PNG of released facts alone. told: the picture in words, for those who do not see it.
    Names of labels and columns are shown as they are: HTML, links and images in them have no effect.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink"])
    body = reader.render(card)
    image = base64.b64encode(picture).decode()
    shown = f'<p><img alt="{html.escape(told)}" src="data:image/png;base64,{image}"></p>\n'
    before, table, after = body.partition("<table>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>Model card and privacy statement</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{before}{shown}{table}{after}</body>\n</html>\n"
    )
