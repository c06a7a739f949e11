"""A service whose teachers look at images or at texts from files: how rows are read, and what is refused."""

import base64
import dataclasses
import io
import json
import tracemalloc

import numpy as np
import pytest
import tomli_w
from PIL import Image
from sklearn.datasets import load_digits
from starlette.testclient import TestClient

from ostrakon.cli.train import train_from
from ostrakon.data.images import Images, read_images, read_picture
from ostrakon.run.stages.features import view_of
from ostrakon.service import Client, open_service
from ostrakon.service.app import make_app
from ostrakon.service.audit_file import AuditFile
from ostrakon.service.clients import ClientFile, token_digest
from ostrakon.service.pictures import MAX_PICTURES, PictureForm
from ostrakon.validation import InvalidInput

NOISE = {"threshold": 14.0, "sigma1": 6.0, "sigma2": 4.0}
OPTIONS = {"teachers": 20, "teacher": "naive-bayes", "queries": 20, "student": "logistic", "delta": 1e-5, "jobs": 1}


def encoded(image, kind="PNG", **options):
    held = io.BytesIO()
    image.save(held, kind, **options)
    return base64.b64encode(held.getvalue()).decode()


def trained(folder):
    """A run on pictures of the digits 0 and 1, of 8 bits."""
    X, y = load_digits(n_class=2, return_X_y=True)
    pixels = (X.reshape(-1, 8, 8) * 15).astype(np.uint8)
    for number, (picture, digit) in enumerate(zip(pixels, y, strict=True)):
        place = folder / ("private" if number < 260 else "public") / ("zero", "one")[digit]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(place / f"{number:03}.png")
    files = {"private": str(folder / "private"), "public": str(folder / "public"), "classes": "zero,one"}
    train_from({**files, **OPTIONS, **NOISE}, out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """(the labeller, a client of its web application, the folder)."""
    folder = tmp_path_factory.mktemp("pictures")
    run = trained(folder)
    client = Client(name="a", token=token_digest("a"), answers=1000, requests_per_second=1000)
    (folder / "clients.toml").write_text(tomli_w.dumps({"client": [dataclasses.asdict(client)]}))
    with open_service(run, ledger=f"sqlite:///{folder / 'budget.db'}", budget=100.0, block=20) as labeller:
        audit = AuditFile(folder / "audit.log")
        app = make_app(labeller, ClientFile(folder / "clients.toml"), audit=audit)
        with TestClient(app, raise_server_exceptions=False) as web:
            yield labeller, web, folder


def post(web, rows):
    return web.post("/v1/labels", json={"rows": rows}, headers={"Authorization": "Bearer a"})


@pytest.mark.slow
def test_pictures_have_the_bits_of_the_run_alone_and_together(service):
    labeller, _, folder = service
    public = read_images(folder / "public", like=read_images(folder / "public"))
    in_run = np.asarray(view_of(labeller.task.X_public, "auto", seed=0).transform(public.X))
    files = sorted((folder / "public").rglob("*.png"))
    rows = [{"image": base64.b64encode(file.read_bytes()).decode()} for file in files]
    (together,), _ = labeller._features([labeller.read("a", 1000, rows)])
    alone = [labeller._features([labeller.read("a", 1000, [row])])[0][0] for row in rows]
    assert together.tobytes() == in_run.tobytes() == np.concatenate(alone).tobytes()


def test_pictures_get_labels_once_and_leave_nothing_in_logs(service):
    labeller, web, folder = service
    images = [Image.open(file) for file in sorted((folder / "public").rglob("*.png"))[::5]]
    rows = [{"image": encoded(image)} for image in images]
    first = post(web, rows).json()
    assert {"zero", "one"} <= set(first["labels"]) <= {"zero", "one", None}
    # The same pixels in another file are the same row.
    others = [{"image": encoded(image, compress_level=0), "note": "x"} for image in images]
    assert others[0]["image"] != rows[0]["image"]
    again = post(web, others[::-1])
    assert again.json()["labels"] == first["labels"][::-1]
    assert again.json()["asked"] == first["asked"] == len(rows)
    assert rows[0]["image"][:40] not in (folder / "audit.log").read_text()
    assert json.loads((folder / "audit.log").read_text().splitlines()[0])["rows"] == len(rows)
    columns = web.get("/v1/statement", headers={"Authorization": "Bearer a"}).json()["columns"]
    assert columns == [{"name": "image", "kind": "image"}]
    assert '"contentEncoding":"base64"' in web.get("/openapi.json", headers={"Authorization": "Bearer a"}).text
    assert labeller.rows_asked("a") == len(rows)


def broken():
    whole = base64.b64decode(encoded(Image.effect_noise((8, 8), 50)))
    return base64.b64encode(whole[:-30]).decode()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"image": "not base64!"}, "Row 1: image must be text in base64, got 'not base64!'"),
        ({"image": ""}, "PNG or JPEG file of at most 1048576 pixels and 100 scans, got 0 bytes"),
        ({"image": 7}, "Row 1: image must be a PNG or JPEG file in base64, got 7"),
        ({"image": None}, "Row 1: image must be a PNG or JPEG file in base64, got None"),
        ({"image": broken()}, "PNG or JPEG file of at most"),
        ({"image": encoded(Image.new("L", (8, 8)), "GIF")}, "PNG or JPEG file of at most"),
        ({"image": encoded(Image.new("L", (8, 8)), "TIFF")}, "PNG or JPEG file of at most"),
        ({"image": encoded(Image.new("1", (2**10, 2**10 + 1)))}, "PNG or JPEG file of at most"),
        ({"picture": ""}, "Row 1 must have the column 'image'"),
    ],
)
def test_what_is_not_a_picture_is_refused_in_one_sentence_and_costs_nothing(service, row, sentence):
    labeller, web, _ = service
    known, spent = labeller.rows_known, labeller.account.spent
    refused = post(web, [{"image": encoded(Image.effect_noise((8, 8), 50))}, row])
    assert refused.status_code == 422
    assert sentence in refused.json()["error"]["message"]
    assert (labeller.rows_known, labeller.account.spent) == (known, spent)


