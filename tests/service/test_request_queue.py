"""The queue: many requests at once, each with its own answer or refusal."""

import asyncio

import pytest

from ostrakon.service import BudgetSpent, Client
from ostrakon.service.request_queue import MAX_WAITING_ROWS, Busy, RequestQueue
from ostrakon.validation import InvalidInput

CLIENT = Client(name="a", token="0" * 64, answers=10_000, requests_per_second=9)


def together(labeller, *requests):
    """What each of these requests, made at once, is answered: labels, or the error."""

    async def run():
        queue = RequestQueue(labeller)
        async with queue.running():
            return await asyncio.gather(*(queue.answer(CLIENT, some) for some in requests), return_exceptions=True)

    return asyncio.run(run())


def test_each_request_has_its_own_answer(place, rows):
    held = place.open()
    many = rows(60)
    first = together(held, *[[row] for row in many], [{"age": 1.0}], many[:7])
    bad = first.pop(60)
    assert isinstance(bad, InvalidInput)
    assert "must have the column 'town'" in str(bad)
    labels = [label for (label,), _ in first[:60]]
    assert first[60][0] == labels[:7]
    assert held.rows_asked("a") == 60
    # Backwards, all at once, one by one: the same.
    (again,) = together(held, many[::-1])
    assert again[0] == labels[::-1]
    assert held.rows_asked("a") == 60


@pytest.mark.slow
def test_who_asks_last_meets_the_end(place, rows):
    held = place.open(budget=15.0)
    told = together(held, *[[row] for row in rows(200)])
    ended = [isinstance(each, BudgetSpent) for each in told]
    assert ended == sorted(ended)
    assert 0 < sum(ended) < 200


def test_too_many_rows_are_sent_away(place, rows):
    held = place.open()
    (row,) = rows(1)
    (told,) = together(held, [row] * (MAX_WAITING_ROWS + 1))
    assert isinstance(told, Busy)
    assert held.rows_asked("a") == 0


def test_a_bug_reaches_all_who_wait_and_the_desk_goes_on(place, rows, monkeypatch):
    held = place.open()
    with monkeypatch.context() as patched:
        patched.setattr(held, "answer", lambda requests: 1 / 0)
        told = together(held, rows(1), rows(2))
    assert [type(each) for each in told] == [ZeroDivisionError] * 2
    assert len(together(held, rows(1))[0][0]) == 1


@pytest.mark.parametrize("word", ["3.5", 3.5])
def test_words_and_numbers_are_one_row(place, rows, word):
    held = place.open()
    together(held, [{"age": 3.5, "town": "Ulm"}], [{"town": "Ulm", "age": word}])
    assert held.rows_asked("a") == 1
