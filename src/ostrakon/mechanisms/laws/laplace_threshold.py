"""The check `value + Laplace noise > threshold`, in log space."""

from __future__ import annotations

import numpy as np

from ostrakon.mechanisms.base import FloatArray


def laplace_log_above(margin: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
    """(log probability that `margin + Lap(scale) > 0`, log probability that it is not), shapes of `margin`.

    Exact to rounding at both ends: one side is half an exponential, the other one minus it.
    """
    tail = -np.abs(margin) / scale - np.log(2.0)
    head = np.log1p(-np.exp(tail))
    return np.where(margin > 0, head, tail), np.where(margin > 0, tail, head)
