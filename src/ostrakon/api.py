"""`ostrakon.train` and `ostrakon.refit`: what the commands of these names do, as functions."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostrakon.data.classes import require_order_given
from ostrakon.data.files import require_writable
from ostrakon.data.object_store import object_path
from ostrakon.data.understood import Understood
from ostrakon.estimators.choices import require_choices
from ostrakon.features.text import reads_text
from ostrakon.options.call import with_own_parameters
from ostrakon.options.files import Files
from ostrakon.options.options import ACCURACY, AUTO, ORDERED, Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.earlier import read_release
from ostrakon.report.manifest import is_finished
from ostrakon.report.release import publish, refuse_other_report, require_refit_folder, save_refitted
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.pipeline import Outcome, run
from ostrakon.run.refit import refit_student
from ostrakon.run.steps import FinishedRun
from ostrakon.teachers.engines import LOCAL, check_engine
from ostrakon.validation import InvalidInput, require_path


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What `train` returns.

    Parameters
    ----------
    outcome : Outcome
        The finished run; `outcome.statement` is what may be claimed, `outcome.student` predicts labels.
    release : Path
        The folder that may be published.
    repeated : bool
        Whether the run was finished before this call: then its release is as it was, and nothing more was spent.
    """

    outcome: Outcome = field(repr=False)
    release: Path
    repeated: bool = False


def train(
    *,
    out: str | os.PathLike[str] = "my-run",
    engine: str = LOCAL,
    store: str | None = None,
    store_options: str | os.PathLike[str] | None = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda stage: None,
    show_understood: Callable[[Understood], None] = lambda understood: None,
    **options: Any,
) -> Trained:
    """Train on confidential files and write a differentially private release.

    Parameters
    ----------
    out : path, default "my-run"
        The run's folder. The same call resumes a run that was stopped.
    engine : str, default "local"
        Where teachers are trained: "local", "dask:HOST:PORT" or "ray:HOST:PORT".
    store : str, optional
        s3://BUCKET/FOLDER that stores the run, so that another machine can resume it.
    store_options : path, optional
        TOML file of the store's options.
    progress : bool, default False
        Whether progress bars are shown.
    say : callable, optional
        Receives one sentence at the start of each step.
    show_understood : callable, optional
        Receives how the files were read, before anything is trained.
    **options
        The options of `ostrakon train` by name, with underscores: `private`, `public`, `target`, `by`, `test`,
        `epsilon`, `delta`, `mechanism`, `teachers`, `budget`, `student`, `operator` and all others.

    Returns
    -------
    Trained

    Raises
    ------
    InvalidInput
        For an unknown option, a value that is not allowed, files that cannot be read, or a run that does not fit into
        its budget.

    Notes
    -----
    Guarantee: as `outcome.statement.guarantee` says, for everything in `release`; `out/private` must not be published.

    Examples
    --------
    >>> import ostrakon
    >>> ostrakon.train(public="public.csv", target="income")
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: private must be given.
    """
    values = with_own_parameters(options)
    files, settings, details = Files.of(values), Options.of(values), ReportDetails.of(values)
    every = {**files.as_toml(), **settings.as_toml()}
    names = {*Files.options(), *Options.options(), *ReportDetails.options(), *settings.parameters}
    unknown = [name for name in values if name not in names]
    if unknown:
        raise InvalidInput(f"{unknown[0]} is not an option of train; `ostrakon train --help-all` lists them.")
    check_engine("engine", engine)
    require_choices(teacher=settings.teacher, student=settings.student, representation=settings.representation)
    if settings.objective == ORDERED and files.range is None and files.labels is None:
        require_order_given(files.for_task()["classes"])
    if store is None and store_options is not None:
        raise InvalidInput("store-options are for a store: give --store, too.")
    stored_at = None if store is None else object_path(store, store_options)
    asked = {name: every[name] for name in values if name in every}
    require_writable("out", out)
    RunFolder(out).refuse_other_run(asked, {}, begun=True)
    refuse_other_report(RunFolder(out), details)
    repeated = is_finished(RunFolder(out).release, again=True)
    task = task_from_files(**files.for_task(), text=reads_text(settings.representation))
    show_understood(task.understood)
    outcome = run(out, task, settings, asked=asked, progress=progress, say=say, engine=engine, store=stored_at)
    release = publish(outcome, details, publish_accuracy=files.publish_accuracy)
    return Trained(outcome=outcome, release=release, repeated=repeated)


@dataclass(frozen=True, kw_only=True, eq=False)
class Refitted:
    """What `refit` returns.

    Parameters
    ----------
    finished : FinishedRun
        `finished.student` predicts labels; `finished.statement` is that of the earlier release, apart from the student;
        `finished.measures` are those on the test rows, None without any.
    release : Path
        The new folder, which may be published.
    """

    finished: FinishedRun = field(repr=False)
    release: Path


def refit(
    release: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    public: str | os.PathLike[str] | None = None,
    student: Any = AUTO,
    objective: str = ACCURACY,
    representation: str | None = None,
    test: str | os.PathLike[str] | None = None,
) -> Refitted:
    """Train another student from a finished release alone, and write a new release.

    Parameters
    ----------
    release : path
        The folder of a finished release.
    out : path
        The folder of the new release, new or empty.
    public : path, optional
        The public table, pictures or texts that the release was made with; their checksum must be the same. None if
        the columns were described instead.
    student : str or estimator, default "auto"
        As for `train`.
    objective : {"accuracy", "balanced", "log-loss", "ordered"}, default "accuracy"
        As for `train`.
    representation : str, optional
        Needed only if the release was made with `onnx:FILE` or `torch:MODULE:FACTORY`: the same again.
    test : path, optional
        Labelled rows on which the new student is measured (`finished.measures`); nothing of this is released.

    Returns
    -------
    Refitted

    Raises
    ------
    InvalidInput
        For a folder that is not a release as it was written, one that cannot be refitted, another public table, or a
        student that cannot learn from what was released.

    Notes
    -----
    Guarantee: the new release is a function of the earlier one and of public rows, so by post-processing it costs no
    privacy: one guarantee covers both. No private file is read.

    Examples
    --------
    >>> import ostrakon
    >>> ostrakon.refit("no-such-folder", out="new")
    Traceback (most recent call last):
    ...
    ostrakon.validation.InvalidInput: release must be the folder of a finished release, got no-such-folder.
    """
    for name, path in (("public", public), ("test", test)):
        if path is not None:
            require_path(name, path)
    settings, earlier = Options.of({"student": student, "objective": objective}), Path(release)
    content = read_release(earlier)
    require_refit_folder(Path(out), earlier)
    finished = refit_student(
        content, public, student=student, objective=settings.objective, representation=representation, test=test
    )
    return Refitted(finished=finished, release=save_refitted(finished, out, content.recipe))
