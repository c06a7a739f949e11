"""Noisy answers to votes of one's own: paid from an account, drawn once, stored."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.files import write_atomically
from ostrakon.ledger.cost import cost_of, cost_of_pair
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
class Drawn:
    """What was drawn.

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
    mechanism: Mechanism,
    folder: str | os.PathLike[str],
    *,
    ledger: str,
    account: str,
    delta: float | None = None,
    max_answers: int | None = None,
) -> Drawn:
    """Reserve in `ledger` what the answers cost, draw them, settle, and write them to FOLDER/release/labels.csv.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
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
        At least 1.

    Returns
    -------
    Drawn

    Raises
    ------
    Refused
        If the draw does not fit into the account.
    InvalidInput
        For an account of other neighbours, and for a folder of another run.

    Notes
    -----
    Guarantee: `cost`, as of `ostrakon.accounting.worst_case`, when one teacher's vote changes: one record (or user)
    is added or removed if teachers are trained on shards, and one is replaced if every record is a teacher; so the
    account must be for such neighbours. Together with everything else on the account: its cap (docs/ledger.md).
    """
    accounts = Ledger(ledger)
    known = accounts.account(line("account", account))
    _require_fit_for_draws(mechanism, known)
    delta = known.cap.delta if delta is None else fraction("delta", delta)
    bound = worst_case_of(votes, mechanism, delta=delta, max_answers=max_answers, adaptive=True)
    lanes = cost_of(
        mechanism,
        queries=votes.queries,
        max_answers=max_answers,
        teachers=votes.teachers,
        classes=votes.classes if votes.classes_are_public else None,
        abstentions=votes.abstentions,
    )
    cost = cheapest(known.cap, (lanes, *cost_of_pair(bound.epsilon, delta)))
    asked = {"mechanism": mechanism.name, **mechanism.parameters(), "delta": delta, "max_answers": max_answers}
    asked = {"account": account, **{name: plain(value) for name, value in asked.items() if value is not None}}
    home = RunFolder(folder)
    prints = {"votes": fingerprint_of(votes)}
    with home.opened():
        home.refuse_other_run(asked, prints)
        if home.read() is None:
            home.write({"asked": asked, "fingerprints": prints})
        stored = home.receipt() or {"ledger": accounts.url}
        if stored["ledger"] != accounts.url:
            raise InvalidInput(f"ledger must be {stored['ledger']}, in which {folder} has reserved, got {ledger!r}.")
        reservation = Reservation(
            accounts,
            account,
            cost,
            what=description_of(mechanism, queries=votes.queries, teachers=votes.teachers),
            terms={"unit": known.unit, "relation": known.relation, "epsilon": bound.epsilon, "delta": delta},
            receipts=home,
        )
        reservation.reserve()
        log = NoiseLog(home.private / "noise", marks=home.marks)
        labels, _ = log.draw("answers", votes, mechanism, secure_rng(), max_answers=max_answers)
        reservation.settle_bytes(labels.tobytes())
        home.release.mkdir(exist_ok=True)
        file = home.release / LABELS
        table = pd.DataFrame({"query": range(len(labels)), "label": labels})
        write_atomically(file, table.to_csv(index=False), mode=0o644)
    return Drawn(labels=labels, file=file, cost=bound, account=reservation.history())


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
