"""The store of answers: one a row, whole or absent."""

import sqlite3

import pytest

from ostrakon.service.answers import RESERVE_BYTES, Answer, AnswerStore
from ostrakon.validation import InvalidInput


def given(row, label=1, client="a"):
    return Answer(row=row, label=label, client=client, block="b")


def test_what_is_kept_is_found_again(tmp_path):
    store = AnswerStore(tmp_path / "service")
    store.add([given("x"), given("y", -1), given("z", 0, "b")])
    assert store.labels == {"x": 1, "y": -1, "z": 0}
    assert dict(store.rows_asked) == {"a": 2, "b": 1}
    store.close()
    again = AnswerStore(tmp_path / "service")
    assert again.labels == {"x": 1, "y": -1, "z": 0}
    assert dict(again.rows_asked) == {"a": 2, "b": 1}
    assert (tmp_path / "service").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "service" / "answers.db").stat().st_mode & 0o777 == 0o600


def test_a_second_answer_to_a_row_is_refused_and_nothing_of_it_is_kept(tmp_path):
    store = AnswerStore(tmp_path)
    store.add([given("x")])
    with pytest.raises(InvalidInput, match="could not be written"):
        store.add([given("y"), given("x", 0)])
    assert store.labels == {"x": 1}
    assert AnswerStore(tmp_path).labels == {"x": 1}
    store.add([given("y")])
    assert store.labels == {"x": 1, "y": 1}


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "answers.db").write_bytes(b"no database at all, but long enough to be looked at" * 40)
    with pytest.raises(InvalidInput, match="must be the answers of a labelling service"):
        AnswerStore(tmp_path)
    (tmp_path / "answers.db").unlink()
    with sqlite3.connect(tmp_path / "answers.db") as other:
        other.execute("PRAGMA user_version = 7")
    with pytest.raises(InvalidInput, match="format 1, got 7"):
        AnswerStore(tmp_path)


def test_on_a_disk_that_fills_up_drawn_answers_use_the_reserved_space(tmp_path, monkeypatch):
    store, insert = AnswerStore(tmp_path), AnswerStore._insert
    store.require_reserve()
    reserve = tmp_path / "reserve"
    assert reserve.stat().st_size == RESERVE_BYTES

    def full(self, answers):
        if reserve.exists():
            raise sqlite3.OperationalError("database or disk is full")
        insert(self, answers)

    monkeypatch.setattr(AnswerStore, "_insert", full)
    store.add([given("x")])
    assert not reserve.exists()
    assert AnswerStore(tmp_path).labels == {"x": 1}
    store.require_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_disk_without_room_for_answers_is_refused(tmp_path):
    store = AnswerStore(tmp_path)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    many = [given(f"row {at}") for at in range(1000)]
    for _ in range(2):
        with pytest.raises(InvalidInput, match="full; nothing left this machine"):
            store.add(many)
    assert store.labels == {}
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.add(many)
    assert len(AnswerStore(tmp_path).labels) == 1000
