import numpy as np
import pytest
from histograms import all_votes, neighbouring_rows

from ostrakon.mechanisms.laws.stability import distance_to_instability
from ostrakon.votes import Votes


@pytest.mark.parametrize(
    ("teachers", "classes", "abstentions"), [(15, 2, False), (9, 3, False), (6, 4, True), (5, 5, False)]
)
def test_distance_changes_by_one_and_is_zero_where_the_plurality_changes(teachers, classes, abstentions):
    votes = all_votes(teachers=teachers, classes=classes, abstentions=abstentions)
    before, after = neighbouring_rows(votes)
    d, winner = distance_to_instability(votes), votes.plurality
    assert (np.abs(d[before] - d[after]) <= 1).all()
    changed = winner[before] != winner[after]
    assert changed.any()
    assert (d[before][changed] == 0).all()
    assert (d[after][changed] == 0).all()


@pytest.mark.parametrize(("teachers", "classes"), [(12, 2), (8, 3), (6, 4)])
def test_it_is_the_shortest_walk_to_another_plurality_less_one(teachers, classes):
    votes = all_votes(teachers=teachers, classes=classes)
    apart = np.abs(votes.counts[:, None, :] - votes.counts[None, :, :]).sum(axis=2) // 2
    other = votes.plurality[:, None] != votes.plurality[None, :]
    shortest = np.where(other, apart, teachers + 1).min(axis=1)
    assert np.array_equal(distance_to_instability(votes), shortest - 1)


def test_unanimity_is_half_the_teachers_away():
    assert distance_to_instability(Votes([[250, 0], [0, 250]])).tolist() == [125, 124]
