"""Who takes part: names that are words, announced numbers, no two alike."""

import pytest

from ostrakon.study import Owner, make_certificate, read_owners
from ostrakon.study.owners import require_owners, require_reachable
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
        ("[[owner]]\nname = 'a'\npeople = 1\nemail = 'x'\n", "may have address and certificate, and nothing else"),
        ("[[owner]]\nname = 'a'\npeople = 1\naddress = 'a'\n", "address of an owner must be HOST:PORT"),
        ("[[owner]]\nname = 'a'\npeople = 1\naddress = 'a:0'\n", "address of an owner must be HOST:PORT"),
        ("[[owner]]\nname = 'a'\npeople = 1\naddress = 'a:65536'\n", "address of an owner must be HOST:PORT"),
        ("[[owner]]\nname = 'a'\npeople = 1\naddress = ':80'\n", "address of an owner must be HOST:PORT"),
        ("[[owner]]\nname = 'a'\npeople = 1\naddress = 80\n", "address of an owner must be HOST:PORT"),
        ("[[owner]]\nname = 'a'\npeople = 1\ncertificate = 'no.crt'\n", "certificate must be a readable PEM file"),
        ("[[owner]]\nname = 'a'\npeople = 1\ncertificate = 1\n", "certificate of an owner must be one certificate"),
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


def test_an_owner_is_reached_by_its_address_and_known_by_its_certificate(tmp_path):
    _, public = make_certificate("a", tmp_path / "keys")
    path = tmp_path / "owners.toml"
    path.write_text('[[owner]]\nname = "a"\npeople = 1\naddress = "[::1]:80"\ncertificate = "keys/a.crt"\n')
    (owner,) = read_owners(path)
    assert owner.host_and_port == ("::1", 80)
    assert owner.certificate == public.read_text()
    assert owner.as_dict() == {"name": "a", "people": 1, "address": "[::1]:80", "certificate": public.read_text()}
    assert Owner(name="a", people=1).as_dict() == {"name": "a", "people": 1}


def test_owners_do_not_share_an_address_or_a_certificate(tmp_path):
    _, public = make_certificate("a", tmp_path)
    for what, held in (("addresses", {"address": "h:80"}), ("certificates", {"certificate": public.read_text()})):
        with pytest.raises(InvalidInput, match=f"owners must have different {what}"):
            require_owners([Owner(name=name, people=1, **held) for name in "ab"])
    with pytest.raises(InvalidInput, match="at least 2 to sum among themselves"):
        require_reachable([Owner(name="a", people=1)])
    with pytest.raises(InvalidInput, match="and a has no address"):
        require_reachable([Owner(name=name, people=1) for name in "ab"])
    with pytest.raises(InvalidInput, match="and a has no certificate"):
        require_reachable([Owner(name=name, people=1, address=f"{name}:1") for name in "ab"])
