"""Many small pieces of work on joblib's workers, which are started only if that saves time."""

import contextlib
import functools
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from ostrakon.teachers.engines import engine_in_use, require_one_thread
from ostrakon.validation import InvalidInput

# Seconds that the start of worker processes and their imports takes.
_START_SECONDS = 2.0
_KEPT = "What a run has stored in its folder is kept, and the same command continues from there."


class WorkerKilled(InvalidInput):
    """A worker process was killed."""


@contextlib.contextmanager
def workers() -> Generator[None]:
    """Turn the loss of one of joblib's worker processes into `WorkerKilled`."""
    try:
        yield
    except BrokenProcessPool as error:
        raise WorkerKilled(
            "A worker process was killed, most often because memory ran out; fewer workers need less memory "
            f"(--jobs, or n_jobs). {_KEPT}"
        ) from error
    except Exception as error:
        if not isinstance(error, _engine_errors()):
            raise
        raise WorkerKilled(
            "The engine gave up on work whose workers were killed again and again, most often because memory ran out, "
            f"or its scheduler is gone. {_KEPT}"
        ) from error


def _engine_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions of Dask and Ray after their last retry, if they are loaded."""
    dask, ray = sys.modules.get("distributed"), sys.modules.get("ray.exceptions")
    dask_errors = (
        [] if dask is None else [dask.KilledWorker, dask.client.FutureCancelledError, dask.comm.CommClosedError]
    )
    return (*dask_errors, *([] if ray is None else [ray.WorkerCrashedError, ray.OutOfMemoryError, ray.NodeDiedError]))


def spread(
    work: Callable[[Any], Any],
    pieces: Iterable[Any],
    *,
    total: int,
    n_jobs: int | None,
    max_nbytes: str | None = "1M",
    seconds: float | None = None,
    prefer: str | None = None,
) -> Iterator[Any]:
    """Yield the results of `work` on every piece, in the order of completion.

    The first piece is done here and timed: workers start only if the others take longer than their start. If an
    engine is set (see `ostrakon.teachers.engines`), all pieces go there. The results are the same in any case.
    max_nbytes: as in joblib, None keeps data out of temporary files. seconds: the time of a piece, if known.
    prefer: as in joblib, "threads" if most of the time is that of compiled loops.
    Raises `WorkerKilled` if a worker process is killed.
    """
    queue = iter(pieces)
    if engine_in_use() is not None:
        yield from in_parallel((joblib.delayed(work)(piece) for piece in queue), n_jobs=n_jobs, max_nbytes=max_nbytes)
        return
    remaining = None if seconds is None else seconds * total
    if remaining is None:
        started = time.perf_counter()
        for piece in queue:
            yield work(piece)
            break
        remaining = (time.perf_counter() - started) * (total - 1)
    if n_jobs in (None, 1) or remaining < _START_SECONDS:
        yield from map(work, queue)
        return
    options: dict[str, Any] = {"max_nbytes": max_nbytes, "prefer": prefer}
    yield from in_parallel((joblib.delayed(work)(piece) for piece in queue), n_jobs=n_jobs, **options)


def in_parallel(tasks: Iterable[Any], *, n_jobs: int | None, **how: Any) -> Iterator[Any]:
    """Yield the results of joblib's `tasks` in the order of completion.

    how: as in `joblib.Parallel`. Raises `WorkerKilled`.
    """
    with workers():
        engine = engine_in_use()
        if engine == "Ray":
            yield from _by_ray(tasks)
        elif engine == "Dask":
            yield from _by_dask(tasks)
        else:
            wrapped = ((_run_in_worker, (os.getpid(), *task), {}) for task in tasks)
            yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", **how)(wrapped)


def _run_in_worker(parent: int, work: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a task in a worker that ends with its parent process; joblib's workers would remain for minutes."""
    _end_with(parent)
    return work(*arguments, **keywords)


@functools.cache
def _end_with(parent: int) -> None:
    if os.getppid() != parent:
        return  # in the process itself, or a worker of workers

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _by_ray(tasks: Iterable[Any]) -> Iterator[Any]:
    """Run tasks on Ray, which retries them; joblib's backend does not, and returns all results at the end."""
    ray: Any = importlib.import_module("ray")
    remote = ray.remote(max_retries=3)(_call)
    waiting = [remote.remote(*task) for task in tasks]
    while waiting:
        done, waiting = ray.wait(waiting)
        yield ray.get(done[0])


def _by_dask(tasks: Iterable[Any]) -> Iterator[Any]:
    """Run tasks on Dask, which retries them; joblib would not use a single worker."""
    distributed: Any = importlib.import_module("distributed")
    backend: Any = get_active_backend()[0]
    client = backend.client
    require_one_thread(client)
    waiting = [client.submit(_call, *task, pure=False) for task in tasks]
    try:
        for done in distributed.as_completed(waiting, loop=client.loop):
            yield done.result()
            done.release()
    finally:
        client.cancel(waiting)


def _call(work: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return work(*arguments, **keywords)
