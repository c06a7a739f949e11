"""A task from files of text: a table of one column, which is named text."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.columns import is_text
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.data.task import FEWEST_PUBLIC_ROWS
from ostrakon.data.text_files import SUFFIXES, Texts, read_texts, require_apart
from ostrakon.export.loader import read_word
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.targets import ReadTarget, require_labels_of
from ostrakon.run.inputs.task import Task, refuse_shared, refuse_unnamed_folders
from ostrakon.statements.statement import Protects
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.validation import InvalidInput

COLUMN = "text"
"""Name of the column of texts, also in the input of the released student."""
_FORM = f"texts, each as the column {COLUMN}"


def task_from_texts(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str] | None = None,
    *,
    test: str | os.PathLike[str] | None = None,
    target: str | None = None,
    by: str | None = None,
    classes: Sequence[str] | str | None = None,
    protect: Protects = "records",
    allow_shared_rows: bool = False,
    coding: Quantity | Labels | None = None,
) -> Task:
    """Read and check the texts of a run, all of them into memory (see `ostrakon.data.text_files.read_texts`).

    A text is read like a cell of a table: without outer spaces and quotes; signs of missing values become empty. Its
    content is its identity.

    Parameters
    ----------
    private, test : path
        Folders with a folder for every class.
    public : path, optional
        The same, files without folders, or a .txt file with a text in each line; None if only labels are protected.
    target : str, optional
        Name of the classes in messages.
    by : str, optional
        Refused: texts have no users.
    classes : sequence of str or str, optional
        All labels if the public texts have none, or `FROM_PRIVATE`.
    protect : {"records", "labels"}
        "labels" if the texts are public and only their classes are private.
    allow_shared_rows : bool
        See `refuse_shared_rows`.
    coding : Quantity or Labels, optional
        If the names of folders are numbers in a range, or sets of labels such as `a;b`, not classes.

    Raises
    ------
    InvalidInput
        For what cannot be read, texts without classes, a class that the public texts do not have, fewer than five
        public texts, public texts that are not free text, and texts that are in two folders.
    """
    if coding is None:
        refuse_unnamed_folders(private, public, classes, SUFFIXES)
    hidden = open_texts(private, by=by)
    if protect == "labels":
        hidden = _sorted_by_content(hidden)
    shown = hidden if public is None else open_texts(public)
    tested = None if test is None else open_texts(test)
    others = {"public": None if public is None else shown, "test": tested}
    for what, texts in others.items():
        if texts is not None:
            require_apart(hidden.path, texts.path)
            if sorted(_digests(texts)) == sorted(_digests(hidden)):
                raise InvalidInput(f"The {what} texts {texts.path} are the private ones, which must not leave.")
    public_labels = None if shown is hidden else shown.labels
    where, labels = f"the public texts {shown.path}", _labels(hidden, "private", coding)
    target_reader = ReadTarget.of(labels, public_labels, classes, coding=coding, target=target, where=where)
    if public is not None and not allow_shared_rows:
        refuse_shared(_digests(hidden), _digests(shown))
    X_public = public_frame_of(shown)
    X_test, y_test = None, None
    if tested is not None:
        X_test, y_test = frame_of(tested), target_reader.test_rows(_labels(tested, "test", coding))
    files = {name: texts for name, texts in {"private": hidden, **others}.items() if texts is not None}
    notes = [_count_others(texts) for texts in files.values() if texts.others]
    return Task(
        private=Rows(X=frame_of(hidden), y=target_reader.private_rows(labels), protects=protect),
        X_public=X_public,
        X_test=X_test,
        y_test=y_test,
        fingerprints={name: _fingerprint(texts) for name, texts in files.items()},
        source=None if public is None else {"texts": digest_of_texts(shown)},
        kinds={COLUMN: "text"},
        **target_reader.task_fields(labels, _FORM, public_rows=len(shown.texts), protects=protect, notes=notes),
    )


def open_texts(path: str | os.PathLike[str], *, by: str | None = None) -> Texts:
    """Return `read_texts`, with each text as the released student reads a cell."""
    texts = read_texts(path, by=by)
    return replace(texts, texts=tuple(read_word(text, frozenset()) for text in texts.texts))


def frame_of(texts: Texts) -> pd.DataFrame:
    """Return texts as a table of one column."""
    return pd.DataFrame({COLUMN: np.array(texts.texts, dtype=object)})


def public_frame_of(texts: Texts) -> pd.DataFrame:
    """Return `frame_of` public texts. Errors: `InvalidInput` for fewer than five, and for texts that are not free
    text."""
    frame = frame_of(texts)
    _require_free_text(texts, frame)
    return frame


def digest_of_texts(texts: Texts) -> str:
    """Return a checksum of texts, in their order, without their classes."""
    return fingerprint_of(np.array(_digests(texts)))


def _labels(texts: Texts, what: str, coding: Quantity | Labels | None) -> Any:
    return require_labels_of(texts.labels, f"The {what} texts {texts.path}", coding)


def _require_free_text(shown: Texts, frame: pd.DataFrame) -> None:
    if len(frame) < FEWEST_PUBLIC_ROWS:
        raise InvalidInput(
            f"There must be at least {FEWEST_PUBLIC_ROWS} public texts to ask about, got {len(frame)} in {shown.path}."
        )
    if not is_text(frame[COLUMN]):
        raise InvalidInput(
            f"The public texts {shown.path} must be free text: more than half of them different, and most of three "
            "words or more."
        )


def _count_others(texts: Texts) -> str:
    return f"Left out of {texts.path}: {texts.others} files that are not {' or '.join(SUFFIXES)}."


def _sorted_by_content(texts: Texts) -> Texts:
    """Return texts sorted by content, because the order of file names depends on the labels."""
    order = sorted(range(len(texts.texts)), key=_digests(texts).__getitem__)
    labels = None if texts.labels is None else texts.labels[order]
    return replace(texts, texts=tuple(texts.texts[number] for number in order), labels=labels)


def _digests(texts: Texts) -> list[str]:
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts.texts]


def _fingerprint(texts: Texts) -> str:
    others = [] if texts.labels is None else [texts.labels.astype(str)]
    return fingerprint_of(np.array(_digests(texts)), *others)
