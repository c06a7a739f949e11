"""How a recipient computes the features of a frozen encoder, which is not included in a release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Lines of Python that turn `rows` into `X`, the input of the released student.

    rows: an array or a data frame in the form of the public rows. needs: requirements for pip.
    files: names of files that must be in the current folder, and of modules that Python must find.
    """

    needs: tuple[str, ...]
    lines: tuple[str, ...]
    files: tuple[str, ...] = ()
