"""Who takes part: names that are words, announced numbers, no two alike."""

import pytest

from ostrakon.study import Owner, read_owners
from ostrakon.validation import InvalidInput


def test_owners_come_in_their_order(tmp_path):
    path = tmp_path / "owners.toml"
    path.write_text('[[owner]]\nname = "west"\npeople = 10\n[[owner]]\nname = "a-1"\npeople = 20\n')
    assert read_owners(path) == (Owner(name="west", people=10), Owner(name="a-1", people=20))


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "owners.toml"
    path.write_text('[[owner]]\nname = "west"\npeople = 10\n', encoding="utf-8-sig")
    assert read_owners(path) == (Owner(name="west", people=10),)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("owner", "must be a readable TOML file"),
        ("", "must hold tables"),
        ("[[owner]]\nname = 'a'\npeople = 1\n[other]\n", "must hold tables"),
        ("[[owner]]\nname = 'a'\n", "must have name and people"),
        ("[[owner]]\nname = 'a'\npeople = 1\nemail = 'x'\n", "must have name and people, and nothing else"),
        ("[[owner]]\nname = 'a'\npeople = 0\n", "people must be an integer of at least 1, got 0"),
        ("[[owner]]\nname = 'a'\npeople = true\n", "people must be an integer"),
        ("[[owner]]\nname = '../a'\npeople = 1\n", "name of an owner must be"),
        ("[[owner]]\nname = 'A'\npeople = 1\n", "name of an owner must be"),
        ("[[owner]]\nname = 'a'\npeople = 1\n[[owner]]\nname = 'a'\npeople = 2\n", "got 'a' twice"),
        ("owner = []", "owners must be from 1 to 1000"),
    ],
)
def test_what_describes_no_owners_is_refused(tmp_path, content, sentence):
    path = tmp_path / "owners.toml"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=sentence):
        read_owners(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="owners must be a readable TOML file"):
        read_owners(tmp_path / "none.toml")
