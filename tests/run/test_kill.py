"""Killed at any moment (SIGKILL, so nothing is cleaned up), a run goes on: nothing is trained or drawn twice."""

import os
import pkgutil
import shutil
import signal
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import run

RECIPE = Options(
    teachers=30,
    mechanism="interactive-gnmax",
    queries=100,
    parameters={"threshold": 20.0, "sigma1": 15.0, "sigma2": 5.0},
    teacher="random-forest(n_estimators=10)",
    student="self-training",
    jobs=1,
)


def finish(folder, task):
    outcome = run(folder, task, RECIPE)
    publish(outcome)
    return outcome


def run_until(folder, task, steps, seconds) -> bool:
    """Run in a child that is killed `seconds` after its step number `steps` (`after_steps`); whether it finished."""
    child = os.fork()
    if child == 0:
        try:
            after_steps(folder, steps, lambda: signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6)))
            finish(folder, task)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGALRM)
    return os.WIFEXITED(status)


def after_steps(folder, steps, then):
    """Call `then` at the step number `steps` of this process: a file of `folder` is opened, renamed or deleted."""
    taken = Counter()

    def watch(event, details):
        if event in ("open", "os.rename", "os.remove") and str(folder) in str(details[0]):
            taken[folder] += 1
            if taken[folder] == steps:
                then()

    sys.addaudithook(watch)
    return taken


def stamps(folder):
    """What must never be made twice: teachers, their predictions and the noise, by file number and time."""
    kept = [
        *folder.glob("private/teachers/**/*.*"),
        *folder.glob("private/shards/*"),
        *folder.glob("private/noise/*.np?"),
        *folder.glob("private/*.npy"),
    ]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in kept if not path.name.startswith(".")}


def released(folder):
    names = ("labels.csv", "statement.json", "model_card.md", "report.html")
    return {name: (folder / "release" / name).read_text() for name in names}


@pytest.fixture(scope="module")
def table(task, tmp_path_factory):
    """The task with its private rows on the disk."""
    folder = tmp_path_factory.mktemp("table")
    rows = {
        "private": (task.private.X, task.private.y),
        "public": (task.X_public, 0),
        "test": (task.X_test, task.y_test),
    }
    for name, (X, y) in rows.items():
        pd.DataFrame(X, columns=["x", "y"]).assign(side=np.array(task.classes)[y]).to_csv(
            folder / f"{name}.csv", index=False
        )
    classes = list(task.classes)
    return task_from_files(
        folder / "private.csv", folder / "public.csv", target="side", test=folder / "test.csv", classes=classes
    )


def calmly(folder, task):
    """The folder and outcome of a run that nothing disturbs, and its number of steps."""
    steps = after_steps(folder, 0, None)
    return folder, finish(folder, task), steps[folder]


@pytest.fixture(scope="module")
def undisturbed(task, tmp_path_factory):
    return calmly(tmp_path_factory.mktemp("undisturbed") / "run", task)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(3))
def test_a_killed_run_equals_an_undisturbed_one_with_the_same_seed_and_noise_log(task, tmp_path, undisturbed, trial):
    _, _, steps = undisturbed
    kill_and_compare(tmp_path, task, steps, trial)


@pytest.mark.slow
def test_a_killed_run_on_a_table_equals_an_undisturbed_one(table, tmp_path):
    _, _, steps = calmly(tmp_path / "undisturbed", table)
    folder = kill_and_compare(tmp_path, table, steps, trial=0)
    held = [path.name for path in (folder / "private").iterdir()]
    assert "shards" in held
    assert not [name for name in held if name.endswith((".part", ".spill"))]


