"""The command line's root: one Typer app, one way to fail."""

import atexit
import contextlib
import errno
import gc
import importlib
import io
import json
import os
import re
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from ostrakon.cli.options import in_command_line_words
from ostrakon.progress import columns
from ostrakon.validation import InvalidInput

_FILES = (
    "account",
    "audit",
    "compare",
    "demo",
    "draw",
    "ledger",
    "plan",
    "refit",
    "reproduce",
    "schema",
    "service",
    "study",
    "train",
)


_RESUMED = ("demo", "draw", "reproduce", "study", "train")
"""Commands that continue what an earlier call of them finished."""


class _Commands(TyperGroup):
    """The commands, imported when they are called: importing the learning libraries takes longer than pricing votes."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        self._load([cmd_name] if cmd_name in _FILES else _FILES)
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        self._load(_FILES)
        return super().list_commands(ctx)

    def _load(self, files: Iterable[str]) -> None:
        for name in files:
            importlib.import_module(f"ostrakon.cli.{name}")
        self.commands = typer.main.get_group(_ROOT).commands


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice, of which only the last would count, and names wrong arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments besides options."""
        seen = set[Any]()
        for one in self.make_parser(ctx).parse_args(args=list(args))[2]:
            if one in seen and one.param_type_name == "option" and not one.multiple:
                raise InvalidInput(f"{one.opts[0]} must be given once, with all its values, got it twice.")
            seen.add(one)
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            # Pydantic's message names neither the value nor what is allowed.
            cause: Any = error.__cause__
            wrong: dict[str, Any] = cause.errors()[0] if hasattr(cause, "errors") else {}
            kind = {"int": "a whole number", "float": "a number"}.get(wrong.get("type", "").partition("_")[0])
            if error.param is None or kind is None:
                raise
            raise InvalidInput(f"{error.param.opts[0]} must be {kind}, got {wrong['input']!r}.") from None
        if rest:
            options = [one for one in self.params if not getattr(one, "is_flag", True)]
            files = [one.opts[0] for one in options if one.name in ("private", "public")]
            example = f", such as {files[0]} {shlex.quote(rest[0])}" if files else ""
            raise InvalidInput(f"{rest[0]!r} must come after an option{example}; a value with spaces needs quotes.")
        return rest


class Commands(typer.Typer):
    """A group of commands that take each option once."""

    def command(self, *given: Any, **more: Any) -> Any:
        """Register a command, as Typer does."""
        return super().command(*given, **{"cls": OnceCommand, **more})


app = Commands(
    name="ostrakon",
    cls=_Commands,
    help="Train on confidential data and release a differentially private model (PATE).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class SafeConsole(Console):
    """A console on which text from a file, such as a label in somebody's study, cannot control the terminal.

    Characters that control a terminal or the direction of text are printed as U+FFFD.
    """

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        """Render as rich does."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(_CONTROL.sub("\ufffd", segment.text), segment.style)


# In a pipe or a file there is no window to fit into, and cells must not be truncated.
console = SafeConsole(width=None if sys.stdout.isatty() else 120, highlight=False)
errors = SafeConsole(stderr=True, highlight=False)


_ROOT = app


@app.callback()
def root() -> None:
    """Empty: there are only commands."""


def main() -> None:
    """Run the command line: invalid input and a lack of memory become one sentence and exit status 2."""
    # What is imported lives until the end: to look for garbage in it takes a tenth of the seconds of importing it.
    gc.set_threshold(100_000)
    # Last of all, since first registered: to free everything takes seconds beside threads that still learn.
    interrupted = threading.Event()
    atexit.register(lambda: interrupted.is_set() and (sys.stdout.flush(), os._exit(130)))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A label that the terminal's encoding lacks must not end a run.
        sys.stdout.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            # Warnings of libraries are for developers; -W shows them.
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            app()
    except InvalidInput as error:
        _fail(str(error))
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer silently turns Ctrl-C into this exit status.
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        errors.print(f"Interrupted{_kept(': ')}.")
        interrupted.set()
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if not is_lack_of_memory(error):
            raise
        kept = _kept("; ")
        _fail(f"Memory ran out{f'{kept}, with more memory or fewer workers (--jobs)' if kept else ''}.")


def _kept(separator: str) -> str:
    """Return, after the separator, that the command can be continued; empty if it starts again."""
    resumed = bool(sys.argv[1:]) and sys.argv[1] in _RESUMED
    return f"{separator}finished work is kept, and the same command continues from there" if resumed else ""


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an error means a lack of memory: not every library raises MemoryError."""
    cause: BaseException | None = error
    while cause is not None:
        message = str(cause).lower()
        if isinstance(cause, MemoryError) or getattr(cause, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(cause, RuntimeError | ImportError | OSError) and any(sign in message for sign in _NO_MEMORY):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


_NO_MEMORY = (
    *("cannot allocate memory", "can't allocate memory", "out of memory", "failed to allocate", "bad allocation"),
    *("can't start new thread", "failed to map segment", "not enough memory"),
)


@contextlib.contextmanager
def bar(label: str) -> Generator[Callable[[int, int], None]]:
    """Show a progress bar on the error stream until the end, and yield a function (done, total) to call."""
    with Progress(*columns(), console=errors, transient=True) as display:
        task = display.add_task(label, total=None, visible=False)
        yield lambda done, total: display.update(task, completed=done, total=total, visible=True)


def print_json(value: Any) -> None:
    """Print plain values as one line of JSON."""
    typer.echo(json.dumps(value, allow_nan=False))


def begin(step: str) -> None:
    """Print the name of a step when it begins, beside the results."""
    errors.print(f"[dim]{step} …[/]")


def _fail(sentence: str) -> NoReturn:
    message = in_command_line_words(sentence, _arguments())
    # As plain text: brackets in a path or a label are not markup.
    errors.print("[bold red]Error:[/]", Text(message), soft_wrap=True)
    sys.exit(2)


def _arguments(commands: typer.Typer = app) -> set[str]:
    """Return the names of all options of the called command, as arguments of the library."""
    group: Any = typer.main.get_group(commands)
    context = typer.Context(group)
    arguments = (
        group.get_command(context, sys.argv[1])
        if sys.argv[1:] and sys.argv[1] in group.list_commands(context)
        else None
    )
    return set(_named(group if arguments is None else arguments))


def _named(command: Any) -> Iterator[str]:
    yield from (one.name for one in command.params if one.name and one.param_type_name == "option")
    for subcommand in getattr(command, "commands", {}).values():
        yield from _named(subcommand)
