"""Families of pairs for labels of any number of classes under noise that is not Gaussian: LNMax, the exponential
mechanism with and without screening, permute-and-flip and propose-test-release.

Below, a vote moves from class i to class j, Z is the factor by which that changes the sum of the weights, M the top
count, N the number of teachers, and h half of epsilon. Proofs: docs/adaptive.md.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ostrakon.accounting.composition.adaptive import Family
from ostrakon.accounting.data_independent.cover import cover
from ostrakon.accounting.data_independent.exponential_tails import LabelPairs
from ostrakon.accounting.data_independent.noisy_max import answer_law
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease

_CELLS = 2000
"""Cells of ln Z of the exponential mechanism."""

_SCREENED_CELLS = 300
_MOST_TEACHERS = 4000
_LAW_ERROR = 1e-10
"""The relative error of the probabilities of this file."""

_SHARES = (0.002, 0.005, 0.012, 0.03)
"""Shares of randomized response in a cover: the first that keeps few enough pairs."""

_MOST_KEPT, _MOST_KEPT_CLOSE = 1000, 3000


@functools.lru_cache(maxsize=64)
def label_family(
    mechanism: Mechanism, *, teachers: int | None, classes: int, abstentions: bool, close: bool
) -> Family | None:
    """Return a family that covers every pair of neighbouring votes; None where no theorem of this file applies.

    Parameters
    ----------
    mechanism : Mechanism
        Must release labels alone, the same law for every query.
    teachers : int or None
        None: any number.
    classes : int, at least 2
    abstentions : bool
        Whether a vote may also come from or go to no class.
    close : bool
        Whether to keep more pairs, for a smaller bound.

    Returns
    -------
    Family or None
        Source: docs/adaptive.md.
    """
    if isinstance(mechanism, ProposeTestRelease):
        return None if teachers is None or teachers > _MOST_TEACHERS else _stability(mechanism, teachers)
    closeness: dict[str, Any] = {
        "shares": _SHARES if close else _SHARES[1:],
        "most": _MOST_KEPT_CLOSE if close else _MOST_KEPT,
    }
    if isinstance(mechanism, PermuteAndFlip):
        return _tails("exponential", 2 / mechanism.epsilon_per_query, teachers, abstentions, closeness)
    law = answer_law(mechanism, teachers=1 if teachers is None else teachers, classes=classes)
    if law is None or law.form.noise == "gaussian":
        return None
    if law.form.noise == "laplace":
        return None if law.threshold_test else _tails("laplace", law.form.scale, teachers, abstentions, closeness)
    half = 1 / law.form.scale
    if law.threshold_test is None:
        pairs = _bounded_range(half, -half, half, _CELLS)
        return cover(lambda: [pairs], epsilon=2 * half * (1 + 2 / _CELLS), **closeness, error=_LAW_ERROR)
    if teachers is None or teachers > _MOST_TEACHERS or law.threshold_test.noise != "laplace":
        return None
    answer, refuse = (np.exp(x) for x in law.log_answered())
    epsilon = 1 / law.threshold_test.scale + 2 * half * (1 + 2 / _SCREENED_CELLS)
    chunks = list(_screened(answer, refuse, half, classes))
    return cover(lambda: chunks, epsilon=epsilon, **closeness, error=_LAW_ERROR)


def _tails(
    noise: Literal["laplace", "exponential"], scale: float, teachers: int | None, abstentions: bool,
    closeness: dict[str, Any],
) -> Family | None:  # fmt: skip
    pairs = LabelPairs(noise, scale, teachers, abstentions=abstentions)
    return cover(pairs.chunks, epsilon=2 / scale, **closeness, error=pairs.error) if pairs.tractable else None


def _bounded_range(half: float, low: float, high: float, cells: int) -> tuple[FloatArray, FloatArray]:
    """Return pairs of two outcomes that cover ln Z in [low, high], shapes (cells, 2)."""
    edges = np.linspace(low, high, cells + 1)
    return _two_ends(-half - edges[1:], half - edges[:-1], np.zeros(cells), np.zeros(cells))


def _two_ends(low: FloatArray, high: FloatArray, chance: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the pairs whose ratio is e^at with the given chance under P, and else e^low or e^high; its mean is 1."""
    # (1 - chance)(p_low e^low + p_high e^high) + chance e^at = 1, in differences from 1.
    rest = 1 - chance
    mean = -chance * np.expm1(at)
    p_high = np.clip((mean - rest * np.expm1(low)) / (np.exp(high) - np.exp(low)), 0, rest)
    p = np.column_stack([rest - p_high, p_high])
    return p, p * np.exp(np.column_stack([low, high]))


