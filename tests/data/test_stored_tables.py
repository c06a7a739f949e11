"""Tables in object storage: read as those on the disk are, and refused in one sentence where they cannot be."""

import json

import numpy as np
import pandas as pd
import pytest

import s3_server
from commands import ostrakon
from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.data.domain import Domain
from ostrakon.data.sources import open_table
from ostrakon.data.table_files import digest_of_file
from ostrakon.ledger.location import default_url
from ostrakon.options.files import Files
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)


def table(rows):
    made = pd.DataFrame(RNG.normal(size=(rows, 3)).round(3), columns=["a", "b", "c"])
    made["ward"] = RNG.choice(["north", "south"], rows)
    made["ill"] = np.where(made["a"] + made["b"] > 0, "yes", "no")
    return made


@pytest.fixture
def parts(tmp_path):
    """A folder of Parquet files, one with signs in its name that stand for others elsewhere, and public rows."""
    (tmp_path / "parts").mkdir()
    for name in ("part-1", "part-2", "part-[1]"):
        table(700).to_parquet(tmp_path / "parts" / f"{name}.parquet")
    table(400).drop(columns="ill").to_parquet(tmp_path / "public.parquet")
    return tmp_path


def put(bucket, folder):
    for file in (folder / "parts").iterdir():
        bucket.put_object(Bucket="hospital", Key=f"patients/{file.name}", Body=file.read_bytes())


def test_signs_in_a_file_s_name_stand_for_no_other_file(parts):
    held = open_table(parts / "parts")
    assert held.rows() == 2100
    apart = [open_table(parts / "parts" / f"part-{end}.parquet").read() for end in ("1", "2", "[1]")]
    assert held.read().equals(pd.concat(apart, ignore_index=True))
    table(30).to_csv(parts / "x*.csv", index=False)
    table(70).to_csv(parts / "xy.csv", index=False)
    assert open_table(parts / "x*.csv").rows() == 30


@pytest.mark.slow
def test_rows_are_those_of_the_same_files_on_the_disk(parts, bucket):
    put(bucket, parts)
    here, there = open_table(parts / "parts"), open_table("s3://hospital/patients")
    assert there.read().equals(here.read())
    assert there.rows() == 2100
    one = open_table("s3://hospital/patients/part-2.parquet")
    assert one.read().equals(open_table(parts / "parts" / "part-2.parquet").read())
    assert digest_of_file("s3://hospital/patients/part-2.parquet") == digest_of_file(parts / "parts" / "part-2.parquet")
    told = {"target": "ill", "classes": ["no", "yes"]}
    tasks = [
        task_from_files(place, parts / "public.parquet", **told)
        for place in (parts / "parts", "s3://hospital/patients")
    ]
    assert tasks[0].fingerprints == tasks[1].fingerprints
    assert tasks[0].private.fingerprint(b"k" * 16) == tasks[1].private.fingerprint(b"k" * 16)


@pytest.mark.slow
def test_labels_alone_and_described_tables_too(parts, bucket):
    put(bucket, parts)
    cells = Domain.of({name: {"low": -4, "high": 4} for name in "abc"})
    for given in ({"protect": "labels"}, {"columns": cells}):
        told = {"target": "ill", "classes": ["no", "yes"], **given}
        tasks = [task_from_files(place, **told) for place in (parts / "parts", "s3://hospital/patients")]
        assert tasks[0].private.units == 2100
        assert tasks[0].fingerprints == tasks[1].fingerprints
        blocks = [
            next(iter(task.private.by_unit(seed=0, transform=lambda X: X[["a"]].to_numpy(), folder=parts)))
            for task in tasks
        ]
        for here, there in zip(*blocks, strict=True):
            np.testing.assert_array_equal(here, there)


@pytest.mark.slow
def test_a_run_on_a_bucket_has_the_votes_of_one_on_the_disk(parts, bucket):
    put(bucket, parts)
    given = ["--public", parts / "public.parquet", "--target", "ill", "--classes", "no,yes", "--epsilon", "1"]
    votes = []
    for name, private in {"here": parts / "parts", "there": "s3://hospital/patients"}.items():
        done = ostrakon(
            "train",
            *map(str, ["--private", private, *given, "--student", "logistic", "--out", parts / name]),
            folder=parts,
        )
        assert done.returncode == 0, done.stderr
        votes.append(array_from(read_checksummed(parts / name / "private" / "votes.npy", what="votes").payload))
    assert votes[0].sum() > 2000
    np.testing.assert_array_equal(*votes)
    told = json.loads((parts / "there" / "release" / "statement.json").read_text())["trust_model"]
    assert "the private table is in object storage: its provider and everyone who can read its bucket" in told
    assert s3_server.SECRET not in "".join(
        file.read_text(errors="replace") for file in (parts / "there").rglob("*") if file.is_file()
    )


