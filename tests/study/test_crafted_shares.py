"""Shares that somebody has made up: each is refused at once, in one sentence that names the file."""

import hashlib
import io
import json
import os
import shutil
import struct

import numpy as np
import pytest

from ostrakon.data.checksummed import npy
from ostrakon.study import finish_study, join_study
from ostrakon.validation import InvalidInput

WHAT = "an owner's share"


def framed(payload: bytes, header: bytes) -> bytes:
    """A file whose checksum is right."""
    digest = hashlib.sha256(payload + header + b"%010d" % len(header)).hexdigest()
    return payload + header + b"\nostrakon sha256 %s %010d\n" % (digest.encode(), len(header))


def claiming(shape: str, data: bytes = b"\0" * 64) -> bytes:
    """An .npy file whose header claims a shape."""
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, np.zeros((8, 2), np.int64))
    return file.getvalue()


@pytest.fixture(scope="module")
def joined(three):
    study = three.create("crafted", exchange="files")
    for owner in three.owners:
        join_study(study, three.table(owner.name), owner=owner.name, by="patient")
    folder = study.folder.with_name("crafted-shares")
    return study, folder, (folder / "south.share").read_bytes()


def crafted(name: str, study) -> bytes:
    whole = npy(np.zeros((len(study.queries), 2), np.int64)).tobytes()
    belongs = {"study": study.hash, "owner": "south"}

    def headed(what: object = WHAT, **others: object) -> bytes:
        return json.dumps({"what": what, "belongs": {**belongs, **others}}).encode()

    header = headed()
    deep = b"[" * 200_000 + b"]" * 200_000
    return {
        "an npz as payload": framed(zipped(), header),
        "no payload": framed(b"", header),
        "a header without fields": framed(whole, b"{}"),
        "a header that is a list": framed(whole, b"[1]"),
        "a header that is no text": framed(whole, b"\xff\xfe"),
        "deep JSON": framed(whole, deep),
        "an owner that is no text": framed(whole, headed(owner=[[]])),
        "a long owner": framed(whole, headed(owner="x" * 9999)),
        "another study": framed(whole, headed(study="0" * 64)),
        "something else": framed(whole, headed({"x": "y" * 9999})),
        "a shape of 2^70": framed(claiming(f"({2**70}, 2)"), header),
        "a claim of 12 GiB": framed(claiming(f"({12 * 2**30 // 16}, 2)"), header),
        "a claim that overflows": framed(claiming(f"({2**62}, 8)"), header),
        "a shape below 0": framed(claiming("(-4, -2)"), header),
        "a deep shape": framed(claiming("(" * 400 + ")" * 400), header),
        "a shape of words": framed(claiming("('a', 2)"), header),
        "one byte more": framed(whole + b"\0", header),
        "objects": framed(whole.replace(b"<i8", b"|O8"), header),
    }[name]


NAMES = (
    *("an npz as payload", "no payload", "a header without fields", "a header that is a list", "deep JSON"),
    *("a header that is no text", "an owner that is no text", "a long owner", "another study", "something else"),
    *("a shape of 2^70", "a claim of 12 GiB", "a claim that overflows", "a shape below 0", "a deep shape"),
    *("a shape of words", "one byte more", "objects"),
)


def refused(study, tmp_path) -> str:
    with pytest.raises(InvalidInput) as error:
        finish_study(study, out=tmp_path / "out")
    told = str(error.value)
    assert "south.share" in told
    assert "\n" not in told
    assert len(told) < 600
    return told


@pytest.mark.parametrize("name", NAMES)
def test_a_crafted_share_is_named_in_one_sentence(joined, tmp_path, name):
    study, folder, right = joined
    share = folder / "south.share"
    share.write_bytes(crafted(name, study))
    try:
        refused(study, tmp_path)
    finally:
        share.write_bytes(right)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "sparse"])
def test_what_is_not_a_regular_file_is_neither_read_nor_waited_for(joined, tmp_path, kind):
    study, folder, right = joined
    share = folder / "south.share"
    share.unlink()
    if kind == "pipe":
        os.mkfifo(share)
    elif kind == "device":
        share.symlink_to("/dev/zero")
    elif kind == "folder":
        share.mkdir()
    else:
        with open(share, "wb") as file:
            file.truncate(12 * 2**30)
    try:
        told = refused(study, tmp_path)
        assert ("bytes, and it has 12,884,901,888" if kind == "sparse" else "must be a regular file") in told
    finally:
        share.rmdir() if kind == "folder" else share.unlink()
        share.write_bytes(right)


def test_a_share_of_an_older_study_is_refused(joined, three, tmp_path):
    """The same owners, pool and noise: another hash, since the study was created anew with another seed."""
    study, _, _ = joined
    older = three.create("older", exchange="files", seed=7)
    join_study(older, three.table("south"), owner="south", by="patient")
    shares = tmp_path / "shares"
    shutil.copytree(study.folder.with_name("crafted-shares"), shares)
    shutil.copy(older.folder.with_name("older-shares") / "south.share", shares / "south.share")
    with pytest.raises(InvalidInput, match=r"south\.share was made for another study"):
        finish_study(study, shares=shares, out=tmp_path / "out")


def test_a_pipe_in_a_study_is_not_waited_for(three):
    study = three.create("piped", exchange="files")
    for name in ("study.toml", "pool.csv", "representatives.npy"):
        file = study.folder / name
        if not file.exists():
            continue
        held = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(InvalidInput, match="must be a regular file"):
            type(study).read(study.folder)
        file.unlink()
        file.write_bytes(held)


def test_a_pool_that_changes_after_the_study_was_read_is_refused(three, tmp_path):
    study = three.create("changing")
    again = type(study).read(study.folder)
    again.public.write_bytes(again.public.read_bytes().replace(b"Ulm", b"Bonn"))
    with pytest.raises(InvalidInput, match="was changed while the study was read"):
        join_study(again, three.table("south"), owner="south", by="patient", keep=tmp_path / "south")
