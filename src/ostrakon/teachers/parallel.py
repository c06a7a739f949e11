"""Many small pieces of work over joblib's workers, which are started only where they pay, and may be killed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import joblib

from ostrakon.validation import InvalidInput

# Starting worker processes and their imports takes about this long.
_START_SECONDS = 2.0


class WorkerKilled(InvalidInput):
    """The system, or somebody, ended a worker process; what was finished is kept."""


@contextlib.contextmanager
def workers() -> Generator[None]:
    """Turn the loss of one of joblib's worker processes into `WorkerKilled`."""
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerKilled(
            "A worker process was killed, most often because memory ran out; what was finished is kept, and the same "
            "command goes on from there (fewer workers need less memory: --jobs, or n_jobs)."
        ) from error


def spread(
    work: Callable[[Any], Any], pieces: Iterable[Any], *, total: int, n_jobs: int | None, max_nbytes: str | None = "1M"
) -> Iterator[Any]:
    """The results of `work` on every piece, in the order they get done.

    The first piece is done here and timed: where all would be done before workers have started, none are. The
    results are the same either way. max_nbytes: as in joblib, None keeps data out of temporary files.
    Raises `WorkerKilled` where a worker process is killed.
    """
    waiting = iter(pieces)
    started = time.perf_counter()
    for piece in waiting:
        yield work(piece)
        break
    rest = (time.perf_counter() - started) * (total - 1)
    if n_jobs in (None, 1) or rest < _START_SECONDS:
        yield from map(work, waiting)
        return
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", max_nbytes=max_nbytes)
    with workers():
        yield from parallel(joblib.delayed(work)(piece) for piece in waiting)
