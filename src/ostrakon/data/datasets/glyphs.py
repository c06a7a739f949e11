"""Letters and signs in many fonts, distorted, unevenly frequent and partly mislabelled: a task without a download."""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from ostrakon.data.datasets.dataset import Dataset
from ostrakon.data.datasets.glyph_shapes import SIDE, Drawings, Shapes, glyph_shapes, split_shapes
from ostrakon.validation import InvalidInput, fraction, positive, whole

PIXELS = 28
_CHUNK = 1024

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def glyphs(
    n_private: int = 20_000,
    n_public: int = 2_000,
    n_test: int = 2_000,
    *,
    n_classes: int = 10,
    imbalance: float = 5.0,
    wrong_labels: float = 0.1,
    random_state: int = 0,
    system_fonts: bool = True,
    split_fonts: bool = False,
) -> Dataset:
    """Draw images of the letters A to J (and up to 150 characters) in the fonts at hand, like the 2018 paper's Glyph.

    Parameters
    ----------
    n_private, n_public, n_test : int
        Images of each part, at least 1.
    n_classes : int, default 10
        From 2 to 150 characters.
    imbalance : float, default 5
        How much more frequent the most frequent class is than the rarest, in all three parts; at least 1.
    wrong_labels : float, default 0.1
        Share of the private labels that are replaced by another class, in [0, 1); the other parts are right.
    random_state : int, default 0
        Equal seeds give equal images where the fonts are the same.
    system_fonts : bool, default True
        False for Matplotlib's own fonts alone, which are the same on every machine.
    split_fonts : bool, default False
        True for fonts of other families in the private images than in the public and the test images, and fewer odd
        ones; which, depends on the fonts at hand.

    Returns
    -------
    Dataset
        float32 images in [0, 1], shape (images, 28, 28).

    Raises
    ------
    InvalidInput
        For numbers outside of these ranges, and for more characters than the fonts have.

    Notes
    -----
    Every image is one character of one font under a random affine map (turned up to 15 degrees, sheared, scaled by 0.8
    to 1.2 a side, moved up to 2 pixels), with its own blur, ink strength and pixel noise.

    References
    ----------
    pate-2018, section 5.1 (Glyph), whose 500,000 fonts are not public.

    Examples
    --------
    >>> data = glyphs(200, 50, 50, system_fonts=False)
    >>> data.X.shape, data.classes[:3]
    ((200, 28, 28), ('A', 'B', 'C'))
    """
    n_classes = whole("n_classes", n_classes, at_least=2)
    counts = [
        whole(name, value, at_least=1)
        for name, value in (("n_private", n_private), ("n_public", n_public), ("n_test", n_test))
    ]
    if not positive("imbalance", imbalance) >= 1:
        raise InvalidInput(f"imbalance must be at least 1, got {imbalance!r}.")
    if wrong_labels != 0:
        fraction("wrong_labels", wrong_labels)
    if split_fonts:
        characters, shapes, others = split_shapes(n_classes, system=system_fonts)
    else:
        characters, shapes = glyph_shapes(n_classes, system=system_fonts)
        others = shapes
    seeds = np.random.SeedSequence(whole("random_state", random_state)).spawn(4)
    frequent = np.random.default_rng(seeds[3]).permutation(n_classes)
    share = np.empty(n_classes)
    share[frequent] = np.geomspace(imbalance, 1, n_classes)
    share /= share.sum()
    parts = []
    for seed, count, fonts in zip(seeds, counts, (shapes, others, others), strict=False):
        rng = np.random.default_rng(seed)
        labels = rng.choice(n_classes, size=count, p=share)
        parts.append((draw_glyphs(labels, fonts, rng), labels))
    (X, right), (X_public, y_public), (X_test, y_test) = parts
    y = mislabel(right, share=wrong_labels, classes=n_classes, rng=np.random.default_rng(seeds[0].spawn(1)[0]))
    return Dataset(
        name="glyphs",
        X=X,
        y=y,
        X_public=X_public,
        y_public=y_public,
        X_test=X_test,
        y_test=y_test,
        classes=characters,
    )


