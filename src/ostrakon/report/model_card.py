"""The model card: what the student is, how to load it, what its release costs in privacy, what is not covered."""

from collections.abc import Collection, Sequence
from textwrap import shorten
from typing import Any

from ostrakon.accounting.estimates import UNDECIDED
from ostrakon.data.understood import Understood
from ostrakon.report.first_page import WARNING
from ostrakon.report.hub_page import HUB_PAGE
from ostrakon.report.manifest import MANIFEST
from ostrakon.report.markdown import escaped
from ostrakon.report.registry import REGISTRY
from ostrakon.statements.sentences import DROPPED_OUT, NOT_COUNTED, claim, questions

NOISY_COUNTS = "noisy_counts.csv"
NOISY_MOMENTS = "noisy_moments.csv"
NOISY_CORRECTIONS = "noisy_corrections.csv"
NOISY_ERRORS = "noisy_errors.csv"
NOISY_HISTOGRAM = "noisy_histogram.csv"
NOISY_TABLES = {
    NOISY_COUNTS: "counts",
    NOISY_MOMENTS: "moments",
    NOISY_ERRORS: "errors",
    NOISY_CORRECTIONS: "corrections",
    NOISY_HISTOGRAM: "histogram",
}
"""Files of released tables, and their fields in `Answers`."""
REFIT = "refit.json"
LABELS, VALUES = "labels.csv", "values.csv"
"""What was released of each public row: its label, or of a quantity its mean."""

_NAMED = 4


