import os

import pytest
from filelock import FileLock

from ostrakon.run.folder import RunFolder
from ostrakon.validation import InvalidInput


def test_a_new_folder_is_made_with_a_private_part(tmp_path):
    with RunFolder(tmp_path / "a" / "run").opened() as home:
        assert home.private.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "run" / ".lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_of_somebody_else_is_refused_and_untouched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidInput, match=r"exists and is not a run of ostrakon \(it has no run.toml\)"):
        RunFolder(tmp_path).opened().__enter__()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InvalidInput, match="must be a folder, got the file"):
        RunFolder(tmp_path / "run").opened().__enter__()


def test_a_private_part_without_its_description_is_refused(tmp_path):
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "votes.npy").write_text("")
    with pytest.raises(InvalidInput, match=r"private/ but no run\.toml"):
        RunFolder(tmp_path).opened().__enter__()


@pytest.mark.parametrize("text", ["", "not = toml = at all", "[ostrakon]\nformat = 99\n", "[tool]\nname = 'x'\n"])
def test_a_run_toml_of_somebody_else_is_refused(tmp_path, text):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"run\.toml must be"):
        RunFolder(tmp_path).read()


def test_two_processes_cannot_hold_one_folder(tmp_path):
    held = pytest.raises(InvalidInput, match="in use by another ostrakon process")
    with RunFolder(tmp_path / "run").opened(), held:
        RunFolder(tmp_path / "run").opened().__enter__()
    with RunFolder(tmp_path / "run").opened():
        pass


def test_the_lock_of_a_dead_process_does_not_count(tmp_path):
    (tmp_path / "run").mkdir()
    child = os.fork()
    if child == 0:
        lock = FileLock(tmp_path / "run" / ".lock")
        lock.acquire()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with RunFolder(tmp_path / "run").opened():
        pass


def test_other_settings_and_other_data_are_refused_by_name(tmp_path):
    with RunFolder(tmp_path / "run").opened() as home:
        home.write({"asked": {"seed": 1, "epsilon": 2.0}, "fingerprints": {"private": "aa", "test": "bb"}})
        (home.private / "votes.npy").touch()
        home.refuse_other_run({"seed": 1, "epsilon": 2.0}, {"private": "aa", "test": "bb"})
        with pytest.raises(InvalidInput, match=r"holds another run \(queries was not given, now 5, epsilon was 2.0"):
            home.refuse_other_run({"seed": 1, "queries": 5}, {})
        with pytest.raises(InvalidInput, match="the private data changed"):
            home.refuse_other_run({"seed": 1, "epsilon": 2.0}, {"private": "cc", "test": "bb"})


@pytest.mark.parametrize(
    "kept", ["private/votes.npy", "private/teachers/a", "private/noise/a", "release/a", "drawn", "ledger"]
)
def test_a_run_that_has_begun_is_never_taken_over(tmp_path, kept):
    with RunFolder(tmp_path / "run").opened() as home:
        home.write({"asked": {"seed": 1}, "fingerprints": {"private": "aa"}})
        if "/" in kept:
            (home.path / kept).parent.mkdir(parents=True, exist_ok=True)
            (home.path / kept).touch()
        else:
            home.add(kept, {"round-1": "cc"})
        before = sorted(tmp_path.rglob("*"))
        for take in (home.take_over, lambda *other: home.refuse_other_run(*other, begun=True)):
            with pytest.raises(InvalidInput, match="holds another run"):
                take({"seed": 2}, {"private": "aa"})
            with pytest.raises(InvalidInput, match="holds a run on other data"):
                take({"seed": 1}, {"private": "bb"})
            take({"seed": 1}, {"private": "aa"})
        assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_stopped_before_it_began_is_taken_over(tmp_path):
    with RunFolder(tmp_path / "run").opened() as home:
        for other in ({"seed": 2}, {"private": "aa"}), ({"seed": 1}, {"private": "bb"}):
            home.write({"asked": {"seed": 1}, "fingerprints": {"private": "aa"}})
            (home.private / "representation.joblib").touch()
            (home.private / "outside_public_range.json").touch()
            (home.private / "shards" / "teacher=0").mkdir(parents=True)
            (home.private / "features").mkdir()
            # Who only looks removes nothing: another process may be at work there.
            home.refuse_other_run(*other, begun=True)
            with pytest.raises(InvalidInput, match="holds a"):
                home.refuse_other_run(*other)
            home.take_over({"seed": 1}, {"private": "aa"})
            assert home.read()["asked"] == {"seed": 1}
            assert len(list(home.private.iterdir())) == 4
            home.take_over(*other)
            assert home.read() is None
            assert not list(home.private.iterdir())
    with RunFolder(tmp_path / "run").opened():
        pass


def test_the_description_can_be_read_by_its_owner_alone(tmp_path):
    # It holds fingerprints of the private data.
    with RunFolder(tmp_path / "run").opened() as home:
        home.write({"asked": {}})
    assert home.description.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_where_one_may_not_write_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidInput, match="could not be written"):
        RunFolder(tmp_path / "run").opened().__enter__()
