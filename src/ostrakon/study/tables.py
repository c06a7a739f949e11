"""The tables that owners hand over or add up, as files: whole numbers, with the study, the owners and a checksum."""

import os
from pathlib import Path

import numpy as np

from ostrakon.data.checksummed import array_from, npy, read_checksummed, write_checksummed
from ostrakon.data.files import private_folder, writing
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput, quote
from ostrakon.votes import IntArray

_SHARE = "an owner's share"
_SUM = "the sum of owners' tables"
_ENDING = ".share"
_SUM_FILE = "opened.sum"
LARGEST = 2**52
"""No honest count is larger. Sums of larger ones would not be exact in doubles."""


def shares_folder(study: Study, folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder for shares and sums: `folder`, or STUDY-shares beside the study."""
    path = study.folder.resolve()
    return Path(folder) if folder is not None else path.with_name(f"{path.name}-shares")


def share_path(folder: Path, owner: str) -> Path:
    """Return the file of an owner's table in a folder."""
    return folder / f"{owner}{_ENDING}"


def write_share(folder: Path, study: Study, owner: str, table: IntArray) -> Path:
    """Write an owner's table. A file that exists already must hold the same table.

    If the table has no noise yet, or stays with its owner, nobody else may read the file.

    Parameters
    ----------
    folder : pathlib.Path
    study : Study
    owner : str
    table : numpy.ndarray of int64, shape (queries, classes)

    Raises
    ------
    InvalidInput
        If the owner has handed over another table in this study.
    """
    path = share_path(private_folder(folder), owner)
    if path.exists():
        if not np.array_equal(read_share(path, study)[1], table):
            raise InvalidInput(f"{owner} has joined already, with another table: {path} is not replaced.")
        return path
    belongs = {"study": study.hash, "owner": owner}
    mode = 0o644 if study.exchange.noised and not study.exchange.summed else 0o600
    write_checksummed(path, npy(np.asarray(table, np.int64)), what=_SHARE, belongs=belongs, mode=mode)
    return path


def read_share(path: Path, study: Study) -> tuple[str, IntArray]:
    """Read an owner's table.

    Returns
    -------
    tuple of (str, numpy.ndarray)
        The owner and the table, int64 of shape (queries, classes).

    Raises
    ------
    InvalidInput
        If the file is not a regular one, is larger than a table of this study, damaged, or of another study or
        version of it; if nobody of this study made it; or if the table has another shape or impossible counts.
    """
    content = read_checksummed(path, what=_SHARE, largest=_table_bytes(study))
    if content is None:
        raise InvalidInput(f"{path} is not there.")
    if not isinstance(content.belongs, dict) or content.belongs.get("study") != study.hash:
        raise InvalidInput(f"{path} was made for another study, or another version of this one: join this one.")
    try:
        owner = study.owner(content.belongs.get("owner", "")).name
    except InvalidInput as error:
        raise InvalidInput(f"{path} must be of an owner of this study: {error}") from None
    return owner, _table_from(path, content.payload, study)


def read_shares(folder: Path, study: Study) -> dict[str, IntArray]:
    """Read the tables in a folder.

    Returns
    -------
    dict of str to numpy.ndarray
        By owner, in the order of the study.

    Raises
    ------
    InvalidInput
        As of `read_share`, and if two files are of one owner.
    """
    tables: dict[str, IntArray] = {}
    for path in sorted(folder.glob(f"*{_ENDING}")):
        owner, table = read_share(path, study)
        if owner in tables:
            raise InvalidInput(f"{path} is a second share of {owner}: keep the one that it handed over.")
        tables[owner] = table
    return {owner.name: tables[owner.name] for owner in study.owners if owner.name in tables}


def write_sum(folder: Path, study: Study, owners: list[str], table: IntArray) -> Path:
    """Write the sum of these owners' tables. A file that exists already must hold the same sum.

    Parameters
    ----------
    folder : pathlib.Path
    study : Study
    owners : list of str
        In the order of the study.
    table : numpy.ndarray of int64, shape (queries, classes)

    Raises
    ------
    InvalidInput
        If another sum of this study was opened before.
    """
    path = folder / _SUM_FILE
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        earlier, before = read_sum(folder, study)
        if earlier != owners or not np.array_equal(before, table):
            raise InvalidInput(
                f"{path} is another sum than was opened now: an owner has taken part with another table, or other "
                "owners have; finish with the first one, and with no other."
            )
        return path
    belongs = {"study": study.hash, "owners": owners}
    write_checksummed(path, npy(np.asarray(table, np.int64)), what=_SUM, belongs=belongs, mode=0o644)
    return path


def read_sum(folder: Path, study: Study) -> tuple[list[str], IntArray]:
    """Read the sum that owners opened.

    Returns
    -------
    tuple of (list of str, numpy.ndarray)
        The owners whose tables are in it, and the sum, int64 of shape (queries, classes).

    Raises
    ------
    InvalidInput
        If there is no file, or it is damaged or of another study or version of it; if the noise of its owners is not
        enough; or if the table has another shape or impossible counts.
    """
    path = folder / _SUM_FILE
    content = read_checksummed(path, what=_SUM, largest=_table_bytes(study))
    if content is None:
        raise InvalidInput(f"{path} is not there: every owner runs `ostrakon study sum` first, all at the same time.")
    if not isinstance(content.belongs, dict) or content.belongs.get("study") != study.hash:
        raise InvalidInput(f"{path} was opened in another study, or another version of this one.")
    owner_names = content.belongs.get("owners")
    owners = [owner.name for owner in study.owners if isinstance(owner_names, list) and owner.name in owner_names]
    if not owners or owners != owner_names:
        raise InvalidInput(f"{path} must name owners of this study, in its order, got {quote(owner_names)}.")
    study.mechanism_of(len(owners))
    return owners, _table_from(path, content.payload, study, tables=len(owners))


def _table_bytes(study: Study) -> int:
    """Return the largest size of a table of this study as an .npy file."""
    return 8 * len(study.queries) * len(study.classes) + 1024


def _table_from(path: Path, payload: bytes, study: Study, *, tables: int = 1) -> IntArray:
    """Return the table in a file's payload, or the sum of `tables` tables, refused unless it is one of the study's."""
    try:
        table = array_from(payload)
    except ValueError:
        raise InvalidInput(f"{path} must hold a table of whole numbers, and it holds something else.") from None
    shape = (len(study.queries), len(study.classes))
    if table.dtype != np.int64 or table.shape != shape:
        raise InvalidInput(f"{path} must hold whole numbers of shape {shape}, got {table.dtype} of {table.shape}.")
    most = tables * LARGEST
    least = -most if study.exchange.noised else 0
    if table.size and not (least <= table.min() and table.max() <= most):
        raise InvalidInput(f"{path} must hold counts from {least} to {most}, got {table.min()} to {table.max()}.")
    return table
