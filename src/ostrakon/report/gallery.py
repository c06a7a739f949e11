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

from ostrakon.mechanisms import NO_ANSWER
from ostrakon.public.images import as_grey_images
from ostrakon.report.page import Picture
from ostrakon.run.pipeline import Outcome

SHOWN = 120
"""Images that are shown; of more, the first so many."""
_ACROSS = 12


def gallery(outcome: Outcome) -> Picture | None:
    """The first `SHOWN` of them; None where no image was asked about."""
    if outcome.images is None or not len(outcome.images):
        return None
    images, taught = _shades(outcome.images[:SHOWN]), outcome.answers.taught[:SHOWN]
    names = ["none" if each == NO_ANSWER else str(outcome.classes[each]) for each in taught]
    across = min(_ACROSS, len(images))
    down = math.ceil(len(images) / across)
    figure = Figure(figsize=(10, 10 / _ACROSS * 1.3 * down), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (image, name) in enumerate(zip(images, names, strict=True)):
        axes = figure.add_subplot(down, _ACROSS, place // across * _ACROSS + place % across + 1)
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set_title(textwrap.shorten(name, width=12, placeholder="…") or "…", fontsize=9, parse_math=False)
        axes.set_axis_off()
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    asked = len(outcome.images)
    some = f"The first {len(images)} of {asked:,}" if asked > len(images) else f"All {asked}"
    return Picture(
        image=drawn.getvalue(),
        told=f"{some} public images that were asked about, each below its released label: {', '.join(names)}.",
        caption=f"{some}, each below the label that was released for it (none: no answer). labels.csv lists them all.",
    )


def _shades(images: NDArray[Any]) -> NDArray[np.float64]:
    """Images from 0 to 1: in colour where they have three channels or more, else in grey."""
    colours = images.ndim == 4 and images.shape[3] in (3, 4)
    shades = np.asarray(images[..., :3] if colours else as_grey_images(images), np.float64)
    low, high = float(shades.min()), float(shades.max())
    return (shades - min(low, 0.0)) / max(high - min(low, 0.0), 1e-12)
