"""The file of clients: no token stands in it, and nothing in it is taken on trust."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from ostrakon.service import Client, add_client, read_clients
from ostrakon.validation import InvalidInput

DIGEST = "0" * 64


def test_a_token_is_shown_once_and_known_by_its_digest(tmp_path):
    path = tmp_path / "clients.toml"
    first = add_client(path, "ward-7", answers=5)
    second = add_client(path, "ward-8", answers=9, requests_per_second=3)
    assert len(first) >= 43
    assert first != second
    assert first not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    known = read_clients(path)
    assert [each.name for each in known.values()] == ["ward-7", "ward-8"]
    mine = known[hashlib.sha256(second.encode()).hexdigest()]
    assert (mine.name, mine.answers, mine.requests_per_second) == ("ward-8", 9, 3)


def test_a_name_is_taken_once(tmp_path):
    path = tmp_path / "clients.toml"
    add_client(path, "a", answers=5)
    before = path.read_text()
    with pytest.raises(InvalidInput, match="'a' already"):
        add_client(path, "a", answers=6)
    for wrong in ("", "a b", "-a", "a" * 65, "ü"):
        with pytest.raises(InvalidInput, match="name of a client must be"):
            add_client(path, wrong, answers=6)
    for wrong in (-1, True, 1.5):
        with pytest.raises(InvalidInput, match="answers must be"):
            add_client(path, "b", answers=wrong)
    assert path.read_text() == before


def test_two_at_once_are_both_in_the_file(tmp_path):
    path = tmp_path / "clients.toml"
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda at: add_client(path, f"c{at}", answers=1), range(24)))
    assert set(read_clients(path)) == {hashlib.sha256(token.encode()).hexdigest() for token in tokens}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"must hold tables \[\[client\]\]"),
        ("client = 3", r"must hold tables \[\[client\]\]"),
        ("[[client]]\nname = 'a'", "must have answers, name, requests_per_second, token"),
        (f"[[client]]\nname='a'\ntoken='{DIGEST}'\nanswers=1\nrequests_per_second=1\nmore=1", "must have answers"),
        ("[[client]]\nname='a'\ntoken='secret'\nanswers=1\nrequests_per_second=1", "SHA-256 of its token"),
        (f"[[client]]\nname='a'\ntoken='{DIGEST}'\nanswers=-1\nrequests_per_second=1", "answers must be"),
        (f"[[client]]\nname='a'\ntoken='{DIGEST}'\nanswers=1\nrequests_per_second=1\n" * 2, "differ in name"),
        ("not toml", "readable TOML"),
    ],
)
def test_what_is_no_file_of_clients_is_refused(tmp_path, text, told):
    path = tmp_path / "clients.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_clients(path)


def test_two_names_of_one_token_are_refused(tmp_path):
    path = tmp_path / "clients.toml"
    each = "[[client]]\nname='{}'\ntoken='" + DIGEST + "'\nanswers=1\nrequests_per_second=1\n"
    path.write_text("\ufeff" + each.format("a") + each.format("b"))
    with pytest.raises(InvalidInput, match="differ in token"):
        read_clients(path)
    with pytest.raises(InvalidInput, match="readable TOML"):
        read_clients(tmp_path / "nothing.toml")


def test_a_client_is_checked():
    with pytest.raises(InvalidInput, match="64 digits"):
        Client(name="a", token="G" * 64, answers=1, requests_per_second=1)
