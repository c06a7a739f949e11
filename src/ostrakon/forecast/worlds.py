"""Simulated worlds: labels that random smooth functions of the public features might give, where there are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ostrakon.votes import IntArray

_DIRECTIONS = 40


def simulated_labels(features: NDArray[np.float32], *, classes: int, rng: np.random.Generator) -> IntArray:
    """Class numbers of all rows in one world, (rows,).

    Scores are random sums of cosines along random directions of the standardized features (so a Gaussian process, by
    random Fourier features), with a length scale and a share of unpredictable labels that are themselves drawn: some
    worlds are easy, some are hard. Every class is as likely as in no other knowledge.

    Guarantee: a function of public features and `rng`.
    Source: Rahimi and Recht 2007, random Fourier features.
    """
    points = np.asarray(features, np.float64)
    scale = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    # Of standardized features two rows are about sqrt(2 features) apart.
    length = rng.uniform(0.7, 2.5) * np.sqrt(max(1, (scale > 0).sum()))
    directions = rng.normal(size=(points.shape[1], _DIRECTIONS)) / length
    waves = np.cos(points @ directions + rng.uniform(0, 2 * np.pi, _DIRECTIONS))
    scores = waves @ rng.normal(size=(_DIRECTIONS, classes))
    scores -= scores.mean(axis=0)
    sharp = rng.uniform(1.0, 6.0) / max(float(scores.std()), 1e-12)
    # The largest of scores with Gumbel noise is a draw from their softmax.
    return (sharp * scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int64)
