"""The public images that were asked about, each under the label that was released for it: public, both of them."""

from __future__ import annotations

import io
import math
import textwrap
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ostrakon.features.images import as_grey_images
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.report.page import Picture
from ostrakon.run.steps import FinishedRun

SHOWN = 120
"""Images that are shown; of more, the first so many."""
_ACROSS, _NAME = 12, 0.3
"""Images in a row, and the height of a label as a share of an image's width."""


def gallery(outcome: FinishedRun) -> Picture | None:
    """The first `SHOWN` of them; None where rows are no images that can be shown."""
    images = None if outcome.images is None else _shades(outcome.images[:SHOWN])
    if outcome.images is None or images is None:
        return None
    taught = outcome.answers.taught[:SHOWN]
    names = ["none" if each == NO_ANSWER else str(outcome.classes[each]) for each in taught]
    down = math.ceil(len(images) / _ACROSS)
    high = images.shape[1] / images.shape[2]
    figure = Figure(figsize=(10, 10 / _ACROSS * (high + _NAME) * down))
    FigureCanvasAgg(figure)
    # One pair of axes for all of them: a pair for each would take seconds.
    axes = figure.add_axes((0, 0, 1, 1))
    for place, (image, name) in enumerate(zip(images, names, strict=True)):
        left, top = place % _ACROSS, place // _ACROSS * (high + _NAME) + _NAME
        axes.imshow(image, cmap="gray", vmin=0, vmax=1, extent=(left + 0.04, left + 0.96, top + high, top))
        short = textwrap.shorten(name, width=12, placeholder="…") or "…"
        axes.text(left + 0.5, top - 0.05, short, ha="center", va="bottom", fontsize=9, parse_math=False)
    axes.set(xlim=(0, _ACROSS), ylim=(down * (high + _NAME), 0), aspect="auto")
    axes.set_axis_off()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    asked = len(outcome.images)
    images_are = "public images" if outcome.statement.protects == "records" else "images (public, but for their labels)"
    some = f"The first {len(images)} of {asked:,}" if asked > len(images) else f"All {asked}"
    return Picture(
        image=drawn.getvalue(),
        told=f"{some} {images_are} that were asked about, each below its released label: {', '.join(names)}.",
        caption=f"{some}, each below the label that was released for it (none: no answer). labels.csv lists them all.",
    )


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