@pytest.mark.parametrize(
    ("uri", "refusal"),
    [
        ("s3://hospital/nothing", "must be a Parquet file, or a folder of them; there is none"),
        ("s3://nobody/patients", r"must be a Parquet file|cannot be read"),
        ("s3://hospital/odd", "cannot be read as CSV or Parquet"),
        ("https://example.org/patients.parquet", "must be s3://BUCKET/FOLDER"),
        ("s3://me:word@hospital/patients", "must be s3://BUCKET/FOLDER"),
    ],
)
def test_what_is_no_table_is_refused(bucket, uri, refusal):
    bucket.put_object(Bucket="hospital", Key="odd/a.parquet", Body=b"no Parquet at all, whatever its name says")
    with pytest.raises(InvalidInput, match=refusal) as refused:
        open_table(uri)
    assert "word" not in str(refused.value)


def test_storage_that_is_gone_is_one_sentence(parts, bucket, monkeypatch):
    put(bucket, parts)
    held = open_table("s3://hospital/patients")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(InvalidInput, match="cannot be read"):
        open_table("s3://hospital/patients")
    with pytest.raises(InvalidInput, match="cannot be read"):
        held.rows()


def test_schemas_that_differ_are_refused_there_too(parts, bucket):
    put(bucket, parts)
    odd = parts / "odd.parquet"
    table(10).astype({"a": str}).to_parquet(odd)
    bucket.put_object(Bucket="hospital", Key="patients/z.parquet", Body=odd.read_bytes())
    with pytest.raises(InvalidInput, match="must hold Parquet files of one schema"):
        open_table("s3://hospital/patients")


def test_a_place_in_a_bucket_stays_as_it_is_and_a_ledger_beside_it_must_be_named(bucket):
    files = Files(private="s3://hospital/patients/", public="public.parquet", target="ill")
    assert files.private == "s3://hospital/patients"
    with pytest.raises(InvalidInput, match="private must be s3://BUCKET/FOLDER"):
        Files(private="gs://hospital/patients", public="public.parquet", target="ill")
    with pytest.raises(InvalidInput, match="ledger must be named"):
        default_url("s3://hospital/patients")


def test_a_name_that_the_client_reads_as_another_object_is_refused(bucket, tmp_path):
    pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(tmp_path / "p.parquet")
    content = (tmp_path / "p.parquet").read_bytes()
    bucket.put_object(Bucket="hospital", Key="data/p.parquet", Body=content)
    assert open_table("s3://hospital/data").rows() == 2
    bucket.put_object(Bucket="hospital", Key="data/p.parquet?versionId=1.parquet", Body=content)
    with pytest.raises(InvalidInput, match="must have another name: the client of S3 reads another object"):
        open_table("s3://hospital/data")


@pytest.mark.slow
@pytest.mark.parametrize("change", ["written", "added", "removed"])
def test_a_stored_table_that_changes_while_it_is_read_is_refused(bucket, tmp_path, change):
    frame = pd.DataFrame({"a": np.arange(50.0) / 2, "ill": ["yes", "no"] * 25})
    frame.to_parquet(tmp_path / "p.parquet")
    frame[:30].to_parquet(tmp_path / "q.parquet")
    frame.drop(columns="ill").to_parquet(tmp_path / "public.parquet")
    for name in "ab":
        bucket.put_object(Bucket="hospital", Key=f"data/{name}.parquet", Body=(tmp_path / "p.parquet").read_bytes())
    private = task_from_files(
        "s3://hospital/data", tmp_path / "public.parquet", target="ill", classes=["no", "yes"], allow_shared_rows=True
    ).private
    where = {"seed": 0, "transform": lambda rows: rows[["a"]].to_numpy(), "folder": tmp_path / "shards"}
    assert sum(len(features) for _, features, _ in private.by_unit(**where)) == private.units == 100
    if change == "removed":
        bucket.delete_object(Bucket="hospital", Key="data/b.parquet")
    else:
        key = "data/a.parquet" if change == "written" else "data/c.parquet"
        bucket.put_object(Bucket="hospital", Key=key, Body=(tmp_path / "q.parquet").read_bytes())
    with pytest.raises(InvalidInput, match=r"changed while it was read|cannot be read"):
        list(private.by_unit(**where))
