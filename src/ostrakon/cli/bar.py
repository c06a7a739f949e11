"""A bar on the terminal's error stream while something takes long."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ostrakon.cli.app import errors


@contextlib.contextmanager
def bar(label: str) -> Generator[Callable[[int, int], None]]:
    """A function (done, total) to call as work goes on. The bar is gone when all is done; into a file there is none."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=errors, transient=True) as shown:
        task = shown.add_task(label, total=None, visible=False)
        yield lambda done, total: shown.update(task, completed=done, total=total, visible=True)
