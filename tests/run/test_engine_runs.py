"""A run whose teachers are trained by Dask's workers: the same votes, and a statement that says who saw the data."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.options.options import Options
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task
from ostrakon.run.pipeline import run
from ostrakon.validation import InvalidInput
from s3_server import keys


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


def workers(count):
    distributed = pytest.importorskip("distributed")
    return distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)


@pytest.fixture(scope="module")
def cluster():
    """Two workers, which import the libraries once for all tests."""
    with workers(2) as started:
        yield started


@pytest.mark.slow
def test_votes_are_the_same_and_the_statement_says_who_saw_the_data(files, cluster):
    assert train(files, "here").returncode == 0
    done = train(files, "there", "--engine", f"dask:{cluster.scheduler_address}")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(votes(files, "there"), votes(files, "here"))
    statements = [json.loads((files / out / "release" / "statement.json").read_text()) for out in ("here", "there")]
    assert "workers of Dask received private rows: everyone who runs or can reach" in statements[1]["trust_model"]
    assert statements[1]["trust_model"].startswith(statements[0]["trust_model"])
    assert statements[0]["guarantee"] == statements[1]["guarantee"]
    # Gone on without the engine, the run still says it.
    assert train(files, "there").returncode == 0
    assert "workers of Dask" in json.loads((files / "there" / "release" / "statement.json").read_text())["trust_model"]


@pytest.mark.parametrize(
    ("engine", "refusal"),
    [("spark:1", "engine must be local, dask:HOST:PORT"), ("dask:127.0.0.1:1", "nobody answers at 127.0.0.1:1")],
)
@pytest.mark.slow
def test_engines_that_are_none_are_refused_in_words(files, engine, refusal):
    refused = train(files, "run", "--engine", engine)
    assert refused.returncode == 2
    assert refusal in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


def test_rows_in_memory_are_not_sent_to_an_engine(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 2
    task = Task(private=Rows(X=X, y=y), classes=("no", "yes"), X_public=X + 1)
    with pytest.raises(InvalidInput, match="engine needs a private table on the disk"):
        run(tmp_path / "run", task, Options(epsilon=1.0), engine="dask:127.0.0.1:1")
    assert not (tmp_path / "run" / "private" / "votes.npy").exists()


PER_RECORD = ("--epsilon", "1", "--classes", "no,yes", "--target", "ill", "--student", "logistic")


def train_per_record(files, out, *more):
    given = ["--private", files / "private.csv", "--public", files / "public.csv", *PER_RECORD]
    return ostrakon("train", *map(str, [*given, "--out", files / out, *more]), folder=files)


def per_record_votes_are_counted_by_workers(files, cluster, *more):
    assert train_per_record(files, "here").returncode == 0
    done = train_per_record(files, "there", "--engine", f"dask:{cluster.scheduler_address}", *more)
    assert done.returncode == 0, done.stderr
    assert votes(files, "here").sum() > 1000
    np.testing.assert_array_equal(votes(files, "there"), votes(files, "here"))
    statements = [json.loads((files / out / "release" / "statement.json").read_text()) for out in ("here", "there")]
    assert "workers of Dask received private rows: everyone who runs or can reach" in statements[1]["trust_model"]
    assert ("were stored in object storage" in statements[1]["trust_model"]) == ("--store" in more)
    assert "s3://hospital" not in json.dumps(statements[1])
    assert statements[0]["guarantee"] == statements[1]["guarantee"]


@pytest.mark.slow
def test_per_record_votes_are_counted_by_workers(files, cluster):
    per_record_votes_are_counted_by_workers(files, cluster)


@pytest.mark.slow
def test_workers_count_the_histogram_of_a_quantity(files, cluster):
    asked = ["--private", files / "private.csv", "--public", files / "public.csv", "--target", "d", "--range=-40,40"]
    asked += ["--epsilon", "4", "--drop", "ill"]
    tables = []
    for out, engine in (("here", []), ("there", ["--engine", f"dask:{cluster.scheduler_address}"])):
        done = ostrakon("train", *map(str, [*asked, "--out", files / out, *engine]), folder=files)
        assert done.returncode == 0, done.stderr
        stored = read_checksummed(files / out / "private" / "histogram.npy", what="histogram")
        tables.append(array_from(stored.payload))
    np.testing.assert_array_equal(*tables)
    assert "workers of Dask" in json.loads((files / "there" / "release" / "statement.json").read_text())["trust_model"]


@pytest.mark.slow
def test_workers_read_and_write_the_store(files, bucket):
    # A worker reads the address of the store from its environment when it starts.
    with workers(1) as cluster:
        assert train(files, "trained-here").returncode == 0
        engine = ("--engine", f"dask:{cluster.scheduler_address}")
        done = train(files, "trained-there", *engine, "--store", "s3://hospital/trained")
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(votes(files, "trained-there"), votes(files, "trained-here"))
        assert not (files / "trained-there" / "private" / "teachers").exists()
        per_record_votes_are_counted_by_workers(files, cluster, "--store", "s3://hospital/run")
    names = keys(bucket)
    assert "run/shards/shards.json" in names
    assert any(name.startswith("run/shards/") and name.endswith("-piece-00.parquet") for name in names)
    assert not (files / "there" / "private" / "shards").exists()
