"""Centres settle as Lloyd's algorithm says, and medoids are the nearest points, however few are looked at at once."""

import numpy as np
import pytest

from ostrakon.features import clusters
from ostrakon.features.clusters import lloyd, medoids

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(700, 3)).astype(np.float32)
FIXED, CENTRES = POINTS[:5], POINTS[5:25].copy()


def plain_lloyd(points, fixed, centres, rounds):
    for _ in range(rounds):
        own = np.linalg.norm(points[:, None] - np.concatenate([fixed, centres])[None], axis=2).argmin(axis=1) - len(
            fixed
        )
        centres = np.array(
            [points[own == c].mean(axis=0) if (own == c).any() else centres[c] for c in range(len(centres))]
        )
        members = np.bincount(own[own >= 0], minlength=len(centres))
    return centres, members


@pytest.mark.parametrize("cells", [100, 1000, 2**20])
@pytest.mark.parametrize("rounds", [1, 7, 30])
def test_centres_settle_around_those_that_are_fixed(cells, rounds, monkeypatch):
    monkeypatch.setattr(clusters, "_CELLS", cells)
    centres, members = lloyd(POINTS, FIXED, CENTRES, rounds=rounds)
    expected, counts = plain_lloyd(POINTS, FIXED, CENTRES, rounds)
    np.testing.assert_allclose(centres, expected, atol=1e-5)
    assert np.array_equal(members, counts)
    assert 0 < members.sum() < 700


def test_a_centre_without_points_stays_and_settled_ones_end_it():
    far = np.concatenate([CENTRES, np.full((1, 3), 99, np.float32)])
    centres, members = lloyd(POINTS, FIXED, far, rounds=3)
    assert (centres[-1] == 99).all()
    assert members[-1] == 0
    line = np.repeat(np.float32([[0.0], [10.0]]), 30, axis=0)
    centres, members = lloyd(line, line[:0], np.float32([[1.0], [9.0]]), rounds=10**9)
    assert (centres.ravel().tolist(), members.tolist()) == ([0.0, 10.0], [30, 30])


@pytest.mark.parametrize("cells", [1, 1000, 2**20])
@pytest.mark.parametrize("together", [1, 8])
def test_medoids_are_the_nearest_points_once_each_and_the_largest_first(cells, together, monkeypatch):
    monkeypatch.setattr(clusters, "_CELLS", cells)
    monkeypatch.setattr(clusters, "_JOINT_ROUNDS", together)
    # Far from the origin: the points' own lengths count, too.
    points, members = POINTS + np.float32(3), RNG.permutation(40)
    centres = np.concatenate([RNG.normal(size=(20, 3)), np.repeat(RNG.normal(size=(2, 3)), 10, axis=0)]) + 3
    without = np.arange(0, 700, 7)
    chosen = medoids(points, centres.astype(np.float32), members=members, without=without)
    assert len(set(chosen)) == 40
    assert not np.isin(chosen, without).any()
    away = np.linalg.norm(points[:, None] - centres[None], axis=2)
    away[without] = np.inf
    free = sorted(range(20), key=lambda centre: -members[centre])
    order = np.argsort(-members)
    for centre in free:
        place = chosen[int(np.flatnonzero(order == centre)[0])]
        nearer = np.flatnonzero(away[:, centre] < away[place, centre] - 1e-5)
        assert np.isin(nearer, chosen).all(), "a nearer point is passed over only for another centre"
    assert sum(chosen[at] == away[:, order[at]].argmin() for at in range(40)) >= 18


def test_alike_points_are_enough_and_too_few_are_refused():
    alike = np.zeros((30, 2), np.float32)
    assert sorted(medoids(alike, alike[:30], members=np.arange(30), without=np.zeros(0, int))) == list(range(30))
    with pytest.raises(ValueError, match="as many points"):
        medoids(alike, alike[:30], members=np.arange(30), without=np.array([3]))
