"""Refusals come before files are read, and leave nothing behind."""

import pytest

from ostrakon import train
from ostrakon.mechanisms.registry import find
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("suffix", ["png", "txt"])
def test_folders_without_named_classes_are_refused_before_a_file_is_opened(tmp_path, suffix) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "private" / name).mkdir(parents=True)
        for number in range(12):
            (tmp_path / "private" / name / f"{number}.{suffix}").write_bytes(b"\xff\xff no such file")
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / f"1.{suffix}").write_bytes(b"\xff\xff no such file")
    with pytest.raises(InvalidInput, match=r"^The classes are the folder names; they .*--classes cat,dog"):
        task_from_files(tmp_path / "private", tmp_path / "public")


@pytest.mark.parametrize("before", [True, False])
def test_a_refused_run_leaves_no_folder(tmp_path, before) -> None:
    out = tmp_path / "my-run"
    if before:
        out.mkdir()
    with pytest.raises(InvalidInput, match="refused"), RunFolder(out).opened():
        raise InvalidInput("refused")
    assert list(tmp_path.rglob("*")) == ([out] if before else [])
    with RunFolder(out).opened() as folder:
        (folder.private / "votes").write_text("kept")
    with pytest.raises(InvalidInput, match=r"private/ but no run\.toml"), RunFolder(out).opened():
        pass
    assert (out / "private" / "votes").exists()


def test_hints_name_what_was_meant(tmp_path) -> None:
    with pytest.raises(InvalidInput, match=r"got 'gnmx'\. Did you mean 'gnmax'\?"):
        find("gnmx")
    rows = "t,cost,a\n" + "".join(f"{'yes' if row % 2 else 'no'},{row % 3},{row}\n" for row in range(40))
    (tmp_path / "private.csv").write_text(rows)
    (tmp_path / "public.csv").write_text("cost,a\n" + "".join(f"{row % 3},{row + 0.5}\n" for row in range(40)))
    files = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv"}
    with pytest.raises(InvalidInput, match=r"'T' is not in .* nearest first, t, "):
        task_from_files(**files, target="T")
    with pytest.raises(InvalidInput, match=r"needed are missing\)\. --drop t leaves out"):
        task_from_files(**files, target="cost")
    with pytest.raises(InvalidInput, match=r"--protect labels.*--columns FILE"):
        train(private=files["private"], target="t", out=tmp_path / "run")