def kill_and_compare(tmp_path, task, steps, trial):
    folder, moments = tmp_path / "run", np.random.default_rng(trial)
    seen, kills = {}, 0
    # A fifth of the steps at most, so the first kills are certain; more each time, so that every stage is passed.
    while not run_until(folder, task, moments.integers(1, steps * (4 + kills) // 20), moments.uniform(0, 0.05)):
        kills += 1
        now = stamps(folder)
        changed = {path for path in seen if now.get(path) != seen[path]}
        assert not changed, f"made again after kill {kills}: {changed}"
        seen = now
        if (folder / "release").exists():
            assert (folder / "release" / "statement.json").exists()
            assert (folder / "release" / "model_card.md").exists()
    assert kills >= 2
    goes_on_as_if_undisturbed(folder, task, seen)
    return folder


def goes_on_as_if_undisturbed(folder, task, seen):
    """Finish the run: nothing in `seen` is made again, and all is as if it had never been interrupted."""
    outcome = finish(folder, task)
    assert {path: stamp for path, stamp in stamps(folder).items() if path in seen} == seen

    # The same settings and the same noise log, never interrupted.
    calm = folder.with_name("calm")
    (calm / "private").mkdir(parents=True)
    shutil.copy2(folder / "run.toml", calm)
    shutil.copytree(folder / "private" / "noise", calm / "private" / "noise")
    again = finish(calm, task)
    assert released(folder) == released(calm)
    np.testing.assert_array_equal(np.load(folder / "private" / "votes.npy"), np.load(calm / "private" / "votes.npy"))
    np.testing.assert_array_equal(outcome.student.predict_proba(task.X_test), again.student.predict_proba(task.X_test))


# Where memory is refused, in the order of the run: (what asks for it, the calls that still get it).
LACKS = (
    ("ostrakon.run.steps.view_of", 0),
    ("sklearn.ensemble.RandomForestClassifier.fit", 13),
    ("sklearn.ensemble.RandomForestClassifier.predict", 7),
    ("ostrakon.run.steps.answer_queries", 0),
    ("sklearn.semi_supervised.SelfTrainingClassifier.fit", 0),
    ("ostrakon.report.release.model_card", 0),
)


@pytest.mark.slow
def test_a_run_that_lacked_memory_everywhere_goes_on_to_the_same_release(task, tmp_path):
    folder, seen = tmp_path / "run", {}
    for place, granted in LACKS:
        with pytest.MonkeyPatch.context() as refused:
            calls = deny(refused, place, granted)
            with pytest.raises(MemoryError):
                finish(folder, task)
            assert calls[place] == granted + 1
        assert not (folder / "release" / "manifest.json").exists()
        now = stamps(folder)
        assert {path: now.get(path) for path in seen} == seen
        seen = now
    assert {path.name for path in seen} >= {"votes.npy", "round-1.npy", "round-2.npy"}
    goes_on_as_if_undisturbed(folder, task, seen)


def deny(patch, place, granted) -> Counter:
    """No memory for `place` after so many calls of it; counts them."""
    owner, _, name = place.rpartition(".")
    real, calls = pkgutil.resolve_name(place), Counter()

    def denied(*args, **options):
        calls[place] += 1
        if calls[place] > granted:
            raise MemoryError
        return real(*args, **options)

    patch.setattr(pkgutil.resolve_name(owner), name, denied)
    return calls


@pytest.mark.slow
def test_killed_between_draw_and_rename_the_answers_were_never_there(task, tmp_path, monkeypatch):
    """The one moment that matters: drawn, but not yet under its name. The next start draws, once."""
    folder = tmp_path / "run"
    child = os.fork()
    if child == 0:
        rename = os.replace

        def die_before_the_noise_log(source, target, **options):
            if "round-1" in str(target):
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(source, target, **options)

        monkeypatch.setattr(os, "replace", die_before_the_noise_log)
        finish(folder, task)
        os._exit(0)
    os.waitpid(child, 0)
    noise = folder / "private" / "noise"
    assert [path.suffix for path in noise.iterdir()] == [".part"]
    assert not (folder / "release").exists()
    finish(folder, task)
    assert sorted(path.name for path in noise.iterdir()) == ["round-1.npy", "round-2.npy", "scores-2.npy"]
    first = stamps(folder)
    finish(folder, task)
    assert stamps(folder) == first


@pytest.mark.slow
def test_a_finished_run_is_only_read(task, undisturbed):
    folder, outcome, _ = undisturbed
    before = stamps(folder), released(folder)
    again = finish(folder, task)
    assert (stamps(folder), released(folder)) == before
    np.testing.assert_array_equal(again.answers.labels, outcome.answers.labels)
