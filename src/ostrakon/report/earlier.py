"""What a refit reads of a release, and what a release stores for it."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.checksummed import sha256
from ostrakon.data.files import write_json
from ostrakon.data.quantity import Quantity
from ostrakon.features.histogram import bin_edges
from ostrakon.features.moments import FEW_CLASSES
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.manifest import MANIFEST, is_finished
from ostrakon.report.model_card import LABELS, NOISY_TABLES, REFIT
from ostrakon.report.statement_file import read_statement
from ostrakon.run.refit import EarlierRelease
from ostrakon.run.steps import FinishedRun
from ostrakon.students.prediction_intervals import edges_of
from ostrakon.validation import InvalidInput, fraction
from ostrakon.votes import FINE_STEPS, IntArray

_SCHEMA = "ostrakon-refit/2"


def write_recipe(folder: Path, run: FinishedRun, details: ReportDetails, *, date: str | None, ledger: bool) -> None:
    """Write `refit.json`: public facts alone, most of which the card says too."""
    facts = run.understood
    content = {
        "schema": _SCHEMA,
        **(run.recipe or {}),
        "understood": {"facts": facts.facts, "warnings": list(facts.warnings), "target": facts.target},
        "report": details.as_toml(),
        "date": date,
        "ledger": ledger,
    }
    write_json(folder / REFIT, content)


def read_release(folder: Path) -> EarlierRelease:
    """Return what a refit needs of the release in `folder`.

    Errors: `InvalidInput` in one sentence for anything but a finished release, as it was written, of a run that can be
    refitted.
    """
    if not folder.is_dir() or not (folder / MANIFEST).is_file():
        inner = folder / "release"
        instead = f"; {inner} is one" if (inner / MANIFEST).is_file() else ""
        raise InvalidInput(f"release must be the folder of a finished release, got {folder}{instead}.")
    is_finished(folder)
    content = read_statement(folder)
    if not (folder / REFIT).is_file():
        raise InvalidInput(
            f"{folder} cannot be refitted, because it has no {REFIT}: that needs a run on public rows in files or on "
            "described columns, without a gate or a second round, that protects records or users."
        )
    try:
        recipe = json.loads((folder / REFIT).read_text(encoding="utf-8"))
        if recipe["schema"] != _SCHEMA:
            raise InvalidInput(f"{folder / REFIT} must have the schema {_SCHEMA!r}, got {recipe['schema']!r}.")
        _require_recipe(recipe)
        files = {field: folder / name for name, field in NOISY_TABLES.items()}
        tables = {field: table_of_file(path) if path.is_file() else None for field, path in files.items()}
        noisy: Any = {field: table and table[1] for field, table in tables.items()}
        counts = tables["counts"]
        if (folder / LABELS).is_file():
            queries, labels, taught = answers_of_file(folder / LABELS, content)
        else:
            assert counts is not None
            queries, labels = counts[0], counts[1].argmax(axis=1)
            taught = labels
        if len(set(queries)) < len(queries):
            raise InvalidInput(f"{folder} must ask about every public row once, and it asks about one several times.")
        return EarlierRelease(
            statement=content,
            recipe=recipe,
            asked=queries,
            labels=labels,
            taught=taught,
            **noisy,
            checksum=sha256((folder / MANIFEST).read_bytes()),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AssertionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"The release {folder} cannot be read ({error!r}).") from error


def _require_recipe(recipe: Mapping[str, Any]) -> None:
    """Refuse a `refit.json` from which no release could be written."""
    fraction("delta", recipe["delta"])
    ReportDetails(**recipe["report"])
    if not isinstance(recipe["date"], str | None):
        raise InvalidInput(f"date in {REFIT} must be a text, got {recipe['date']!r}.")


def answers_of_file(path: Path, content: Mapping[str, Any]) -> tuple[list[str], IntArray, IntArray]:
    """Return what was asked, the teachers' answers to all queries, and what the student learned from, from
    `labels.csv`.

    content: of the statement. Errors: `InvalidInput` for a label that it does not name.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    queries = [row[0] for row in rows]
    many_labels = content.get("several_labels", False)
    labels = ["0", "1"] if many_labels else content["classes"]
    numbers = {label: number for number, label in enumerate(labels)} | {"": NO_ANSWER}
    answers = [row[1:] if many_labels else row[1:2] for row in rows]
    if any(label not in numbers for row in answers for label in row):
        raise InvalidInput(f"{path} must hold the labels of the statement, and it holds another one.")
    taught = np.array([numbers[label] for row in answers for label in row], np.int64)
    if many_labels:
        return queries, taught, taught
    by_teachers = np.array([row[2] == "teachers" for row in rows], bool)
    return queries, np.where(by_teachers, taught, NO_ANSWER), taught


def bins_of_errors(
    target: Quantity | Sequence[str], *, units: int, noise: float, clipped: Quantity | None = None
) -> list[str]:
    """Return the first column of a table of noisy counts of errors: the largest error of every bin of a quantity; every
    class, or one word for all where they are many.

    clipped: the part of the range to which values of a quantity were clipped, if it was narrowed.
    """
    if isinstance(target, Quantity):
        part = target if clipped is None else clipped
        edges = (part.high - part.low) * edges_of(units, noise)
        edges[-1] = target.high - target.low
        return [f"{edge:.10g}" for edge in edges]
    return list(target) if len(target) <= FEW_CLASSES else ["all classes"]


def bins_of_histogram(quantity: Quantity, *, units: int, noise: float) -> list[str]:
    """Return the first column of a noisy histogram of a quantity: the upper end of every bin."""
    return [f"{edge:.10g}" for edge in quantity.values(bin_edges(units, noise, quantity.zero)[1:] / FINE_STEPS)]


def table_of_file(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Return (the first column as text, the numbers of all others) of a table of noisy numbers in a release."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float64)
