"""The largest over all distances is found at few of them."""

from __future__ import annotations

import numpy as np
import pytest

from ostrakon.accounting.gate.score import largest_over_distances


@pytest.mark.parametrize("kappa", [0.0005, 0.004, 0.03])
def test_the_largest_over_distances_is_exact(kappa: float) -> None:
    rng = np.random.default_rng(int(1e4 * kappa))
    cost = np.cumsum(rng.exponential(size=2001) * rng.integers(0, 2, size=2001)) + 1e-3
    asked: list[int] = []

    def at(steps: np.ndarray) -> np.ndarray:
        asked.extend(steps.tolist())
        return cost[steps]

    found = largest_over_distances(at, lambda value, d: np.log(value) / kappa - d, teachers=2000)
    assert found == np.max(np.log(cost) / kappa - np.arange(2001))
    assert len(asked) == len(set(asked)) < 2001
