"""The sum that owners opened among themselves: every owner has the same file, which may be seen by anybody."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ostrakon.data.checksummed import npy, read_checksummed, write_checksummed
from ostrakon.data.files import writing
from ostrakon.study.share import table_bytes, table_in
from ostrakon.study.study import Study
from ostrakon.validation import InvalidInput, shown
from ostrakon.votes import IntArray

_WHAT = "the sum of owners' tables"
_NAME = "opened.sum"


def write_sum(folder: Path, study: Study, owners: list[str], table: IntArray) -> Path:
    """Write the sum of these owners' tables into `folder`; one that is there must be the same.

    Errors: `InvalidInput` where another sum of this study was opened before.
    """
    path = folder / _NAME
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        known, before = read_sum(folder, study)
        if known != owners or not np.array_equal(before, table):
            raise InvalidInput(
                f"{path} is another sum than was opened now: an owner has taken part with another table, or other "
                "owners have; finish with the first one, and with no other."
            )
        return path
    belongs = {"study": study.hash, "owners": owners}
    write_checksummed(path, npy(np.asarray(table, np.int64)), what=_WHAT, belongs=belongs, mode=0o644)
    return path


def read_sum(folder: Path, study: Study) -> tuple[list[str], IntArray]:
    """(owners whose tables are in it, the sum) that a folder holds.

    Errors: `InvalidInput` for none, a damaged one or one of another study or version of it, owners whose noise does not
    suffice, and a table of another shape or of numbers that no sum has.
    """
    path = folder / _NAME
    held = read_checksummed(path, what=_WHAT, largest=table_bytes(study))
    if held is None:
        raise InvalidInput(f"{path} is not there: every owner runs `ostrakon study sum` first, all at the same time.")
    if not isinstance(held.belongs, dict) or held.belongs.get("study") != study.hash:
        raise InvalidInput(f"{path} was opened in another study, or another version of this one.")
    named = held.belongs.get("owners")
    owners = [owner.name for owner in study.owners if isinstance(named, list) and owner.name in named]
    if not owners or owners != named:
        raise InvalidInput(f"{path} must name owners of this study, in its order, got {shown(named)}.")
    study.among(len(owners))
    return owners, table_in(path, held.payload, study, tables=len(owners))