def mislabel(labels: Labels, *, share: float, classes: int, rng: np.random.Generator) -> Labels:
    """Return labels, of which a random `share` is moved to another class, each other class being as likely."""
    wrong = rng.random(len(labels)) < share
    shift = rng.integers(1, classes, size=len(labels))
    return np.where(wrong, (labels + shift) % classes, labels)


def draw_glyphs(labels: Labels, shapes: Shapes, rng: np.random.Generator) -> Images:
    """Return one distorted image per label, float32 in [0, 1], shape (images, 28, 28); shapes as `glyph_shapes` gives
    them.
    """
    sharp = np.concatenate(shapes)
    starts = np.concatenate([[0], np.cumsum([len(drawings) for drawings in shapes])])
    count = len(labels)
    fonts = starts[labels] + (rng.random(count) * np.diff(starts)[labels]).astype(np.int64)
    blur = rng.integers(0, 2, count)
    maps = _random_maps(rng, count)
    ink = rng.uniform(0.7, 1.0, (count, 1, 1)).astype(np.float32)
    out = np.empty((count, PIXELS, PIXELS), np.float32)
    for start in range(0, count, _CHUNK):
        rows = slice(start, start + _CHUNK)
        kinds, which = np.unique(blur[rows] * len(sharp) + fonts[rows], return_inverse=True)
        picked = _sample(_blurred(sharp, kinds), which, maps[rows])
        noise = rng.standard_normal(picked.shape, dtype=np.float32)
        out[rows] = np.clip(picked * ink[rows] + np.float32(0.03) * noise, 0, 1)
    return out


def _blurred(sharp: Drawings, which: Labels) -> Images:
    """Return drawings by number, in [0, 1]: each with a hard edge and, counted on from the last, a soft one."""
    soft, number = np.divmod(which, len(sharp))
    out = sharp[number].astype(np.float32) / np.float32(255)
    for width, rows in ((0.7, soft == 0), (1.6, soft == 1)):
        out[rows] = gaussian_filter(out[rows], (0, width, width))
    return out


def _random_maps(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    # Rows (a, b, c; d, e, f): the place in the drawing, from its centre, that each output pixel shows.
    angle = np.deg2rad(rng.uniform(-15, 15, count))
    shear = rng.uniform(-0.2, 0.2, count)
    scale = SIDE / PIXELS / rng.uniform(0.8, 1.2, (count, 2)) / 1.08
    moved = rng.uniform(-2, 2, (count, 2))
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)
    lean = np.stack([np.ones(count), shear, np.zeros(count), np.ones(count)], axis=1).reshape(-1, 2, 2)
    linear = (turn @ lean) * scale[:, :, None]
    return np.concatenate([linear, -(linear @ moved[:, :, None])], axis=2)


def _sample(source: Images, which: Labels, maps: NDArray[np.float64]) -> Images:
    """Return drawings `which` seen through affine maps, by bilinear interpolation; empty outside the drawing."""
    middle = (PIXELS - 1) / 2
    steps = np.arange(PIXELS) - middle
    grid = np.stack([np.tile(steps, PIXELS), np.repeat(steps, PIXELS), np.ones(PIXELS * PIXELS)])
    across, down = np.moveaxis(maps @ grid, 1, 0) + (SIDE - 1) / 2
    left, top = np.floor(across), np.floor(down)
    part_across, part_down = (across - left).astype(np.float32), (down - top).astype(np.float32)
    left, top = left.astype(np.int64), top.astype(np.int64)
    start = which[:, None] * (SIDE * SIDE)
    flat = source.reshape(-1)
    value = np.zeros(across.shape, np.float32)
    for step_down, weight_down in ((0, 1 - part_down), (1, part_down)):
        for step_across, weight_across in ((0, 1 - part_across), (1, part_across)):
            row, column = top + step_down, left + step_across
            inside = (row >= 0) & (row < SIDE) & (column >= 0) & (column < SIDE)
            position = start + np.where(inside, row * SIDE + column, 0)
            value += np.where(inside, flat[position], 0) * weight_down * weight_across
    return value.reshape(-1, PIXELS, PIXELS)
