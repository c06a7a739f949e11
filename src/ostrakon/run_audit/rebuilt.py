"""Test whether a release depends on private data except through its noise log, by building it again from other data."""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.features.rowwise import take_rows
from ostrakon.options.options import Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.planning.plan import Plan
from ostrakon.report.manifest import MANIFEST
from ostrakon.report.release import save_release
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.private_data import Transform
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log
from ostrakon.run.steps import Say, run_steps
from ostrakon.run.storage import Storage
from ostrakon.run_audit.canaries import WithCanaries, end_steps
from ostrakon.teachers.per_record import Block
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

_STUDENT = {"student.onnx", "student.safetensors"}
"""Files that may differ each time they are built."""


def first_difference(folder: Path, plan: Plan, task: Task, options: Options, *, say: Say) -> str | None:
    """Return the first file of a release that does not follow from its noise log, in one sentence; None without one.

    Parameters
    ----------
    folder : Path
        Folder of a finished run of per-record teachers, with its release.
    plan, task, options
        Of that run.
    say : callable
        Receives a sentence about files that cannot be compared.

    Notes
    -----
    The run is repeated with the draws in the noise log of `folder`, and with other private data: as many public rows,
    with the classes in turn, and other checksums. A release that depends on private data through its noise alone has
    the same bytes. A student that differs (perhaps because it was trained on a GPU) is built again from the original
    data; if it differs again, it is not compared. No other file is exempt. Times, owners and modes are not compared.
    """
    rows = np.arange(task.private.units) % task.pool
    y = np.arange(len(rows)) % plan.classes
    if task.target == "quantity":
        y = end_steps(y)
    if task.target == "labels":
        y = np.eye(plan.classes, dtype=np.int64)[y]
    private = _ReplacedData(base=task.private, X=take_rows(task.X_public, rows), y=y)
    fingerprints = {name: mark if name == "public" else "0" * len(mark) for name, mark in task.fingerprints.items()}
    others = dataclasses.replace(task, private=private, fingerprints=fingerprints, outside={})
    released, rebuilt = _read_files(folder / "release"), _build_again(folder, plan, others, options)
    # The manifest holds the checksums of all others.
    names = sorted(_different_names(released, rebuilt), key=lambda name: (name == MANIFEST, name))
    nondeterministic = set[str]()
    if _STUDENT.intersection(names):
        nondeterministic = _STUDENT & _different_names(released, _build_again(folder, plan, task, options))
    if nondeterministic:
        say(f"Not compared, because they differ each time they are built: {', '.join(sorted(nondeterministic))}")
    skipped = {*nondeterministic, *((MANIFEST,) if nondeterministic else ())}
    differences = [name for name in names if name not in skipped]
    if not differences:
        return None
    name = differences[0]
    field = _first_field(released.get(name), rebuilt.get(name))
    return f"{name}{field} of the release is not what the noise log implies: it depends on private data beside it"


def _build_again(folder: Path, plan: Plan, task: Task, options: Options) -> dict[str, bytes]:
    """Return the files of a release from the private data of `task` and the noise log of `folder`."""
    finished = run_steps(task, options, _StoredRun(folder, plan))
    with tempfile.TemporaryDirectory(dir=folder / "private") as temporary:
        save_release(finished, temporary, ReportDetails(), date=(RunFolder(folder).read() or {}).get("date"))
        return _read_files(Path(temporary))


def _different_names(one: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _first_field(one: bytes | None, other: bytes | None) -> str:
    """Return the first field that differs between two JSON objects, in brackets; empty for other content."""
    try:
        contents: list[Any] = [json.loads(content or b"") for content in (one, other)]
    except ValueError:
        return ""
    names = [key for key in contents[0] if contents[0].get(key) != contents[1].get(key)]
    return f" ({names[0]})" if names else ""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _ReplacedData(WithCanaries):
    """Other private data with the kind of `base` and as many units."""

    @property
    def units(self) -> int:
        return len(self.y)

    def by_unit(self, *, seed: int, transform: Transform, folder: Path) -> Iterator[Block]:
        yield np.arange(len(self.y)), transform(self.X), self.y


class _StoredRun(Storage):
    """The plan and the noise log of a finished run."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__()
        self._noise, self._plan = folder / "private" / "noise", plan

    def plan(self, make: Callable[[], Plan]) -> Plan:
        return self._plan

    def log(self) -> Log:
        return _ReplayLog(self._noise)


class _ReplayLog(Log):
    """A noise log that returns stored draws, whatever the votes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def draw(self, name: str, *arguments: Any, **more: Any) -> tuple[IntArray, bool]:
        stored = read_checksummed(self._folder / f"{name}.npy", what=name)
        if stored is None:
            raise InvalidInput(f"The noise log must hold {name}, but {self._folder} does not.")
        return array_from(stored.payload), bool(stored.belongs["private"])
