"""What an owner hands over: one table of whole numbers, with the study, the owner and a checksum."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ostrakon.data.checksummed import array_from, npy, read_checksummed, write_checksummed
from ostrakon.data.files import private_folder
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray

_WHAT = "an owner's share"
_ENDING = ".share"
_LARGEST = 2**52
"""Beyond this no honest table is, and sums would leave the whole numbers that doubles hold."""


def shares_folder(study: Study, folder: str | os.PathLike[str] | None) -> Path:
    """Where shares are put and found: `folder`, or STUDY-shares beside the study."""
    place = study.folder.resolve()
    return Path(folder) if folder is not None else place.with_name(f"{place.name}-shares")


def share_path(folder: Path, owner: str) -> Path:
    """Where the table of an owner is in a folder."""
    return folder / f"{owner}{_ENDING}"


def write_share(folder: Path, study: Study, owner: str, table: IntArray) -> Path:
    """Write the table of an owner into `folder`; one that is there must be the same.

    A table that is not noised, or stays where it is, is readable by whoever runs this alone.
    Errors: `InvalidInput` where the owner has handed over another table in this study.
    """
    path = share_path(private_folder(folder), owner)
    if path.exists():
        if not np.array_equal(read_share(path, study)[1], table):
            raise InvalidInput(f"{owner} has joined already, with another table: {path} is not replaced.")
        return path
    belongs = {"study": study.hash, "owner": owner}
    mode = 0o644 if study.exchange.noised and not study.exchange.summed else 0o600
    write_checksummed(path, npy(np.asarray(table, np.int64)), what=_WHAT, belongs=belongs, mode=mode)
    return path


def read_share(path: Path, study: Study) -> tuple[str, IntArray]:
    """(owner, table) that a file holds.

    Errors: `InvalidInput` for what is not a regular file, is larger than the study's table, damaged or no share, of
    another study or version of it, of somebody who is no owner, and for a table of another shape or of numbers that no
    owner counts.
    """
    held = read_checksummed(path, what=_WHAT, largest=table_bytes(study))
    if held is None:
        raise InvalidInput(f"{path} is not there.")
    if not isinstance(held.belongs, dict) or held.belongs.get("study") != study.hash:
        raise InvalidInput(f"{path} was made for another study, or another version of this one: join this one.")
    try:
        owner = study.owner(held.belongs.get("owner", "")).name
    except InvalidInput as error:
        raise InvalidInput(f"{path} must be of an owner of this study: {error}") from None
    return owner, table_in(path, held.payload, study)


def table_bytes(study: Study) -> int:
    """The size of a table of this study as an .npy file, and a little more."""
    return 8 * len(study.queries) * len(study.classes) + 1024


def table_in(path: Path, payload: bytes, study: Study, *, tables: int = 1) -> IntArray:
    """The table, or the sum of so many, that a file holds; refused unless it is one of the study's."""
    try:
        table = array_from(payload)
    except ValueError:
        raise InvalidInput(f"{path} must hold a table of whole numbers, and it holds something else.") from None
    shape = (len(study.queries), len(study.classes))
    if table.dtype != np.int64 or table.shape != shape:
        raise InvalidInput(f"{path} must hold whole numbers of shape {shape}, got {table.dtype} of {table.shape}.")
    most = tables * _LARGEST
    least = -most if study.exchange.noised else 0
    if table.size and not (least <= table.min() and table.max() <= most):
        raise InvalidInput(f"{path} must hold counts from {least} to {most}, got {table.min()} to {table.max()}.")
    return table


def read_shares(folder: Path, study: Study) -> dict[str, IntArray]:
    """The tables in a folder, by owner, in the order of the study's owners.

    Errors: as `read_share`; two files of one owner.
    """
    found: dict[str, IntArray] = {}
    for path in sorted(folder.glob(f"*{_ENDING}")):
        owner, table = read_share(path, study)
        if owner in found:
            raise InvalidInput(f"{path} is a second share of {owner}: keep the one that it handed over.")
        found[owner] = table
    return {owner.name: found[owner.name] for owner in study.owners if owner.name in found}
