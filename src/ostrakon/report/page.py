"""The model card as one page to read in a browser or to print: no scripts, nothing loaded from elsewhere."""

import base64
import html
import io
import math
from typing import Any

import numpy as np
from markdown_it import MarkdownIt
from numpy.typing import NDArray

from ostrakon.data.quantity import rounded
from ostrakon.features.images import as_grey_images
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.report.charts import cell_shares
from ostrakon.run.steps import FinishedRun

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1d2126; --quiet: #515863; --soft: #f4f5f7; --rule: #dcdfe4;
  --answered: #1b7f5c; --check: #b86e00; --unused: #838b96;
}
@media screen and (prefers-color-scheme: dark) {
  :root { --page: #16191d; --text: #e8eaed; --quiet: #adb4be; --soft: #23272d; --rule: #3c424b;
    --answered: #3fbf93; --check: #e8a33d; --unused: #7f8894; }
}
@page { size: A4; margin: 18mm 16mm; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 0; }
main { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; margin: 2rem 0 .75rem; }
p, li, td { overflow-wrap: anywhere; }
h2 + p > strong:only-child { display: block; padding: .75rem 1rem; }
h2 + p > strong:only-child, pre { border-left: .3rem solid var(--quiet); background: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th, td { border-bottom: 1px solid var(--rule); padding: .4rem .75rem .4rem 0; text-align: left; vertical-align: top; }
td:first-child { width: 32%; color: var(--quiet); }
@media screen and (max-width: 30rem) {
  td:first-child:nth-last-child(2), td:nth-child(2):last-child { display: block; width: auto; padding-right: 0; }
  td:first-child:nth-last-child(2) { border: 0; padding-bottom: 0; }
  th:nth-child(2):last-child { display: none; }
}
thead th:empty { display: none; }
pre { padding: .75rem 1rem; white-space: pre-wrap; font-size: .875rem; }
code { overflow-wrap: anywhere; }
figure { margin: 1rem 0; }
figcaption { color: var(--quiet); font-size: .875rem; }
figcaption strong { color: var(--text); font-size: 1rem; }
.bars, .tiles { list-style: none; margin: .5rem 0; padding: 0; font-size: .875rem; }
.bars li { display: grid; grid-template-columns: minmax(6rem, 32%) 1fr; gap: .75rem; padding: .2rem 0; }
.bars li > :last-child { display: flex; align-items: center; gap: .5rem; padding-right: 4.5rem; white-space: nowrap; }
.bars b { border-top: .9rem solid; min-width: 1px; flex: none; }
.bars .answered { border-color: var(--answered); }
.bars .check { border-color: var(--check); }
.bars .unused { border-color: var(--unused); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.5rem, 1fr)); gap: .5rem; }
.tiles li { display: flex; flex-direction: column; justify-content: flex-end; overflow-wrap: anywhere; }
.tiles span { color: var(--quiet); }
.shapes { list-style: none; padding: 0; display: grid; gap: 1rem; font-size: .875rem; }
.shapes { grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }
.shapes li { break-inside: avoid; overflow-wrap: anywhere; }
.curve { display: block; width: 100%; max-width: 25rem; height: auto; margin: .5rem 0; }
.shapes .curve { max-width: 16rem; }
.curve text { fill: var(--quiet); font-size: 13px; }
.curve path { stroke: var(--rule); }
.curve polyline { fill: none; stroke: var(--answered); stroke-width: 2.5; }
.curve circle { fill: var(--answered); }
img { width: 100%; height: auto; image-rendering: pixelated; }
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; margin: 0; padding: 0; }
  h1 { margin-top: 0; }
  h1, h2 { break-after: avoid; }
  h2:nth-of-type(2) { break-before: page; }
  tr, pre, li { break-inside: avoid; }
}
"""
# Nothing runs and nothing is loaded, whatever the names of labels and columns hold.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

ASKED = "Public images that were asked about"


def page(card: str, *, title: str, charts: str, gallery_html: str | None = None) -> str:
    """Return one HTML document: the card (Markdown, as `model_card` writes it) with the charts above its first table.

    Names of labels and columns are shown as they are: HTML, links and images in them have no effect.

    Parameters
    ----------
    card : str
    title : str
        Of the window, as plain text.
    charts : str
        Figures of released facts, as HTML.
    gallery_html : str, optional
        A figure of the images that were asked about, for the end of the page.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink"])
    before, table, after = reader.render(card).partition("<table>")
    last = "" if gallery_html is None else f"<h2>{ASKED}</h2>\n{gallery_html}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{before}{charts}{table}{after}{last}</main>\n</body>\n</html>\n"
    )


