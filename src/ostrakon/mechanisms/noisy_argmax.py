"""What the exact accountant may know of a mechanism beyond its outcome law: an argmax of counts plus noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ostrakon.mechanisms.base import FloatArray

Noise = Literal["gaussian", "laplace", "gumbel"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Answer iff max_j (n_j - offsets_j) + noise >= threshold.

    noise: "gaussian" (scale: its standard deviation) or "laplace" (scale: b). threshold, scale: in votes.
    offsets: public, shape (queries, classes), or None for 0.
    """

    threshold: float
    noise: Noise
    scale: float
    offsets: FloatArray | None = None


@dataclass(frozen=True, kw_only=True)
class NoisyArgmax:
    """argmax_j (n_j + noise_j), the noise independent of everything else, after `check` where there is one.

    noise: "gaussian" (scale: its standard deviation), "laplace" (scale: b) or "gumbel" (scale: that of the
    exponential mechanism softmax(n / scale)). All have a log-concave distribution function, which is what the
    accountant's pruning rests on.
    """

    noise: Noise
    scale: float
    check: Check | None = None
