from itertools import permutations

import mpmath
import numpy as np
import pytest

from ostrakon.mechanisms.contrib.permute_and_flip import exponential_argmax_log_probabilities


def by_permute_and_flip(scores: list[int], scale: float) -> list[float]:
    """The mechanism as its authors state it: flip each class's coin in random order until one shows heads."""
    w = [mpmath.e ** (-(max(scores) - s) / mpmath.mpf(scale)) for s in scores]
    result = [mpmath.mpf(0)] * len(scores)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = mpmath.mpf(1)
        for j in order:
            result[j] += left * w[j]
            left *= 1 - w[j]
    return [float(mpmath.log(p / len(orders))) for p in result]


@pytest.mark.parametrize("scores", [[5, 5], [9, 2], [4, 4, 4, 4], [30, 29, 0, 0, 7], [500, 0, 3], [3, 1, 4, 1, 5, 9]])
@pytest.mark.parametrize("scale", [0.7, 6.0, 300.0])
def test_law_is_that_of_permute_and_flip(scores: list[int], scale: float):
    got = exponential_argmax_log_probabilities(np.array([scores], float), scale)[0]
    np.testing.assert_allclose(got, by_permute_and_flip(scores, scale), rtol=1e-12, atol=1e-12)


def test_hundreds_of_classes_with_ties():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 12, (5, 400)).astype(float)
    scores[0] = 3
    law = np.exp(exponential_argmax_log_probabilities(scores, 4.0))
    np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(law[0], 1 / 400, rtol=1e-11)
    noisy = scores[1] + rng.exponential(4.0, (20_000, 400))
    best = noisy.argmax(axis=1)
    top = scores[1] >= 10
    assert abs(top[best].mean() - law[1][top].sum()) < 4 * np.sqrt(0.25 / 20_000)
