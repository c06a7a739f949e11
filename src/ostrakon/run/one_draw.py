"""Noisy answers to existing votes: paid from an account, drawn once, stored."""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.files import write_atomically
from ostrakon.ledger.cost import Cost, cost_of, cost_of_pair
from ostrakon.ledger.ledger import Ledger
from ostrakon.ledger.state import Account, History
from ostrakon.mechanisms.base import Mechanism
from ostrakon.noise import secure_rng
from ostrakon.options.option import plain
from ostrakon.run.budget import Reservation, cheapest, description_of
from ostrakon.run.folder import RunFolder
from ostrakon.run.noise_log import NoiseLog, fingerprint_of
from ostrakon.validation import InvalidInput, fraction, line
from ostrakon.votes import IntArray, Votes

LABELS = "labels.csv"


@dataclass(frozen=True, kw_only=True)
class DrawResult:
    """The result of a draw.

    Parameters
    ----------
    labels : array of int, shape (queries,)
        -1 for no answer.
    file : Path
        The same as a CSV file, which may be published.
    cost : WorstCase
        Of this draw alone.
    account : History
        After the draw was paid.
    """

    labels: IntArray
    file: Path
    cost: WorstCase
    account: History


def draw_once(
    votes: Votes,
    mechanism: Mechanism | Sequence[Stage],
    folder: str | os.PathLike[str],
    *,
    ledger: str,
    account: str,
    delta: float | None = None,
    max_answers: int | None = None,
) -> DrawResult:
    """Reserve in `ledger` what the answers cost, draw them, settle, and write them to FOLDER/release/labels.csv.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism or sequence of Stage
        Stages are asked one after another, each about its own queries, in the order of `votes`.
    folder : path
        A new one. A second call with the same arguments returns the same answers and pays nothing.
    ledger : str
        Its address.
    account : str
        An open one. The caller must know that it is the account of the people behind these votes: the data are not
        read here.
    delta : float, optional
        Of `cost`, in (0, 1); the account's by default.
    max_answers : int, optional
        At least 1; of a single mechanism.

    Raises
    ------
    Refused
        If the draw does not fit into the account.
    InvalidInput
        For an account of other neighbours, and for a folder of another run.

    Notes
    -----
    Guarantee: `cost`, as of `worst_case_of_stages`, when one teacher's vote changes: one record (or user)
    is added or removed if teachers are trained on shards, and one is replaced if every record is a teacher; so the
    account must be for such neighbours. Together with everything else on the account: its cap (docs/ledger.md).
    """
    accounts = Ledger(ledger)
    account_history = accounts.account(line("account", account))
    stages = _stages(mechanism, votes, max_answers)
    for stage in stages:
        _require_fit_for_draws(stage.mechanism, account_history)
    delta = account_history.cap.delta if delta is None else fraction("delta", delta)
    classes = votes.classes if votes.classes_are_public else None
    shape: dict[str, Any] = {"teachers": votes.teachers, "classes": classes, "abstentions": votes.abstentions}
    bound = worst_case_of_stages(stages, delta=delta, **shape)
    cost = cheapest(account_history.cap, (_total_cost(stages, shape), *cost_of_pair(bound.epsilon, delta)))
    asked = {"account": account, "delta": delta, **_settings(stages)}
    home = RunFolder(folder)
    fingerprints = {"votes": fingerprint_of(votes)}
    with home.opened():
        home.refuse_other_run(asked, fingerprints)
        if home.read() is None:
            home.write({"asked": asked, "fingerprints": fingerprints})
        stored = home.receipt() or {"ledger": accounts.url}
        if stored["ledger"] != accounts.url:
            raise InvalidInput(f"ledger must be {stored['ledger']}, in which {folder} has reserved, got {ledger!r}.")
        reservation = Reservation(
            accounts,
            account,
            cost,
            what="; ".join(
                description_of(stage.mechanism, queries=stage.queries, teachers=votes.teachers) for stage in stages
            ),
            terms={
                "unit": account_history.unit,
                "relation": account_history.relation,
                "epsilon": bound.epsilon,
                "delta": delta,
            },
            receipts=home,
        )
        reservation.reserve()
        log = NoiseLog(home.private / "noise", marks=home.marks)
        labels = _answers(log, votes, stages)
        reservation.settle_bytes(labels.tobytes())
        home.release.mkdir(exist_ok=True)
        file = home.release / LABELS
        table = pd.DataFrame({"query": range(len(labels)), "label": labels})
        write_atomically(file, table.to_csv(index=False), mode=0o644)
    return DrawResult(labels=labels, file=file, cost=bound, account=reservation.history())


def _stages(mechanism: Mechanism | Sequence[Stage], votes: Votes, max_answers: int | None) -> list[Stage]:
    if isinstance(mechanism, Mechanism):
        return [Stage(mechanism=mechanism, queries=votes.queries, max_answers=max_answers)]
    stages = list(mechanism)
    queries = sum(one.queries for one in stages)
    if max_answers is not None or queries != votes.queries:
        raise InvalidInput(
            f"stages must ask all {votes.queries} queries and have their own max_answers, got {queries} queries."
        )
    return stages


def _total_cost(stages: Sequence[Stage], shape: dict[str, Any]) -> Cost:
    """Return the cost of all stages in every currency, as sums over stages."""
    sizes = [{"queries": stage.queries, "max_answers": stage.max_answers} for stage in stages]
    costs = [cost_of(stage.mechanism, **size, **shape) for stage, size in zip(stages, sizes, strict=True)]
    return functools.reduce(Cost.__add__, costs)


def _settings(stages: Sequence[Stage]) -> dict[str, Any]:
    """Return the settings of a draw as plain values; with several stages, names end with the stage's number."""
    asked: dict[str, Any] = {}
    for number, stage in enumerate(stages, start=1):
        parameters = {
            "mechanism": stage.mechanism.name,
            **stage.mechanism.parameters(),
            "max_answers": stage.max_answers,
        }
        parameters |= {"queries": stage.queries} if len(stages) > 1 else {}
        end = f"_{number}" if len(stages) > 1 else ""
        asked |= {name + end: plain(value) for name, value in parameters.items() if value is not None}
    return asked


def _answers(log: NoiseLog, votes: Votes, stages: Sequence[Stage]) -> IntArray:
    parts, first = [], 0
    for number, stage in enumerate(stages, start=1):
        name = f"answers-{number}" if len(stages) > 1 else "answers"
        stage_votes = votes[first : first + stage.queries]
        labels, _ = log.draw(name, stage_votes, stage.mechanism, secure_rng(), max_answers=stage.max_answers)
        parts.append(labels)
        first += stage.queries
    return np.concatenate(parts)


def _require_fit_for_draws(mechanism: Mechanism, account: Account) -> None:
    """Refuse a mechanism that is not for such neighbours, not releasable, or releases more than answers to votes."""
    if account.relation != mechanism.relation:
        raise InvalidInput(
            f"account must be for {mechanism.relation} of one {account.unit}, which {mechanism.name} on such votes is, "
            f"and {account.name!r} is for {account.relation}."
        )
    if not mechanism.releasable:
        raise InvalidInput(f"mechanism must be one that a release may rest on, got {mechanism.name}.")
    if mechanism.moment_noise is not None:
        raise InvalidInput(
            f"mechanism must be one whose whole release is drawn from votes: {mechanism.name} would be paid for sums "
            "of features, too, which are not here; take bounded-gnmax."
        )
