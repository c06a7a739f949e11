"""How a recipient makes what a frozen encoder made: the encoder itself is no part of a release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Lines of Python that turn `rows` into `X`, which the released student takes.

    rows: an array of rows as the public ones were, or a data frame of them. needs: what to install, as pip is told.
    files: names of files that must lie in the current folder, and of modules that Python must find.
    """

    needs: tuple[str, ...]
    lines: tuple[str, ...]
    files: tuple[str, ...] = ()
