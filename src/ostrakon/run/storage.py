"""Storage of a run's results: in a folder, from which it can be resumed, or in memory."""

import contextlib
import io
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from ostrakon.data.checksummed import Checksummed, array_from, find_checksummed, npy, write_checksummed
from ostrakon.data.files import private_folder, write_atomically
from ostrakon.data.object_store import ObjectPath, StoredFolder
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan, plan_from
from ostrakon.run.day import today
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.private_data import PrivateTable
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log, NoiseLog
from ostrakon.run.remote import StoredMarks, adopt, claim, require_apart, require_same, stored_at
from ostrakon.run.stages.features import View
from ostrakon.run.stages.votes import table_of, votes_from
from ostrakon.statements.versions import versions
from ostrakon.teachers import TeacherStore
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Moments, Votes

VOTES = "votes.npy"

Collect = Callable[[TeacherStore | None, Path | StoredFolder | None], tuple[Votes, Any]]
"""From the stores of teachers and of shards (None: in memory) to (votes, teachers)."""
CollectErrors = Callable[[Path | StoredFolder | None], Moments]
"""From the store of pieces of the private table (None: in memory) to sums or counts of errors."""


class Storage:
    """Storage of the results of a run's stages; each method takes a function that computes a missing result.

    This class stores votes and teachers in memory for its caller: `cast` and `teachers`, both private. draws: whether
    the run has begun to draw noise.
    """

    def __init__(self) -> None:
        self.draws = False
        self.cast: Votes | None = None
        self.teachers: Any = None
        self._receipt: dict[str, Any] | None = None
        self._engines: tuple[str, ...] = ()

    def opened(self) -> contextlib.AbstractContextManager[object]:
        """Return a context in which the storage is locked for one run."""
        return contextlib.nullcontext()

    def plan(self, make: Callable[[], Plan]) -> Plan:
        """Return the plan, settled once."""
        return make()

    def view(self, make: Callable[[], View]) -> View:
        """Return the features of public rows and their representation."""
        return make()

    def votes(self, plan: Plan, view: View, queries: IntArray, collect: Collect) -> Votes:
        """Return the teachers' votes on `queries` with the features of `view`. Private."""
        self.cast, self.teachers = collect(None, None)
        return self.cast

    def errors(self, name: str, plan: Plan, student: list[float], collect: CollectErrors) -> Moments:
        """Return the sums called `name` of the student with the estimates `student` for some public rows. Private."""
        return collect(None)

    def keep_engine(self, name: str) -> None:
        """Record that workers of the engine `name` saw private rows."""
        self._engines = (name,)

    def engines(self) -> tuple[str, ...]:
        """Return the engines whose workers saw private rows."""
        return self._engines

    def store_in_words(self) -> str:
        """Return the object storage that received private rows, in words; empty if none did."""
        return ""

    def log(self) -> Log:
        """Return the noise log."""
        self.draws = True
        return Log()

    def receipt(self) -> dict[str, Any] | None:
        """See `Receipts.receipt`."""
        return self._receipt

    def keep_receipt(self, receipt: dict[str, Any]) -> None:
        """See `Receipts.keep_receipt`."""
        self._receipt = receipt

    def note(self, name: str, make: Callable[[], dict[str, Any]]) -> None:
        """Store a note for the trusted side; not in memory."""


