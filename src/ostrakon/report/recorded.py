"""Which run of a ledger drew the numbers in a release, and whether its statement says what the ledger says."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostrakon.data.checksummed import sha256
from ostrakon.data.quantity import Quantity
from ostrakon.features.histogram import narrowed_range
from ostrakon.ledger.ledger import Ledger
from ostrakon.ledger.state import History, Spend
from ostrakon.mechanisms import Mechanism
from ostrakon.mechanisms.registry import build
from ostrakon.report.earlier import answers_of_file, bins_of_errors, bins_of_histogram, table_of_file
from ostrakon.report.manifest import MANIFEST, is_finished
from ostrakon.report.model_card import LABELS, NOISY_ERRORS, NOISY_HISTOGRAM, NOISY_TABLES
from ostrakon.report.statement_file import FILE, read_statement
from ostrakon.run.stages.answers import Answers
from ostrakon.statements.adjacency import sentences_of
from ostrakon.statements.statement import LABELS_OF, round_up
from ostrakon.validation import InvalidInput, quote
from ostrakon.votes import FloatArray


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a ledger says of the run that drew the numbers in a release.

    Parameters
    ----------
    account : History
    spend : Spend
        The account's entry of the run.
    others : int
        How many other runs of the ledger have drawn the same numbers.
    levels : mapping of str to Spend
        What the run has spent for each lower level of consent, by level.
    compared : str
        Which numbers of the release were compared with what the run drew.
    """

    account: History
    spend: Spend
    others: int
    levels: dict[str, Spend]
    compared: str


def find_recorded(folder: Path, ledger: Ledger) -> Recorded:
    """Find the run in a ledger that has drawn the numbers in a release, and compare the statement with it.

    Parameters
    ----------
    folder : pathlib.Path
        A finished release.
    ledger : Ledger

    Raises
    ------
    InvalidInput
        If the release is not as its manifest says, no run of the ledger has drawn its numbers, or its statement's
        guarantee differs from what the ledger has: in epsilon, delta, unit or neighbours, or at a level of consent.
    Tampered
        If the ledger is not as it was written.
    """
    if not (folder / MANIFEST).is_file():
        raise InvalidInput(f"release must be the folder of a finished release, got {folder}.")
    is_finished(folder)
    content = read_statement(folder)
    answers, compared = _read_numbers(folder, content)
    runs = ledger.find_drawn(sha256(answers.as_bytes()))
    if not runs:
        raise InvalidInput(
            f"No run in {ledger.url} has drawn the {compared} in {folder}: it was paid for elsewhere, or they were "
            "changed."
        )
    reasons: list[str] = []
    for account, spend in runs:
        if any(_level_of(account, other) is not None for other, _ in runs):
            continue  # The same draw, as a lower level of consent pays for it.
        levels = {name: paid for other, paid in runs if (name := _level_of(other, account)) is not None}
        others = len(runs) - 1 - len(levels)
        try:
            _require_same(content, account, spend, levels)
        except _Differs as differs:
            reasons.append(str(differs))
            continue
        return Recorded(account=account, spend=spend, others=others, levels=levels, compared=compared)
    raise InvalidInput(f"{folder / FILE} does not say what the ledger says: {reasons[0]}.")


class _Differs(Exception):
    """A statement says something else than the ledger."""


def _level_of(account: History, highest: History) -> str | None:
    """Return the level of consent that an account is for, if it belongs to that of the highest level."""
    start = f"{highest.name}, level "
    return account.name.removeprefix(start) if account.name.startswith(start) else None


def _read_numbers(folder: Path, content: dict[str, Any]) -> tuple[Answers, str]:
    """Read the numbers of a release, and name them."""
    try:
        tables = {name: table_of_file(folder / name) if (folder / name).is_file() else None for name in NOISY_TABLES}
        released: Any = {NOISY_TABLES[name]: table and table[1] for name, table in tables.items()}
        counts = released["counts"]
        labels = answers_of_file(folder / LABELS, content)[1] if counts is None else counts.argmax(axis=1)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, csv.Error) as error:
        raise InvalidInput(f"The answers in {folder} cannot be read ({error!r}).") from None
    for name, stated in ((NOISY_ERRORS, _bins_of_errors), (NOISY_HISTOGRAM, _bins_of_histogram)):
        table = tables[name]
        if table is not None and table[0] != stated(content):
            raise InvalidInput(f"The bins of {name} are not those of the statement in {folder}.")
    histogram = tables[NOISY_HISTOGRAM]
    if histogram is not None and _part_of(content, histogram[1]) != content.get("clipped"):
        raise InvalidInput(f"The range is not clipped as {NOISY_HISTOGRAM} in {folder} says.")
    names = [name for name, table in tables.items() if table is not None]
    compared = f"numbers of {' and '.join(names)}" if names else f"labels of {LABELS}"
    return Answers(labels=labels, taught=labels, rounds=(), secure=True, **released), compared


