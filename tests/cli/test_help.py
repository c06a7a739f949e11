"""Help texts: what is written in the code is what is shown."""

import re
from collections.abc import Iterator

import pytest
import typer.main
from rich.text import Text

from ostrakon.cli import app


def texts_of(command, name: str = "ostrakon") -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for child in command.list_commands(None) if hasattr(command, "commands") else ():
        yield from texts_of(command.get_command(None, child), f"{name} {child}")


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


def test_sentences_are_broken_where_80_columns_end():
    # Typer joins the lines of the first paragraph only.
    texts = dict(texts_of(typer.main.get_command(app)))
    assert len(texts) > 15
    paragraphs = [(name, part.split("\n")) for name, text in texts.items() for part in text.split("\n\n")[1:]]
    broken = [(name, line) for name, lines in paragraphs for line in lines[:-1]]
    assert "OUT/release may be published" in "".join(line for _, line in broken)
    assert [(name, line) for name, line in broken if len(line) > 78 and not line.endswith(".")] == []
