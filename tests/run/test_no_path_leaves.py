"""No file of a release names a folder, a user or a machine of the operator."""

import getpass
import os
import socket
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from ostrakon.cli import app
from tiny_bert import tiny_bert
from tiny_onnx import IMAGE_TOML, pictures, written

SECRET = "secret-clinic-of-dr-smith"


def texts(folder, rng):
    for part in ("private", "public"):
        for label, word in (("good", "fine"), ("bad", "dull")):
            place = folder / part / label
            place.mkdir(parents=True)
            for number in range(60):
                words = " ".join(rng.choice(["a", "film", "that", "I", word, word], 8))
                (place / f"{number:03}.txt").write_text(f"{words} {number}\n")
        (folder / part / "stray.pdf").write_bytes(b"%PDF")
    return {"private": folder / "private", "public": folder / "public"}


def images(folder, rng):
    for part in ("private", "public"):
        for label, colour in (("red", (200, 60, 60)), ("green", (60, 200, 60))):
            (folder / part / label).mkdir(parents=True)
            for number in range(40):
                picture = np.clip(colour + rng.normal(0, 40, (12, 10, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(picture).save(folder / part / label / f"{number}.png")
    return {"private": folder / "private", "public": folder / "public"}


def tables(folder, rng):
    folder.mkdir(parents=True)
    frame = pd.DataFrame({"age": rng.normal(50, 9, 900).round(2), "stay": rng.normal(5, 2, 900).round(2)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:].to_csv(folder / "public.csv", index=False)
    return {"private": folder / "private.csv", "public": folder / "public.csv", "target": "ill"}


def representation(kind, folder):
    if kind == "onnx images":
        return written(folder / "models", pictures(), IMAGE_TOML)
    if kind == "text folder":
        return f"text:{tiny_bert(folder / 'models')}"
    return None


KINDS = {
    "table": (tables, []),
    "labels of a table": (tables, ["--protect", "labels"]),
    "trained teachers": (tables, ["--teachers", 20, "--mechanism", "gnmax(sigma2=6)", "--queries", 40]),
    "texts": (texts, ["--representation", "tfidf"]),
    "labels of texts": (texts, ["--protect", "labels", "--representation", "tfidf"]),
    "images": (images, ["--representation", "raw", "--student", "logistic"]),
    "onnx images": (images, []),
    "text folder": (texts, []),
    "labels of images": (images, ["--protect", "labels", "--representation", "raw", "--student", "logistic"]),
}


def released(kind, root):
    """The files of a release of that kind, made in a folder whose name must not leave."""
    make, options = KINDS[kind]
    folder = root / SECRET / "deep"
    data = make(folder, np.random.default_rng(0))
    if "labels" in options:
        data.pop("public")
    chosen = representation(kind, folder)
    words = [part for name, value in data.items() for part in (f"--{name}", value)]
    words += ["--representation", chosen] if chosen else []
    words += ["--classes", "from-private", "--epsilon", 8, "--out", folder / "run", "--jobs", 1, *options]
    done = CliRunner().invoke(app, ["train", *map(str, words)])
    assert done.exit_code == 0, (done.output, done.exception)
    return {file.name: file.read_bytes() for file in sorted((folder / "run/release").rglob("*")) if file.is_file()}


def telling(root):
    """Words that would tell where, by whom and on which machine a release was made."""
    words = {
        SECRET,
        str(root),
        tempfile.gettempdir() + os.sep,
        str(Path.home()) + os.sep,
    }
    words |= {"stray", os.sep + "deep", "deep" + os.sep}
    # Short names are parts of other words.
    return words | {name for name in (getpass.getuser(), socket.gethostname()) if len(name) > 5}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_tells_where_or_by_whom_it_was_made(kind, tmp_path):
    files = released(kind, tmp_path)
    assert "statement.json" in files
    found = [(name, word) for name, content in files.items() for word in telling(tmp_path) if word.encode() in content]
    assert found == []
