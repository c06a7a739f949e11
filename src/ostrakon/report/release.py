"""What leaves: the one place that writes `release/`, whole or not at all."""

import math
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ostrakon.accounting.estimates import Agreement, Recall
from ostrakon.data.files import csv_text, require_writable, sync_folder, write_atomically, writing
from ostrakon.data.quantity import Quantity
from ostrakon.estimators.registry import in_words, named_in_words
from ostrakon.export.released import ReleasedQuantity, ReleasedStudent
from ostrakon.export.student_files import export_student
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.options.report_details import ReportDetails
from ostrakon.report.charts import cell_shares, released_charts
from ostrakon.report.earlier import bins_of_errors, bins_of_histogram, write_recipe
from ostrakon.report.explanations import importance_chart, importances, shape_charts
from ostrakon.report.first_page import first_page
from ostrakon.report.hub_page import write_hub_page
from ostrakon.report.manifest import is_finished, write_manifest
from ostrakon.report.model_card import (
    LABELS,
    NOISY_CORRECTIONS,
    NOISY_COUNTS,
    NOISY_ERRORS,
    NOISY_HISTOGRAM,
    NOISY_MOMENTS,
    VALUES,
    encoded_with,
    model_card,
    title_of,
)
from ostrakon.report.page import gallery, page
from ostrakon.report.registry import registry_entry, write_registry
from ostrakon.report.statement_file import write_statement
from ostrakon.run.folder import RunFolder
from ostrakon.run.pipeline import Outcome
from ostrakon.run.stages.estimates import why_no_recalls
from ostrakon.run.steps import FinishedRun
from ostrakon.statements.sentences import student_in_words
from ostrakon.validation import InvalidInput

_PUBLIC = 0o644


def publish(outcome: Outcome, details: ReportDetails | None = None, *, publish_accuracy: bool = False) -> Path:
    """Write the release of a finished run: statement, labels, student, model card; returns its folder.

    details: who releases it and what for, which run.toml keeps; None: not given. publish_accuracy: put what was
    measured on the test rows into the card, because they are public too.

    Everything is written aside, the manifest last, and renamed into place at once: `release/` never holds a student
    without its statement. A release that is there is verified and stays as it is.
    Errors: `InvalidInput` for a student that cannot be stored without pickle, a full disk, or a release that is not as
    it was written.
    """
    with RunFolder(outcome.folder).opened() as home:
        if is_finished(home.release, again=True):
            return home.release
        details = ReportDetails() if details is None else details
        home.add("report", details.as_toml())
        date = (home.read() or {}).get("date")
        return _write_whole(home.release, outcome, details, date=date, publish_accuracy=publish_accuracy)


