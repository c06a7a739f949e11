"""Noisy answers to votes that one already has: paid from an account, drawn once, kept."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.epsilons import WorstCase
from ostrakon.data.files import write_atomically
from ostrakon.ledger.cost import cost_of
from ostrakon.ledger.ledger import Ledger, Receipt
from ostrakon.ledger.state import History
from ostrakon.mechanisms.base import Mechanism
from ostrakon.noise import secure_rng
from ostrakon.options.option import plain
from ostrakon.run.folder import RunFolder
from ostrakon.run.noise_log import NoiseLog, fingerprint_of
from ostrakon.validation import InvalidInput, fraction, line
from ostrakon.votes import IntArray, Votes

LABELS = "labels.csv"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What was drawn. labels: (queries,), -1 for no answer; file: where they are, free to leave.

    cost: the worst case of this draw alone; account: after it was paid.
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

    folder: a new one; called again with the same arguments, the same answers are found there, and nothing is paid
    twice. account: one that is open; whose votes these are is its caller's word, for nothing here sees the data. delta:
    of `cost`; None: the account's.

    Guarantee: `cost`, as of `ostrakon.accounting.worst_case`, when one teacher's vote changes: one record (or user)
    more or less where teachers are trained on shards, and one replaced where everyone is a teacher; so the account must
    be for such neighbours. With all else on the account: its cap (docs/ledger.md).
    Errors: `Refused` where it does not fit; `InvalidInput` for an account of other neighbours, another folder.
    """
    held = Ledger(ledger)
    known = held.account(line("account", account))
    delta = known.cap.delta if delta is None else fraction("delta", delta)
    relation = "replace" if mechanism.per_record else "add-remove"
    if known.relation != relation:
        raise InvalidInput(
            f"account must be for {relation} of one {known.unit}, which {mechanism.name} on such votes is, and "
            f"{account!r} is for {known.relation}."
        )
    if not mechanism.releasable:
        raise InvalidInput(f"mechanism must be one that a release may rest on, got {mechanism.name}.")
    if mechanism.moment_noise is not None:
        raise InvalidInput(
            f"mechanism must be one whose whole release is drawn from votes: {mechanism.name} would be paid for sums "
            "of features, too, which are not here; take bounded-gnmax."
        )
    bound = worst_case_of(votes, mechanism, delta=delta, max_answers=max_answers)
    cost = cost_of(
        mechanism,
        queries=votes.queries,
        max_answers=max_answers,
        teachers=votes.teachers,
        classes=votes.classes if votes.classes_are_public else None,
        abstentions=votes.abstentions,
    )
    asked = {"mechanism": mechanism.name, **mechanism.parameters(), "delta": delta, "max_answers": max_answers}
    asked = {"account": account, **{name: plain(value) for name, value in asked.items() if value is not None}}
    home = RunFolder(folder)
    prints = {"votes": fingerprint_of(votes)}
    with home.opened():
        home.refuse_other_run(asked, prints)
        if home.read() is None:
            home.write({"asked": asked, "fingerprints": prints})
        kept: dict[str, Any] = (home.read() or {}).get("ledger", {})
        if not kept:
            # Before it reserves: killed after that, it finds its own reservation.
            kept = {"ledger": held.url, "account": account, "run": secrets.token_hex(16)}
            home.add("ledger", kept)
        if kept["ledger"] != held.url:
            raise InvalidInput(f"ledger must be {kept['ledger']}, in which {folder} has reserved, got {ledger!r}.")
        if "hash" in kept:
            # Something may have been drawn: a ledger that does not know of it is an older copy.
            held.require_kept(Receipt.of_dict(kept))
        what = f"{mechanism.name}, {votes.queries} queries, {votes.teachers} teachers"
        of: dict[str, Any] = {"unit": known.unit, "relation": relation, "epsilon": bound.epsilon, "delta": delta}
        receipt = held.reserve(account, kept["run"], cost, what=what, **of)
        if receipt.as_dict() != kept:
            home.add("ledger", receipt.as_dict())
        log = NoiseLog(home.private / "noise", marks=home.marks)
        labels, _ = log.draw("answers", votes, mechanism, secure_rng(), max_answers=max_answers)
        held.settle(receipt, hashlib.sha256(labels.tobytes()).hexdigest())
        home.release.mkdir(exist_ok=True)
        file = home.release / LABELS
        write_atomically(
            file, pd.DataFrame({"query": range(len(labels)), "label": labels}).to_csv(index=False), mode=0o644
        )
    return Drawn(labels=labels, file=file, cost=bound, account=held.account(account))
