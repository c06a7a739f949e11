"""A file is whole or absent, whatever happens while it is written."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

from ostrakon.data.files import CannotWrite, private_folder, require_writable, sweep, write_atomically
from ostrakon.validation import InvalidInput


def test_written_files_are_private_and_complete(tmp_path) -> None:
    folder = private_folder(tmp_path / "a" / "b")
    write_atomically(folder / "x", "text")
    write_atomically(folder / "y", b"bytes")
    write_atomically(folder / "z", lambda file: file.write(b"made"), mode=0o644)
    assert [(folder / name).read_bytes() for name in "xyz"] == [b"text", b"bytes", b"made"]
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder, folder / "x", folder / "z")] == [
        0o700,
        0o600,
        0o644,
    ]


def test_what_cannot_be_written_is_refused_and_nothing_is_made(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    for wrong, endings in (
        ("file", ()),
        ("file/new", ()),
        ("new/x.png", (".png",)),
        ("file/x.png", (".png",)),
        ("folder.png", (".png",)),
        ("x.gif", (".png", ".pdf")),
    ):
        with pytest.raises(InvalidInput, match=r"^out must be a .*folder that can be written, got .*\."):
            require_writable("out", tmp_path / wrong, endings=endings)
    require_writable("out", tmp_path / "new" / "folder")
    require_writable("out", tmp_path / "x.PNG", endings=(".png",))
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.png"]


def test_a_folder_that_is_there_keeps_its_mode(tmp_path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    assert stat.S_IMODE(private_folder(shared).stat().st_mode) == 0o755


def test_a_full_disk_leaves_the_old_file(tmp_path) -> None:
    target = tmp_path / "x"
    write_atomically(target, b"old")

    def full(file) -> None:
        file.write(b"half of the n")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CannotWrite, match=r"the disk is full; a run keeps what it finished"):
        write_atomically(target, full)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_a_limit_of_the_system_half_way_through(tmp_path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(CannotWrite, match="the disk is full"):
            write_atomically(tmp_path / "x", bytes(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_an_interruption_leaves_nothing(tmp_path) -> None:
    def interrupted(file) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "x", interrupted)
    assert os.listdir(tmp_path) == []


def test_a_killed_writer_leaves_no_file_and_is_swept(tmp_path) -> None:
    program = f"""
        import os, signal
        from ostrakon.data.files import write_atomically
        def kill(file):
            file.write(b"half"); file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        write_atomically({str(tmp_path / "x")!r}, kill)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "x").exists()
    assert len(os.listdir(tmp_path)) == 1
    sweep(tmp_path)
    assert os.listdir(tmp_path) == []


def test_folders_that_cannot_be_made(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="could not be written"):
        private_folder(tmp_path / "file" / "folder")
    with pytest.raises(CannotWrite, match="no such file"):
        write_atomically(tmp_path / "nowhere" / "x", b"")
