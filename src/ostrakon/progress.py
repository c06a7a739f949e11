"""Progress bars with an estimate for work that takes long, or calls of a function instead."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

Report = Callable[[int, int], None]
T = TypeVar("T")
V = TypeVar("V")
_MANY = 64
_SHORT = 1.0
"""Seconds of work that need no bar."""
_EVERY = 10.0
"""Seconds between lines where there is no terminal."""
_FIRST = 0.2
"""Share of the work, at least two steps, after which an estimate means something: first steps often take longest."""
_shown: ContextVar[bool] = ContextVar("shown", default=False)
_phase: ContextVar[str] = ContextVar("phase", default="")
_around: ContextVar[Report | None] = ContextVar("around", default=None)
_bars: ContextVar[Progress | None] = ContextVar("bars", default=None)


class Remaining(TimeRemainingColumn):
    """The time that is left, once an estimate of it means something."""

    def render(self, task: Task) -> Text:
        """Return the estimate, or a sign that there is none yet."""
        if task.total is not None and _is_telling(task.completed, task.total):
            return super().render(task)
        return Text("-:--:--", style="progress.remaining")


def _is_telling(done: float, total: float) -> bool:
    return done >= max(2, _FIRST * total)


def columns() -> tuple[TextColumn, BarColumn, MofNCompleteColumn, Remaining]:
    """Return the columns of every bar."""
    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining()


def showing(progress: bool) -> contextlib.AbstractContextManager[None]:
    """Set whether inner steps of a run, such as the choice of a student, show their progress (`working`)."""
    return _within(_shown, progress)


def in_phase(phase: str) -> contextlib.AbstractContextManager[None]:
    """Return what the labels of `working` and `tracked` add in brackets, such as "private rows"."""
    return _within(_phase, f" ({phase})")


def counted_in(report: Report) -> contextlib.AbstractContextManager[None]:
    """Return what `working` and `tracked` count inside goes to `report`: they are parts of one count, which goes on."""
    return _within(_around, report)


@contextlib.contextmanager
def _within(variable: ContextVar[V], value: V) -> Generator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


@contextlib.contextmanager
def working(label: str, total: int) -> Generator[Report]:
    """Do `reporting` if `showing` says so, with a bar below that of the outer work, unless that counts the same."""
    shown = _shown.get() and total > 0 and (_around.get() or True)
    with reporting(shown, label=label + _phase.get(), total=total) as report:
        yield report


def tracked(items: Iterable[T], label: str, *, total: int, least: int = _MANY) -> Iterator[T]:
    """Yield the items, with the number of those taken reported to `working`; fewer than `least` are not worth a bar."""
    with working(label, total if total >= least else 0) as report:
        for done, item in enumerate(items, 1):
            yield item
            report(done, total)


def _with_lines(label: str, bar: Report) -> Report:
    """Return `bar`; without a terminal it also prints a line with an estimate every `_EVERY` seconds."""
    if sys.stdout.isatty():
        return bar
    begun = printed = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal printed
        bar(done, total)
        now = time.monotonic()
        if now - printed >= _EVERY and 0 < done < total:
            left = f", about {(now - begun) * (total - done) / done:.0f} s left"
            print(f"{label}: {done:,} of {total:,}{left if _is_telling(done, total) else ''}", flush=True)
            printed = now

    return report


@contextlib.contextmanager
def reporting(progress: bool | Report | None, *, label: str, total: int) -> Generator[Report]:
    """Yield a function (done, total) to call as work goes on.

    progress: None or False for silence, True for a bar on the terminal, or a function that is called instead.
    """
    outer = _bars.get()
    if not progress:
        yield lambda done, total: None
    elif callable(progress):
        yield progress
    elif outer is not None:
        # The terminal has room for one display: a further line of it, which goes when the work is done.
        task = outer.add_task(label, total=total)
        try:
            yield _with_lines(label, _on_bar(outer, task))
        finally:
            outer.remove_task(task)
    else:
        bar = Progress(*columns())
        before = _bars.set(bar)
        try:
            yield _with_lines(label, _on_bar(bar, bar.add_task(label, total=total)))
        finally:
            _bars.reset(before)
            if bar.live.is_started:
                bar.stop()


def _on_bar(bar: Progress, task: TaskID) -> Report:
    """Return a report that moves a bar, which appears after `_SHORT` seconds."""
    begun = time.monotonic()

    def report(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - begun >= _SHORT:
            bar.start()

    return report
