"""A run's store in a bucket: the same votes, one run to a store, one draw, nothing public, no credentials."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon.data import object_store, sharding
from ostrakon.data.checksummed import Damaged, array_from, read_checksummed, write_checksummed
from ostrakon.data.files import CannotWrite
from ostrakon.data.object_store import ObjectPath, StoredFolder, object_path
from ostrakon.data.sharding import ShardFile, ShardFolder, partition_table
from ostrakon.data.sources import open_table
from ostrakon.mechanisms import GNMax
from ostrakon.run.folder import RunFolder
from ostrakon.run.noise_log import NoiseLog
from ostrakon.run.remote import StoredMarks, adopt, claim, require_apart
from ostrakon.teachers import TeacherStore
from ostrakon.validation import InvalidInput
from ostrakon.votes import Votes
from s3_server import SECRET, keys

pytest.importorskip("s3fs")


def flip(client, key):
    content = bytearray(client.get_object(Bucket="hospital", Key=key)["Body"].read())
    content[len(content) // 3] ^= 1
    client.put_object(Bucket="hospital", Key=key, Body=bytes(content))


def run_folder(path):
    home = RunFolder(path)
    path.mkdir()
    home.write({"asked": {}})
    return home


@pytest.mark.parametrize(
    "uri",
    [
        "s3://hospital",
        "s3://user:word@hospital/run",
        "file:///run",
        "s3://hospital/run?secret=word",
        "s3://hospital/a/../b",
    ],
)
def test_other_addresses_are_refused_and_not_repeated(uri):
    with pytest.raises(InvalidInput, match=r"store must be s3://BUCKET/FOLDER") as refused:
        object_path(uri)
    assert "word" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ('ACL = "public-read"', "ACL must be one of private, bucket-owner-full-control, got 'public-read'"),
        ('ACL = "authenticated-read"', "ACL must be one of"),
        ('GrantRead = "uri=everyone"', "may have ACL, .* got GrantRead"),
        ('SSECustomerKey = "abc"', "got SSECustomerKey"),
        ('secret = "abc"', "got secret"),
        ("BucketKeyEnabled = 1", "BucketKeyEnabled must be of another type"),
        ('SSEKMSKeyId = ""', "SSEKMSKeyId must be of another type"),
    ],
)
def test_options_that_open_a_bucket_or_hold_secrets_are_refused(tmp_path, options, refusal):
    (tmp_path / "store.toml").write_text(options)
    with pytest.raises(InvalidInput, match=refusal):
        object_path("s3://hospital/run", tmp_path / "store.toml")


def test_objects_are_checksummed_encrypted_as_asked_and_created_once(bucket, tmp_path):
    (tmp_path / "store.toml").write_text('ACL = "private"\nServerSideEncryption = "AES256"\n')
    place = object_path("s3://hospital/run/", tmp_path / "store.toml")
    assert read_checksummed(place / "a", what="a") is None
    write_checksummed(place / "a", b"payload", what="a", belongs=1)
    assert read_checksummed(place / "a", what="a").payload == b"payload"
    assert bucket.head_object(Bucket="hospital", Key="run/a")["ServerSideEncryption"] == "AES256"
    with pytest.raises(FileExistsError):
        (place / "a").put(b"other", create=True)
    flip(bucket, "run/a")
    with pytest.raises(Damaged, match="is damaged"):
        read_checksummed(place / "a", what="a")


def test_a_damaged_teacher_counts_as_absent(bucket):
    store = TeacherStore(object_path("s3://hospital/run"))
    store.open({"seed": 1})
    kept = store.save(3, ["model"], fingerprint="rows")
    kept.keep_predictions("queries", np.arange(4))
    assert kept.models() == ["model"]
    assert store.find(3, fingerprint="rows") == kept
    np.testing.assert_array_equal(kept.predictions("queries"), np.arange(4))
    with pytest.raises(InvalidInput, match="trained on other rows"):
        store.find(3, fingerprint="others")
    flip(bucket, "run/teachers-00003.bin")
    assert store.find(3, fingerprint="rows") is None
    with pytest.raises(InvalidInput, match="different: seed"):
        TeacherStore(object_path("s3://hospital/run")).open({"seed": 2})


def test_storage_that_does_not_answer_is_no_absent_and_no_damaged_file(bucket, monkeypatch):
    store = TeacherStore(object_path("s3://hospital/run"))
    store.open({"seed": 1})
    kept = store.save(3, ["model"], fingerprint="rows")
    kept.keep_predictions("queries", np.arange(4))
    shard = ShardFile(object_path("s3://hospital/run/shards") / "piece-00.parquet", "0" * 64)
    with pytest.raises(InvalidInput, match="The shards in s3://hospital/run/shards are damaged"):
        shard.read()

    def throttled(self):
        raise OSError("storage answered SlowDown")

    monkeypatch.setattr(ObjectPath, "read_bytes", throttled)
    asked = (
        kept.models,
        shard.read,
        lambda: kept.predictions("queries"),
        lambda: store.find(3, fingerprint="rows"),
        lambda: store.open({"seed": 1}),
        lambda: ShardFolder.open(object_path("s3://hospital/run/shards"), 4),
    )
    for ask in asked:
        with pytest.raises(InvalidInput, match=r"cannot be read \(storage answered slowdown\)(?i:;)|SlowDown"):
            ask()


def test_a_store_is_one_runs_own(bucket, tmp_path):
    mine, other = run_folder(tmp_path / "mine"), run_folder(tmp_path / "other")
    claim(object_path("s3://hospital/run"), mine)
    claim(object_path("s3://hospital/run"), mine)
    with pytest.raises(InvalidInput, match="belongs to another run"):
        claim(object_path("s3://hospital/run"), other)
    with pytest.raises(InvalidInput, match="keeps its votes at s3://hospital/run"):
        claim(object_path("s3://hospital/elsewhere"), mine)
    assert keys(bucket) == ["run/claim.txt", "run/run.toml"]
    # The one that was refused may have another.
    claim(object_path("s3://hospital/mine"), other)


def test_a_claim_whose_answer_was_lost_is_found_again(bucket, tmp_path, monkeypatch):
    home, place, put = run_folder(tmp_path / "mine"), object_path("s3://hospital/run"), ObjectPath.put

    def lost(self, content, *, create=False):
        put(self, content, create=create)
        raise CannotWrite(f"{self} could not be written: storage answered ConnectTimeoutError.")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "put", lost)
        with pytest.raises(CannotWrite):
            claim(place, home)
    assert keys(bucket) == ["run/claim.txt"]
    claim(place, home)
    assert keys(bucket) == ["run/claim.txt", "run/run.toml"]

    # The put was answered, what was put could not be read back.
    home, place, read = run_folder(tmp_path / "other"), object_path("s3://hospital/other"), ObjectPath.read_bytes

    def throttled(self):
        if any(key.startswith("other/") for key in keys(bucket)):
            raise OSError("storage answered SlowDown")
        return read(self)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "read_bytes", throttled)
        with pytest.raises(InvalidInput, match="SlowDown"):
            claim(place, home)
    claim(place, home)
    assert home.read()["store"]["claimed"]


def test_a_client_that_leaves_out_conditions_draws_nothing(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "_knows_conditions", lambda: False)
    with pytest.raises(InvalidInput, match="needs a client that knows If-None-Match"):
        claim(object_path("s3://hospital/run"), run_folder(tmp_path / "mine"))
    assert keys(bucket) == []


def test_storage_that_refuses_a_draw_for_now_draws_nothing(bucket, tmp_path, monkeypatch):
    """409, ConditionalRequestConflict: two at once, and none is there yet."""
    place, votes_, law = object_path("s3://hospital/run"), Votes(np.tile([30, 20], (50, 1))), GNMax(sigma2=10.0)
    home, put = run_folder(tmp_path / "mine"), ObjectPath.put

    def conflict(self, content, *, create=False):
        error = OSError("storage answered ConditionalRequestConflict")
        raise CannotWrite(str(error)) from error

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "put", conflict)
        with pytest.raises(CannotWrite, match="ConditionalRequestConflict"):
            noise_log(home, place).draw("answers", votes_, law, np.random.default_rng(0))
        patched.setattr(ObjectPath, "put", lambda *_, **__: (_ for _ in ()).throw(FileExistsError()))
        with pytest.raises(InvalidInput, match="could not be kept, so nothing of it is used"):
            noise_log(home, place).draw("answers", votes_, law, np.random.default_rng(0))
    assert home.marks.get("answers") is None
    assert ObjectPath.put is put


def test_a_store_that_lost_its_claim_or_holds_anything_else_is_refused(bucket, tmp_path):
    mine, other = run_folder(tmp_path / "mine"), run_folder(tmp_path / "other")
    place = object_path("s3://hospital/run")
    claim(place, mine)
    (place / "teachers" / "teachers-00000.bin").put(b"teachers")
    bucket.delete_object(Bucket="hospital", Key="run/claim.txt")
    with pytest.raises(InvalidInput, match="must be empty at first, and holds 2 objects"):
        claim(place, other)
    with pytest.raises(InvalidInput, match=r"claim.txt is gone"):
        claim(place, mine)
    assert keys(bucket) == ["run/run.toml", "run/teachers/teachers-00000.bin"]


def test_another_endpoint_is_another_store(bucket, tmp_path, monkeypatch):
    home = run_folder(tmp_path / "mine")
    claim(object_path("s3://hospital/run"), home)
    assert home.read()["store"]["endpoint"] == os.environ["AWS_ENDPOINT_URL"]
    port = os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:word@elsewhere.example:{port}")
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    told = rf"at the endpoint http://\S+:{port}, got http://elsewhere\.example:{port}\."
    with pytest.raises(InvalidInput, match=told) as refused:
        claim(object_path("s3://hospital/run"), home)
    assert "word" not in str(refused.value)


def test_settings_of_fsspec_that_open_objects_to_others_are_refused(bucket, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    place = object_path("s3://hospital/run")
    for acl in ("public-read", "authenticated-read"):
        monkeypatch.setitem(fsspec.config.conf, "s3", {"s3_additional_kwargs": {"ACL": acl}})
        with pytest.raises(InvalidInput, match="must give no ACL but private"):
            place.put(b"rows")
    monkeypatch.setitem(fsspec.config.conf, "s3", {"s3_additional_kwargs": {"ACL": "private"}})
    place.put(b"rows")


def test_a_store_is_apart_from_the_private_table():
    table = object_path("s3://hospital/patients")
    for store in ("s3://hospital/patients", "s3://hospital/patients/run", "s3://hospital/patients/2024/run"):
        with pytest.raises(InvalidInput, match="must be apart from the private table"):
            require_apart(object_path(store), table)
    with pytest.raises(InvalidInput, match="must be apart"):
        require_apart(object_path("s3://hospital/all"), object_path("s3://hospital/all/patients"))
    require_apart(object_path("s3://hospital/patients-run"), table)
    require_apart(table, "/data/patients.csv")


def test_a_bucket_that_is_not_there_is_said_in_words_and_spoils_no_folder(bucket, tmp_path):
    home = run_folder(tmp_path / "mine")
    with pytest.raises(InvalidInput, match=r"s3://nowhere/run could not be"):
        claim(object_path("s3://nowhere/run"), home)
    assert "store" not in home.read()
    claim(object_path("s3://hospital/run"), home)


def test_a_service_refuses_a_run_whose_teachers_are_elsewhere(bucket, tmp_path):
    from ostrakon.service.labeller import open_service

    home = run_folder(tmp_path / "mine")
    claim(object_path("s3://hospital/run"), home)
    with pytest.raises(InvalidInput, match="must be of a run without --store"), open_service(home.path):
        pass


def noise_log(home, place):
    return NoiseLog(place / "noise", marks=home.marks)


def test_noise_is_drawn_once_whoever_goes_on(bucket, tmp_path, monkeypatch):
    place, votes_, law = object_path("s3://hospital/run"), Votes(np.tile([30, 20], (50, 1))), GNMax(sigma2=10.0)
    mine, other, third = (run_folder(tmp_path / name) for name in ("mine", "other", "third"))
    first, secure = noise_log(mine, place).draw("answers", votes_, law, np.random.default_rng(0))
    again, _ = noise_log(other, place).draw("answers", votes_, law, np.random.default_rng(1))
    assert not np.array_equal(first, law.sample(votes_, np.random.default_rng(1)))
    np.testing.assert_array_equal(again, first)
    assert not secure

    # Who looked before the other had drawn, and draws after, takes what is there.
    unseen, real = [True], NoiseLog._read
    monkeypatch.setattr(NoiseLog, "_read", lambda self, *what: None if unseen and unseen.pop() else real(self, *what))
    late, _ = noise_log(third, place).draw("answers", votes_, law, np.random.default_rng(2))
    np.testing.assert_array_equal(late, first)
    assert mine.marks.get("answers") == third.marks.get("answers") is not None

    # Other votes, a draw that is gone, another draw, storage that does not answer: refused, and nothing drawn.
    def refused(home, match):
        with pytest.raises(InvalidInput, match=match):
            noise_log(home, place).draw("answers", votes_, law, np.random.default_rng(3))

    with pytest.raises(InvalidInput, match=r"other settings \(set of votes\)"):
        noise_log(mine, place).draw("answers", Votes(np.tile([31, 19], (50, 1))), law, np.random.default_rng(3))
    flip(bucket, "run/noise/answers.npy")
    refused(mine, "drawing again would cost privacy twice")
    bucket.delete_object(Bucket="hospital", Key="run/noise/answers.npy")
    refused(mine, "is gone from the noise log")
    noise_log(run_folder(tmp_path / "new"), place).draw("answers", votes_, law, np.random.default_rng(4))
    refused(mine, "is not what was drawn first")

    def throttled(self):
        raise OSError("storage answered SlowDown")

    monkeypatch.setattr(ObjectPath, "read_bytes", throttled)
    refused(mine, "once storage answers")


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 100, -1])
def test_a_partial_object_is_no_draw_and_nothing_is_drawn_in_its_place(bucket, tmp_path, left):
    place, votes_, law = object_path("s3://hospital/run"), Votes(np.tile([30, 20], (50, 1))), GNMax(sigma2=10.0)
    noise_log(run_folder(tmp_path / "mine"), place).draw("answers", votes_, law, np.random.default_rng(0))
    whole = bucket.get_object(Bucket="hospital", Key="run/noise/answers.npy")["Body"].read()
    bucket.put_object(Bucket="hospital", Key="run/noise/answers.npy", Body=whole[:left])
    for name in ("mine", "new"):
        home = RunFolder(tmp_path / "mine") if name == "mine" else run_folder(tmp_path / name)
        with pytest.raises(InvalidInput, match="drawing again would cost privacy twice"):
            noise_log(home, place).draw("answers", votes_, law, np.random.default_rng(1))


def test_swapped_objects_are_not_taken_for_each_other(bucket, tmp_path):
    place, votes_, law = object_path("s3://hospital/run"), Votes(np.tile([30, 20], (50, 1))), GNMax(sigma2=10.0)
    home, store = run_folder(tmp_path / "mine"), TeacherStore(place)
    store.open({"seed": 1})
    for teacher in (3, 4):
        store.save(teacher, [f"model {teacher}"], fingerprint="rows")
    for name in ("answers", "refined"):
        noise_log(home, place).draw(name, votes_, law, np.random.default_rng(0))

    def swap(*keys):
        held = [bucket.get_object(Bucket="hospital", Key=key)["Body"].read() for key in keys]
        for key, content in zip(keys, reversed(held), strict=True):
            bucket.put_object(Bucket="hospital", Key=key, Body=content)

    swap("run/teachers-00003.bin", "run/teachers-00004.bin")
    assert store.find(3, fingerprint="rows") is store.find(4, fingerprint="rows") is None
    swap("run/noise/answers.npy", "run/noise/refined.npy")
    for name in ("answers", "refined"):
        with pytest.raises(InvalidInput, match="files were mixed up; drawing again would cost privacy twice"):
            noise_log(home, place).draw(name, votes_, law, np.random.default_rng(1))


def test_marks_of_one_folder_are_not_forgotten_by_another(bucket, tmp_path):
    """Both write their own run.toml to the store; a draw that is lost there is then missed by every folder."""
    place, votes_, law = object_path("s3://hospital/run"), Votes(np.tile([30, 20], (50, 1))), GNMax(sigma2=10.0)
    mine, copy = run_folder(tmp_path / "mine"), RunFolder(tmp_path / "copy")
    claim(place, mine)
    copy.path.mkdir()
    adopt(place, copy, {}, {})
    claim(place, copy)

    def draw(home):
        log = NoiseLog(place / "noise", marks=StoredMarks(home.marks, place))
        return log.draw("answers", votes_, law, np.random.default_rng(0))[0]

    draw(mine)
    copy.add("engines", {"saw_private_rows": ["Dask"]})
    assert "drawn" not in copy.read()
    bucket.delete_object(Bucket="hospital", Key="run/noise/answers.npy")
    new = RunFolder(tmp_path / "new")
    new.path.mkdir()
    adopt(place, new, {}, {})
    for home in (mine, copy, new):
        with pytest.raises(InvalidInput, match="is gone from the noise log"):
            draw(home)


def test_a_folder_that_was_killed_before_its_claim_goes_on_with_another_s(bucket, tmp_path):
    place, first, second = (
        object_path("s3://hospital/run"),
        RunFolder(tmp_path / "first"),
        RunFolder(tmp_path / "second"),
    )
    for home in (first, second):
        home.path.mkdir()
        home.write({"asked": {}, "fingerprints": {}})
    first.add("store", {"uri": place.uri, "options": {}, "endpoint": os.environ["AWS_ENDPOINT_URL"], "claim": "0" * 32})
    claim(place, second)
    adopt(place, first, {}, {})
    claim(place, first)
    assert first.read() == second.read()


@pytest.mark.slow
def test_two_splits_at_once_are_each_whole_and_one_counts(bucket, tmp_path, monkeypatch):
    frame = pd.DataFrame({"a": np.arange(600.0), "b": np.arange(600) % 7})
    for name, order in {"one": 1, "two": -1}.items():
        frame[::order].to_parquet(tmp_path / f"{name}.parquet")
    place = object_path("s3://hospital/shards")
    how = {"key": b"k" * 16, "digest": "same"}
    split = [
        partition_table(open_table(tmp_path / f"{name}.parquet"), StoredFolder(place, tmp_path / name), 9, **how)
        for name in ("one",)
    ]
    # The second one began before the first list was there.
    monkeypatch.setattr(sharding, "_is_listed", lambda place: False)
    split.append(partition_table(open_table(tmp_path / "two.parquet"), StoredFolder(place, tmp_path / "two"), 9, **how))
    assert split[1].listed == split[0].listed
    assert sum(len(split[0].read(teacher)) for teacher in range(9)) == 600
    for teacher in range(9):
        pd.testing.assert_frame_equal(split[0].read(teacher), split[1].read(teacher))


def test_a_folder_that_knows_less_learns_from_the_store_and_keeps_what_it_knows(bucket, tmp_path):
    place, asked = object_path("s3://hospital/run"), {"seed": 1}
    mine, copy, other = (RunFolder(tmp_path / name) for name in ("mine", "copy", "other"))
    for home in (mine, copy, other):
        home.path.mkdir()
    mine.write({"asked": asked, "fingerprints": {"private": "a"}})
    claim(place, mine)
    mine.marks["answers"] = "first"
    adopt(place, copy, asked, {"private": "a"})
    claim(place, copy)
    assert copy.read() == mine.read()
    # Both go on, each on its own.
    mine.add("ledger", {"run": "r"})
    mine.add("engines", {"saw_private_rows": ["Ray"]})
    copy.marks["gate"] = "second"
    copy.add("engines", {"saw_private_rows": ["Dask"]})
    adopt(place, mine, asked, {"private": "a"})
    assert mine.read()["drawn"] == {"answers": "first", "gate": "second"}
    assert mine.read()["engines"] == {"saw_private_rows": ["Dask", "Ray"]}
    assert mine.read()["ledger"] == {"run": "r"}
    # A mark that differs stays as it was here: what is in the store is then refused.
    copy.add("drawn", {"answers": "another"})
    adopt(place, mine, asked, {"private": "a"})
    assert mine.read()["drawn"]["answers"] == "first"
    for wrong, data, match in (({"seed": 2}, "a", "seed was 1, now 2"), (asked, "b", "the private data changed")):
        with pytest.raises(InvalidInput, match=match):
            adopt(place, other, wrong, {"private": data})
    assert not other.description.exists()
    other.path.joinpath("run.toml").unlink(missing_ok=True)
    odd = RunFolder(tmp_path / "odd")
    odd.path.mkdir()
    odd.write({"asked": asked, "fingerprints": {"private": "a"}})
    bucket.put_object(Bucket="hospital", Key="run/run.toml", Body=odd.description.read_bytes())
    with pytest.raises(InvalidInput, match="belongs to another run"):
        adopt(place, other, asked, {"private": "a"})
    bucket.put_object(Bucket="hospital", Key="run/run.toml", Body=b"seed = 1")
    with pytest.raises(InvalidInput, match="must be written by this version of ostrakon"):
        adopt(place, other, asked, {"private": "a"})


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1500, 4)).round(3), columns=list("abcd"))
    frame["ill"] = np.where(frame["a"] + frame["b"] > 0, "yes", "no")
    frame[:1200].to_csv(tmp_path / "private.csv", index=False)
    frame[1200:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def train(files, out, *more):
    given = ["--private", files / "private.csv", "--public", files / "public.csv", "--target", "ill"]
    noise = ["--mechanism", "gnmax(sigma2=10)", "--queries", "12", "--teachers", "16", "--teacher", "logistic"]
    noise += ["--student", "logistic", "--jobs", "1"]
    return ostrakon(
        "train", *map(str, [*given, *noise, "--classes", "no,yes", "--out", files / out, *more]), folder=files
    )


def votes(files, out):
    return array_from(read_checksummed(files / out / "private" / "votes.npy", what="votes").payload)


@pytest.mark.slow
def test_votes_are_the_same_and_a_moved_run_folder_goes_on(files, bucket):
    (files / "store.toml").write_text('ServerSideEncryption = "AES256"\n')
    there = ["--store", "s3://hospital/run", "--store-options", files / "store.toml"]
    assert train(files, "here").returncode == 0
    done = train(files, "there", *there)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(votes(files, "there"), votes(files, "here"))
    assert not (files / "there" / "private" / "shards").exists()
    assert not (files / "there" / "private" / "teachers").exists()
    told = [json.loads((files / out / "release" / "statement.json").read_text()) for out in ("here", "there")]
    assert "were stored in object storage (with the encryption option AES256)" in told[1]["trust_model"]
    assert "s3://hospital" not in json.dumps(told[1])
    assert "everyone who can write there could change them" in told[1]["trust_model"]
    assert told[0]["guarantee"] == told[1]["guarantee"]
    written = b"".join(file.read_bytes() for file in (files / "there").rglob("*") if file.is_file())
    assert SECRET.encode() not in written + done.stdout.encode() + done.stderr.encode()

    # Killed before the votes were kept, one teacher's file damaged meanwhile: that one alone is made again.
    stamps = {entry["Key"]: entry["LastModified"] for entry in bucket.list_objects_v2(Bucket="hospital")["Contents"]}
    before = votes(files, "there")
    (files / "there").rename(files / "moved")
    (files / "moved" / "private" / "votes.npy").unlink()
    bucket.delete_object(Bucket="hospital", Key="run/votes.npy")
    damaged = next(key for key in stamps if "/teachers/teachers-" in key)
    held = bucket.get_object(Bucket="hospital", Key=damaged)["Body"].read()
    flip(bucket, damaged)
    for key in [key for key in stamps if "/predictions-" in key]:
        bucket.delete_object(Bucket="hospital", Key=key)
    gone_on = train(files, "moved", *there)
    assert gone_on.returncode == 0, gone_on.stderr
    np.testing.assert_array_equal(votes(files, "moved"), before)
    assert bucket.get_object(Bucket="hospital", Key=damaged)["Body"].read() == held
    again = {entry["Key"]: entry["LastModified"] for entry in bucket.list_objects_v2(Bucket="hospital")["Contents"]}
    made = {damaged, "run/votes.npy", "run/run.toml"}
    kept = [key for key in stamps if "/predictions-" not in key and key not in made]
    assert [key for key in kept if again[key] != stamps[key]] == []

    # The machine is lost with its folder: the same command goes on from the store alone, with the same answers.
    labels = (files / "moved" / "release" / "labels.csv").read_bytes()
    shutil.rmtree(files / "moved")
    elsewhere = train(files, "elsewhere", *there)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (files / "elsewhere" / "release" / "labels.csv").read_bytes() == labels
    np.testing.assert_array_equal(votes(files, "elsewhere"), before)
    last = {entry["Key"]: entry["LastModified"] for entry in bucket.list_objects_v2(Bucket="hospital")["Contents"]}
    assert [key for key in again if last[key] != again[key]] == ["run/run.toml"]
    # Asked for something else, it is another run; and the noise is there, not here.
    refused = train(files, "other", *there, "--seed", "1")
    assert refused.returncode == 2
    assert "s3://hospital/run holds another run (seed was not given, now 1)" in " ".join(refused.stderr.split())
    assert not (files / "other" / "run.toml").exists()
    refused = train(files, "elsewhere")
    assert "keeps its votes in a store: give the same --store again" in " ".join(refused.stderr.split())
    refused = train(files, "here", "--store", "s3://hospital/here")
    assert "give --store at the first call, or never" in " ".join(refused.stderr.split())
    assert [key for key in keys(bucket) if not key.startswith("run/")] == []


@pytest.mark.slow
def test_damaged_shards_are_refused(files, bucket):
    there = ["--store", "s3://hospital/run"]
    assert train(files, "run", *there).returncode == 0
    (files / "run" / "private" / "votes.npy").unlink()
    bucket.delete_object(Bucket="hospital", Key="run/votes.npy")
    flip(bucket, next(key for key in keys(bucket) if key.endswith(".parquet")))
    refused = train(files, "run", *there)
    assert refused.returncode == 2
    assert "s3://hospital/run/shards are damaged" in " ".join(refused.stderr.split())


@pytest.mark.slow
def test_noisy_counts_of_everyone_are_drawn_once_for_all_machines(files, bucket):
    given = ["--private", files / "private.csv", "--public", files / "public.csv", "--target", "ill"]
    given += ["--epsilon", "1", "--classes", "no,yes", "--student", "logistic", "--store", "s3://hospital/r"]
    for out in ("one", "two"):
        done = ostrakon("train", *map(str, [*given, "--out", files / out]), folder=files)
        assert done.returncode == 0, done.stderr
        assert not list((files / out / "private").glob("noise/*"))
    one, two = ((files / out / "release" / "labels.csv").read_bytes() for out in ("one", "two"))
    assert one == two
    assert any(key.startswith("r/noise/") for key in keys(bucket))
    told = json.loads((files / "two" / "release" / "statement.json").read_text())["trust_model"]
    assert "the votes, the noise and, where the run has them, shards of private rows" in told
