"""Simulated worlds: every class occurs, neighbours agree, and each is another one."""

import numpy as np
import pytest

from ostrakon.forecast.rehearsal import simulated_labels
from ostrakon.teachers.per_record import nearest

FEATURES = np.random.default_rng(0).normal(size=(800, 3)).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 5])
def test_neighbours_agree_more_often_than_chance(classes):
    agreements = []
    for seed in range(6):
        labels = simulated_labels(FEATURES, classes=classes, rng=np.random.default_rng(seed))
        assert set(labels.tolist()) <= set(range(classes))
        close = nearest(FEATURES[:400], FEATURES[400:]) + 400
        chance = np.square(np.bincount(labels, minlength=classes) / len(labels)).sum()
        agreements.append(float(np.mean(labels[:400] == labels[close]) - chance))
    assert np.mean(agreements) > 0.1
    # Some worlds are easier than others.
    assert np.ptp(agreements) > 0.05


def test_a_world_is_its_seed_and_columns_that_say_nothing_do_no_harm():
    first, again, other = (simulated_labels(FEATURES, classes=3, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    flat = np.column_stack([FEATURES, np.ones(len(FEATURES), np.float32)])
    assert len(np.unique(simulated_labels(flat, classes=3, rng=np.random.default_rng(1)))) == 3
