"""The noise log: every noisy answer is drawn once, written to the disk, and only then looked at.

Why one draw is enough of a guarantee. A second noisy answer to the same vote is a second privacy cost. The log is
written ahead of every use: answers are drawn in memory, flushed to `private/noise/` under their final name, and only
a log that is on the disk is ever read by the student, the labels or the statement. A process killed
- before the rename: nothing outside its memory has seen the draw; the next start draws afresh, and the one draw that
  is ever seen has the law of a single draw, since a kill does not depend on the drawn values (the file's size, which
  decides whether a disk is full, is the same for all of them);
- after the rename: the next start reads the log and draws nothing.
A log that belongs to other votes, another mechanism or other parameters is refused, never replaced.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ostrakon.data.files import private_folder, sweep, write_atomically
from ostrakon.mechanisms.base import NO_ANSWER, FloatArray
from ostrakon.noise import is_private, require_rng
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, Votes

FORMAT = 1


class Drawable(Protocol):
    """What may be drawn once and kept: a mechanism's answers, a gate's decision, noisy counts."""

    @property
    def name(self) -> str: ...

    def sample(self, votes: Votes, rng: np.random.Generator) -> IntArray:
        """What is released, one row per query."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Public parameters, which a resumed run compares."""
        ...


class Log(Protocol):
    """Where drawn answers are kept: on the disk for a run, in memory for an estimator."""

    def draw(
        self, name: str, votes: Votes, mechanism: Drawable, rng: np.random.Generator, *, max_answers: int | None = None
    ) -> tuple[IntArray, bool]:
        """(what `mechanism.sample` gave, one row per query; whether its noise came from a cryptographic source)."""
        ...

    def keep(self, name: str, make: Callable[[], FloatArray]) -> FloatArray:
        """The public array of that name (scores that a later draw depends on): made once, then the same for ever."""
        ...


class MemoryLog:
    """Draws and keeps nothing: for one process that either finishes or publishes nothing."""

    def draw(
        self, name: str, votes: Votes, mechanism: Drawable, rng: np.random.Generator, *, max_answers: int | None = None
    ) -> tuple[IntArray, bool]:
        """See `Log.draw`."""
        return sample_capped(votes, mechanism, rng, max_answers=max_answers), is_private(rng)

    def keep(self, name: str, make: Callable[[], FloatArray]) -> FloatArray:
        """See `Log.keep`."""
        return make()


class NoiseLog:
    """Draws once per name and remembers on the disk, in `folder` (inside `private/`).

    complete: a release rests on this log already, so whatever is asked for must be in it.
    """

    def __init__(self, folder: Path, *, complete: bool = False) -> None:
        self.folder = private_folder(folder)
        self._complete = complete
        sweep(folder)

    def draw(
        self, name: str, votes: Votes, mechanism: Drawable, rng: np.random.Generator, *, max_answers: int | None = None
    ) -> tuple[IntArray, bool]:
        """The answers of that name: read where they were drawn before, else drawn, flushed to the disk, then returned.

        Errors: `InvalidInput` where the log belongs to other votes, another mechanism or other parameters, and where
        it is complete and does not have them.
        """
        path = self._path(name)
        belongs = _belongs_to(votes, mechanism, max_answers)
        if not path.exists():
            self._refuse_complete(path)
            answers = sample_capped(votes, mechanism, rng, max_answers=max_answers)
            header = {**belongs, "private": is_private(rng)}
            write_atomically(path, _pack(header, answers), mode=0o400)
        header, answers = _unpack(path)
        different = [key for key in belongs if header.get(key) != belongs[key]]
        if different or len(answers) != votes.queries:
            raise InvalidInput(
                f"{path} holds answers drawn for another {' and '.join(different) or 'number of queries'}; "
                "drawing again would cost privacy twice, so start a new run in a new folder."
            )
        return answers, bool(header["private"])

    def keep(self, name: str, make: Callable[[], FloatArray]) -> FloatArray:
        """The public array of that name: read where it was made before, else made, flushed to the disk, returned."""
        path = self.folder / f"{name}.npy"
        if not path.exists():
            self._refuse_complete(path)
            array = make()
            write_atomically(path, lambda file: np.save(file, array, allow_pickle=False), mode=0o400)
        return np.load(path, allow_pickle=False)

    def _refuse_complete(self, path: Path) -> None:
        if self._complete:
            raise InvalidInput(
                f"{path} is gone from the noise log, but a release rests on it: drawing again would cost privacy "
                "twice; restore the log or start a new run in a new folder."
            )

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


def sample_capped(
    votes: Votes, mechanism: Drawable, rng: np.random.Generator, *, max_answers: int | None = None
) -> IntArray:
    """`mechanism.sample`, then "no answer" (-1) for every query after the first `max_answers` answered ones.

    Asking stops at the cap: the labels beyond it are never looked at.
    """
    answers = np.array(mechanism.sample(votes, require_rng(rng)), dtype=np.int64)
    if max_answers is not None:
        answers[np.cumsum(answers != NO_ANSWER) > max_answers] = NO_ANSWER
    return answers


def fingerprint_of(votes: Votes) -> str:
    """SHA-256 of the histograms. It depends on the private votes: it stays in `private/`."""
    digest = hashlib.sha256(f"{votes.counts.shape} {votes.teachers} {votes.abstentions} ".encode())
    digest.update(np.ascontiguousarray(votes.counts).tobytes())
    return digest.hexdigest()


def _belongs_to(votes: Votes, mechanism: Drawable, max_answers: int | None) -> dict[str, Any]:
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


def _pack(header: dict[str, Any], answers: IntArray) -> bytes:
    # Stored uncompressed and fixed-width: the size on disk must not depend on what was drawn.
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), answers=answers.astype(np.int64))
    return buffer.getvalue()


def _unpack(path: Path) -> tuple[dict[str, Any], IntArray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return json.loads(file["header"].tobytes()), file["answers"]
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"{path} must be a noise log of ostrakon, but it cannot be read ({error}); drawing again would cost "
            "privacy twice, so restore it or start a new run in a new folder."
        ) from None
