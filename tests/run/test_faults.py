"""Files that are damaged, cut off, mixed up or gone: one sentence or the same release, and never a second noise."""

import errno
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from ostrakon.options.options import Options
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput

FLIPS = 16
PLAIN = {"mechanism": "gnmax", "queries": 40, "parameters": {"sigma2": 2.0}, "student": "logistic"}
RECIPE = Options(teachers=8, seed=3, jobs=1, **PLAIN)


def make_task(folder: Path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 500), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 500)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 6, 500) > 55, "yes", "no")
    for name, rows in (("private", frame[:300]), ("public", frame[300:400]), ("test", frame[400:])):
        rows.to_csv(folder / f"{name}.csv", index=False)
    return task_from_files(
        folder / "private.csv", folder / "public.csv", target="ill", test=folder / "test.csv", classes="from-private"
    )


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return make_task(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def undisturbed(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    return folder, told(run(folder, task, RECIPE), task)


def told(outcome, task):
    """Everything that a release is made of, to the last bit."""
    return {
        "labels": outcome.answers.labels.tolist(),
        "queries": outcome.queries.tolist(),
        "statement": outcome.statement.as_dict(),
        "student": outcome.student.predict_proba(task.X_test).tobytes().hex(),
    }


@pytest.fixture
def copy(undisturbed, tmp_path):
    """The finished run once more; from its teachers, its predictions or its votes on where that is asked."""

    def make(*, asked_again: bool, name: str = "run") -> Path:
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(undisturbed[0], folder)
        if asked_again:
            (folder / "private" / "votes.npy").unlink()
        return folder

    return make


def resumed(folder, task):
    """What the same command gives now: the release, or the sentence that refuses it."""
    try:
        return told(run(folder, task, RECIPE), task)
    except InvalidInput as error:
        sentence = str(error)
        assert sentence.endswith((".", ")")), sentence
        assert "\n" not in sentence
        return sentence


def kept(folder: Path) -> list[Path]:
    files = [path for path in sorted((folder / "private").rglob("*")) if path.is_file()]
    return [*files, folder / "run.toml"]


def overwrite(path: Path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_a_sentence_or_harmless(copy, task, undisturbed):
    rng = np.random.default_rng(0)
    names = [path.relative_to(undisturbed[0]) for path in kept(undisturbed[0])]
    assert {"shards", "teachers", "noise", "votes.npy", "representation.joblib"} <= {
        name.parts[1] for name in names[:-1]
    }
    refused = 0
    for trial in range(FLIPS):
        # Without its votes a run looks at everything that it kept.
        folder = copy(asked_again=trial % 2 == 0)
        path = kept(folder)[rng.integers(len(kept(folder)))]
        content = bytearray(path.read_bytes())
        place, bit = rng.integers(len(content)), rng.integers(8)
        content[place] ^= 1 << bit
        overwrite(path, bytes(content))
        found = resumed(folder, task)
        assert isinstance(found, str) or found == undisturbed[1], (path, place, bit)
        refused += isinstance(found, str)
    assert 0 < refused < FLIPS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["representation.joblib", "votes.npy", "teachers/teachers-00003.bin"])
@pytest.mark.parametrize("how", ["cut off", "empty", "gone"])
def test_what_can_be_made_again_is(copy, task, undisturbed, name, how):
    folder = copy(asked_again=name != "votes.npy")
    path = folder / "private" / name
    if how == "gone":
        path.unlink()
    else:
        overwrite(path, path.read_bytes()[:100] if how == "cut off" else b"")
    assert resumed(folder, task) == undisturbed[1]


@pytest.mark.slow
def test_files_of_another_run_are_not_taken_for_this_ones(copy, task, undisturbed, tmp_path):
    other = tmp_path / "other"
    run(other, task, replace(RECIPE, seed=4))
    files = ["representation.joblib", "votes.npy", "teachers/teachers-00003.bin", "teachers/specification.json"]
    for name in [*files, "noise/round-1.npy", "shards"]:
        folder = copy(asked_again=name != "votes.npy")
        ours, theirs = (place / "private" / name for place in (folder, other))
        shutil.rmtree(ours) if ours.is_dir() else ours.unlink()
        shutil.copytree(theirs, ours) if theirs.is_dir() else shutil.copy(theirs, ours)
        found = resumed(folder, task)
        assert isinstance(found, str) or found == undisturbed[1], name
        if name in ("noise/round-1.npy", "shards"):
            assert isinstance(found, str), name


def test_a_changed_run_toml_is_refused(copy, task, undisturbed):
    folder = copy(asked_again=True)
    text = (folder / "run.toml").read_text()
    for before, after in (("sigma2 = 2.0", "sigma2 = 0.5"), ("queries = 40", "queries = 4"), ("round-1", "round-7")):
        assert before in text
        (folder / "run.toml").write_text(text.replace(before, after))
        assert "run.toml was changed after it was written" in resumed(folder, task)
    # Cut at the end of a line it is a TOML file still; within a word it is none.
    cut = text.rindex("\n", 0, len(text) // 2)
    for broken, sentence in ((text[:cut], "run.toml was changed"), (text[:cut] + "\n[", "run.toml must be")):
        (folder / "run.toml").write_text(broken)
        assert sentence in resumed(folder, task)
    (folder / "run.toml").write_text("")
    assert "run.toml must be" in resumed(folder, task)
    (folder / "run.toml").write_text(text)
    assert resumed(folder, task) == undisturbed[1]


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 9, 16])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on(task, tmp_path, monkeypatch, after):
    folder = tmp_path / "run"
    real, written = os.fsync, []

    def filling(handle):
        written.append(handle)
        if len(written) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", filling)
        found = resumed(folder, task)
    assert "could not be written: the disk is full; a run keeps what it finished" in found
    drawn = {path.name: path.read_bytes() for path in folder.glob("private/noise/*.npy")}
    again = resumed(folder, task)
    assert again == resumed(folder, task)
    assert drawn.items() <= {path.name: path.read_bytes() for path in folder.glob("private/noise/*.npy")}.items()
    assert np.load(folder / "private" / "votes.npy").sum() == 8 * 40


class Suicidal(LogisticRegression):
    """Ends the worker that fits it, once, as the system does where memory runs out."""

    def __init__(self, mark="", pace=0.0):
        super().__init__()
        self.mark, self.pace = mark, pace

    def fit(self, X, y):
        time.sleep(self.pace)
        if multiprocessing.parent_process() is not None and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)


@pytest.mark.slow
def test_a_killed_worker_is_one_sentence_and_the_run_goes_on(task, tmp_path):
    # So slow that workers pay.
    teacher = Suicidal(mark=str(tmp_path / "mark"), pace=0.5)
    recipe = replace(RECIPE, teacher=teacher, jobs=2)
    with pytest.raises(InvalidInput, match=r"A worker process was killed, .* the same command continues from there"):
        run(tmp_path / "run", task, recipe)
    assert (tmp_path / "mark").exists()
    held = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "private" / "teachers").glob("*.bin")}
    assert held
    run(tmp_path / "run", task, recipe)
    assert {path: path.stat().st_mtime_ns for path in held} == held
    calm = replace(recipe, jobs=1)
    run(tmp_path / "calm", task, calm)
    votes = [np.load(tmp_path / name / "private" / "votes.npy") for name in ("run", "calm")]
    np.testing.assert_array_equal(*votes)