def _screened(
    answer: FloatArray, refuse: FloatArray, half: float, classes: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield pairs with the outcomes (refused, two ends, other class), by top count."""
    teachers = len(answer) - 1
    for top in range(1, teachers + 1):
        # Rounded down: the chances that any label but i and j wins at least, and that i wins at least.
        weights = 1 + math.exp(-half * max(2 * top - teachers, 0)) + (classes - 2) * math.exp(-half * top)
        others, likely = (1 - 1e-12) * (classes - 2) * math.exp(-half * top) / weights, (1 - 1e-12) / weights
        most = 0.0
        if 2 * top > teachers:
            most = min(0.0, math.log1p(likely * math.expm1(-half) + (1 - likely - others) * math.expm1(half)) + 1e-12)
        else:
            others = 0.0
        yield _with_others(half, others, most, answer, refuse, top, top - 1)
    middle = (teachers + 1) // 2
    p, q = _bounded_range(half, -half, half, _SCREENED_CELLS)
    yield _checked(p, q, np.zeros(len(p)), np.zeros(len(p)), answer, refuse, middle, middle)
    for top in range(middle + 1, teachers + 1):
        # Another class has the top count, a majority.
        chance = (1 - 1e-12) / (1 + math.exp(-half * (2 * top - teachers)) + math.exp(-half * top))
        yield _with_others(half, chance, math.log1p((1 - chance) * math.expm1(half)), answer, refuse, top, top)


def _with_others(
    half: float, chance: float, most: float, answer: FloatArray, refuse: FloatArray, top: int, next_top: int
) -> tuple[FloatArray, FloatArray]:
    """Return pairs where other classes win with at least the given chance, and ln Z is at most `most`."""
    least = math.log1p((1 - chance) * math.expm1(-half))
    edges = np.linspace(least, max(most, least + 1e-9 * half), _SCREENED_CELLS // 2 + 1)
    low, high = (np.tile(x, 2) for x in (-half - edges[1:], half - edges[:-1]))
    at = -np.concatenate([edges[:-1], edges[1:]])
    others = np.full(len(at), chance)
    p, q = _two_ends(low, high, others, at)
    return _checked(p, q, others, others * np.exp(at), answer, refuse, top, next_top)


def _checked(
    p: FloatArray, q: FloatArray, other_p: FloatArray, other_q: FloatArray, answer: FloatArray, refuse: FloatArray,
    top: int, next_top: int,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return the pairs of labels behind the check, with top counts on both sides."""
    rows = []
    for label, other, at in ((p, other_p, top), (q, other_q, next_top)):
        rows.append(np.column_stack([np.full(len(label), refuse[at]), answer[at] * np.column_stack([label, other])]))
    return rows[0], rows[1]


def _stability(mechanism: ProposeTestRelease, teachers: int) -> Family:
    """Return pairs with these outcomes: refused, the plurality of both, that of P alone, that of Q alone."""
    passed, refused = (np.exp(x) for x in mechanism.log_check(np.arange(teachers + 2.0) - mechanism.threshold))
    none = np.zeros(teachers + 1)
    p = np.column_stack([refused[:-1], passed[:-1], none, none])
    q = np.column_stack([refused[1:], passed[1:], none, none])
    change_p, change_q = [refused[0], 0.0, passed[0], 0.0], [refused[0], 0.0, 0.0, passed[0]]
    return Family(p=np.vstack([p, change_p]), q=np.vstack([q, change_q]))