def save_release(run: FinishedRun, folder: str | os.PathLike[str], details: ReportDetails, *, date: str | None) -> Path:
    """Write the release of a run in memory to `folder`, which must be new or empty. Errors: as of `publish`."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"folder must be new or empty, got {target}.")
    return _write_whole(target, run, details, date=date)


def require_refit_folder(target: Path, earlier: Path) -> None:
    """Refuse a folder that is within the `earlier` release, not empty, or cannot be written. Errors: `InvalidInput`."""
    if earlier.resolve() in (target.resolve(), *target.resolve().parents):
        raise InvalidInput(f"out must be a folder outside of the release {earlier}, got {target}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"out must be new or empty, got {target}.")
    require_writable("out", target)


def save_refitted(run: FinishedRun, folder: str | os.PathLike[str], recipe: Mapping[str, Any]) -> Path:
    """Write the release of a refit to `folder` (`require_refit_folder`). Errors: as `publish`.

    recipe: of the earlier release, for what its operator said.
    """
    details = ReportDetails(**recipe["report"])
    return _write_whole(Path(folder), run, details, date=recipe["date"], ledger=bool(recipe["ledger"]))


def _write_whole(
    target: Path,
    run: FinishedRun,
    details: ReportDetails,
    *,
    date: str | None,
    publish_accuracy: bool = False,
    ledger: bool | None = None,
) -> Path:
    """Write a release aside and rename it to `target` at once. ledger: whether one recorded it, if not by `budget`."""
    ledger = run.budget is not None if ledger is None else ledger
    aside = target.with_name(f"{target.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with writing(aside):
            aside.mkdir(mode=0o755, parents=True)
            _write_tables(aside, run)
            if run.recipe is not None:
                write_recipe(aside, run, details, date=date, ledger=ledger)
            _write_pages(aside, run, details, date=date, publish_accuracy=publish_accuracy, ledger=ledger)
            write_manifest(aside)
            if target.is_dir():
                target.rmdir()
            os.rename(aside, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _write_tables(aside: Path, run: FinishedRun) -> None:
    """Write the statement and everything that was drawn."""
    write_statement(aside, run.statement)
    if run.clipped is None and (not run.several or run.plan.labels is not None):
        write_atomically(aside / LABELS, labels_csv(run), mode=_PUBLIC)
    elif run.clipped is not None:
        write_atomically(aside / VALUES, values_csv(run, run.clipped), mode=_PUBLIC)
    answers = run.answers
    noisy = (
        (NOISY_COUNTS, counts_csv, answers.counts),
        (NOISY_MOMENTS, moments_csv, answers.moments),
        (NOISY_CORRECTIONS, corrections_csv, answers.corrections),
        (NOISY_ERRORS, errors_csv, answers.errors),
        (NOISY_HISTOGRAM, histogram_csv, answers.histogram),
    )
    for name, text_of, table in noisy:
        if table is not None:
            write_atomically(aside / name, text_of(run, table), mode=_PUBLIC)


def _learned_from_sums(student: Any) -> bool:
    """Return whether a student learned from sums of features, or the one in it or before it."""
    inner = [getattr(student, name) for name in ("student", "source") if hasattr(student, name)]
    return hasattr(student, "fit_moments") or any(map(_learned_from_sums, inner))


def _write_pages(
    aside: Path,
    run: FinishedRun,
    details: ReportDetails,
    *,
    date: str | None,
    publish_accuracy: bool,
    ledger: bool,
) -> None:
    """Write the student, the registry entry, the model card and the report."""
    manifest = export_student(run.student, aside, rows=run.rows)
    # Noise can bring the estimate of a share above 1.
    tried = ", ".join(f"{in_words(name)} {min(share, 1.0):.1%}" for name, share in run.agreement.items())
    measures = run.measures if publish_accuracy else None
    estimates = [one for one in run.statement.estimates if isinstance(one, Agreement | Recall)]
    recalls = [one for one in estimates if isinstance(one, Recall)]
    by_class = ", ".join(f"{one.label!r} {one.in_words()}" for one in recalls if one.label is not None)
    by_class = by_class or why_no_recalls(estimates)
    facts = {
        "Student": student_in_words(named_in_words(run.student_name), run.statement.tuned),
        **{one.title: f"{one.in_words()}, of {one.counted}" for one in recalls if one.label is None},
        **({"Recall by class (estimated)": by_class} if by_class else {}),
        **({"How often each candidate predicts noisy answers that it did not learn from": tried} if tried else {}),
        **({} if measures is None else {f"{what} on test rows": value for what, value in measures.in_words().items()}),
        "Representation": run.representation if run.cells is None else "cells of columns",
        "Input": run.rows,
    }
    content = run.statement.as_dict()
    shared: dict[str, Any] = {"details": details, "date": date, "estimates": estimates}
    if content["private"]:
        units = run.plan.teachers if run.plan.per_record else None
        write_registry(aside, registry_entry(content, units=units, **shared))
    plain = first_page(
        content,
        needs=manifest["needs"],
        ledger=None if run.paid_by_owners else ledger,
        encoded_with=encoded_with(manifest),
        measures=measures,
        sets=run.student.sets if isinstance(run.student, ReleasedStudent) else None,
        intervals=run.student.intervals if isinstance(run.student, ReleasedQuantity) else None,
        sums=_learned_from_sums(run.student.student),
        **shared,
    )
    card = model_card(
        content,
        manifest,
        plain=plain,
        facts=facts,
        understood=run.understood,
        tables={file.name for file in aside.iterdir()},
        cells=run.cells is not None,
    )
    write_atomically(aside / "model_card.md", card, mode=_PUBLIC)
    write_hub_page(aside, content, manifest, card)
    title = f"{title_of(content, run.understood)} \N{EN DASH} model card and privacy statement"
    ranked = importances(run)
    charts = released_charts(run) + importance_chart(ranked, run) + shape_charts(ranked, run)
    html = page(card, title=title, charts=charts, gallery_html=gallery(run))
    write_atomically(aside / "report.html", html, mode=_PUBLIC)


def refuse_other_report(home: RunFolder, details: ReportDetails) -> None:
    """Refuse `details` that are not those of a release that is already written.

    Until then they may change from call to call: no number depends on them.
    """
    if is_finished(home.release, again=True):
        content, earlier = details.as_toml(), (home.read() or {}).get("report", {})
        for name in ReportDetails.options():
            if content.get(name) != earlier.get(name):
                before, now = (text.get(name, "not given") for text in (earlier, content))
                raise InvalidInput(
                    f"{home.release} is written, with {name.replace('_', ' ')} {before!r} where it is now {now!r}: "
                    "repeat it, or remove that folder, and the same command writes it again from the answers that were "
                    "drawn."
                )


def labels_csv(outcome: FinishedRun) -> str:
    """Return the released labels: one line per public row that was asked about, in the order it was asked.

    row: its place in the public data, from 0. label: empty where there is none. source: "teachers", or "student"
    where a confident student of the first round was not contradicted. Of several labels, a column for each: 1, 0, or
    empty where there is no answer.
    """
    answers, labels = outcome.answers, outcome.plan.labels
    if labels is not None:
        sets = zip(_query_names(outcome), answers.labels.reshape(-1, labels).tolist(), strict=True)
        rows = ([row, *("" if label == NO_ANSWER else label for label in row_labels)] for row, row_labels in sets)
        return csv_text([[_kind(outcome), *map(str, outcome.classes)], *rows])
    lines: list[list[Any]] = [[_kind(outcome), "label", "source"]]
    for row, label, taught in zip(_query_names(outcome), answers.labels, answers.taught, strict=True):
        source = "teachers" if label != NO_ANSWER else "student" if taught != NO_ANSWER else ""
        lines.append([row, str(outcome.classes[taught]) if taught != NO_ANSWER else "", source])
    return csv_text(lines)


def values_csv(outcome: FinishedRun, clipped: Quantity) -> str:
    """Return the released means of a quantity: one line per public row that was asked about, in the order it was asked.

    row: its place in the public data, from 0. value: empty where too few records speak (`charts.cell_shares`).
    """
    shares = cell_shares(outcome.answers, noise=float(outcome.plan.mechanism.parameters()["sigma2"]))
    values = ("" if math.isnan(value) else f"{value:.10g}" for value in clipped.values(shares).tolist())
    return csv_text([(_kind(outcome), "value"), *zip(_query_names(outcome), values, strict=True)])


def counts_csv(outcome: FinishedRun, counts: FloatArray) -> str:
    """Return the noisy histograms, where the mechanism releases them: a line per public row asked about, a column per
    class.

    row: its place in the public data, from 0. cell: where the run asked about cells of columns instead. Numbers are
    exact: steps of 1/1024 vote.
    """
    return _by_class(_kind(outcome), _query_names(outcome), outcome, counts)


def _by_class(first: str, lines: Iterable[Any], outcome: FinishedRun, table: FloatArray) -> str:
    """Return a released table with a column for each class, or for votes for labels and after them those against."""
    names = [str(label) for label in outcome.classes]
    names = names if table.shape[1] == len(names) else [*names, *(f"not {name}" for name in names)]
    rows = ([line, *numbers] for line, numbers in zip(lines, table.tolist(), strict=True))
    return csv_text([[first, *names], *rows])


def _kind(outcome: FinishedRun) -> str:
    return "row" if outcome.cells is None else "cell"


def _query_names(outcome: FinishedRun) -> list[Any]:
    """Return what was asked about: places of public rows, or names of cells."""
    queries = outcome.queries.tolist()
    return queries if outcome.cells is None else [outcome.cells[number] for number in queries]


def moments_csv(outcome: FinishedRun, moments: FloatArray) -> str:
    """Return the noisy sums of features, where the mechanism releases them: a line per direction, a column per class.

    direction: 0 is the constant of `ostrakon.features.moments.MomentMap`, which says what every record (or user) adds
    to its class and takes from all classes; the others are its features, a function of the public rows. Of a quantity
    the numbers are, line after line, sums of features times it (`ostrakon.features.sums.SumMap`), of several labels a
    number for each (`ostrakon.features.labels.LabelMap`). Of a run without public rows they are, line after line,
    counts of the cells of all pairs of columns (`ostrakon.features.cells.PairMap`). Numbers are exact: steps of 1/1024
    vote.
    """
    return _by_class("direction", range(len(moments)), outcome, moments)


def corrections_csv(outcome: FinishedRun, corrections: FloatArray) -> str:
    """Return the noisy corrections of the student: a line per direction, a column per class.

    Directions are as in `moments_csv`, or more of the same kind. A record (or user) adds its directions times the error
    of a first student, at most a vote (Euclidean length), as `ostrakon.features.corrections.correction_steps` says.
    Numbers are exact: steps of 1/1024 vote.
    """
    return _by_class("direction", range(len(corrections)), outcome, corrections)


def histogram_csv(outcome: FinishedRun, histogram: FloatArray) -> str:
    """Return the noisy histogram of a quantity: a line per bin; exact steps of 1/1024 vote.

    up_to: the upper end of the bin, in the unit of the quantity. records: the number of records (or users) with values
    below it, and not in an earlier bin.
    """
    noise = outcome.plan.mechanism.histogram_noise
    assert outcome.quantity is not None
    assert noise is not None
    bins = bins_of_histogram(outcome.quantity, units=outcome.plan.teachers, noise=noise)
    return csv_text([("up_to", "records"), *([name, *row] for name, row in zip(bins, histogram.tolist(), strict=True))])


def errors_csv(outcome: FinishedRun, errors: FloatArray) -> str:
    """Return the noisy counts of the errors of the student; exact steps of 1/1024 vote.

    A quantity has a line per bin, by size: up_to, the largest error of the bin, in its unit; records, the number of
    records (or users) with such errors. Classes have a line each, or one for all: right and wrong, the number of their
    records that the student predicts right and wrong.
    """
    noise, quantity = outcome.plan.mechanism.error_noise, outcome.quantity
    assert noise is not None
    target = [str(label) for label in outcome.classes] if quantity is None else quantity
    bins = bins_of_errors(target, units=outcome.plan.teachers, noise=noise, clipped=outcome.clipped)
    header = ("class", "right", "wrong") if quantity is None else ("up_to", "records")
    return csv_text([header, *([name, *row] for name, row in zip(bins, errors.tolist(), strict=True))])
