"""The noise log: every noisy answer is drawn once, written to the disk, and only then used.

A second noisy answer to the same vote is a second privacy cost. The log is
written ahead of every use: answers are drawn in memory, flushed to `private/noise/` under their final name, and only
a log that is on the disk is ever read by the student, the labels or the statement. A process killed
- before the rename: nothing outside its memory has seen the draw; the next start draws afresh, and the one draw that
  is ever seen has the law of a single draw, since a kill does not depend on the drawn values (the file's size, which
  decides whether a disk is full, is the same for all of them);
- after the rename: the next start reads the log and draws nothing.
A log that is damaged, or belongs to other votes, another mechanism or other parameters is refused, never replaced.
Before an answer on the disk is used, a mark of it is written outside `private/` (into run.toml): a copy of the run
whose log is missing or different is refused instead of drawing a second time.
A log in object storage is shared by all machines that continue a run: a draw is stored only if there is none, and the
others use the stored one.
"""

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.checksummed import Checksummed, Damaged, array_from, npy, read_checksummed, write_checksummed
from ostrakon.data.files import private_folder, sweep
from ostrakon.data.object_store import ObjectPath
from ostrakon.mechanisms.base import NO_ANSWER, FloatArray, Mechanism
from ostrakon.noise import is_private, require_rng
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Moments, Votes

FORMAT = 2

VotesOrSums = Votes | Moments
"""Inputs of noise."""


@dataclass(frozen=True, kw_only=True)
class OneDraw:
    """A part of a release that is drawn once: a gate's decision, noisy counts, noisy sums, an owner's share.

    Parameters
    ----------
    name : str
    sample : callable
        From (votes, rng) to whole numbers, one row per query.
    parameters : callable
        Returns public parameters, which a resumed run compares.
    """

    name: str
    sample: Callable[[Any, np.random.Generator], IntArray]
    parameters: Callable[[], dict[str, Any]]


Drawable = Mechanism | OneDraw
"""Objects that the log draws from."""


class Log:
    """Draws without storing, for a process that either finishes or publishes nothing."""

    def draw(
        self,
        name: str,
        votes: VotesOrSums,
        mechanism: Drawable,
        rng: np.random.Generator,
        *,
        max_answers: int | None = None,
    ) -> tuple[IntArray, bool]:
        """Return (the sample of the mechanism, one row per query; whether its noise is cryptographic)."""
        return sample_capped(votes, mechanism, rng, max_answers=max_answers), is_private(rng)

    def keep(self, name: str, make: Callable[[], FloatArray]) -> FloatArray:
        """Return the public array of that name (scores that a later draw depends on), computed once."""
        return make()


class Marks(Protocol):
    """The checksums of draws by name, stored outside the noise log (a dict, for tests)."""

    def get(self, name: str, /) -> str | None:
        """Return the checksum, None if there was no draw."""
        ...

    def __setitem__(self, name: str, checksum: str, /) -> None:
        """Store it; it is on the disk when this returns."""
        ...


