"""Votes: what they take, what they refuse, and that nothing of them is written, changed or printed by accident."""

from itertools import permutations

import numpy as np
import pytest

from ostrakon.validation import InvalidInput
from ostrakon.votes import BoundedVotes, PublicVotes, Votes

COUNTS = np.array([[17, 5, 1], [0, 23, 0], [9, 7, 7]])
NAMES = ("queries", "classes", "teachers")


def test_shape_and_summaries():
    votes = Votes(COUNTS)
    assert (votes.queries, votes.classes, votes.teachers, len(votes)) == (3, 3, 23, 3)
    assert votes.counts.dtype == np.int64
    assert np.array_equal(votes.counts, COUNTS)
    assert votes.top.tolist() == [17, 23, 9]
    assert votes.gap.tolist() == [12, 23, 2]
    assert votes.plurality.tolist() == [0, 1, 0]
    assert votes.abstained.tolist() == [0, 0, 0]
    assert votes.abstentions is False
    assert votes.classes_are_public is True


def test_ties_go_to_the_lowest_class():
    votes = Votes([[4, 4, 2], [1, 3, 6], [2, 4, 4]])
    assert votes.plurality.tolist() == [0, 2, 1]
    assert votes.gap.tolist() == [0, 3, 0]


def test_the_lead_does_not_depend_on_the_order_of_classes():
    counts = np.array(list(permutations((9, 4, 3, 0))))
    assert (Votes(counts).gap == 5).all()
    assert (Votes(counts[:, :3], teachers=16, abstentions=True).gap >= 0).all()


def test_the_printed_form_shows_the_shape_alone():
    votes = Votes(COUNTS)
    for text in (repr(votes), str(votes), f"{votes}"):
        assert text == "Votes(queries=3, classes=3, teachers=23)"
    assert repr(PublicVotes(COUNTS)) == "PublicVotes(queries=3, classes=3, teachers=23)"
    assert repr(Votes([[1, 0]], teachers=4, abstentions=True)) == "Votes(queries=1, classes=2, teachers=4)"


def test_counts_are_a_copy_that_nobody_can_write():
    given = COUNTS.copy()
    for votes in (Votes(given), Votes(given)[1:], Votes.from_predictions([[0, 1, 1]]), PublicVotes(given)):
        assert not votes.counts.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            votes.counts[0, 0] = 3
    votes = Votes(given)
    given[0] = 0
    assert np.array_equal(votes.counts, COUNTS)
    assert given.flags.writeable


def test_no_attribute_may_be_added():
    with pytest.raises(AttributeError):
        Votes(COUNTS).count = 3
    with pytest.raises(AttributeError):
        PublicVotes(COUNTS).count = 3


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64])
def test_whole_numbers_of_any_type(kind):
    assert Votes(COUNTS.astype(kind)) == Votes(COUNTS)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1.5, 0.5]], r"counts must be finite whole numbers, got 1\.5\."),
        ([[2, 0], [1, 1.0000001]], r"finite whole numbers, got 1\.0000001\."),
        ([[np.nan, 2]], r"finite whole numbers, got nan\."),
        ([[np.inf, 2]], r"finite whole numbers, got inf\."),
        ([[2, -np.inf]], r"finite whole numbers, got -inf\."),
        ([[True, False]], r"counts must be integers, got values of type bool\."),
        ([["1", "0"]], "counts must be integers, got values of type <U1"),
        ([[1 + 0j, 2]], "counts must be integers, got values of type complex128"),
        ([[None, 1]], "counts must be integers, got values of type object"),
        ([[10**400, 1]], "counts must be integers, got values of type object"),
        ([[3, -1]], r"counts must be at least 0, got -1\."),
        ([[3, -7, 2]], r"counts must be at least 0, got -7\."),
        ([[2**31 + 1, 0]], r"counts must be at most 2\*\*31 in size, got 2147483649\."),
        ([[1, 2**63 - 1]], r"at most 2\*\*31 in size, got 9223372036854775807\."),
        ([[1, -(2**31) - 1]], r"at most 2\*\*31 in size, got -2147483649\."),
        ([[1e300, 0]], r"at most 2\*\*31 in size, got 1e\+300\."),
        ([[3, 2], [3]], "counts must be a rectangular array, got rows of different lengths"),
        ([3, 2], r"counts must have the shape \(queries, classes\), at least 2 classes, got \(2,\)\."),
        ([[[3, 2]]], r"got \(1, 1, 2\)\."),
        ([[3], [3]], r"at least 2 classes, got \(2, 1\)\."),
        (7, r"got \(\)\."),
        ([[2, 1], [2, 2]], r"counts must sum to 3, the number of teachers, in every row .* row 1 sums to 4\."),
        ([[0, 0]], "teachers must be an integer of at least 1, got 0"),
        (np.empty((0, 2)), "teachers must be an integer of at least 1, got 0"),
    ],
)
def test_what_is_no_histogram_is_refused(counts, words):
    with pytest.raises(InvalidInput, match=words):
        Votes(counts)