SHOWN = 120
"""Images that are shown; of more, the first ones."""
_PIXELS = 96
"""Larger images are shown smaller, by means over squares of pixels."""


_RELEASED = {
    "classes": "the label that was released for it (none: no answer). labels.csv lists them all",
    "quantity": "the noisy mean that was released for it (none: too few records). values.csv lists them all",
    "labels": "the label with the most noisy votes there",
    "answers": "the labels that teachers answered with yes (none: no such answer). labels.csv lists all answers",
}


def gallery(outcome: FinishedRun) -> str | None:
    """Return the first `SHOWN` of them as an HTML figure; None where rows are not images that can be shown."""
    images = None if outcome.images is None else _shades(outcome.images[:SHOWN])
    if outcome.images is None or images is None:
        return None
    names = _answers_in_words(outcome)[:SHOWN]
    tiles = [
        f'<li><span>{html.escape(name)}</span><img alt="" src="data:image/png;base64,{_png(image)}"></li>\n'
        for image, name in zip(images, names, strict=True)
    ]
    count = len(outcome.images)
    images_are = "public images" if outcome.statement.protects == "records" else "images (public, but for their labels)"
    some = f"The first {len(images)} of {count:,}" if count > len(images) else f"All {count}"
    kind = "answers" if outcome.plan.labels is not None else outcome.plan.target
    return (
        f"<figure>\n<figcaption>{some} {images_are} that were asked about, each below {_RELEASED[kind]}."
        "</figcaption>\n"
        f'<ul class="tiles">\n{"".join(tiles)}</ul>\n</figure>\n'
    )


def _answers_in_words(outcome: FinishedRun) -> list[str]:
    """Return what was released for each row that was asked about."""
    answers, classes = outcome.answers, [str(label) for label in outcome.classes]
    if outcome.clipped is not None:
        shares = cell_shares(answers, noise=float(outcome.plan.mechanism.parameters()["sigma2"]))
        return ["none" if np.isnan(value) else rounded(value) for value in outcome.clipped.values(shares)]
    if outcome.plan.target == "classes":
        return ["none" if label == NO_ANSWER else classes[label] for label in answers.taught]
    if outcome.plan.labels is None:
        counts = np.zeros((0, 1)) if answers.counts is None else answers.counts[:, : len(classes)]
        return [classes[label] for label in counts.argmax(axis=1)]
    labels = answers.labels.reshape(-1, outcome.plan.labels)
    return [", ".join(np.array(classes)[row == 1]) or "none" for row in labels]


def _png(image: NDArray[np.float64]) -> str:
    """Return an image of shades from 0 to 1 as a PNG, in base64."""
    step = math.ceil(max(image.shape[:2]) / _PIXELS)
    if step > 1:
        high, wide = (max(size // step, 1) for size in image.shape[:2])
        crop = image[: high * step, : wide * step]
        image = np.stack([crop[at::step, to::step][:high, :wide] for at in range(step) for to in range(step)]).mean(0)
    # Loaded only where there are images: it takes a tenth of all imports.
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, cmap="gray", vmin=0, vmax=1, format="png", metadata={"Software": ""})
    return base64.b64encode(buffer.getvalue()).decode()


def _shades(images: NDArray[Any]) -> NDArray[np.float64] | None:
    """Images from 0 to 1: in colour where they have three channels, last, else in grey; None for what is neither."""
    if images.ndim == 4 and images.shape[3] in (3, 4):
        shades = np.asarray(images[..., :3], np.float64)
    elif images.ndim == 3 or (images.ndim == 4 and 1 in (images.shape[1], images.shape[3])):
        shades = np.asarray(as_grey_images(images), np.float64)
    else:
        return None
    low, high = min(float(shades.min()), 0.0), float(shades.max())
    return (shades - low) / max(high - low, 1e-12)
