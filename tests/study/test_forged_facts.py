"""Whatever a coordinator writes in place of a fact, with a hash that is right: a sentence, or a study."""

import shutil
import tomllib
from datetime import date

import numpy as np
import pytest
import tomli_w
from loopback_owners import reachable

from ostrakon.data.checksummed import digest_of_json, sha256
from ostrakon.study import Study
from ostrakon.validation import InvalidInput

WRONG = ("", "x", -1, 0, 2**70, 1.5, float("nan"), float("inf"), True, [], [1], ["x"], {}, {"x": 1}, date(2026, 1, 1))


def leaves(content, path=()):
    """The places of all values, tables and lists among them."""
    inside = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def changed(content, path, value):
    if not path:
        return value
    held = dict(content) if isinstance(content, dict) else list(content)
    held[path[0]] = changed(content[path[0]], path[1:], value)
    return held


@pytest.mark.slow
@pytest.mark.parametrize("exchange", ["files", "secure-sum"])
def test_a_wrong_type_ends_in_a_sentence(three, tmp_path, exchange):
    owners = reachable(three.folder / "keys")[:2]
    study = three.create(str(tmp_path / "study"), exchange=exchange, owners=owners)
    path = study.folder / "study.toml"
    content = tomllib.loads(path.read_text())
    own = content.pop("ostrakon")
    refused = 0
    for place in leaves(content):
        for wrong in WRONG:
            forged = changed(content, place, wrong)
            try:
                digest = digest_of_json(forged)
            except TypeError:
                digest = "0" * 64
            path.write_text(tomli_w.dumps({"ostrakon": {**own, "hash": digest}, **forged}))
            try:
                Study.read(study.folder)
            except InvalidInput:
                refused += 1
            except Exception as error:
                raise AssertionError(f"{place} = {wrong!r}: {error!r}") from error
    assert refused > 400


@pytest.mark.parametrize(
    "wrong", [np.array(["x"] * 8), np.full((8, 2), np.nan), np.zeros(8), np.zeros((8, 2), np.int8)]
)
def test_features_that_are_none_are_refused(three, tmp_path, wrong):
    study = three.create(str(tmp_path / "study"))
    np.save(study.folder / "features.npy", wrong)
    path = study.folder / "study.toml"
    content = tomllib.loads(path.read_text())
    own = content.pop("ostrakon")
    content["files"]["features.npy"] = sha256((study.folder / "features.npy").read_bytes())
    path.write_text(tomli_w.dumps({"ostrakon": {**own, "hash": digest_of_json(content)}, **content}))
    with pytest.raises(InvalidInput, match=r"features\.npy must hold finite numbers"):
        Study.read(study.folder)


@pytest.mark.parametrize("wrong", [{}, {"hash": 3}, {"format": "1"}, 3, []])
def test_a_wrong_head_ends_in_a_sentence(three, tmp_path, wrong):
    study = three.create(str(tmp_path / "study"))
    path = study.folder / "study.toml"
    content = tomllib.loads(path.read_text())
    path.write_text(tomli_w.dumps({**content, "ostrakon": wrong}))
    with pytest.raises(InvalidInput, match=r"study\.toml"):
        Study.read(study.folder)


def test_a_byte_order_mark_changes_nothing(three, tmp_path):
    """Editors put it there; the hash is of the facts."""
    study = three.create(str(tmp_path / "study"))
    shutil.copytree(study.folder, tmp_path / "marked")
    path = tmp_path / "marked" / "study.toml"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert Study.read(tmp_path / "marked").hash == study.hash