def test_counts_at_the_limit_are_taken():
    assert Votes([[2**31, 0]]).teachers == 2**31
    assert Votes(np.empty((0, 2)), teachers=5).queries == 0


def test_rows_that_do_not_sum_to_the_teachers():
    with pytest.raises(InvalidInput, match=r"must sum to 5, .* row 0 sums to 4\."):
        Votes([[3, 1], [4, 1]], teachers=5)
    with pytest.raises(InvalidInput, match=r"must sum to 4, .* row 1 sums to 5\."):
        Votes([[3, 1], [4, 1]], teachers=4)


def test_abstentions_are_declared_and_bounded():
    votes = Votes([[3, 1], [0, 0], [2, 3]], teachers=5, abstentions=True)
    assert votes.abstained.tolist() == [1, 5, 0]
    assert votes.abstentions is True
    with pytest.raises(InvalidInput, match=r"at most 4, the number of teachers; row 2 sums to 5\."):
        Votes([[3, 1], [0, 0], [2, 3]], teachers=4, abstentions=True)
    with pytest.raises(InvalidInput, match="teachers must be given as an integer where abstentions are allowed"):
        Votes([[3, 1]], abstentions=True)


@pytest.mark.parametrize("teachers", [0, -5, 4.0, True, "4", np.nan, 10**400, 2**53 + 1])
def test_teachers_are_a_whole_number(teachers):
    with pytest.raises(InvalidInput, match="teachers must be an integer of at least 1"):
        Votes([[3, 1]], teachers=teachers)
    with pytest.raises(InvalidInput, match="teachers must be an integer of at least 1"):
        Votes([[3, 1]], teachers=teachers, abstentions=True)


def test_predictions_are_counted():
    votes = Votes.from_predictions([[0, 2, 2, 1], [1, 1, 1, 1]], classes=4)
    assert votes.counts.tolist() == [[1, 1, 2, 0], [0, 4, 0, 0]]
    assert votes.teachers == 4
    assert votes.classes_are_public is True
    assert votes.abstentions is False


def test_classes_that_were_read_off_are_not_public():
    votes = Votes.from_predictions([[0, 2], [1, 1]])
    assert votes.classes == 3
    assert votes.classes_are_public is False
    assert votes[1:].classes_are_public is False
    assert Votes.from_predictions([[0, 0]]).classes == 2
    assert Votes.from_predictions([[-1, -1]], abstain=-1).classes == 2


