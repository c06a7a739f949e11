"""Files that say whether they are whole: every flipped bit, cut end and foreign file is seen."""

import numpy as np
import pytest

from ostrakon.data.checksummed import (
    Damaged,
    array_from,
    checksums,
    digest_of_json,
    npy,
    read_checksummed,
    write_checksummed,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "votes.npy"
    write_checksummed(path, npy(np.arange(12).reshape(4, 3)), what="votes", belongs={"run": "a"})
    return path


def test_what_was_written_is_read(file):
    held = read_checksummed(file, what="votes")
    np.testing.assert_array_equal(array_from(held.payload), np.arange(12).reshape(4, 3))
    assert held.belongs == {"run": "a"}
    assert held.checksum.encode() in file.read_bytes()[-100:]
    assert file.stat().st_mode & 0o777 == 0o600


def test_ordinary_readers_still_open_it(file):
    np.testing.assert_array_equal(np.load(file, allow_pickle=False), np.arange(12).reshape(4, 3))


def test_no_file_is_no_content(tmp_path):
    assert read_checksummed(tmp_path / "none", what="votes") is None


def test_every_flipped_bit_is_seen(file):
    content = file.read_bytes()
    for place in range(len(content)):
        for bit in (0, 5, 7):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            with pytest.raises(Damaged, match=r"votes\.npy is damaged"):
                read_checksummed(file, what="votes")


def test_every_cut_and_every_addition_is_seen(file):
    content = file.read_bytes()
    others = [content[:end] for end in range(len(content))] + [content[1:], content + b"\n", content + content]
    for other in others:
        file.write_bytes(other)
        with pytest.raises(Damaged):
            read_checksummed(file, what="votes")


def test_a_moved_border_between_payload_and_header_is_seen(tmp_path):
    # The same bytes under the same checksum, but another length: a payload that ends elsewhere.
    path = tmp_path / "a"
    write_checksummed(path, b'{"what": "x", "belongs": null}', what="x")
    content = path.read_bytes()
    assert content[-12:] == b" 0000000030\n"
    path.write_bytes(content[:-12] + b" 0000000060\n")
    with pytest.raises(Damaged):
        read_checksummed(path, what="x")


def test_a_file_of_something_else_is_named(file):
    with pytest.raises(Damaged, match="must hold teacher 3, but it holds votes: files were mixed up"):
        read_checksummed(file, what="teacher 3")


def test_what_cannot_be_read_is_damaged(tmp_path):
    (tmp_path / "votes.npy").mkdir()
    with pytest.raises(Damaged, match="must be a regular file"):
        read_checksummed(tmp_path / "votes.npy", what="votes")


def test_a_folder_is_listed_with_all_that_is_below_it(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"")
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "list").write_bytes(b"left out")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert checksums(tmp_path, leave_out=("list",)) == {"a": abc, "b/x": empty}


def test_the_order_of_keys_is_no_content():
    assert digest_of_json({"a": 1, "b": [1.5, None]}) == digest_of_json({"b": [1.5, None], "a": 1})
    assert digest_of_json({"a": 1}) != digest_of_json({"a": 1.5})
