"""How the numerical loops are compiled: once, kept on disk, without Python's lock, with IEEE division."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

_HOMES = tuple(Path(__file__).parents[1] / name for name in ("numerics", "mechanisms", "accounting"))


def compiled(function: F) -> F:
    """`function` compiled by numba, and kept on disk until any source file with such functions changes.

    Numba itself asks only whether the function's own file has changed; what it calls in another file would stay as it
    was compiled before, and a stale formula is a wrong epsilon. Where nothing can be written, or numba keeps its files
    in another way than this one knows, functions are compiled anew in each process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        result: Any = numba.njit(cache=True, **options)(function)
        file = result._cache._cache_file
        file._source_stamp = (file._source_stamp, sources_fingerprint())
    except (AttributeError, RuntimeError):
        result = numba.njit(**options)(function)
    return result


@functools.cache
def sources_fingerprint() -> str:
    """A hash of all files that hold compiled functions, in whatever sub-package."""
    paths = (path for home in _HOMES for path in sorted(home.rglob("*.py")))
    return fingerprint(path for path in paths if b"@compiled" in path.read_bytes())


def fingerprint(paths: Iterable[Path]) -> str:
    """A hash of the files' names and contents."""
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()
