"""Options that are declared elsewhere or shared: of runs, of mechanisms, of files with votes."""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ostrakon.mechanisms.registry import MECHANISMS, declared_parameters
from ostrakon.options.option import Settings, plain_types

_PANEL = "Mechanism parameters"


@dataclass(frozen=True, kw_only=True)
class Declared:
    """An option that is not declared in the signature of a command.

    kind: bool (a flag), int, float or str. advanced: whether `--help` leaves it out. Defaults and ranges are checked
    where the value is used.
    """

    kind: type
    help: str
    panel: str | None
    advanced: bool = False


def mechanism_parameters() -> dict[str, Declared]:
    """Return the parameters of every registered mechanism, by name."""
    return {
        name: Declared(kind=_type_of(name), help=f"{one.help} ({_owners(name)})", panel=_PANEL)
        for name, one in declared_parameters().items()
    }


def votes_file() -> dict[str, Declared]:
    """Return the options of a file with votes, for `ostrakon.data.votes_file.load_votes`."""
    options: dict[str, tuple[type, str]] = {
        "kind": (str, "What the columns are: auto, counts or predictions. [default: auto]"),
        "teachers": (int, "Number of teachers."),
        "classes": (int, "Number of classes."),
        "abstentions": (bool, "Teachers may abstain."),
    }
    return {name: Declared(kind=kind, help=text, panel="Votes file") for name, (kind, text) in options.items()}


def options_of(settings: type[Settings]) -> dict[str, Declared]:
    """Return the options that the fields of `settings` declare, by name."""
    kinds = plain_types(settings)
    return {
        name: Declared(kind=kinds[name], help=one.help, panel=one.panel, advanced=one.advanced)
        for name, one in settings.options().items()
    }


def with_options(**declared: Mapping[str, Declared]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to `command`, which receives them as dicts by name, None if not given.

    declared: argument of `command` → the options that it receives.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(command, include_extras=True)
        merged: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name in declared:
                merged += [_parameter(name, one) for name, one in declared[parameter.name].items()]
            else:
                merged.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            for argument, options in declared.items():
                values = {name: given.pop(name) for name in options}
                given[argument] = {name: None if value is False else value for name, value in values.items()}
            command(**given)

        # Typer reads these two; without them it would see the names of `command` itself.
        wrapped.__signature__ = inspect.Signature(merged)  # pyright: ignore[reportAttributeAccessIssue]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
        del wrapped.__wrapped__  # pyright: ignore[reportAttributeAccessIssue]
        return wrapped

    return decorate


def _parameter(name: str, one: Declared) -> inspect.Parameter:
    flag = one.kind is bool
    # Brackets are not markup.
    settings: Any = {"help": one.help.replace("[", r"\["), "rich_help_panel": one.panel, "hidden": one.advanced}
    option = typer.Option(*([_option(name)] if flag else []), **settings)
    hint: Any = bool if flag else one.kind | None
    default = False if flag else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option])


def in_command_line_words(message: str, names: typing.Collection[str]) -> str:
    """Return an error message of the library with the arguments `names` written as options.

    >>> in_command_line_words("sigma2 must be a number, got 'x'.", ["sigma2"])
    "--sigma2 must be a number, got 'x'."
    >>> in_command_line_words("gnmax needs sigma2.", ["sigma2"])
    'gnmax needs --sigma2.'
    """
    by_length = sorted(names, key=len, reverse=True)
    anywhere = [name for name in by_length if re.search(r"[_\d]", name)]
    message = re.sub(rf"^({'|'.join(by_length)})(?= )", lambda hit: _option(hit[1]), message)
    if anywhere:
        message = re.sub(rf"(?<![-\w'\"/.])({'|'.join(anywhere)})(?![\w/.]\w)", lambda hit: _option(hit[1]), message)
    listed = rf"(?<=needs |takes )({'|'.join(by_length)})((?:, --?[\w-]+|, [\w-]+)*)\.$"
    return re.sub(listed, lambda hit: ", ".join(_option(part) for part in hit[0][:-1].split(", ")) + ".", message)


def _option(name: str) -> str:
    return name if name.startswith("--") else "--" + name.replace("_", "-")


def _type_of(name: str) -> type:
    """Return the type of a parameter by the first mechanism that has it: int or float."""
    kind = next(kind for kind in MECHANISMS.values() if name in kind.declared())
    return int if plain_types(kind)[name] is int else float


def _owners(name: str) -> str:
    return ", ".join(kind.name for kind in MECHANISMS.values() if name in kind.declared())


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        for parameter in ctx.command.params:
            parameter.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show all options.")]


class Stages:
    """Option types of what is asked of each mechanism, for `ostrakon.cli.stages`."""

    queries = Annotated[
        list[int] | None,
        typer.Option(
            help=r"Use the first N queries. With several mechanisms: required, once for each. \[default: all of one]"
        ),
    ]
    max_answers = Annotated[
        list[int] | None,
        typer.Option(
            help="Maximum number of answers, chosen before votes are seen. With several mechanisms: once for each."
        ),
    ]
