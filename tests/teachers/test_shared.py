"""What workers are told: the same for all, read once, and refused where it is another."""

import pickle

import numpy as np
import pytest

from ostrakon.teachers.shared import SharedValue, share
from ostrakon.validation import InvalidInput


def test_it_comes_back_from_its_address_alone(tmp_path):
    value = ("asked", np.arange(5))
    shared = share(value, tmp_path / "told")
    again = pickle.loads(pickle.dumps(shared))
    assert len(pickle.dumps(shared)) < 1000
    word, numbers = again.get()
    assert word == "asked"
    np.testing.assert_array_equal(numbers, value[1])
    assert again.get()[1] is numbers
    assert share(value, tmp_path / "told") == shared
    assert oct((tmp_path / "told").stat().st_mode)[-3:] == "700"


class Runs:
    """Says, when it is unpickled, that it was."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


def test_what_was_exchanged_is_not_unpickled(tmp_path):
    shared = share([1], tmp_path)
    other = share(Runs(tmp_path / "ran"), tmp_path)
    shared.path.write_bytes(other.path.read_bytes())
    with pytest.raises(InvalidInput, match="is missing or was replaced"):
        shared.get()
    assert not (tmp_path / "ran").exists()
    shared.path.write_bytes(other.path.read_bytes()[:-5])
    with pytest.raises(InvalidInput, match="is damaged"):
        shared.get()
    shared.path.unlink()
    with pytest.raises(InvalidInput, match="is missing"):
        shared.get()
    with pytest.raises(InvalidInput, match="is missing"):
        SharedValue(other.path, "0" * 64).get()
