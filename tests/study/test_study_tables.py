"""The opened sum: one for all owners, of this study, and no second one."""

import numpy as np
import pytest
from loopback_owners import NAMES, reachable

from ostrakon.data.checksummed import npy, write_checksummed
from ostrakon.study import finish_study
from ostrakon.study.tables import read_sum, write_sum
from ostrakon.validation import InvalidInput


@pytest.fixture(scope="module")
def study(three):
    return three.create("summed", exchange="secure-sum", owners=reachable(three.folder / "keys"), dropouts=1)


TABLE = np.arange(-8, 8).reshape(8, 2)


def test_what_is_written_is_read_and_stays(study, tmp_path):
    path = write_sum(tmp_path / "new", study, list(NAMES), TABLE)
    before = path.read_bytes()
    owners, table = read_sum(tmp_path / "new", study)
    assert owners == list(NAMES)
    assert np.array_equal(table, TABLE)
    assert write_sum(tmp_path / "new", study, list(NAMES), TABLE) == path
    for owners, table in ((list(NAMES), TABLE + 1), (["north", "west"], TABLE)):
        with pytest.raises(InvalidInput, match="is another sum than was opened now"):
            write_sum(tmp_path / "new", study, owners, table)
    assert path.read_bytes() == before


def test_a_sum_that_is_not_there_or_damaged_is_refused(study, tmp_path):
    with pytest.raises(InvalidInput, match="is not there: every owner runs `ostrakon study sum` first"):
        finish_study(study, shares=tmp_path, out=tmp_path / "run")
    path = write_sum(tmp_path, study, list(NAMES), TABLE)
    content = bytearray(path.read_bytes())
    content[150] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidInput, match="damaged"):
        finish_study(study, shares=tmp_path, out=tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "table", "sentence"),
    [
        ({"study": "0" * 64}, TABLE, "was opened in another study, or another version"),
        ({"owners": ["north", "south", "east"]}, TABLE, "must name owners of this study, in its order"),
        ({"owners": ["west", "north", "south"]}, TABLE, "must name owners of this study, in its order"),
        ({"owners": ["north", "north", "south"]}, TABLE, "must name owners of this study, in its order"),
        ({"owners": []}, TABLE, "must name owners of this study"),
        ({"owners": None}, TABLE, "must name owners of this study"),
        ({"owners": [["north"]]}, TABLE, "must name owners of this study"),
        ({"owners": ["north"]}, TABLE, "without must name at most 1 owners that dropped out"),
        ({}, TABLE[:7], r"must hold whole numbers of shape \(8, 2\)"),
        ({}, TABLE.astype(float), "must hold whole numbers"),
        ({}, np.full((8, 2), 3 * 2**52 + 1), "must hold counts from"),
    ],
)
def test_what_is_no_sum_of_this_study_is_refused(study, tmp_path, changes, table, sentence):
    belongs = {"study": study.hash, "owners": list(NAMES), **changes}
    write_checksummed(tmp_path / "opened.sum", npy(table), what="the sum of owners' tables", belongs=belongs)
    with pytest.raises(InvalidInput, match=sentence):
        read_sum(tmp_path, study)


def test_a_share_in_its_place_is_refused(study, tmp_path):
    write_checksummed(tmp_path / "opened.sum", npy(TABLE), what="an owner's share", belongs={"study": study.hash})
    with pytest.raises(InvalidInput, match="files were mixed up"):
        read_sum(tmp_path, study)