def _bins_of_errors(content: dict[str, Any]) -> list[str] | None:
    """Return the bins of errors that follow from a statement; None if it states none."""
    try:
        target = Quantity(**content["quantity"]) if "quantity" in content else content["classes"]
        clipped = Quantity(**content["clipped"]) if "clipped" in content else None
        noise = _stated_mechanism(content).error_noise
        units = content["teachers"]
        return None if noise is None else bins_of_errors(target, units=units, noise=noise, clipped=clipped)
    except (KeyError, TypeError, IndexError, AttributeError, InvalidInput):
        return None


def _bins_of_histogram(content: dict[str, Any]) -> list[str] | None:
    """Return the bins of the histogram that follow from a statement; None if it states none."""
    try:
        noise = _stated_mechanism(content).histogram_noise
        quantity = Quantity(**content["quantity"])
        return None if noise is None else bins_of_histogram(quantity, units=content["teachers"], noise=noise)
    except (KeyError, TypeError, IndexError, AttributeError, InvalidInput):
        return None


def _part_of(content: dict[str, Any], histogram: FloatArray) -> dict[str, float] | None:
    """Return the part of the range that follows from a noisy histogram; None if it is the whole range."""
    quantity, noise = Quantity(**content["quantity"]), _stated_mechanism(content).histogram_noise
    assert noise is not None  # the bins follow from it
    part = quantity.part(narrowed_range(histogram, units=content["teachers"], noise=noise, zero=quantity.zero))
    return None if part == quantity else {"low": part.low, "high": part.high}


def _stated_mechanism(content: dict[str, Any]) -> Mechanism:
    first = content["rounds"][0]
    return build(first["mechanism"], first["parameters"])


def _require_same(content: dict[str, Any], account: History, spend: Spend, levels: dict[str, Spend]) -> None:
    """Raise `_Differs` where the statement and the ledger differ."""
    guarantee = content.get("guarantee")
    if not isinstance(guarantee, dict) or content.get("private") is not True or content.get("not_private") is not None:
        raise _Differs("it claims no guarantee")
    _require_price("guarantee", guarantee, spend)
    labels = account.relation == "labels"
    unit, protects = LABELS_OF[account.unit] if labels else account.unit, "labels" if labels else "records"
    for name, value in (("unit_of_privacy", unit), ("protects", protects)):
        if content.get(name) != value:
            raise _Differs(f"{name} is {quote(content.get(name))}, and by account {account.name} it is {value!r}")
    by = content.get("unit_column")
    if not (isinstance(by, str) if account.unit == "user" else by is None):
        raise _Differs(f"unit_column is {quote(by)}, and account {account.name} is for one {account.unit}")
    neighbours = content.get("adjacency")
    if neighbours not in sentences_of(account.relation, by=by):
        raise _Differs(f"adjacency is {quote(neighbours)}, and account {account.name} is for {account.relation}")
    _require_levels(content, spend, levels)


def _require_levels(content: dict[str, Any], spend: Spend, levels: dict[str, Spend]) -> None:
    """Compare what the statement says of each level of consent with the entry in the account of that level."""
    consent = content.get("consent")
    parts = [] if consent is None else _parts(consent, "levels")
    by_level = {str(one.get("level")): one for one in parts}
    if len(by_level) < len(parts):
        raise _Differs("it names a level of consent twice")
    highest = by_level.keys() - levels.keys()
    if levels.keys() - by_level.keys() or len(highest) != (1 if levels else 0):
        levels_text, paid = quote(sorted(by_level)), quote(sorted(levels))
        raise _Differs(
            f"its levels of consent are {levels_text}, and the ledger has accounts of these lower levels: {paid}"
        )
    for level, one in by_level.items():
        _require_price(f"level {quote(level)} of consent", one, levels.get(level, spend))


def _parts(content: Any, name: str) -> list[dict[str, Any]]:
    """Return a list of objects in a statement."""
    parts = content.get(name) if isinstance(content, dict) else None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise _Differs(f"{name} must be a list of objects, got {quote(parts)}")
    return parts


def _require_price(name: str, part: dict[str, Any], spend: Spend) -> None:
    """Require the epsilon and delta of a run, as a statement rounds them."""
    if spend.epsilon is None or spend.delta is None:
        raise _Differs(f"{name} claims a guarantee, and its run had none")
    price = (part.get("epsilon"), part.get("delta"))
    paid = (round_up(spend.epsilon), spend.delta)
    if price != paid or any(isinstance(number, bool) for number in price):
        raise _Differs(
            f"{name} has epsilon {quote(price[0])} at delta {quote(price[1])}, and in the ledger it has epsilon "
            f"{paid[0]:g} at delta {paid[1]:g}"
        )
