import hashlib

import pytest

from ostrakon.features.recipe import digest_of_file
from ostrakon.validation import InvalidInput


def test_it_is_sha_256(tmp_path):
    (tmp_path / "weights").write_bytes(b"weights")
    assert digest_of_file(tmp_path / "weights") == hashlib.sha256(b"weights").hexdigest()


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInput, match=r"absent cannot be read: no such file or directory\."):
        digest_of_file(tmp_path / "absent")
