"""A progress bar for long work, or a function of the caller in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Report = Callable[[int, int], None]


@contextlib.contextmanager
def reporting(progress: bool | Report | None, *, label: str, total: int) -> Generator[Report]:
    """A function (done, total) to call as work goes on.

    progress: None or False for silence, True for a bar on the terminal, or a function that is called instead.
    """
    if not progress:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    else:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done, total: bar.update(task, completed=done, total=total)
