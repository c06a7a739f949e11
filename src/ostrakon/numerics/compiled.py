"""Compilation of numerical loops: if worth it, once, cached on disk, without Python's lock, with IEEE division."""

from __future__ import annotations

import functools
import hashlib
import logging
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_HOMES = tuple(Path(__file__).parents[1] / name for name in ("numerics", "mechanisms", "accounting", "papers"))
_WORTH_COMPILING = 1.0
"""Seconds of interpreted work above which the compiled loop is used: loading it takes about as long."""

_OUT_OF_RANGE = (ArithmeticError, ValueError)


class Compiled(Generic[P, R]):
    """A numerical loop that numba compiles, or that Python interprets for little work.

    Both run the same source, and call the same functions of the C library. A plain call runs the compiled loop.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.source = function
        self._spent = 0.0
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.machine_code(*args, **kwargs)

    def worth(self, seconds: float) -> Callable[P, R]:
        """Return the loop to call for work that takes Python this number of seconds; both give the same numbers."""
        self._spent += seconds  # many small calls add up
        return self.interpreted if self._spent <= _WORTH_COMPILING else self.machine_code

    @functools.cached_property
    def machine_code(self) -> Callable[P, R]:
        """The compiled loop.

        Its cache on disk is valid until any source file with compiled functions changes. Numba checks only the
        function's own file, not the files of functions that it calls, and a stale formula is a wrong epsilon. Functions
        are compiled in each process if nothing can be written, or if numba stores its files in an unknown way. A line
        announces each compilation.
        """
        import numba

        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        function = self._calling(lambda other: other.machine_code)
        try:
            result: Any = numba.njit(cache=True, **options)(function)
            file = result._cache._cache_file
            file._source_stamp = (file._source_stamp, sources_fingerprint())
            _say_where_missing(result._cache)
        except (AttributeError, RuntimeError):
            say_once("at every start, because they cannot be kept on disk; NUMBA_CACHE_DIR may name a folder for them")
            result = numba.njit(**options)(function)
        return result

    @functools.cached_property
    def plain(self) -> Callable[P, R]:
        """The uncompiled loop."""
        return self._calling(lambda other: other.plain)

    def interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the uncompiled loop; compiled if Python refuses what IEEE arithmetic allows."""
        try:
            with np.errstate(all="ignore"):
                return self.plain(*args, **kwargs)
        except _OUT_OF_RANGE:
            return self.machine_code(*args, **kwargs)

    def _calling(self, which: Callable[[Compiled[..., Any]], Any]) -> Any:
        """Return the function with every other loop that it calls replaced."""
        own: Any = self.source
        names = {
            name: which(value) if isinstance(value, Compiled) and value is not self else value
            for name, value in own.__globals__.items()
            if name in own.__code__.co_names or name.startswith("__")
        }
        copy = types.FunctionType(own.__code__, names, own.__name__, own.__defaults__, own.__closure__)
        copy.__qualname__, copy.__kwdefaults__ = own.__qualname__, own.__kwdefaults__
        return copy


def compiled(function: Callable[P, R]) -> Compiled[P, R]:
    """Return `function`, a numerical loop, to be compiled by numba at its first use."""
    return Compiled(function)


def _say_where_missing(cache: Any) -> None:
    """Print a line before a compilation that the disk cache cannot replace."""
    load = cache.load_overload

    def loaded(*args: Any) -> Any:
        overload = load(*args)
        if overload is None:
            say_once("once, and kept on disk")
        return overload

    cache.load_overload = loaded


@functools.cache
def say_once(what_next: str) -> None:
    """Print, once a process, that loops are compiled now."""
    logging.getLogger("ostrakon").warning(
        "Loops that this command needs are compiled (up to half a minute) %s.",
        what_next,
    )


@functools.cache
def sources_fingerprint() -> str:
    """Return a hash of all files with compiled functions."""
    paths = (path for home in _HOMES for path in sorted(home.rglob("*.py")))
    return fingerprint(path for path in paths if b"@compiled" in path.read_bytes())


def fingerprint(paths: Iterable[Path]) -> str:
    """Return a hash of the files' names and contents."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()
