"""The public images that were asked about, each under the label that was released for it: public, both of them."""

from __future__ import annotations

import base64
import html
import io
import math
from typing import Any

import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from ostrakon.features.images import as_grey_images
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.run.steps import FinishedRun

SHOWN = 120
"""Images that are shown; of more, the first ones."""
_PIXELS = 96
"""Larger images are shown smaller, by means over squares of pixels."""


def gallery(outcome: FinishedRun) -> str | None:
    """The first `SHOWN` of them as an HTML figure; None where rows are not images that can be shown."""
    images = None if outcome.images is None else _shades(outcome.images[:SHOWN])
    if outcome.images is None or images is None:
        return None
    taught = outcome.answers.taught[:SHOWN]
    names = ["none" if label == NO_ANSWER else str(outcome.classes[label]) for label in taught]
    tiles = [
        f'<li><span>{html.escape(name)}</span><img alt="" src="data:image/png;base64,{_png(image)}"></li>\n'
        for image, name in zip(images, names, strict=True)
    ]
    asked = len(outcome.images)
    images_are = "public images" if outcome.statement.protects == "records" else "images (public, but for their labels)"
    some = f"The first {len(images)} of {asked:,}" if asked > len(images) else f"All {asked}"
    return (
        f"<figure>\n<figcaption>{some} {images_are} that were asked about, each below the label that was released for "
        "it (none: no answer). labels.csv lists them all.</figcaption>\n"
        f'<ul class="tiles">\n{"".join(tiles)}</ul>\n</figure>\n'
    )


def _png(image: NDArray[np.float64]) -> str:
    """An image of shades from 0 to 1 as a PNG, in base64."""
    step = math.ceil(max(image.shape[:2]) / _PIXELS)
    if step > 1:
        high, wide = (max(size // step, 1) for size in image.shape[:2])
        kept = image[: high * step, : wide * step]
        image = np.stack([kept[at::step, to::step][:high, :wide] for at in range(step) for to in range(step)]).mean(0)
    drawn = io.BytesIO()
    imsave(drawn, image, cmap="gray", vmin=0, vmax=1, format="png", metadata={"Software": ""})
    return base64.b64encode(drawn.getvalue()).decode()


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