def test_too_many_pictures_are_refused(service):
    refused = post(service[1], [{"image": "a"}] * (MAX_PICTURES + 1))
    assert refused.status_code == 422
    assert f"at most {MAX_PICTURES}" in refused.json()["error"]["message"]


@pytest.mark.slow
def test_a_large_picture_is_refused_before_it_is_decoded():
    held = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(held, "PNG")
    tracemalloc.start()
    with pytest.raises(InvalidInput, match="at most 1000 pixels"):
        read_picture(held.getvalue(), shape=(8, 8), most_pixels=1000)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_picture_with_many_scans_is_refused_before_it_is_decoded():
    content = base64.b64decode(encoded(Image.new("L", (64, 64)), "JPEG", progressive=True))
    end, last = content[-2:], content[content.rindex(b"\xff\xda") : -2]
    for more in (50, 200):
        many = content[:-2] + last * more + end
        if more < 100:
            assert read_picture(many, shape=(8, 8), most_pixels=10**4).shape == (8, 8)
            continue
        with pytest.raises(InvalidInput, match="A picture must be"):
            read_picture(many, shape=(8, 8), most_pixels=10**4)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "I;16"])
def test_a_picture_is_read_as_one_of_a_folder_beside_the_public_ones(tmp_path, mode):
    colours = np.linspace(0, 255, 20 * 30 * 3).reshape(20, 30, 3).astype(np.uint8)
    picture = Image.fromarray(colours[..., 0].astype(np.uint16) * 257 if mode == "I;16" else colours)
    (picture if mode == "I;16" else picture.convert(mode)).save(tmp_path / "one.png")
    content = (tmp_path / "one.png").read_bytes()
    for shape in ((9, 7), (9, 7, 3)):
        public = Images(path=tmp_path, X=np.zeros((1, *shape), np.float32), labels=None, users=None)
        (expected,) = read_images(tmp_path, like=public).X
        read = read_picture(content, shape=shape, most_pixels=1000)
        assert (read.shape, read.dtype) == (shape, np.float32)
        assert read.tobytes() == expected.tobytes()
        if len(shape) == 3:
            first = read_picture(content, shape=(3, 9, 7), most_pixels=1000)
            assert first.tobytes() == np.moveaxis(expected, -1, 0).tobytes()
        else:
            for one in ((9, 7, 1), (1, 9, 7)):
                assert read_picture(content, shape=one, most_pixels=1000).tobytes() == expected.tobytes()


@pytest.mark.parametrize("images", [np.zeros((3, 8, 8, 4)), np.full((3, 8, 8), 2.0), np.full((3, 8, 8), -1.0)])
def test_images_that_no_picture_file_can_be_are_refused(images):
    with pytest.raises(InvalidInput, match="one or three colours and values from 0 to 1"):
        PictureForm.of(images)


@pytest.mark.slow
def test_texts_from_files_are_rows_of_one_column(tmp_path):
    rng = np.random.default_rng(0)
    words = {"good": ["fine", "great", "lovely"], "bad": ["poor", "awful", "dull"]}
    for number in range(400):
        label = ("good", "bad")[number % 2]
        place = tmp_path / ("private" if number < 300 else "public") / label
        place.mkdir(parents=True, exist_ok=True)
        text = " ".join([*rng.choice(words[label], 3), *(f"w{at}" for at in rng.integers(0, 50, 6))])
        (place / f"{number}.txt").write_text(text)
    files = {"private": str(tmp_path / "private"), "public": str(tmp_path / "public"), "classes": "good,bad"}
    train_from({**files, **OPTIONS, **NOISE, "representation": "tfidf"}, out=tmp_path / "run")
    ledger = f"sqlite:///{tmp_path / 'budget.db'}"
    with open_service(tmp_path / "run", ledger=ledger, budget=100.0, block=5) as labeller:
        assert [column["name"] for column in labeller.form.columns] == ["text"]
        rows = [{"text": text} for text in ("great lovely fine film", " great lovely fine film ", "poor w3 dull")]
        (keys,) = labeller.answer([labeller.read("a", 10, rows)])
        assert keys[0] == keys[1] != keys[2]
        assert {labeller.stored_label(key) for key in keys} <= {-1, 0, 1}
        assert labeller.rows_asked("a") == 2
