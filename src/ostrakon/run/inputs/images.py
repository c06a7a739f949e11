"""A task from images on disk, or from features that were computed before."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.embeddings import as_columns
from ostrakon.data.identity import image_digests
from ostrakon.data.images import PICTURES, Images, read_images, require_same_scale
from ostrakon.data.labels import Labels
from ostrakon.data.quantity import Quantity
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.targets import ReadTarget, require_labels_of
from ostrakon.run.inputs.task import Task, refuse_shared, refuse_unnamed_folders
from ostrakon.statements.statement import Protects
from ostrakon.teachers.one_teacher import fingerprint_of
from ostrakon.validation import InvalidInput

FEATURES = "X"
"""Name of features from a NumPy file."""


def task_from_images(
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
    """Read and check the images of a run; private ones may exceed the memory.

    An image's content is its identity; if `by` names users, the user is. Features become the columns of an embedding,
    X.0, X.1, … of a frame. Pictures in folders get the size and colours of the public ones (`read_images`).

    Parameters
    ----------
    private, public, test : path
        Folders of classes, or .npy and .npz files. public: None if only labels are protected.
    target, by : str, optional
        Names of the arrays of labels and of users, in .npz files.
    classes : sequence of str or str, optional
        All labels if the public images have none, or `FROM_PRIVATE`.
    protect : {"records", "labels"}
        "labels" if the images are public and only their labels are private.
    allow_shared_rows : bool
        See `refuse_shared_rows`.
    coding : Quantity or Labels, optional
        If labels are numbers in a range, or several labels, not classes: names of folders such as `4.5` or `a;b`, or an
        array of numbers, or of 0 and 1 with a column for each label.

    Raises
    ------
    InvalidInput
        For what cannot be read, private images without labels, arrays of different sizes, a class that the public
        images do not have, and private images that are also given as public or for testing.
    """
    if coding is None:
        refuse_unnamed_folders(private, public, classes, PICTURES)
    named: Any = {"target": target, "coding": coding}
    like = None if public is None else read_images(public, **named)
    hidden = read_images(private, by=by, in_memory=protect == "labels", like=like, **named)
    if protect == "labels":
        hidden = _sorted_by_content(hidden)
    shown = hidden if like is None else like
    tested = None if test is None else read_images(test, like=shown, **named)
    labels = require_labels_of(hidden.labels, f"The private images {hidden.path}", coding)
    for other, what in ((shown, "public"), (tested, "test")):
        if other is not None and other is not hidden:
            _require_fits(hidden, other, what)
    public_labels = None if shown is hidden else shown.labels
    where = f"the public images {shown.path}"
    target_name = target if target is not None or hidden.path.is_dir() else "y"
    target_reader = ReadTarget.of(labels, public_labels, classes, coding=coding, target=target_name, where=where)
    if public is not None and not allow_shared_rows:
        refuse_shared(image_digests(hidden.X), image_digests(shown.X))
        refuse_changed_rows(hidden.X, shown.X)
    X_test, y_test = None, None
    if tested is not None:
        X_test = rows_of(tested)
        y_test = target_reader.test_rows(require_labels_of(tested.labels, f"The test images {tested.path}", coding))
    files = {"private": hidden, "public": None if shown is hidden else shown, "test": tested}
    return Task(
        private=Rows(
            X=rows_of(hidden),
            y=target_reader.private_rows(labels),
            users=hidden.users,
            protects=protect,
            identities=hidden.identities,
        ),
        X_public=rows_of(shown),
        X_test=X_test,
        y_test=y_test,
        fingerprints={name: _fingerprint(images) for name, images in files.items() if images is not None},
        source=None if public is None else {"images": digest_of_images(shown), "target": target},
        **target_reader.task_fields(labels, _in_words(shown), public_rows=len(shown.X), protects=protect),
    )


def _sorted_by_content(images: Images) -> Images:
    """Return the images of a folder sorted by content, because the order of file names depends on the labels."""
    if not images.path.is_dir():
        return images
    order = np.argsort(np.array(list(image_digests(images.X))), kind="stable")
    parts = {"labels": images.labels, "users": images.users, "identities": images.identities}
    ordered = {name: None if values is None else values[order] for name, values in parts.items()}
    return dataclasses.replace(images, X=images.X[order], **ordered)


def rows_of(images: Images) -> Any:
    """Return images as an array, features as the columns of an embedding."""
    return as_columns(FEATURES, images.X) if images.are_features else images.X


def digest_of_images(images: Images) -> str:
    """Return a checksum of the rows in their order, without their labels."""
    return fingerprint_of(images.X)


def _in_words(images: Images) -> str:
    if images.are_features:
        return f"features of {images.X.shape[1]} values, made before"
    shape = " x ".join(map(str, images.X.shape[1:]))
    scale = "from 0 to 1 (8-bit values divided by 255)" if images.X.min() >= 0 and images.X.max() <= 1 else "as given"
    size = " x ".join(map(str, images.X.shape[1:3]))
    note = f"; pictures are turned as their EXIF data say, put on white and resized (bicubic) to {size} pixels"
    return f"images of {shape} values {scale}{note if images.path.is_dir() else ''}"


def require_like(known: Images, other: Images, what: str, *, whose: str) -> None:
    """Refuse rows of another shape. what, whose: names of `other` and `known`, such as "test" and "private"."""
    if known.are_features and other.are_features:
        if other.X.shape[1] != known.X.shape[1]:
            raise InvalidInput(
                f"The {what} features {other.path} must have the {whose} ones' width, {known.X.shape[1]} numbers, got "
                f"{other.X.shape[1]}."
            )
    elif other.X.shape[1:] != known.X.shape[1:]:
        raise InvalidInput(
            f"The {what} images {other.path} must have the {whose} ones' shape {known.X.shape[1:]}, got "
            f"{other.X.shape[1:]}."
        )


def _require_fits(hidden: Images, other: Images, what: str) -> None:
    require_like(hidden, other, what, whose="private")
    if not hidden.are_features:
        require_same_scale(hidden.X, other.X, f"The {what} images {other.path}")
    if Path(other.path).resolve() == Path(hidden.path).resolve() or (
        len(other.X) == len(hidden.X) and sorted(image_digests(other.X)) == sorted(image_digests(hidden.X))
    ):
        rows = "features" if hidden.are_features else "images"
        raise InvalidInput(f"The {what} {rows} {other.path} are the private ones, which must not leave.")


def _fingerprint(images: Images) -> str:
    others: list[Any] = [values.astype(str) for values in (images.labels, images.users) if values is not None]
    return fingerprint_of(images.X, *others)
