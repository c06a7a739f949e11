"""The maximum of a function over all distances, from the envelope at few of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray

_ALL = 512
_SPREAD = 32


def largest_over_distances(
    cost: Callable[[IntArray], FloatArray], number: Callable[[FloatArray, IntArray], FloatArray], *, teachers: int
) -> float:
    """The largest `number(cost(d), d)` over the distances d = 0..teachers.

    cost: of distances, shape (distances,), the same shape; never decreases. number: never decreases in its cost and
    never increases in its distance. Up to 512 teachers every distance is computed.

    Guarantee: exact. Between two known distances a < b no number exceeds `number(cost(b), a + 1)`; only intervals
    that could still hold the maximum are split.
    """
    known: dict[int, float] = {}

    def compute(steps: IntArray) -> None:
        known.update(zip(steps.tolist(), cost(steps).tolist(), strict=True))

    if teachers <= _ALL:
        compute(np.arange(teachers + 1))
    else:
        compute(np.unique(np.round(np.linspace(0, teachers, _SPREAD)).astype(np.int64)))
    while True:
        at = np.array(sorted(known))
        costs = np.array([known[d] for d in at.tolist()])
        best = float(np.max(number(costs, at)))
        ceiling = number(costs[1:], at[:-1] + 1)
        open_ = [
            (a + b) // 2
            for (a, b), most in zip(pairwise(at.tolist()), ceiling, strict=True)
            if b - a > 1 and most > best
        ]
        if not open_:
            return best
        compute(np.array(open_))
