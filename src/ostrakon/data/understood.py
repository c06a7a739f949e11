"""How the data of a run were read: columns, kinds, classes; from public cells, headers and class names alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ostrakon.data.classes import looks_like_a_quantity
from ostrakon.data.columns import AS_TEXT, FORMS, Columns, alike, alike_in_words
from ostrakon.data.embeddings import groups
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.statements.statement import Protects

SHOWN = 12
"""Maximum number of names in a list; the number of further names follows."""


@dataclass(frozen=True, kw_only=True)
class Understood:
    """How the data were read, in words, shown before any privacy budget is spent, and kept in the card.

    facts: subject → how it was read. warnings: sentences that must not be overlooked. notes: sentences for the terminal
    alone, which may name files and never enter a release. target: the column to predict, if there is one.
    Guarantee: facts, warnings and the target depend on public cells and on names of columns and classes, which the
    statement declares public.
    """

    facts: dict[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    target: str = ""


def understood_table(
    columns: Columns,
    *,
    target: str,
    classes: Sequence[str],
    classes_from: str,
    by: str | None,
    public_rows: int,
    protects: Protects = "records",
    coding: Quantity | Labels | None = None,
) -> Understood:
    """Return how tables were read. coding: as of `TableTask`."""
    facts = columns_in_words(columns)
    labels = _in_words(classes, classes_from, coding)
    facts["Target"] = labels if isinstance(coding, Labels) and "," in target else f"{target}: {labels}"
    if by is not None:
        facts["User column"] = by
    facts |= _pool(public_rows, protects)
    return Understood(facts=facts, target=target, warnings=_warnings(columns, target, classes))


def columns_in_words(columns: Columns) -> dict[str, str]:
    """Return the columns of each kind, those in which some cells are missing or text, and those that are not used."""
    facts = _kinds_in_words(columns)
    partly = {name: note for name, note in columns.notes.items() if name in columns.kept}
    for what, as_text in (("Read as missing", False), ("Read as text", True)):
        rows = [
            f"{name} ({note.removeprefix(AS_TEXT)})"
            for name, note in partly.items()
            if note.startswith(AS_TEXT) == as_text
        ]
        if rows:
            facts[what] = listed(rows, between="; ")
    reasons: dict[str, list[str]] = {}
    for name in columns.left_out:
        reasons.setdefault(columns.notes.get(name, ""), []).append(name)
    if reasons:
        facts["Not used"] = "; ".join(f"{listed(names)}: {why}" for why, names in reasons.items())
    return facts


def _kinds_in_words(columns: Columns) -> dict[str, str]:
    """Return the names of the columns of each kind."""
    embeddings = groups(columns.of_kind("number"))
    parts = {part for names in embeddings.values() for part in names}
    kinds = {
        "Embeddings": [f"{name} ({len(names)} numbers)" for name, names in embeddings.items()],
        **{form.title: [name for name in columns.of_kind(kind) if name not in parts] for kind, form in FORMS.items()},
    }
    return {what: listed(names) for what, names in kinds.items() if names}


def understood_images(
    form: str,
    *,
    classes: Sequence[str],
    classes_from: str,
    public_rows: int,
    protects: Protects,
    coding: Quantity | Labels | None,
    notes: tuple[str, ...],
) -> Understood:
    """Return how images or texts were read. form: one of them in words. coding: as of `TableTask`."""
    facts = {"Rows": form, "Target": _in_words(classes, classes_from, coding)}
    return Understood(facts=facts | _pool(public_rows, protects), notes=notes)


def _pool(rows: int, protects: Protects) -> dict[str, str]:
    if protects == "records":
        return {"Public rows": f"{rows:,}"}
    return {"Protected": f"the labels of {rows:,} rows, and nothing else: their features are taken to be public"}


def _in_words(classes: Sequence[str], classes_from: str, coding: Quantity | Labels | None) -> str:
    if isinstance(coding, Quantity):
        return f"a quantity from {coding.in_words}"
    if coding is not None:
        words = "labels, of which a row may have none, one or several"
        return f"{len(classes)} {words} ({listed(classes)}; {classes_from})"
    return f"{len(classes)} classes ({listed(classes)}; {classes_from})"


def _warnings(columns: Columns, target: str, classes: Sequence[str]) -> tuple[str, ...]:
    warnings: list[str] = []
    if len(columns.left_out) > len(columns.kept):
        warnings.append(
            f"{len(columns.left_out)} of {len(columns.kinds)} columns are not used; see why, and whether the public "
            "table is written as you think."
        )
    pairs = [f"The classes {alike_in_words(same)}" for same in [alike(classes)] if same]
    pairs += [f"The categories {alike_in_words(same[:SHOWN])} of {name!r}" for name, same in columns.alike.items()]
    warnings += [
        f"The columns {listed(map(repr, names))} are equal in every public row; --drop leaves out all but one."
        for names in columns.equal
    ]
    warnings += [
        f"{pair} differ only in capitals, spaces, commas or signs such as $; make the spellings the same in the files "
        "if they mean the same."
        for pair in pairs
    ]
    if looks_like_a_quantity(classes):
        warnings.append(
            f"The target {target!r} has {len(classes)} different numbers: it may be a quantity, not classes; then give "
            "its public range by --range."
        )
    return tuple(warnings)


def listed(names: Iterable[str], *, between: str = ", ") -> str:
    """Return the first names, and the number of further names.

    >>> listed(["a", "b"])
    'a, b'
    """
    texts = [str(name) for name in names]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return between.join(texts[:SHOWN]) + more
