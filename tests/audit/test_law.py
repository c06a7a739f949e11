"""Scores of whole runs: their exact law against enumeration of all answers."""

from itertools import product

import numpy as np
import pytest

from ostrakon.audit.law import Score, agreement_score, weighted_score

LAW = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.0, 0.9], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])
WEIGHTS = np.array([[0.3, -1.0, 0.0], [0.3, -1.0, 0.0], [2.0, 0.0, -50.0], [0.0, 0.1, 0.2], [1.0, 7.0, 0.0]])


def enumerated(score: Score) -> tuple[np.ndarray, np.ndarray]:
    """(score of every possible run, its probability); answer -1 is the last column."""
    runs = np.array(list(product((0, 1, -1), repeat=len(LAW))))
    return score.of(runs), LAW[np.arange(len(LAW)), runs].prod(axis=1)


@pytest.mark.parametrize("score", [weighted_score(WEIGHTS, LAW), agreement_score(LAW)], ids=["weighted", "agreement"])
def test_probabilities_are_those_of_all_runs(score: Score):
    values, chances = enumerated(score)
    levels = np.unique(np.concatenate([values - 1, values, values + 1]))
    above = score.probability(sign=1, threshold=levels)
    below = score.probability(sign=-1, threshold=-levels)
    np.testing.assert_allclose(above, [chances[values >= level].sum() for level in levels], atol=1e-12)
    np.testing.assert_allclose(below, [chances[values <= level].sum() for level in levels], atol=1e-12)


def test_scores_are_the_weights_in_steps_of_one_grid():
    values, _ = enumerated(weighted_score(WEIGHTS, LAW))
    runs = np.array(list(product((0, 1, -1), repeat=len(LAW))))
    exact = np.clip(WEIGHTS, -4, 4)[np.arange(len(LAW)), runs].sum(axis=1)
    step = (exact.max() - exact.min()) / (2**16 - 1)
    assert np.abs((exact - exact.min()) / step - values).max() <= len(LAW)
    assert values.max() > 2**16 - 1 - len(LAW)


def test_weights_that_say_nothing_are_one_score():
    score = weighted_score(np.zeros((2, 3)), LAW[:2])
    assert score.of(np.array([[0, -1], [1, 1]])).tolist() == [0, 0]
    assert score.probability(sign=1, threshold=np.array([0, 1])).tolist() == [1.0, 0.0]


def test_agreement_counts_pairs_of_neighbours():
    score = agreement_score(LAW)
    assert score.of(np.array([[0, 0, 1, 1, 0], [-1, -1, 0, 1, 0], [0, 1, 1, -1, 0]])).tolist() == [2, 1, 0]
