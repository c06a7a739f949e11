"""Equal released answers give equal bytes: nothing else in a release tells of private rows, times or machines.

But for the day on which the run was planned, which the first page names: SOURCE_DATE_EPOCH holds it still here, and
`test_release` sees that it is the only thing that changes with it.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stranger import ONNX, TORCH, ask, site_of

pytestmark = pytest.mark.slow  # every test looks at five runs in a process of their own
DAY = {"SOURCE_DATE_EPOCH": "1772323200"}
SCRIPT = Path(__file__).with_name("release_twice.py")


def releases(folder: Path, *words: str, **environment: str) -> dict[str, dict[str, bytes]]:
    """The files of every release that the script makes in a process of its own."""
    folder.mkdir()
    command = [sys.executable, str(SCRIPT), str(folder / "made"), *words]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, **DAY, **environment}, timeout=900)
    found = {}
    for release in sorted((folder / "made").glob("*/run/release")):
        found[release.parent.parent.name] = {
            str(file.relative_to(release)): file.read_bytes() for file in sorted(release.rglob("*"))
        }
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("first") / "one"


@pytest.fixture(scope="module")
def first(place):
    return releases(place, PYTHONHASHSEED="1", TZ="UTC", USER="ada", HOME="/ada")


def different(one: dict[str, dict[str, bytes]], other: dict[str, dict[str, bytes]]) -> list[str]:
    assert list(one) == list(other)
    assert len(one) == 5
    for kind in one:
        assert list(one[kind]) == list(other[kind])
        assert "load_student.py" in one[kind]
    return [f"{kind}/{file}" for kind in one for file in one[kind] if one[kind][file] != other[kind][file]]


def test_another_process_elsewhere_writes_the_same_bytes(first, tmp_path):
    again = releases(
        tmp_path / "some other and longer place", PYTHONHASHSEED="2", TZ="Asia/Tokyo", USER="bob", HOME="/bob"
    )
    assert different(first, again) == []


def test_one_record_more_or_another_one_changes_no_byte(first, tmp_path):
    """Trained teachers: one record more. Per-record teachers, whose number is public: one record is another one."""
    assert different(first, releases(tmp_path / "two", "neighbour", PYTHONHASHSEED="1")) == []


def test_the_day_is_the_one_that_was_given(first):
    assert all(b"**Date of the run.** 2026-03-01\n" in release["model_card.md"] for release in first.values())


def test_images_that_were_asked_about_are_in_the_report_of_images(first):
    shown = {kind: b"Public images that were asked about" in release["report.html"] for kind, release in first.items()}
    assert shown == {kind: kind.startswith("images") for kind in first}


def test_no_path_user_or_host_is_in_a_release(first):
    held = b"".join(content for release in first.values() for content in release.values())
    # A short name of a host is in other words and in the bytes of pictures by chance.
    host = [platform.node()] if len(platform.node()) > 6 else []
    for word in (str(Path.home()) + "/", str(SCRIPT.parents[2]), sys.prefix, *host, "/ada", "site-packages"):
        assert word.encode() not in held, word


@pytest.mark.parametrize("packages", [ONNX, TORCH], ids=["onnxruntime", "torch"])
def test_every_card_s_lines_run_where_nothing_of_ours_is(first, place, tmp_path, packages):
    """As printed in the card; and the student says the same again of further rows."""
    asked = {}
    for kind in first:
        release = place / "made" / kind / "run" / "release"
        card = (release / "model_card.md").read_text()
        if f"with Python, {' and '.join(packages[:2])}:" in card:
            folder = Path(shutil.copytree(release, tmp_path / kind))
            rows = np.zeros((2, 8, 8)) if "images" in kind else [{"city": None, "seen": "x", "age": 3}] * 2
            asked[folder] = (re.search(r"```python\n(.*?)```", card, re.S)[1].splitlines(), rows)
    needed = [json.loads(release["student.json"])["needs"] for release in first.values()]
    assert len(asked) == needed.count(list(packages[:2])) > 0
    assert all(each in (list(ONNX[:2]), list(TORCH[:2])) for each in needed)
    for folder, said in ask(site_of(tmp_path / "site", packages), asked).items():
        assert len(said["shown"]) == (3 if "images" in folder.name else 1)
        assert len(set(said["labels"])) == 1
        assert {*said["shown"], *said["labels"]} <= ({"0", "1", "2"} if "images" in folder.name else {"yes", "no"})


def test_the_number_of_records_is_in_a_release_only_where_it_is_public(first):
    """Per-record teachers fix the number of records, says the adjacency; with trained teachers it stays inside."""
    for kind, release in first.items():
        statement = json.loads(release["statement.json"])
        assert statement["teachers"] == (600 if "per-record" in kind else 20)
        assert ("600" in (release["statement.json"] + release["model_card.md"]).decode()) == ("per-record" in kind)
        if "per-record" in kind:
            assert "number" in statement["adjacency"] or "equally many" in statement["adjacency"]
