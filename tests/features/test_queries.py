"""Which examples are asked: representatives stand for the pool, nest, and never repeat."""

import numpy as np
import plain_representatives
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from ostrakon.features import choose_queries, clusters, queries, representatives
from ostrakon.validation import InvalidInput

POINTS, TRUTH = make_blobs(600, centers=8, n_features=5, cluster_std=0.6, random_state=0)


def spread_of(points, chosen):
    """Mean squared distance of the pool to the nearest chosen example."""
    return np.square(points[:, None] - points[chosen][None]).sum(axis=2).min(axis=1).mean()


def test_every_cluster_has_a_representative():
    assert len(np.unique(TRUTH[representatives(POINTS, 10, random_state=0)])) == 8


def test_more_budget_adds_queries():
    longest = representatives(POINTS, 200, random_state=3)
    assert len(np.unique(longest)) == 200
    for budget in (1, 7, 10, 11, 20, 33, 80, 199):
        assert np.array_equal(representatives(POINTS, budget, random_state=3), longest[:budget])
    assert len(representatives(POINTS, 600, random_state=3)) == 600


@pytest.mark.parametrize("budget", [10, 40])
def test_they_stand_for_the_pool_nearly_as_well_as_k_means_and_better_than_chance(budget):
    points = np.random.default_rng(1).normal(size=(800, 4)) * [4, 2, 1, 1]
    ours = spread_of(points, representatives(points, budget, random_state=0))
    fit = KMeans(budget, n_init=4, random_state=0).fit(points)
    best = spread_of(points, fit.transform(points).argmin(axis=0))
    chance = np.mean([spread_of(points, np.random.default_rng(s).choice(800, budget, False)) for s in range(5)])
    assert ours < 1.1 * best
    assert ours < 0.85 * chance


@pytest.mark.filterwarnings("error")
def test_rows_that_are_alike_still_give_as_many_without_a_word():
    chosen = representatives(np.repeat(POINTS[:12], 50, axis=0), 30, random_state=0)
    assert len(set(chosen.tolist())) == 30
    assert set((chosen // 50).tolist()) == set(range(12))


def test_choose_queries_dispatches():
    pool = len(POINTS)
    assert np.array_equal(choose_queries("all", pool=pool), np.arange(pool))
    a, b = (choose_queries("random", pool=pool, budget=20, random_state=5) for _ in range(2))
    assert np.array_equal(a, b)
    assert np.array_equal(choose_queries("random", pool=pool, budget=30, random_state=5)[:20], a)
    chosen = choose_queries("representatives", pool=pool, budget=15, features=POINTS, random_state=2)
    assert np.array_equal(chosen, representatives(POINTS, 15, random_state=2))
    assert choose_queries(lambda X, budget: range(budget), pool=pool, budget=4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "best"},
        {"method": "all", "budget": 5},
        {"method": "representatives", "budget": 5},
        {"method": "random", "budget": 21},
        {"method": "random", "budget": 0},
        {"method": "random", "budget": True},
        {"method": lambda X, budget: [20]},
        {"method": lambda X, budget: np.arange(budget + 1), "budget": 3},
        {"method": lambda X, budget: [0, 0], "budget": 3},
        {"method": lambda X, budget: [0.5], "budget": 3},
        {"method": "representatives", "budget": 3, "features": np.full((20, 2), np.nan)},
    ],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(InvalidInput):
        choose_queries(pool=20, **wrong)


def test_they_stand_for_the_pool_as_well_as_those_of_the_plain_way():
    ours, plain = [], []
    for seed in range(5):
        points = np.random.default_rng(seed).normal(size=(900, 6)).astype(np.float32)
        both = (each(points, 60, random_state=7) for each in (representatives, plain_representatives.representatives))
        for found, chosen in zip((ours, plain), both, strict=True):
            found.append(spread_of(points, chosen))
    assert np.mean(ours) < 1.01 * np.mean(plain)


def test_where_clusters_begin_lies_far_from_what_is_fixed():
    points = np.concatenate([np.zeros((500, 2)), np.full((5, 2), 100.0), np.full((5, 2), -100.0)]).astype(np.float32)
    begun = clusters.spread(points, points[:1], 2, np.random.default_rng(0))
    assert sorted(begun[:, 0].tolist()) == [-100, 100]
    assert clusters.spread(points[:3], points[:0], 2, np.random.default_rng(0)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("blocks", [2**20, 5000])
def test_of_more_rows_they_are_as_good_nested_and_none_twice(monkeypatch, blocks):
    # One cloud: of many clusters, the seed alone moves the spread by some percent.
    points = np.random.default_rng(1).normal(size=(3000, 4)).astype(np.float32)
    plain = spread_of(points, plain_representatives.representatives(points, 80, random_state=0))
    monkeypatch.setattr(queries, "FEWEST", 1000)
    monkeypatch.setattr(queries, "PER_CLUSTER", 10)
    monkeypatch.setattr(clusters, "_CELLS", blocks)
    chosen = representatives(points, 80, random_state=0)
    assert spread_of(points, chosen) < 1.03 * plain
    assert len(set(chosen.tolist())) == 80
    for budget in (1, 10, 33, 79):
        assert np.array_equal(representatives(points, budget, random_state=0), chosen[:budget])
    alike = np.repeat(points[:12], 250, axis=0)
    few = representatives(alike, 30, random_state=0)
    assert set((few // 250).tolist()) == set(range(12))
    assert len(set(few.tolist())) == 30
    assert len(set(representatives(points[:600], 600, random_state=0).tolist())) == 600


def test_the_number_of_cores_changes_nothing(monkeypatch):
    """In small blocks, and where rows repeat so that centres are equally near."""
    points = np.random.default_rng(0).integers(0, 6, (3000, 3)).astype(float)
    monkeypatch.setattr(clusters, "_CELLS", 20_000)
    given = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(clusters, "effective_n_jobs", lambda asked, cores=cores: cores)
        given.append(representatives(points, 200, random_state=0).tolist())
    assert given[0] == given[1] == given[2]
