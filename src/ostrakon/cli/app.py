"""The command line's root: one Typer app, one way to fail."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from ostrakon.cli.options import in_command_line_words
from ostrakon.validation import InvalidInput

_FILES = (
    "account",
    "audit",
    "compare",
    "demo",
    "draw",
    "ledger",
    "plan",
    "reproduce",
    "schema",
    "serve",
    "study",
    "train",
)


class _Commands(TyperGroup):
    """The commands, each imported when it is asked for: importing what trains takes longer than pricing votes."""

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


app = typer.Typer(
    name="ostrakon",
    cls=_Commands,
    help="Train on confidential data and release a differentially private model (PATE).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# Into a pipe or a file a table has no window to fit: cells must not be cut.
console = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)


_ROOT = app


@app.callback()
def root() -> None:
    """Nothing of its own: there are only commands."""


def main() -> None:
    """Run the command line: errors in the input, and of a machine too small, are one sentence and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A label that the terminal's encoding lacks must not end a run.
        sys.stdout.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            # Libraries warn developers, in files and lines; who asks for that with -W gets it.
            if not sys.warnoptions:
                warnings.simplefilter("ignore")
            app()
    except InvalidInput as error:
        _fail(str(error))
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer turns Ctrl-C into this exit status, without a word.
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        errors.print("Interrupted: what was finished is kept; the same command goes on from there.")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if not is_lack_of_memory(error):
            raise
        _fail(
            "Memory ran out; what was finished is kept, and the same command goes on from there, with more memory or "
            "fewer workers (--jobs)."
        )


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error says that the system gave no more memory: not every library raises MemoryError for that."""
    seen: BaseException | None = error
    while seen is not None:
        told = str(seen).lower()
        if isinstance(seen, MemoryError) or getattr(seen, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(seen, RuntimeError | ImportError | OSError) and any(sign in told for sign in _NO_MEMORY):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


_NO_MEMORY = (
    *("cannot allocate memory", "can't allocate memory", "out of memory", "failed to allocate", "bad allocation"),
    *("can't start new thread", "failed to map segment", "not enough memory"),
)


def _fail(sentence: str) -> NoReturn:
    told = in_command_line_words(sentence, _arguments())
    # As it is: brackets in a path or a label are no markup.
    errors.print("[bold red]Error:[/]", Text(told), highlight=False, soft_wrap=True)
    sys.exit(2)


def _arguments(commands: typer.Typer = app) -> set[str]:
    """The names of all options of the command that was called, as the library knows them."""
    group: Any = typer.main.get_group(commands)
    context = typer.Context(group)
    asked = (
        group.get_command(context, sys.argv[1])
        if sys.argv[1:] and sys.argv[1] in group.list_commands(context)
        else None
    )
    return set(_named(group if asked is None else asked))


def _named(command: Any) -> Iterator[str]:
    yield from (one.name for one in command.params if one.name and one.param_type_name == "option")
    for each in getattr(command, "commands", {}).values():
        yield from _named(each)
