"""A run in a folder: each step reads its result from the disk, or computes and writes it."""

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
    """A finished run and its folder, whose private/ is for the trusted side only."""

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

    Parameters
    ----------
    folder : path
    task : Task
    options : Options
    asked : dict, optional
        The options as the user typed them, which run.toml stores and a resumed run compares.
    rng : numpy.random.Generator, optional
        None for the cryptographic noise source. An ordinary generator is for tests; the statement then says "not
        private".
    progress : bool
    say : callable
        Receives one sentence at the start of each step.
    engine : str
        Where teachers are trained and asked; it may differ from call to call (`ostrakon.teachers.engines`). Workers
        read and write `folder` under the same path, as the same user.
    store : ObjectPath, optional
        Where the run is stored instead, one store for a run (`ostrakon.data.object_store.object_path`). Workers read
        and write that, and from it another folder, on another machine, continues.

    Raises
    ------
    InvalidInput
        For a folder of another run, other data, settings that cannot be met, and a student that cannot be released.

    Notes
    -----
    Guarantee: killed at any moment and called again with the same arguments, it continues from what is on the disk; no
    teacher is trained twice and no vote is noised twice (see `ostrakon.run.noise_log`).
    """
    if not is_auto(options.student):
        require_exportable(make_student(options.student, seed=options.seed))
    check_engine("engine", engine)
    # Workers may have another working directory.
    home = RunFolder(folder if engine == LOCAL else Path(folder).absolute())
    # A release names classes in text.
    task = dataclasses.replace(task, classes=tuple(str(label) for label in task.classes))
    storage = InFolder(home, task, options, options.as_toml() if asked is None else asked, store)
    finished = run_steps(task, options, storage, rng=rng, progress=progress, say=say, engine=engine)
    return Outcome(folder=home.path, **vars(finished))
