"""Whether a ledger recorded what a release holds."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.checksummed import sha256
from ostrakon.ledger.ledger import Ledger
from ostrakon.ledger.state import History, Spend
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.report.earlier import table_of_file
from ostrakon.report.manifest import MANIFEST, is_finished
from ostrakon.report.model_card import LABELS, NOISY_COUNTS, NOISY_MOMENTS
from ostrakon.report.statement_file import read_statement
from ostrakon.run.stages.queries import Answers
from ostrakon.statements.statement import round_up
from ostrakon.validation import InvalidInput


def find_recorded(folder: Path, ledger: Ledger) -> tuple[History, Spend]:
    """Find the run in a ledger that has drawn what a release holds.

    Parameters
    ----------
    folder : pathlib.Path
        A finished release.
    ledger : Ledger

    Returns
    -------
    tuple of (History, Spend)
        The account and its entry of the run.

    Raises
    ------
    InvalidInput
        If the release is not as it was written, no run of the ledger has drawn its answers, or its statement claims
        more privacy than, or another unit from, what the run has reserved.
    Tampered
        If the ledger is not as it was written.
    """
    if not (folder / MANIFEST).is_file():
        raise InvalidInput(f"release must be the folder of a finished release, got {folder}.")
    is_finished(folder)
    content = read_statement(folder)
    runs = ledger.find_drawn(sha256(_drawn(folder, content).as_bytes()))
    if not runs:
        raise InvalidInput(
            f"No run in {ledger.url} has drawn the answers in {folder}: it was paid for elsewhere, or its answers were "
            "changed."
        )
    wrong = [_false_claim(content, account, spend) for account, spend in runs]
    for entry, reason in zip(runs, wrong, strict=True):
        if reason is None:
            return entry
    raise InvalidInput(f"{folder / 'statement.json'} {wrong[0]}: do not rely on it.")


def _drawn(folder: Path, content: dict[str, Any]) -> Answers:
    """Read the answers of a release."""
    try:
        tables = {name: folder / name for name in (NOISY_COUNTS, NOISY_MOMENTS)}
        counts, moments = (table_of_file(path)[1] if path.is_file() else None for path in tables.values())
        labels = _labels(folder / LABELS, content["classes"]) if counts is None else counts.argmax(axis=1)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidInput(f"The answers in {folder} cannot be read ({error!r}).") from None
    return Answers(labels=labels, taught=labels, rounds=(), secure=True, counts=counts, moments=moments)


def _labels(path: Path, classes: list[str]) -> Any:
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    numbers = [classes.index(row[1]) if row[2] == "teachers" else NO_ANSWER for row in rows]
    return np.array(numbers, np.int64)


def _false_claim(content: dict[str, Any], account: History, spend: Spend) -> str | None:
    """Say what a statement claims beyond what a run has reserved; None if it claims no more."""
    stated = content["guarantee"]
    if stated is None:
        return None
    if content["unit_of_privacy"] != account.unit:
        return f"protects one {content['unit_of_privacy']}, and account {account.name} is for one {account.unit}"
    if spend.epsilon is None or spend.delta is None:
        return "claims a guarantee, and its run had none"
    if stated["epsilon"] < round_up(spend.epsilon) or stated["delta"] < spend.delta:
        return (
            f"claims epsilon {stated['epsilon']:g} at delta {stated['delta']:g}, and its run has reserved epsilon "
            f"{round_up(spend.epsilon):g} at delta {spend.delta:g}"
        )
    return None