def test_abstaining_teachers_are_teachers():
    votes = Votes.from_predictions([[0, 9, 1], [9, 9, 9]], classes=2, abstain=9)
    assert votes.counts.tolist() == [[1, 1], [0, 0]]
    assert votes.teachers == 3
    assert votes.abstained.tolist() == [1, 3]
    assert votes.abstentions is True
    # Nobody abstained, but somebody might have.
    assert Votes.from_predictions([[0, 1]], abstain=-1).abstentions is True
    assert Votes.from_predictions([[0, 1]], abstain=0).counts.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("predictions", "options", "words"),
    [
        ([[0, -1]], {}, r"predictions must be classes from 0 to 1, got -1\."),
        ([[0, 2]], {"classes": 2}, r"predictions must be classes from 0 to 1, got 2\."),
        ([[0, 5], [3, 1]], {"classes": 4}, r"predictions must be classes from 0 to 3, got 5\."),
        ([[0, -2]], {"abstain": -1}, r"from 0 to 1, got -2\."),
        ([[0.5, 1]], {}, r"predictions must be finite whole numbers, got 0\.5\."),
        ([[True, False]], {}, "predictions must be integers, got values of type bool"),
        ([0, 1], {}, r"predictions must have the shape \(queries, teachers\), at least 1 teachers, got \(2,\)\."),
        (np.empty((2, 0), int), {}, r"at least 1 teachers, got \(2, 0\)\."),
        ([[0, 1], [1]], {}, "predictions must be a rectangular array"),
        ([[0, 2**31 + 1]], {}, r"predictions must be at most 2\*\*31 in size"),
        ([[0, 1]], {"classes": 1}, r"classes must be an integer of at least 2, got 1\."),
        ([[0, 1]], {"classes": True}, "classes must be an integer"),
        ([[0, 1]], {"classes": 2.0}, "classes must be an integer"),
        ([[0, 1]], {"classes": 10**400}, "classes must be an integer"),
    ],
)
def test_what_is_no_prediction_is_refused(predictions, options, words):
    with pytest.raises(InvalidInput, match=words):
        Votes.from_predictions(predictions, **options)


def test_one_teacher_may_vote():
    assert Votes.from_predictions([[1], [0]]).counts.tolist() == [[0, 1], [1, 0]]


def test_chosen_queries_are_votes_of_the_same_ensemble():
    votes = PublicVotes([[3, 1], [0, 0], [2, 3]], teachers=5, abstentions=True)
    for rows, expected in (
        (slice(1, 3), [[0, 0], [2, 3]]),
        ([2, 0], [[2, 3], [3, 1]]),
        (np.array([1, 1]), [[0, 0]] * 2),
    ):
        chosen = votes[rows]
        assert type(chosen) is PublicVotes
        assert chosen.counts.tolist() == expected
        assert (chosen.teachers, chosen.abstentions, chosen.classes_are_public) == (5, True, True)
    assert votes[1].counts.tolist() == [[0, 0]]
    assert votes[slice(0, 0)].queries == 0


def test_equality_is_of_everything():
    votes = Votes([[3, 1]])
    assert votes == Votes([[3, 1]])
    assert votes != Votes([[1, 3]])
    assert votes != Votes([[3, 1], [3, 1]])
    assert votes != Votes([[3, 1]], teachers=4, abstentions=True)
    assert Votes([[3, 1]], teachers=4, abstentions=True) != Votes([[3, 1]], teachers=5, abstentions=True)
    assert votes != PublicVotes([[3, 1]])
    assert votes != [[3, 1]]
    with pytest.raises(TypeError, match="unhashable"):
        hash(votes)


def test_plain_votes_are_not_public():
    assert not isinstance(Votes(COUNTS), PublicVotes)
    assert isinstance(PublicVotes(COUNTS), Votes)


def bounded(counts=((2, 1), (0, 3)), **options):
    return BoundedVotes(counts, **{"teachers": 6, "max_contributions": 1, **options})


def test_bounded_votes_know_their_bound():
    votes = bounded()
    assert (votes.teachers, votes.max_contributions, votes.abstentions) == (6, 1, True)
    assert votes.abstained.tolist() == [3, 3]
    assert votes.classes_are_public is True
    assert repr(votes) == "BoundedVotes(queries=2, classes=2, teachers=6)"
    with pytest.raises(AttributeError):
        votes.count = 3


