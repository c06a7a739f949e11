"""The mechanisms' parameters as options, the same for every command."""

from __future__ import annotations

from typing import Annotated

import typer

_PANEL = "Mechanism parameters"


def _number(help: str) -> object:
    return typer.Option(help=help, rich_help_panel=_PANEL)


class Parameters:
    """Option types by parameter name."""

    threshold = Annotated[float | None, _number("Votes that count as agreement.")]
    sigma1 = Annotated[float | None, _number("Standard deviation (Laplace: scale) of the check's noise, in votes.")]
    sigma2 = Annotated[float | None, _number("Standard deviation of the vote noise, in votes.")]
    gamma = Annotated[float | None, _number("Inverse scale of Laplace vote noise.")]
    epsilon_per_query = Annotated[float | None, _number("Of the exponential mechanisms.")]
    constant = Annotated[float | None, _number("Votes added to the leader (immutable).")]
    refusals = Annotated[int | None, _number("Refusals that end the meeting (sparse-vector).")]
    max_contributions = Annotated[
        int | None, _number("Queries that each teacher may speak on (bounded-gnmax). [default: 1]")
    ]
    epsilon1 = Annotated[float | None, _number("Of the noisy threshold (sparse-vector).")]
    epsilon2 = Annotated[float | None, _number("Of the noisy distances (sparse-vector).")]


MECHANISM_PARAMETERS = (
    *(
        "threshold",
        "sigma1",
        "sigma2",
        "gamma",
        "epsilon_per_query",
        "constant",
        "refusals",
        "max_contributions",
        "epsilon1",
    ),
    "epsilon2",
)


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
