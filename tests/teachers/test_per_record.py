"""Per-record votes: on the nearest queries, within max_contributions, from their own rows, however the rows come in."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from ostrakon.features import rowwise
from ostrakon.features.moments import MomentMap
from ostrakon.mechanisms import BoundedGNMax
from ostrakon.teachers.per_record import collect_per_record, contributions, nearest
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, BoundedVotes

X, y = make_blobs(900, centers=4, n_features=3, cluster_std=0.8, random_state=0)
QUERIES = X[:12]
OWNERS = np.random.default_rng(1).integers(0, 40, 900)


def collected(max_contributions=1, owners=OWNERS, labels=y, rows=X, queries=QUERIES, everyone=41):
    return collect_per_record(
        [(owners, rows, labels)], queries, classes=4, units=everyone, max_contributions=max_contributions
    )


def words_of(owner, max_contributions):
    """What one owner says, the plain way: {query: class}."""
    mine = owner == OWNERS
    place = np.linalg.norm(X[mine][:, None] - QUERIES[None], axis=2).argmin(axis=1)
    near = np.bincount(place, minlength=12)
    chosen = sorted(range(12), key=lambda query: (-near[query], query))[:max_contributions]
    return {
        query: int(np.bincount(y[mine][place == query], minlength=4).argmax()) for query in chosen if near[query] > 0
    }


def test_one_record_one_vote_at_the_nearest_query():
    votes = collected(owners=np.arange(900), everyone=900)
    expected = np.zeros((12, 4), int)
    np.add.at(expected, (np.linalg.norm(X[:, None] - QUERIES[None], axis=2).argmin(axis=1), y), 1)
    assert np.array_equal(votes.counts, expected)
    assert (votes.teachers, votes.max_contributions) == (900, 1)
    assert (votes.counts.argmax(axis=1) == y[:12]).all()
    BoundedGNMax(sigma2=5).sample(votes, np.random.default_rng(0))


@pytest.mark.parametrize("max_contributions", [1, 2, 5, 100])
def test_everyone_votes_within_max_contributions_for_what_most_of_their_rows_are(max_contributions):
    expected = np.zeros((12, 4), int)
    for owner in range(40):
        words = words_of(owner, max_contributions)
        assert len(words) <= max_contributions
        for query, label in words.items():
            expected[query, label] += 1
    assert np.array_equal(collected(max_contributions).counts, expected)
    assert expected.sum() < 40 * 12 or max_contributions == 100


def test_blocks_and_the_order_of_rows_have_no_say(monkeypatch):
    whole = collected(2).counts
    order = np.random.default_rng(2).permutation(900)
    assert np.array_equal(collected(2, OWNERS[order], y[order], X[order]).counts, whole)
    blocks = [(OWNERS[some], X[some], y[some]) for some in (OWNERS < 7, (OWNERS >= 7) & (OWNERS < 30), OWNERS >= 30)]
    monkeypatch.setattr(rowwise, "BLOCK", 7)
    assert np.array_equal(collect_per_record(blocks, QUERIES, classes=4, units=40, max_contributions=2).counts, whole)


@pytest.mark.parametrize("max_contributions", [1, 3])
def test_one_owner_s_rows_change_no_more_than_max_contributions_allow(max_contributions):
    before = collected(max_contributions).counts
    mine = OWNERS == 7
    after = collected(
        max_contributions, labels=np.where(mine, (y + 1) % 4, y), rows=np.where(mine[:, None], -X, X)
    ).counts
    assert 0 < np.abs(after - before).sum() <= 2 * max_contributions
    assert np.abs(after - before).max() == 1


def test_progress_and_ties():
    told = []
    collect_per_record(
        [(np.arange(2), X[:2], y[:2])], QUERIES, classes=4, units=2, progress=lambda done, total: told.append(done)
    )
    assert told == [2]
    assert nearest([[0.0]], [[1.0], [-1.0]]).tolist() == [0]
    # One row at each of two queries, two classes at one: the earlier query, the lower class.
    where, what = contributions(
        np.zeros(3, int), np.array([5, 3, 3]), np.array([2, 1, 0]), classes=3, max_contributions=2
    )
    assert (where.tolist(), what.tolist()) == ([3, 5], [0, 2])
    where, what = contributions(np.zeros(2, int), np.array([5, 3]), np.array([2, 1]), classes=3, max_contributions=1)
    assert (where.tolist(), what.tolist()) == ([3], [1])


def test_nobody_says_nothing():
    empty = (np.zeros(0, int), np.zeros((0, 3)), np.zeros(0, int))
    assert collect_per_record([empty], QUERIES, classes=4, units=1).counts.sum() == 0


def test_wrong_input_is_refused():
    for max_contributions in (0, 1.5, True):
        with pytest.raises(InvalidInput, match="max_contributions"):
            collected(max_contributions)
    with pytest.raises(InvalidInput, match="queries must be finite"):
        collected(queries=np.full((2, 3), np.nan))
    with pytest.raises(InvalidInput, match="private rows must be finite"):
        collected(rows=np.full((900, 3), np.inf))
    with pytest.raises(InvalidInput, match="40, got 39"):
        collected(everyone=39)
    assert isinstance(collected(), BoundedVotes)


def test_a_row_s_nearest_query_does_not_depend_on_the_rows_beside_it():
    """Queries that stand twice, and rows on the border between two: only rounding tells their distances apart."""
    rng = np.random.default_rng(5)
    queries = np.repeat(rng.normal(size=(40, 30)), 2, axis=0).astype(np.float32)[rng.permutation(80)]
    rows = ((queries[rng.integers(0, 80, 1500)] + queries[rng.integers(0, 80, 1500)]) / 2).astype(np.float32)
    together = nearest(rows, queries)
    order = rng.permutation(1500)
    assert np.array_equal(nearest(rows[order], queries), together[order])
    for count in (1, 6, 767, 769):
        assert np.array_equal(nearest(rows[:count], queries), together[:count])


def test_moments_are_the_plain_sums_however_the_rows_come_in():
    known = MomentMap.of(QUERIES)
    steps = known.steps(X)
    alone = np.stack([steps[y == label].sum(axis=0) for label in range(4)], axis=1)
    records = collect_per_record([(np.arange(900), X, y)], QUERIES, classes=4, units=900, moments=known)
    assert np.array_equal(records.moments.counts, alone)
    parts = [(np.arange(900)[at::3], X[at::3], y[at::3]) for at in range(3)]
    assert collect_per_record(parts, QUERIES, classes=4, units=900, moments=known) == records
    assert collect_per_record(parts, QUERIES, classes=4, units=900).moments is None
    expected = np.zeros((4, 4), np.int64)
    for owner in range(40):
        mine = owner == OWNERS
        label = np.bincount(y[mine], minlength=4).argmax()
        mean = steps[mine & (y == label)].astype(float).mean(axis=0)
        expected[:, label] += np.trunc(mean + np.sign(mean) * 1e-9).astype(int)
    users = collect_per_record([(OWNERS, X, y)], QUERIES, classes=4, units=40, moments=known)
    assert np.array_equal(users.moments.counts, expected)
    assert users[:3].moments is None


@pytest.mark.parametrize("unit", ["record", "user"])
def test_one_unit_moves_the_moments_by_no_more_than_root_two(unit):
    known, rng = MomentMap.of(QUERIES), np.random.default_rng(3)
    owners = np.arange(900) if unit == "record" else OWNERS
    whole = collect_per_record([(owners, X, y)], QUERIES, classes=4, units=900, moments=known).moments.counts
    mine, moved = owners == owners[0], 0.0
    for scale in (1e-3, 1.0, 50.0, 1e25):
        for _ in range(20):
            rows, labels = X.copy(), y.copy()
            rows[mine] = scale * rng.normal(size=3)
            labels[mine] = rng.integers(4)
            other = collect_per_record([(owners, rows, labels)], QUERIES, classes=4, units=900, moments=known)
            moved = max(moved, float(np.square(other.moments.counts - whole).sum()) ** 0.5 / STEPS)
    assert 1.3 < moved <= 2**0.5


def test_centred_sums_are_the_plain_ones_less_a_part_that_all_classes_share():
    known = MomentMap.of(QUERIES, classes=4)
    steps = known.steps(X)
    plain = np.stack([steps[y == label].sum(axis=0) for label in range(4)], axis=1)
    records = collect_per_record([(np.arange(900), X, y)], QUERIES, classes=4, units=900, moments=known)
    shared = plain[:, :1] - records.moments.counts[:, :1]
    assert np.array_equal(plain - records.moments.counts, np.repeat(shared, 4, axis=1))
    np.testing.assert_allclose(shared[:, 0], steps.sum(axis=0) / 4, atol=0.5 * 900)
    users = collect_per_record([(OWNERS, X, y)], QUERIES, classes=4, units=40, moments=known)
    alone = [
        collect_per_record([(OWNERS[mine], X[mine], y[mine])], QUERIES, classes=4, units=1, moments=known)
        for mine in (owner == OWNERS for owner in range(40))
    ]
    assert np.array_equal(users.moments.counts, sum(one.moments.counts for one in alone))
    for classes, weights in ((3, ()), (4, (1024,))):
        with pytest.raises(InvalidInput, match="centred over"):
            collect_per_record(
                [(np.arange(900), X, y)], QUERIES, classes=classes, units=900, moments=known, weights=weights
            )
