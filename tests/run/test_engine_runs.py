"""A run whose teachers are trained by Dask's workers: the same votes, and a statement that says who saw the data."""

import json

import numpy as np
import pandas as pd
import pytest

from commands import ostrakon
from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.validation import InvalidInput


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
    noise = ["--mechanism", "gnmax", "--sigma2", "10", "--queries", "40", "--teachers", "60", "--teacher", "logistic"]
    return ostrakon(
        "train", *map(str, [*given, *noise, "--classes", "no,yes", "--out", files / out, *more]), folder=files
    )


def votes(files, out):
    return array_from(read_checksummed(files / out / "private" / "votes.npy", what="votes").payload)


@pytest.mark.slow
def test_votes_are_the_same_and_the_statement_says_who_saw_the_data(files):
    distributed = pytest.importorskip("distributed")
    assert train(files, "here").returncode == 0
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        done = train(files, "there", "--engine", f"dask:{cluster.scheduler_address}")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(votes(files, "there"), votes(files, "here"))
    told = [json.loads((files / out / "release" / "statement.json").read_text()) for out in ("here", "there")]
    assert "workers of Dask: these, and whoever runs or can reach them" in told[1]["trust_model"]
    assert told[1]["trust_model"].startswith(told[0]["trust_model"])
    assert told[0]["guarantee"] == told[1]["guarantee"]
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


def test_what_an_engine_cannot_spread_is_refused(files):
    from ostrakon.run.inputs.files import task_from_files
    from ostrakon.run.pipeline import run
    from ostrakon.run.settings.options import Options

    task = task_from_files(files / "private.csv", files / "public.csv", target="ill", classes=["no", "yes"])
    with pytest.raises(InvalidInput, match="engine spreads the training of teachers, and here every record is one"):
        run(files / "run", task, Options(epsilon=1.0), engine="dask:127.0.0.1:1")
    assert not (files / "run" / "private" / "votes.npy").exists()