def test_bounded_votes_sum_to_what_their_teachers_may_cast():
    assert bounded(teachers=3, max_contributions=2).max_contributions == 2
    with pytest.raises(InvalidInput, match=r"counts must sum to at most 5, 1 for each of 5 teachers, got 6\."):
        bounded(teachers=5)
    with pytest.raises(InvalidInput, match=r"at most 5, the number of teachers; row 0 sums to 6\."):
        bounded([[3, 3]], teachers=5, max_contributions=2)
    with pytest.raises(InvalidInput, match="teachers must be given"):
        BoundedVotes([[1, 0]], max_contributions=1)


@pytest.mark.parametrize("max_contributions", [0, -1, 1.0, True, None])
def test_a_bound_is_a_whole_number(max_contributions):
    with pytest.raises(InvalidInput, match="max_contributions must be an integer of at least 1"):
        bounded(max_contributions=max_contributions)
    with pytest.raises(InvalidInput, match="max_contributions must be an integer of at least 1"):
        BoundedVotes.from_predictions([[0, -1]], max_contributions=max_contributions)


@pytest.mark.parametrize("abstentions", [False, 1, None])
def test_bounded_votes_always_allow_abstentions(abstentions):
    with pytest.raises(InvalidInput, match="abstentions must be True for bounded votes, got "):
        bounded(abstentions=abstentions)


def test_bounded_predictions_are_counted_teacher_by_teacher():
    predictions = [[0, -1, 2], [-1, 1, -1]]
    votes = BoundedVotes.from_predictions(predictions)
    assert votes.counts.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert (votes.teachers, votes.max_contributions, votes.classes_are_public) == (3, 1, False)
    assert BoundedVotes.from_predictions(predictions, classes=3).classes_are_public is True
    assert BoundedVotes.from_predictions([[0, 7], [7, 1]], abstain=7, classes=2).counts.tolist() == [[1, 0], [0, 1]]
    twice = [[0, 1, -1], [-1, 1, 0]]
    assert BoundedVotes.from_predictions(twice, max_contributions=2).max_contributions == 2
    with pytest.raises(InvalidInput, match="max_contributions must hold for every teacher: 1 voted 2 times, not 1"):
        BoundedVotes.from_predictions(twice)
    with pytest.raises(InvalidInput, match="abstain must be an integer"):
        BoundedVotes.from_predictions(twice, abstain=None)
    assert BoundedVotes.from_predictions([[-(2**31)]], abstain=-(2**31)).teachers == 1
    with pytest.raises(InvalidInput, match="abstain must be an integer"):
        BoundedVotes.from_predictions([[0]], abstain=-(2**31) - 1)
    assert BoundedVotes.from_predictions(np.empty((0, 2), int), classes=2).queries == 0


def test_no_query_of_bounded_votes_is_chosen_twice():
    votes = bounded(teachers=3, max_contributions=2)
    chosen = votes[[1]]
    assert isinstance(chosen, BoundedVotes)
    assert (chosen.counts.tolist(), chosen.teachers, chosen.max_contributions) == ([[0, 3]], 3, 2)
    assert votes[::-1].counts.tolist() == [[0, 3], [2, 1]]
    assert votes[1].counts.tolist() == [[0, 3]]
    for rows in ([1, 1], [0, 1, 0], [1, -1]):
        with pytest.raises(InvalidInput, match="rows must name no query twice"):
            votes[rows]


def test_bounded_votes_of_other_bounds_differ():
    assert bounded() == bounded()
    assert bounded() != bounded(max_contributions=2)
    assert bounded() != bounded([[1, 2], [0, 3]])
    assert bounded() != Votes([[2, 1], [0, 3]], teachers=6, abstentions=True)
    with pytest.raises(TypeError, match="unhashable"):
        hash(bounded())
