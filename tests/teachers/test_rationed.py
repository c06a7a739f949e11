"""Teachers that speak seldom: on the nearest queries, within their ration, from their own rows."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from quorate.checks import InvalidInput
from quorate.mechanisms.rationed_gnmax import RationedVotes
from quorate.teachers import rationed, train_teachers
from quorate.teachers.rationed import RationedTeachers, nearest

X, y = make_blobs(900, centers=4, n_features=3, cluster_std=0.8, random_state=0)
QUERIES = X[:12]


def said_by(ration, assignment, n_teachers, labels=y, rows=X):
    teachers = train_teachers(
        RationedTeachers(ration=ration), rows, labels, assignment, n_teachers=n_teachers, classes=4
    )
    return teachers.predict(QUERIES)


def test_one_record_one_voice_at_the_nearest_query():
    said = said_by(1, np.arange(900), 900)
    distance = np.linalg.norm(X[:, None] - QUERIES[None], axis=2)
    expected = np.full((12, 900), -1)
    expected[distance.argmin(axis=1), np.arange(900)] = y
    assert np.array_equal(said, expected)
    counts = RationedVotes.from_predictions(said, classes=4).counts
    assert counts.sum() == 900
    assert (counts.argmax(axis=1) == y[:12]).all()


@pytest.mark.parametrize("ration", [1, 2, 5])
@pytest.mark.parametrize("block", [1, 10**6])
def test_nobody_exceeds_the_ration_and_each_says_what_most_of_its_rows_there_are(ration, block, monkeypatch):
    monkeypatch.setattr(rationed, "_BLOCK", block)
    assignment = np.random.default_rng(1).integers(0, 40, 900)
    said = said_by(ration, assignment, 41)
    assert ((said >= 0).sum(axis=0) <= ration).all()
    assert (said[:, 40] == -1).all()
    place = nearest(X, QUERIES)
    for teacher in range(40):
        mine = assignment == teacher
        near = np.bincount(place[mine], minlength=12)
        spoken = np.flatnonzero(said[:, teacher] >= 0)
        assert near[spoken].min() >= np.sort(near)[::-1][len(spoken) - 1]
        for query in spoken:
            assert said[query, teacher] == np.bincount(y[mine & (place == query)], minlength=4).argmax()


def test_a_teacher_s_words_depend_on_its_own_rows_alone():
    assignment = np.random.default_rng(2).integers(0, 30, 900)
    before = said_by(2, assignment, 30)
    mine = assignment == 7
    after = said_by(2, assignment, 30, np.where(mine, (y + 1) % 4, y), np.where(mine[:, None], -X, X))
    others = np.arange(30) != 7
    assert np.array_equal(before[:, others], after[:, others])
    assert not np.array_equal(before[:, 7], after[:, 7])


def test_wrong_input_is_refused():
    for ration in (0, 1.5, True):
        with pytest.raises(InvalidInput):
            RationedTeachers(ration=ration)
    teachers = train_teachers(RationedTeachers(), X, y, np.arange(900), n_teachers=900, classes=4)
    with pytest.raises(InvalidInput):
        teachers.predict(np.full((2, 3), np.nan))
