"""Images that are not in memory are those that would be: value by value, digest by digest, vote by vote."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from ostrakon.data import images_on_disk
from ostrakon.data.identity import fingerprint_of_identities
from ostrakon.data.images import read_images
from ostrakon.data.images_on_disk import Pixels
from ostrakon.data.partition import assign_teachers
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.stages.features import view_of
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)
SETS = {
    "bytes": RNG.integers(0, 256, (90, 8, 7)).astype(np.uint8),
    "colours": RNG.integers(0, 256, (90, 8, 7, 3)).astype(np.uint8),
    "numbers": RNG.normal(size=(90, 8, 7)),
    "wide": RNG.integers(0, 4000, (90, 8, 7)).astype(np.uint16),
    "in columns": np.asfortranarray(RNG.normal(size=(90, 8, 7))),
}


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr(images_on_disk, "_IN_MEMORY", 1000)
    monkeypatch.setattr(images_on_disk, "_AT_ONCE", 16)


def as_read(X):
    return (X / np.float32(255) if X.dtype == np.uint8 else X).astype(np.float32)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("form", ["npy", "npz", "packed"])
def test_arrays_are_given_out_as_they_would_be_in_memory(tmp_path, kind, form):
    X, y = SETS[kind], np.arange(90) % 3
    path = tmp_path / ("a.npy" if form == "npy" else "a.npz")
    if form == "npy":
        np.save(path, X)
    else:
        (np.savez if form == "npz" else np.savez_compressed)(path, X=X, y=y)
    found = read_images(path, in_memory=False).X
    assert isinstance(found, Pixels)
    assert isinstance(found.array, np.memmap) or kind == "in columns"
    expected = as_read(X)
    assert found.shape == X.shape
    assert found[:].dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(found[np.array([3, 80, 3])], expected[[3, 80, 3]])
    np.testing.assert_array_equal(read_images(path).X, expected)
    key = b"k" * 16
    assert fingerprint_of_identities(found, key=key) == fingerprint_of_identities(expected, key=key)
    assert np.array_equal(assign_teachers(found, 7, key=key), assign_teachers(expected, 7, key=key))


@pytest.mark.parametrize("odd", [None, "RGB", "I;16", "both"])
def test_folders_too(tmp_path, odd):
    shown = SETS["bytes"]
    expected = as_read(shown)
    for number, image in enumerate(shown):
        Image.fromarray(image).save(tmp_path / f"{number:02d}.png")
    if odd in ("I;16", "both"):
        Image.fromarray(np.full((8, 7), 65535, np.uint16)).save(tmp_path / "50.png")
        expected[50] = 1
    if odd in ("RGB", "both"):
        coloured = RNG.integers(0, 256, (8, 7, 3)).astype(np.uint8)
        Image.fromarray(coloured).save(tmp_path / "70.png")
        expected = np.repeat(expected[..., None], 3, axis=3)
        expected[70] = as_read(coloured)
    found = read_images(tmp_path, in_memory=False).X
    assert isinstance(found, Pixels)
    assert isinstance(found.array, np.memmap)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=2e-8)
    np.testing.assert_array_equal(read_images(tmp_path).X, np.asarray(found))


def test_a_table_beside_pictures_is_refused_by_what_it_must_be(tmp_path):
    (tmp_path / "public.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match=r"public.csv must be a folder of pictures or a file .npz or .npy"):
        read_images(tmp_path / "public.csv")


def test_an_archive_that_ends_too_early_or_was_damaged_is_refused(tmp_path):
    for name, spoil in (("short", lambda content: content[:-700]), ("damaged", lambda content: content[:-1] + b"\0")):
        np.savez(tmp_path / "a.npz", X=SETS["bytes"])
        with zipfile.ZipFile(tmp_path / "a.npz") as packed:
            content = packed.read("X.npy")
        if name == "short":
            with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
                packed.writestr("X.npy", spoil(content))
        else:
            whole = (tmp_path / "a.npz").read_bytes()
            at = whole.index(content[-40:]) + 20
            (tmp_path / "a.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InvalidInput, match="cannot be read as a NumPy file"):
            read_images(tmp_path / "a.npz", in_memory=False)


def test_a_number_that_is_none_is_found_far_down(tmp_path):
    X = SETS["numbers"].copy()
    X[89, 7, 6] = np.inf
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(InvalidInput, match="finite"):
        read_images(tmp_path / "a.npy", in_memory=False)


@pytest.mark.parametrize("by", [None, "who"])
def test_a_run_has_the_votes_and_the_shards_that_it_has_in_memory(tmp_path, by, monkeypatch):
    X, y = SETS["bytes"], np.arange(90) % 3
    np.savez(tmp_path / "private.npz", X=X, y=y, who=np.arange(90) // 4)
    np.save(tmp_path / "public.npy", RNG.integers(0, 256, (60, 8, 7)).astype(np.uint8))
    found = []
    for limit in (1000, 2**30):
        monkeypatch.setattr(images_on_disk, "_IN_MEMORY", limit)
        task = task_from_files(tmp_path / "private.npz", tmp_path / "public.npy", classes=["0", "1", "2"], by=by)
        view = view_of(task.X_public, "pca")
        where = {"seed": 0, "transform": view.transform, "folder": tmp_path}
        votes = collect_per_record(
            task.private.by_unit(**where), view.public[:20], classes=3, units=task.private.units, max_contributions=2
        )
        shards = task.private.shards(5, classes=3, **where)
        found.append((task.fingerprints, votes.counts, shards.X, shards.sizes))
        assert votes.counts.sum() >= task.private.units
        plain = view.transform(as_read(X))
        np.testing.assert_array_equal(shards.X, plain)
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_mapped_file_that_changes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(images_on_disk, "_IN_MEMORY", 1000)
    np.save(tmp_path / "a.npy", SETS["bytes"])
    held = read_images(tmp_path / "a.npy", in_memory=False).X
    held.require_unchanged()
    np.save(tmp_path / "b.npy", SETS["bytes"][::-1])
    (tmp_path / "b.npy").replace(tmp_path / "a.npy")
    with pytest.raises(InvalidInput, match="changed while it was read"):
        held.require_unchanged()
    (tmp_path / "a.npy").unlink()
    with pytest.raises(InvalidInput, match="changed while it was read"):
        held.require_unchanged()


def test_large_images_are_looked_at_few_at_a_time(monkeypatch):
    monkeypatch.undo()
    assert [len(some) for some in images_on_disk.blocks_of(np.empty((9000, 28, 28), np.uint8))] == [4096, 4096, 808]
    large = np.empty((50, 1024, 1024, 3), np.uint8)
    assert max(4 * some.size for some in images_on_disk.blocks_of(large)) <= 2**26
    assert images_on_disk.block_size(np.empty((2, 10_000, 10_000), np.uint8)) == 1


def test_an_array_of_an_npz_by_another_name_or_twice(tmp_path):
    np.save(tmp_path / "X.npy", SETS["bytes"])
    content = (tmp_path / "X.npy").read_bytes()
    with zipfile.ZipFile(tmp_path / "plain.npz", "w") as packed:
        packed.writestr("X", content)
    np.testing.assert_array_equal(read_images(tmp_path / "plain.npz", in_memory=False).X, as_read(SETS["bytes"]))
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as packed:
        packed.writestr("X.npy", content)
        with pytest.warns(UserWarning, match="Duplicate"):
            packed.writestr("X.npy", content)
    with pytest.raises(InvalidInput, match="cannot be read as a NumPy file"):
        read_images(tmp_path / "twice.npz", in_memory=False)
