"""Refits of releases of pictures, with and without an encoder, and of texts; measures of a refit on test rows."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.validation import InvalidInput
from tiny_onnx import IMAGE_TOML, pictures, written

ASKED = {"epsilon": 4.0, "delta": 1e-4, "jobs": 1}
WORDS = {"good": ["a", "fine", "film", "that", "I", "would", "watch"], "bad": ["what", "dull", "hours", "with", "no"]}
NAMES = ("student.onnx", "student.json", "labels.csv", "noisy_counts.csv", "refit.json")


def images(folder, rows, seed, labelled=True):
    """Coloured pictures of 10 x 10 in an .npz file: red or green."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    colours = np.array([[200, 60, 60], [60, 200, 60]])[y]
    X = np.clip(colours[:, None, None] + rng.normal(0, 40, (rows, 10, 10, 3)), 0, 255).astype(np.uint8)
    path = folder / f"{seed}.npz"
    np.savez(path, X=X, **({"y": np.array(["red", "green"])[y]} if labelled else {}))
    return path


def texts(folder, rows, seed, labelled=True):
    rng = np.random.default_rng(seed)
    for number in range(rows):
        label = "good" if rng.random() < 0.5 else "bad"
        place = folder / str(seed) / (label if labelled else "")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(" ".join(rng.choice(WORDS[label], 9)))
    return folder / str(seed)


def trained(folder, kind, **more):
    files = {"private": kind(folder, 300, 0), "public": kind(folder, 80, 1, False), "test": kind(folder, 60, 2)}
    classes = "red,green" if kind is images else "good,bad"
    done = ostrakon.train(out=folder / "run", classes=classes, queries=15, **files, **ASKED, **more)
    shutil.rmtree(folder / "run" / "private")
    return done, files


def test_texts(tmp_path):
    done, files = trained(tmp_path, texts, representation="tfidf")
    given = {"public": files["public"], "test": files["test"]}
    same = ostrakon.refit(done.release, out=tmp_path / "same", **given)
    for name in NAMES:
        assert (same.release / name).read_bytes() == (done.release / name).read_bytes(), name
    assert same.finished.measures.as_dict() == done.outcome.measures.as_dict()
    with pytest.raises(InvalidInput, match="public must be the texts that the release was made with, by their content"):
        ostrakon.refit(done.release, out=tmp_path / "new", public=files["test"])
    assert not (tmp_path / "new").exists()


def test_pictures_through_an_encoder_of_the_operator(tmp_path):
    how = written(tmp_path / "model", pictures(), IMAGE_TOML)
    done, files = trained(tmp_path, images, representation=how, trained_on="made-up numbers")
    recipe = json.loads((done.release / "refit.json").read_text())
    assert recipe["representation"] == "onnx:tiny.onnx"
    given = {"public": files["public"], "test": files["test"]}
    same = ostrakon.refit(done.release, out=tmp_path / "same", representation=how, **given)
    for name in NAMES:
        assert (same.release / name).read_bytes() == (done.release / name).read_bytes(), name
    assert same.finished.measures.as_dict() == done.outcome.measures.as_dict()
    before, after = (json.loads((made / "statement.json").read_text()) for made in (done.release, same.release))
    assert after["guarantee"] == before["guarantee"]
    assert after["tuned"]["encoder"] == before["tuned"]["encoder"]
    other = written(tmp_path / "other", pictures(), IMAGE_TOML.replace("0.5, 0.5, 0.5", "0.4, 0.5, 0.5"))
    refused = {
        "representation must be given: the release was made with onnx:tiny.onnx": {},
        "representation must be that of the release, onnx:tiny.onnx, got hog": {"representation": "hog"},
        "The encoder must be that of the release": {"representation": other},
        "public must be the pictures or features": {"representation": how, "public": files["test"]},
    }
    for sentence, more in refused.items():
        with pytest.raises(InvalidInput, match=sentence) as raised:
            ostrakon.refit(done.release, out=tmp_path / "new", **{**given, **more})
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("small_encoders")
def test_pictures_whose_features_are_learned(tmp_path):
    done, files = trained(tmp_path, images, representation="patches", teachers=10, student="logistic")
    same = ostrakon.refit(done.release, out=tmp_path / "same", public=files["public"], test=files["test"])
    for name in ("labels.csv", "refit.json"):
        assert (same.release / name).read_bytes() == (done.release / name).read_bytes(), name
    assert same.finished.measures.accuracy == pytest.approx(done.outcome.measures.accuracy, abs=0.05)
    other = ostrakon.refit(done.release, out=tmp_path / "other", public=files["public"], student="ridge")
    assert other.finished.student_name == "ridge"


def people(n, seed):
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn"], n)
    price = 0.6 * age + 15 * (city == "Ulm") + rng.normal(size=n)
    old = (age > 50).astype(int)
    return pd.DataFrame({"age": age, "city": city, "price": price, "old": old, "local": (city == "Ulm").astype(int)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [{"target": "price", "range": "0,80"}, {"target": "old", "classes": "0,1"}, {"target": "old,local"}],
    ids=["quantity", "classes", "labels"],
)
@pytest.mark.parametrize("header", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_measures_on_test_rows_are_those_of_a_run_and_are_not_released(tmp_path, asked, header):
    columns, target = ["age", "city"], asked["target"].split(",")
    if not header and len(target) > 1:
        pytest.skip("several columns are named by a header")
    files = {}
    for what, n, seed in (("private", 800, 0), ("public", 100, 1), ("test", 100, 2)):
        kept = columns if what == "public" else [*columns, *target]
        files[what] = tmp_path / f"{what}.csv"
        people(n, seed)[kept].to_csv(files[what], index=False, header=header)
    names = {} if header else {"names": ",".join([*columns, *target])}
    done = ostrakon.train(out=tmp_path / "run", **files, **asked, **names, **ASKED)
    made = [
        ostrakon.refit(done.release, out=tmp_path / name, public=files["public"], **more)
        for name, more in {"tested": {"test": files["test"]}, "plain": {}}.items()
    ]
    assert made[0].finished.measures.as_dict() == done.outcome.measures.as_dict()
    assert made[1].finished.measures is None
    for path in made[0].release.iterdir():
        assert path.read_bytes() == (made[1].release / path.name).read_bytes(), path.name
    if header:
        with pytest.raises(InvalidInput, match=f"test must have the columns .* got none named '{target[0]}'"):
            ostrakon.refit(done.release, out=tmp_path / "new", public=files["public"], test=files["public"])
