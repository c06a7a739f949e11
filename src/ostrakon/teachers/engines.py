"""Where teachers are trained and vote: here, or on the workers of Dask or Ray, which schedule and retry the work."""

import contextlib
import importlib
import re
from collections.abc import Generator
from typing import Any

import joblib
from joblib.parallel import get_active_backend

from ostrakon.validation import InvalidInput, quote

LOCAL = "local"
_LOCAL_BACKENDS = ("Loky", "Threading", "Multiprocessing", "Sequential")
_ADDRESS = re.compile(r"[\w.\-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


def check_engine(name: str, value: Any) -> str:
    """Return `value` if it is `local`, `dask:ADDRESS` or `ray:ADDRESS`. Errors: `InvalidInput`.

    >>> check_engine("engine", "dask:tls://scheduler:8786")
    'dask:tls://scheduler:8786'
    """
    if isinstance(value, str):
        kind, _, address = value.partition(":")
        plain = re.sub(r"^(tcp|tls)://", "", address) if kind == "dask" else address
        if value == LOCAL or (kind in ("dask", "ray") and _ADDRESS.fullmatch(plain)) or value == "ray:auto":
            return value
    raise InvalidInput(
        f"{name} must be local, dask:HOST:PORT, dask:tls://HOST:PORT, ray:HOST:PORT or ray:auto, got {quote(value)}."
    )


@contextlib.contextmanager
def on_engine(engine: str) -> Generator[None]:
    """Run parallel work on `engine` inside this context; `local` keeps the joblib backend of the caller.

    engine: as in `check_engine`. Dask's workers must have one thread each, because more threads change the rounding of
    linear algebra.
    Errors: `InvalidInput` if the package of the engine is missing, the address does not answer, or there is no worker.
    """
    kind, _, address = check_engine("engine", engine).partition(":")
    if kind == LOCAL:
        yield
    elif kind == "dask":
        with _dask(address):
            yield
    else:
        with _ray(address):
            yield


def engine_in_use() -> str | None:
    """Return the name of the current joblib backend if it may use other machines, else None.

    >>> engine_in_use() is None
    True
    """
    name = type(get_active_backend()[0]).__name__.removesuffix("Backend")
    return None if name in _LOCAL_BACKENDS else {"DaskDistributed": "Dask"}.get(name, name)


@contextlib.contextmanager
def _dask(address: str) -> Generator[None]:
    distributed = _package("distributed", "dask")
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"engine must be the address of a Dask scheduler, nobody answers at {address}.") from error
    with client:
        require_one_thread(client)
        with joblib.parallel_config("dask", client=client):
            yield


def require_one_thread(client: Any) -> None:
    """Refuse workers of Dask with several threads, which round differently. Errors: `InvalidInput`, also for none."""
    threads = client.nthreads()
    if not threads:
        raise InvalidInput(f"The Dask scheduler at {client.scheduler.address} has no workers; start some first.")
    if max(threads.values()) > 1:
        raise InvalidInput(
            f"Dask's workers must have one thread each (--nthreads 1), got one of {max(threads.values())}."
        )


@contextlib.contextmanager
def _ray(address: str) -> Generator[None]:
    ray = _package("ray", "ray")
    _package("ray.util.joblib", "ray").register_ray()
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"engine must be the address of a Ray cluster, nobody answers at {address}.") from error
    elif address not in ("auto", joined := ray.get_runtime_context().gcs_address):
        raise InvalidInput(f"engine must be the Ray cluster that this process has joined, {joined}, got {address}.")
    try:
        with joblib.parallel_config("ray"):
            yield
    finally:
        if started:
            ray.shutdown()


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InvalidInput(f"engine needs a package that is missing; pip install '.[{extra}]'.") from None
