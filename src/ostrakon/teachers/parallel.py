"""Many small pieces of work over joblib's workers, which are started only where they pay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import joblib

# Starting worker processes and their imports takes about this long.
_START_SECONDS = 2.0


def spread(
    work: Callable[[Any], Any], pieces: Iterable[Any], *, total: int, n_jobs: int | None, max_nbytes: str | None = "1M"
) -> Iterator[Any]:
    """The results of `work` on every piece, in the order they get done.

    The first piece is done here and timed: where all would be done before workers have started, none are. The
    results are the same either way. max_nbytes: as in joblib, None keeps data out of temporary files.
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
    yield from parallel(joblib.delayed(work)(piece) for piece in waiting)
