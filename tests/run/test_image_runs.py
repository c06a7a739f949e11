"""Images on disk become a task, and `ostrakon train` learns from them."""

import json

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from ostrakon.cli import app
from ostrakon.data.datasets import glyphs
from ostrakon.export.student_files import load_student
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput

CLASSES = ("--classes", "from-private")


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    data = glyphs(1500, 250, 100, n_classes=3, imbalance=1.0, wrong_labels=0, system_fonts=False, random_state=1)
    folder = tmp_path_factory.mktemp("letters")
    names = np.array(data.classes)
    np.savez(folder / "private.npz", X=data.X, y=names[data.y], who=np.arange(1500) // 3)
    np.save(folder / "public.npy", data.X_public)
    for number, (image, k) in enumerate(zip(data.X_test, data.y_test, strict=True)):
        place = folder / "test" / names[k]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255).astype(np.uint8)).save(place / f"{number}.png")
    return folder


@pytest.mark.slow
def test_train_learns_from_images(letters, tmp_path):
    command = ["train", *CLASSES, "--private", letters / "private.npz", "--public", letters / "public.npy"]
    options = ["--test", letters / "test", "--teachers", 20, "--epsilon", 20, "--out", tmp_path / "run", "--jobs", 1]
    options += ["--student", "logistic"]
    done = CliRunner().invoke(app, [str(word) for word in (*command, *options)])
    assert done.exit_code == 0, done.output
    # Three letters: one that learns nothing is right a third of the time.
    assert json.loads((tmp_path / "run/private/evaluation.json").read_text())["accuracy"] > 0.85
    said = json.loads((tmp_path / "run/release/statement.json").read_text())
    assert said["guarantee"]["epsilon"] <= 20
    assert "private data" in json.dumps(said["tuned"]["classes"])
    # Whoever loads the student must know on which scale the values are.
    for file in ("student.json", "model_card.md"):
        assert (
            "28 x 28 values from 0 to 1 (8-bit values divided by 255)" in (tmp_path / "run/release" / file).read_text()
        )


def test_users_labels_and_shapes(letters):
    task = task_from_files(
        letters / "private.npz", letters / "public.npy", test=letters / "test", by="who", classes="from-private"
    )
    assert (task.private.unit, task.private.units) == ("user", 500)
    assert task.classes == ("A", "B", "C")
    assert task.pool == 250
    assert task.X_test.shape == (100, 28, 28)
    assert np.bincount(task.y_test).min() > 0
    again = task_from_files(
        letters / "private.npz", letters / "public.npy", test=letters / "test", by="who", classes="from-private"
    )
    assert again.fingerprints == task.fingerprints


def test_images_that_do_not_fit_are_refused(letters, tmp_path):
    private, public = letters / "private.npz", letters / "public.npy"
    np.save(tmp_path / "small.npy", np.zeros((5, 20, 20)))
    np.save(tmp_path / "same.npy", np.load(private)["X"])
    np.save(tmp_path / "bright.npy", 255 * np.load(public))
    np.save(tmp_path / "sixteen.npy", 16 * np.load(public))
    np.savez(tmp_path / "two.npz", X=np.zeros((2, 28, 28)), y=["A", "B"])
    for sentence, arguments in {
        r"the private ones' shape \(28, 28\), got \(20, 20\)": (private, tmp_path / "small.npy"),
        "values on the private images' scale .* mostly 2.. and 0.[89]": (private, tmp_path / "bright.npy"),
        "values on the private images' scale .* mostly 1... and 0.[89]": (private, tmp_path / "sixteen.npy"),
        "are the private ones": (private, tmp_path / "same.npy"),
        "of the private target 'y' does not occur in the public images": (private, tmp_path / "two.npz"),
        "must have labels": (public, private),
    }.items():
        with pytest.raises(InvalidInput, match=sentence):
            task_from_files(*arguments, classes=None if "does not occur" in sentence else "from-private")
    np.save(tmp_path / "bare.npy", np.zeros((5, 28, 28)))
    with pytest.raises(InvalidInput, match=r"test images .* must have labels"):
        task_from_files(private, public, test=tmp_path / "bare.npy", classes="from-private")
    with pytest.raises(InvalidInput, match="--names belongs to tables"):
        task_from_files(private, public, names="a,b", classes="from-private")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(InvalidInput, match="--target must be given"):
        task_from_files(tmp_path / "a.csv", public, classes="from-private")


@pytest.mark.slow
def test_colour_images_by_contrast_hear_the_noisy_sums(tmp_path):
    pytest.importorskip("torch")
    X, y = load_digits(return_X_y=True)
    grey = np.repeat(np.repeat(X.reshape(-1, 8, 8), 2, axis=1), 2, axis=2) * (255 / 16)
    images = np.stack([grey, 255 - grey, grey[:, ::-1]], axis=-1).astype(np.uint8)
    np.savez(tmp_path / "private.npz", X=images[:1200], y=y[:1200])
    np.save(tmp_path / "public.npy", images[1200:1500])
    np.savez(tmp_path / "test.npz", X=images[1500:], y=y[1500:])
    command = [
        "train",
        *CLASSES,
        "--private",
        "private.npz",
        "--public",
        "public.npy",
        "--test",
        "test.npz",
        "--out",
        "run",
    ]
    words = [str(tmp_path / word) if "." in word or word == "run" else word for word in command]
    done = CliRunner().invoke(app, [*words, "--representation", "contrastive", "--epsilon", "2", "--seed", "0"])
    assert done.exit_code == 0, done.output
    said = json.loads((tmp_path / "run/release/statement.json").read_text())
    assert "(gaussian-process" in said["tuned"]["student"]
    # Ten digits, and a teacher for every one of 1,200 records: a guess is right one time in ten.
    assert json.loads((tmp_path / "run/private/evaluation.json").read_text())["accuracy"] > 0.6
    student = load_student(tmp_path / "run/release")
    assert (np.asarray(student.predict(images[1500:] / 255)).astype(str) == y[1500:].astype(str)).mean() > 0.6
