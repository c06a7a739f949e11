"""Help texts: what is written in the code is what is shown."""

import re
from collections.abc import Iterator

import pytest
import typer.main
from rich.text import Text

from ostrakon.cli import app


def helps(command, name: str = "ostrakon") -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        yield f"{name} {parameter.name}", getattr(parameter, "help", None) or ""
    # A group imports its commands when it is asked for their names.
    for child in command.list_commands(None) if hasattr(command, "commands") else ():
        yield from helps(command.get_command(None, child), f"{name} {child}")


HELPS = dict(helps(typer.main.get_command(app)))


def test_all_commands_are_looked_at():
    assert len(HELPS) > 150


@pytest.mark.parametrize("where", [where for where, text in HELPS.items() if "[" in text])
def test_no_help_text_loses_words_in_brackets(where):
    """A bracket without a backslash is markup, and is not shown."""
    plain = HELPS[where].replace("\\[", "[")
    assert re.sub(r"\s+", " ", Text.from_markup(HELPS[where]).plain) == re.sub(r"\s+", " ", plain)
