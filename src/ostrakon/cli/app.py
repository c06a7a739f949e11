"""The command line's root: one Typer app, one way to fail."""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console
from rich.text import Text

from ostrakon.cli.options import in_command_line_words
from ostrakon.validation import InvalidInput

app = typer.Typer(
    name="ostrakon",
    help="Train on data that must not leave, publish a model that may (PATE).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
# Into a pipe or a file a table has no window to fit: cells must not be cut.
console = Console(width=None if sys.stdout.isatty() else 120)
errors = Console(stderr=True)


def main() -> None:
    """Run the command line: errors in the input are one sentence on stderr and exit status 2."""
    try:
        app()
    except InvalidInput as error:
        told = in_command_line_words(str(error), _arguments())
        errors.print("[bold red]Error:[/]", Text(told), highlight=False, soft_wrap=True)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer turns Ctrl-C into this exit status, without a word.
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        errors.print("Interrupted: what was finished is kept; the same command goes on from there.")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _arguments() -> set[str]:
    """The names of all options of all commands, as the library knows them."""
    group = typer.main.get_group(app)
    return {str(one.name) for command in group.commands.values() for one in command.params if one.name is not None}