def model_card(
    content: dict[str, Any],
    manifest: dict[str, Any],
    *,
    plain: Sequence[str],
    facts: dict[str, str],
    understood: Understood,
    tables: Collection[str] = (),
    cells: bool = False,
) -> str:
    """Markdown text of the card.

    content: what `statement.json` says. manifest: what `student.json` says. plain: the first page, as
    `ostrakon.report.first_page` writes it. facts: further public rows (student, representation). understood: what was
    understood of the files. tables: names of the files that are in the release. cells: whether the run asked about
    cells of columns instead of public rows.
    """
    lines = [
        f"# Model card \N{EN DASH} {escaped(title_of(content, understood))}",
        "",
        *(f"{paragraph}\n" for paragraph in plain),
    ]
    lines += ["## Privacy", "", f"**{escaped(claim(content))}**", ""]
    elsewhere = (WARNING, UNDECIDED)
    remarks = [one for one in content["remarks"] if not one.startswith(elsewhere) and DROPPED_OUT not in one]
    lines += [f"{escaped(remark)}\n" for remark in remarks]
    lines += ["| Question (from the guideline NIST SP 800-226) | Answer |", "|---|---|"]
    lines += [f"| {question} | {escaped(answer)} |" for question, answer in questions(content)]
    lines += ["", "| What was tuned | On what (never the private votes) |", "|---|---|"]
    lines += [f"| {escaped(name)} | {escaped(source)} |" for name, source in content["tuned"].items()]
    lines += ["", "Not covered by this guarantee:" if content["private"] else "Not covered in any case:", ""]
    lines += [f"- {escaped(item)}" for item in content["not_covered"]]
    lines += ["", "## Student", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {escaped(value)} |" for name, value in facts.items()]
    if "quantity" in content:
        lines += ["| Range of the quantity | {low:.10g} to {high:.10g} |".format(**content["quantity"])]
    else:
        known = set(map(str, manifest["classes"]))
        never = [label for label in content["classes"] if label not in known]
        lines += [f"| Labels | {escaped(', '.join(content['classes'][:30]))} |"]
        lines += [f"| Labels the student never predicts | {escaped(', '.join(never[:30]))} |"] if never else []
    lines += _understood(understood)
    lines += _features(content, manifest)
    needs = " and ".join(manifest["needs"])
    lines += ["", "## How to load it", "", f"In this folder, with Python, {needs}:", ""]
    lines += ["```python", *manifest["how_to_load"], "```", ""]
    if "from_pictures" in manifest:
        lines += ["From files of pictures to their labels, with `pip install pillow`:", ""]
        lines += ["```python", *manifest["from_pictures"], "```", ""]
    lines += ["## Files", "", "| | |", "|---|---|"]
    files = _files(content, manifest, tables=tables, cells=cells)
    lines += [f"| `{name}` | {what} |" for name, what in files.items()]
    lines += ["", "Made with " + ", ".join(f"{name} {version}" for name, version in content["versions"].items()) + "."]
    return "\n".join(lines) + "\n"


def title_of(content: dict[str, Any], understood: Understood) -> str:
    """Return what the student predicts: the target, where it has a name, and the first labels.

    >>> title_of({"classes": ["Yes", "No"]}, Understood(target="Churn"))
    'Churn: Yes / No'
    >>> title_of({"classes": [str(number) for number in range(10)]}, Understood())
    '0 / 1 / 2 / 3 / … (10 labels)'
    """
    if "quantity" in content:
        range_text = "{low:.10g} to {high:.10g}".format(**content["quantity"])
        return f"{understood.target}: {range_text}" if understood.target else f"a quantity from {range_text}"
    classes = [shorten(label, width=30, placeholder="\N{HORIZONTAL ELLIPSIS}") for label in content["classes"]]
    labels = " / ".join(classes[:_NAMED])
    if len(classes) > _NAMED:
        labels += f" / \N{HORIZONTAL ELLIPSIS} ({len(classes)} labels)"
    target = understood.target if understood.target != ",".join(content["classes"]) else None
    return f"{target}: {labels}" if target else labels


def encoded_with(manifest: dict[str, Any]) -> list[str] | None:
    """Packages that make the features that the student takes: none where they were made before, None where it takes
    rows as they are.
    """
    if "encoding" in manifest:
        return manifest["encoding"]["needs"]
    return [] if any(column["kind"] == "embedding" for column in manifest["input"].get("columns", [])) else None


def _features(content: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """Return how the numbers that the student takes are made of a row, where nothing in the release makes them."""
    embedded = [column for column in manifest["input"].get("columns", []) if column["kind"] == "embedding"]
    if not embedded:
        return []
    lines: list[str] = []
    for column in embedded:
        if "encoder" in column:
            by = f"computed by an encoder that is not in this folder: {escaped(column['encoder'])}."
        else:
            trained_on = content["tuned"].get("encoder", "trained on: unknown").rpartition("trained on: ")[2]
            by = (
                "which were computed before: users of the student must compute them in the same way. The encoder "
                f"was trained on: {escaped(trained_on)}."
            )
        lines += [f"`{escaped(column['name'])}` has {column['width']} numbers per row, {by}", ""]
    if "encoding" in manifest:
        encoding = manifest["encoding"]
        packages = " ".join(f"'{name}'" for name in encoding["needs"])
        files = ", ".join(f"`{name}`" for name in encoding["files"])
        beside = (
            f" and, in this folder or where Python finds it, {files} of the operator of this release" if files else ""
        )
        lines += [f"It needs `pip install {packages}`{beside}.", ""]
    return ["", "## The features that it takes", "", *lines[:-1]]


def _understood(understood: Understood) -> list[str]:
    if not understood.facts:
        return []
    rows = [f"| {escaped(what)} | {escaped(names)} |" for what, names in understood.facts.items()]
    warnings = [f"**Warning:** {escaped(warning)}\n" for warning in understood.warnings]
    return ["", "## How the data were read", "", *warnings, "| | |", "|---|---|", *rows]


def _files(
    content: dict[str, Any], manifest: dict[str, Any], *, tables: Collection[str], cells: bool
) -> dict[str, str]:
    registry = "a draft for the registry of differential privacy deployments; the operator replaces each null"
    draft = {REGISTRY: registry} if content["private"] else {}
    rows = "public rows" if content["protects"] == "records" else "rows of the data, whose features are public,"
    sums = "noisy sums of features for each label, one line per feature (line 0: a feature that is the same for all)"
    if cells:
        rows = "cells of columns"
        sums = "for pairs of columns, the noisy and scaled number of records in each cell"
    whose = "the earlier release's student" if NOT_COUNTED in content["remarks"] else "the student"
    files = {
        LABELS: f"the {rows} that were asked about, and their labels (empty if there are none)",
        NOISY_COUNTS: "for each of these, the noisy number of votes for each label",
        NOISY_MOMENTS: sums,
        NOISY_CORRECTIONS: "noisy sums of features times the errors of a first student, which correct that student",
        NOISY_ERRORS: f"noisy counts of errors of {whose}: its right and wrong predictions on private records",
    }
    if "quantity" in content:
        files = {
            VALUES: f"the {rows} that were asked about, and the noisy mean of the records near each, if enough are",
            NOISY_HISTOGRAM: "a noisy histogram of the quantity, which narrowed the range to which values are clipped",
            NOISY_COUNTS: "for each of these rows, the noisy split of its votes between both ends of this range",
            NOISY_MOMENTS: "noisy sums of features times the quantity",
            NOISY_CORRECTIONS: files[NOISY_CORRECTIONS],
            NOISY_ERRORS: f"noisy counts of errors of {whose} by size",
        }
    if "several_labels" in content:
        against = any(batch["parameters"].get("max_labels") == len(content["classes"]) for batch in content["rounds"])
        label_words = "for and against every label" if against else "for every label"
        files = {
            LABELS: f"the {rows} that were asked about, and the answers on every label (empty if there are none)",
            NOISY_COUNTS: f"the {rows} that were asked about, and the noisy numbers of votes {label_words}",
            NOISY_MOMENTS: "noisy sums of features for every label",
        }
    refit = {REFIT: "how `ostrakon refit` trains another student from this release"}
    return {
        manifest["file"]: "the student",
        "student.json": "the columns of a row, the target and the format",
        manifest["loader"]: "reads rows and predicts, without ostrakon; the same file in every release",
        **{name: what for name, what in files.items() if name in tables},
        "statement.json": "the privacy statement as JSON",
        **(refit if REFIT in tables else {}),
        **draft,
        "model_card.md": "this card",
        HUB_PAGE: "this card with a header for model hubs",
        "report.html": "this card as a page, with plots of released numbers only",
        MANIFEST: "the names of all these files, with their SHA-256 checksums",
    }
