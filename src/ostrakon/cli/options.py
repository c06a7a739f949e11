"""Options that several commands share: the mechanisms' parameters, and what a file of votes holds."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ostrakon.mechanisms.registry import MECHANISMS, declared_parameters

_PANEL = "Mechanism parameters"


def with_mechanism_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for every parameter of every registered mechanism, handed on as its `parameters`.

    command: takes `parameters`, a dict by parameter name of what was given, None where it was not.
    """
    declared = declared_parameters()
    hints = typing.get_type_hints(command, include_extras=True)
    own = [each.replace(annotation=hints[each.name]) for each in inspect.signature(command).parameters.values()]
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                _type_of(name) | None, typer.Option(help=f"{one.help} ({_owners(name)})", rich_help_panel=_PANEL)
            ],
        )
        for name, one in declared.items()
    ]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        parameters = {name: given.pop(name) for name in declared}
        command(**given, parameters=parameters)

    # Typer reads these two; without them it would see the names of `command` itself.
    merged = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own if each.name != "parameters"] + options
    wrapped.__signature__ = inspect.Signature(merged)  # pyright: ignore[reportAttributeAccessIssue]
    wrapped.__annotations__ = {each.name: each.annotation for each in merged}
    del wrapped.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]
    return wrapped


def in_command_line_words(message: str, names: typing.Collection[str]) -> str:
    """A refusal of the library with the arguments `names` written as options.

    >>> in_command_line_words("sigma2 must be a number, got 'x'.", ["sigma2"])
    "--sigma2 must be a number, got 'x'."
    >>> in_command_line_words("gnmax needs sigma2.", ["sigma2"])
    'gnmax needs --sigma2.'
    """
    known = sorted(names, key=len, reverse=True)
    anywhere = [name for name in known if re.search(r"[_\d]", name)]
    message = re.sub(rf"^({'|'.join(known)})(?= )", lambda hit: _option(hit[1]), message)
    if anywhere:
        message = re.sub(rf"(?<![-\w'\"/.])({'|'.join(anywhere)})(?![\w/.]\w)", lambda hit: _option(hit[1]), message)
    listed = rf"(?<=needs |takes )({'|'.join(known)})((?:, --?[\w-]+|, [\w-]+)*)\.$"
    return re.sub(listed, lambda hit: ", ".join(_option(each) for each in hit[0][:-1].split(", ")) + ".", message)


def _option(name: str) -> str:
    return name if name.startswith("--") else "--" + name.replace("_", "-")


def _type_of(name: str) -> type:
    """int where the parameter of the first mechanism that has it is annotated so, else float."""
    kind = next(kind for kind in MECHANISMS.values() if name in kind.declared())
    hint = typing.get_type_hints(kind)[name]
    return int if hint is int or int in typing.get_args(hint) else float


def _owners(name: str) -> str:
    return ", ".join(kind.name for kind in MECHANISMS.values() if name in kind.declared())


_VOTES_PANEL = "Votes file"


class VotesFile:
    """Option types of what a file of votes holds, for `ostrakon.data.votes_file.load_votes`."""

    kind = Annotated[
        str, typer.Option(help="What the columns are: auto, counts or predictions.", rich_help_panel=_VOTES_PANEL)
    ]
    teachers = Annotated[int | None, typer.Option(help="How many teachers voted.", rich_help_panel=_VOTES_PANEL)]
    classes = Annotated[int | None, typer.Option(help="How many classes there are.", rich_help_panel=_VOTES_PANEL)]
    abstentions = Annotated[
        bool, typer.Option("--abstentions", help="Teachers may abstain.", rich_help_panel=_VOTES_PANEL)
    ]