class InFolder(Storage):
    """Storage in a run's folder; intact results of this run are read instead of computed.

    asked: the options as the user typed them, which run.toml stores and a resumed run compares. store: object storage
    for shards, trained teachers and noise, and for copies of votes, representation and run.toml, so that another folder
    can continue the run (see `ostrakon.run.remote`).
    """

    def __init__(
        self, home: RunFolder, task: Task, options: Options, asked: dict[str, Any], store: ObjectPath | None = None
    ) -> None:
        self._store = store
        self._home = home
        self._task = task
        self._options = options
        self._asked = asked

    @contextlib.contextmanager
    def opened(self) -> Generator[object]:
        """Lock the folder; refuse that of another run that has begun."""
        with self._home.opened():
            if self._store is not None:
                adopt(self._store, self._home, self._asked, self._task.fingerprints)
            self._home.take_over(self._asked, self._task.fingerprints)
            if self._store is None and self.store_in_words():
                raise InvalidInput(f"{self._home.path} keeps its votes in a store: give the same --store again.")
            if self._store is not None:
                require_same(self._store, self._home)
                if isinstance(self._task.private, PrivateTable):
                    require_apart(self._store, self._task.private.tables.private.path)
            yield

    def plan(self, make: Callable[[], Plan]) -> Plan:
        """See `Storage`; refuse a plan in run.toml that costs more than the requested epsilon."""
        plan = self._restore_plan(make)
        if self._store is not None:
            # Claimed before private data are sent.
            claim(self._store, self._home)
        return plan

    def _restore_plan(self, make: Callable[[], Plan]) -> Plan:
        stored = self._home.read()
        if stored is None:
            plan = make()
            self._describe(plan)
            return plan
        version, epsilon = stored.get("versions", {}).get("ostrakon", "unknown"), self._options.epsilon
        try:
            plan = plan_from(stored["settled"], classes=len(self._task.classes))
        except (InvalidInput, KeyError) as error:
            raise InvalidInput(
                f"{self._home.description} must hold a plan that this version of ostrakon can read, got one of version "
                f"{version} ({error}); finish the run with that version or start a new run in a new folder."
            ) from None
        if epsilon is not None and plan.claimable and plan.guarantee.epsilon > epsilon:
            raise InvalidInput(
                f"{self._home.description} must keep within epsilon {epsilon:g} as asked, but what it settles costs "
                f"{plan.guarantee.epsilon:.6g}: it was changed, or version {version} of ostrakon, which settled it, "
                "computes another cost; restore it, finish the run with that version, or start a new run in a new "
                "folder."
            )
        return plan

    def _describe(self, plan: Plan) -> None:
        """Write run.toml with the requested and the settled options, before any vote is counted."""
        settled: dict[str, Any] = {"asked": self._asked, "settled": plan.as_dict()}
        # A resumed run keeps its date, so that a release does not show how long its run took.
        settled["date"] = today()
        self._home.write({**settled, "versions": versions(), "fingerprints": dict(self._task.fingerprints)})

    def view(self, make: Callable[[], View]) -> View:
        """See `Storage`. Pickled in private/, because training an encoder may take minutes."""
        name, belongs = "representation.joblib", self._home.identity
        stored = self._find(name, what="representation", belongs=belongs)
        if stored is not None:
            return joblib.load(io.BytesIO(stored))
        view = make()
        if view.fitted is not None:
            buffer = io.BytesIO()
            joblib.dump(view, buffer)
            self._keep(name, buffer.getvalue(), what="representation", belongs=belongs)
        return view

    def votes(self, plan: Plan, view: View, queries: IntArray, collect: Collect) -> Votes:
        # Votes belong to these queries and these features.
        identity = {"queries": fingerprint_of(queries), "features": fingerprint_of(view.public)}
        if plan.narrowed is not None:
            identity["range"] = "{} to {}".format(*plan.narrowed)

        def table() -> IntArray:
            store = None if self._store is None else TeacherStore(self._store / "teachers")
            if store is None and not plan.per_record:
                store = TeacherStore(private_folder(self._home.private / "teachers"))
            return table_of(collect(store, self._shards)[0])

        return votes_from(plan, self._stored_or_collected(VOTES, table, what="votes", identity=identity))

    def errors(self, name: str, plan: Plan, student: list[float], collect: CollectErrors) -> Moments:
        table = self._stored_or_collected(
            f"{name}.npy",
            lambda: collect(self._shards).counts,
            what=name,
            identity={"student": fingerprint_of(np.asarray(student))},
        )
        return Moments(table, teachers=plan.teachers)

    def _stored_or_collected(
        self, name: str, collect: Callable[[], IntArray], *, what: str, identity: dict[str, str]
    ) -> IntArray:
        """Return the table of that name for this run and identity; collected if it is absent or damaged."""
        belongs = {"run": self._home.identity, **identity}
        stored = self._find(name, what=what, belongs=belongs)
        if stored is None:
            stored = bytes(npy(collect()))
            self._keep(name, stored, what=what, belongs=belongs)
        return array_from(stored)

    @property
    def _shards(self) -> Path | StoredFolder:
        local = self._home.private / "shards"
        return local if self._store is None else StoredFolder(self._store / "shards", local)

    def keep_engine(self, name: str) -> None:
        """See `Storage`; in run.toml, before anything is sent to a worker."""
        if name not in self.engines():
            self._home.add("engines", {"saw_private_rows": sorted([*self.engines(), name])})

    def engines(self) -> tuple[str, ...]:
        return tuple((self._home.read() or {}).get("engines", {}).get("saw_private_rows", ()))

    def store_in_words(self) -> str:
        """See `Storage`; from run.toml."""
        return stored_at(self._home)

    def log(self) -> Log:
        if self._store is None:
            return NoiseLog(self._home.private / "noise", marks=self._home.marks)
        return NoiseLog(self._store / "noise", marks=StoredMarks(self._home.marks, self._store))

    def receipt(self) -> dict[str, Any] | None:
        return self._home.receipt()

    def keep_receipt(self, receipt: dict[str, Any]) -> None:
        self._home.keep_receipt(receipt)

    def note(self, name: str, make: Callable[[], dict[str, Any]]) -> None:
        """Write a file in private/ unless it has the same content already."""
        path, text = self._home.private / f"{name}.json", (json.dumps(make(), indent=2) + "\n").encode()
        if not path.is_file() or path.read_bytes() != text:
            write_atomically(path, text)

    def _find(self, name: str, *, what: str, belongs: Any) -> bytes | None:
        """Return what was stored under that name, in the folder or else in the store, which is then copied."""
        stored = _payload_of_run(find_checksummed(self._home.private / name, what=what), belongs)
        if stored is None and self._store is not None:
            stored = _payload_of_run(find_checksummed(self._store / name, what=what), belongs)
            if stored is not None:
                write_checksummed(self._home.private / name, stored, what=what, belongs=belongs)
        return stored

    def _keep(self, name: str, content: bytes, *, what: str, belongs: Any) -> None:
        if self._store is not None:
            write_checksummed(self._store / name, content, what=what, belongs=belongs)
        write_checksummed(self._home.private / name, content, what=what, belongs=belongs)


def _payload_of_run(stored: Checksummed | None, belongs: Any) -> bytes | None:
    """Return the payload of a file of this run; None for another run's."""
    return stored.payload if stored is not None and stored.belongs == belongs else None
