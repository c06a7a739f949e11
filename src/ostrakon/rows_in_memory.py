"""Private rows in memory beside the public ones: what is refused, and what is warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.domain import Domain
from ostrakon.data.identity import row_marks
from ostrakon.data.images import require_same_scale
from ostrakon.data.outside_range import in_words, is_standardised, outside_memory
from ostrakon.data.owners import likely_owners
from ostrakon.data.shared_rows import CountedRows, compared_columns, refuse_shared_rows
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.validation import InvalidInput


class OutsidePublicRange(UserWarning):
    """Private values look wrong beside the public ones: another unit, or an identifier. The message is private."""


_SCALED = (
    "The steps of a Pipeline learn from X and leave X_public as it is. Fit them on public rows instead, "
    "FrozenEstimator(scaler.fit(X_public)), and give the Pipeline transform_input=['X_public'] under "
    "sklearn.set_config(enable_metadata_routing=True)."
)


def warn_outside(given: Any, task: Task) -> None:
    """Warn of private values that look wrong beside the public ones (`OutsidePublicRange`)."""
    assert isinstance(task.private, Rows)
    for sentence in _remarks(given, task.X_public, users=task.private.users):
        warnings.warn(sentence, OutsidePublicRange, stacklevel=3)


def require_apart(private: Any, public: Any) -> None:
    """Refuse private rows that are in the public data, above chance."""
    pairs = [(private, public)]
    if np.ndim(public) == 2 and not hasattr(public, "tocsr"):
        here, there = (rows if hasattr(rows, "iloc") else pd.DataFrame(rows) for rows in (private, public))
        here, there = (frame.set_axis([str(name) for name in frame.columns], axis=1) for frame in (here, there))
        if set(here.columns) == set(there.columns):
            pairs = [(here[names], there[names]) for names in compared_columns(there)]
    for ours, theirs in pairs:
        marks = row_marks(theirs, rounded=True)
        refuse_shared_rows(CountedRows.of(row_marks(ours, rounded=True)), marks, allow="allow_shared_rows=True")
    if np.ndim(public) > 1 and not hasattr(public, "tocsr"):
        refuse_changed_rows(*pairs[-1], allow="allow_shared_rows=True")


def _remarks(private: Any, public: Any, *, users: Any) -> list[str]:
    """Sentences on private columns that look like identifiers, or have values far beyond the public range."""
    outside, owners = outside_memory(private, public), list[str]()
    if users is None and hasattr(private, "iloc") and hasattr(public, "iloc"):
        columns = {str(name): private[name] for name in private.columns}
        owners = likely_owners(public, outside, lambda name: columns[name].nunique() / max(len(private), 1))
    sentences = [
        f"{name!r} looks like an identifier with several rows each, and only single rows are protected: "
        f"users=X[{name!r}] protects all rows of each; leave the column out of X."
        for name in owners
    ]
    if is_standardised(private):
        sentences.append(
            "Every column of X has mean 0 and standard deviation 1: a scaler seems to have learned from private rows, "
            f"which the guarantee does not cover. {_SCALED}"
        )
    far = in_words({name: share for name, share in outside.items() if name not in owners}, public_rows=len(public))
    return sentences if far is None else [*sentences, f"{far} {_SCALED}"]


def require_described(X: Any, domain: Domain) -> None:
    """Refuse X unless it is a frame with exactly the described columns."""
    if not hasattr(X, "iloc") or {str(name) for name in X.columns} != set(domain.names):
        present = ", ".join(map(str, X.columns)) if hasattr(X, "iloc") else type(X).__name__
        raise InvalidInput(
            f"X must be a frame of the columns that are described, {', '.join(domain.names)}, where the public rows "
            f"are to be drawn; got {present}."
        )


def require_same_images(private: Any, public: Any) -> None:
    """Refuse public images of another shape or scale; anything else passes."""
    if max(np.ndim(private), np.ndim(public)) < 3:
        return
    if np.shape(public)[1:] != np.shape(private)[1:]:
        raise InvalidInput(
            f"X_public must have rows of the shape of those of X, {np.shape(private)[1:]}, got {np.shape(public)[1:]}."
        )
    if len(public) and len(private):
        require_same_scale(private, public, "X_public")


def is_free_form(X: Any) -> bool:
    """Whether X is a frame (which may have text and gaps) or images: scikit-learn would refuse or flatten them."""
    return hasattr(X, "iloc") or (hasattr(X, "ndim") and X.ndim > 2)