class NoiseLog(Log):
    """Draws once per name and stores it on the disk, in `folder` (inside `private/`), or in object storage.

    marks: marks of draws (see `ostrakon.run.folder.RunFolder.marks`).
    """

    def __init__(self, folder: Path | ObjectPath, *, marks: Marks | None = None) -> None:
        self.folder = folder
        self._marks: Marks = {} if marks is None else marks
        if isinstance(folder, Path):
            sweep(private_folder(folder))

    def draw(
        self,
        name: str,
        votes: VotesOrSums,
        mechanism: Drawable,
        rng: np.random.Generator,
        *,
        max_answers: int | None = None,
    ) -> tuple[IntArray, bool]:
        """Return the answers of that name: read if they were drawn before, else drawn and flushed to the disk first.

        Errors: `InvalidInput` if the log belongs to other votes, another mechanism or other parameters, is damaged, or
        is missing although it was drawn.
        """
        belongs = _identity_of_draw(votes, mechanism, max_answers)

        def sample() -> tuple[IntArray, dict[str, Any]]:
            answers = sample_capped(votes, mechanism, rng, max_answers=max_answers)
            # A fixed width, so that the size on the disk does not depend on the draw.
            return answers.astype(np.int64), {**belongs, "private": is_private(rng)}

        stored = self._draw_once(name, sample)
        answers = array_from(stored.payload)
        changes = _differences(stored.belongs, belongs)
        if changes or len(answers) != votes.queries:
            raise InvalidInput(
                f"{self._path(name)} was drawn with other settings ({', '.join(changes) or 'number of queries'}), by "
                "another version of ostrakon or for another run; drawing again would cost privacy twice: finish the "
                "run with the version in run.toml, or start a new run in a new folder."
            )
        return answers, bool(stored.belongs["private"])

    def keep(self, name: str, make: Callable[[], FloatArray]) -> FloatArray:
        """Return the public array of that name: read if it exists, else computed and flushed to the disk first.

        Errors: `InvalidInput` if it is damaged, missing, or not the first array.
        """
        return array_from(self._draw_once(name, lambda: (make(), None)).payload)

    def _draw_once(self, name: str, make: Callable[[], tuple[NDArray[Any], Any]]) -> Checksummed:
        """Return what is stored under that name, computed if it never was; it is marked before it is used."""
        path, mark = self._path(name), self._marks.get(name)
        stored = self._read(path, name)
        if stored is None:
            if mark is not None:
                raise InvalidInput(
                    f"{path} is gone from the noise log, but it was drawn and may have been released: drawing again "
                    "would cost privacy twice; restore the log, or start a new run in a new folder."
                )
            array, belongs = make()
            with contextlib.suppress(FileExistsError):
                write_checksummed(path, npy(array), what=name, belongs=belongs, mode=0o400, create=True)
            stored = self._read(path, name)
            if stored is None:
                raise InvalidInput(f"{path} could not be kept, so nothing of it is used; the same command goes on.")
        if mark is None:
            self._marks[name] = stored.checksum
        elif mark != stored.checksum:
            raise InvalidInput(
                f"{path} is not what was drawn first (run.toml notes another checksum): a second noisy answer is a "
                "second privacy cost; restore it, or start a new run in a new folder."
            )
        return stored

    def _read(self, path: Path | ObjectPath, what: str) -> Checksummed | None:
        try:
            return read_checksummed(path, what=what)
        except Damaged as error:
            raise InvalidInput(
                f"{str(error).removesuffix('.')}; drawing again would cost privacy twice, so restore it or start a new "
                "run in a new folder."
            ) from None

    def _path(self, name: str) -> Path | ObjectPath:
        return self.folder / f"{name}.npy"


def sample_capped(
    votes: VotesOrSums, mechanism: Drawable, rng: np.random.Generator, *, max_answers: int | None = None
) -> IntArray:
    """Return `mechanism.sample`, then "no answer" (-1) for every query after the first `max_answers` answered ones.

    Labels beyond the cap are never used.
    """
    table: Any = votes  # counts or sums, by the mechanism
    answers = np.array(mechanism.sample(table, require_rng(rng)), dtype=np.int64)
    if max_answers is not None:
        answers[np.cumsum(answers != NO_ANSWER) > max_answers] = NO_ANSWER
    return answers


def fingerprint_of(votes: VotesOrSums) -> str:
    """Return the SHA-256 of the histograms. It depends on the private votes, so it stays in `private/`."""
    digest = hashlib.sha256(f"{votes.counts.shape} {votes.teachers} {votes.abstentions} ".encode())
    digest.update(np.ascontiguousarray(votes.counts).tobytes())
    return digest.hexdigest()


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names in which two identities of a draw differ."""
    one, other = ({**identity, **identity.get("parameters", {})} for identity in (before, now))
    names = [name for name in dict.fromkeys([*one, *other]) if one.get(name) != other.get(name)]
    return [name for name in names if name not in ("parameters", "private")]


def _identity_of_draw(votes: VotesOrSums, mechanism: Drawable, max_answers: int | None) -> dict[str, Any]:
    parameters = {
        name: hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        if isinstance(value, np.ndarray)
        else value
        for name, value in mechanism.parameters().items()
    }
    return {
        "format": FORMAT,
        "mechanism": mechanism.name,
        "parameters": parameters,
        "cap on answers": max_answers,
        "set of votes": fingerprint_of(votes),
    }
