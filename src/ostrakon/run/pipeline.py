"""A run in a folder: each stage reads what it has already left on the disk, or does its work and leaves it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.object_store import ObjectPath
from ostrakon.estimators.choices import make_student
from ostrakon.export.student_files import require_exportable
from ostrakon.options.options import Options, is_auto
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.task import Task
from ostrakon.run.steps import FinishedRun, Say, run_steps
from ostrakon.run.storage import InFolder
from ostrakon.teachers.engines import LOCAL, check_engine


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome(FinishedRun):
    """A finished run and its folder, whose private/ is for eyes on the trusted side."""

    folder: Path


def run(
    folder: str | os.PathLike[str],
    task: Task,
    options: Options,
    *,
    asked: dict[str, Any] | None = None,
    rng: np.random.Generator | None = None,
    progress: bool = False,
    say: Say = lambda stage: None,
    engine: str = LOCAL,
    store: ObjectPath | None = None,
) -> Outcome:
    """Do, or finish, the run in `folder`: everything but writing `release/` (`ostrakon.report.release.publish`).

    asked: what the user typed, as run.toml keeps it and a resumed run compares it. rng: None for the cryptographic
    noise source; an ordinary generator is for tests and marks the statement "not private". say: told each stage.
    engine: where teachers are trained and asked, no part of what was asked (see `ostrakon.teachers.engines`); its
    workers read and write `folder` under the same path, as the same user. store: where the run is kept instead, one
    store to a run (`ostrakon.data.object_store.object_path`); workers then read and write that, and from it another
    folder, on another machine, goes on.

    Guarantee: killed at any moment and called again with the same arguments, it goes on from what is on the disk;
    no teacher is trained twice and no vote is noised twice (see `ostrakon.run.noise_log`).
    Errors: `InvalidInput` for a folder of another run, other data, settings that cannot be kept, a student that cannot
    leave.
    """
    if not is_auto(options.student):
        require_exportable(make_student(options.student, seed=options.seed))
    check_engine("engine", engine)
    # Workers start wherever they were started.
    home = RunFolder(folder if engine == LOCAL else Path(folder).absolute())
    # What leaves names classes in text.
    task = dataclasses.replace(task, classes=tuple(str(label) for label in task.classes))
    place = InFolder(home, task, options, options.as_toml() if asked is None else asked, store)
    finished = run_steps(task, options, place, rng=rng, progress=progress, say=say, engine=engine)
    return Outcome(folder=home.path, **vars(finished))
