"""Logging to MLflow: what the statement says, what a run adds, and a student that needs no ostrakon."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.report.manifest import write_manifest
from ostrakon.validation import InvalidInput

pytest.importorskip("mlflow", reason="needs MLflow: pip install '.[mlflow]'")
pytest.importorskip("alembic", reason="a local MLflow on SQLite needs alembic")

pytestmark = pytest.mark.slow  # MLflow makes a database of its own


@pytest.fixture(scope="module")
def tracking(tmp_path_factory):
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("tests", artifact_location=(folder / "kept").as_uri()))
    return mlflow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 2000), "town": rng.choice(["Ulm", "Bonn"], 2000)})
    frame["ill"] = np.where(frame["age"] > 50, "yes", "no")
    frame[:1700].to_csv(folder / "private.csv", index=False)
    frame[1700:].drop(columns="ill").to_csv(folder / "public.csv", index=False)
    ostrakon.train(
        private=folder / "private.csv",
        public=folder / "public.csv",
        target="ill",
        classes="no,yes",
        epsilon=2.0,
        student="logistic",
        ledger=f"sqlite:///{folder}/secret-place.db",
        budget=5.0,
        out=folder / "my-run",
    )
    return folder / "my-run"


def logged(tracking, info):
    found = tracking.get_run(info.run_id)
    files = tracking.artifacts.download_artifacts(run_id=info.run_id)
    return found.data, {path.relative_to(files).as_posix(): path for path in sorted(_files(files))}


def _files(folder):
    return (path for path in Path(folder).rglob("*") if path.is_file())


def test_a_run_is_logged_with_its_guarantee_plan_and_entry_and_nothing_private(tracking, run):
    from ostrakon.mlflow import log_release

    info = log_release(run)
    data, files = logged(tracking, info)
    statement = json.loads((run / "release" / "statement.json").read_bytes())
    assert data.metrics == {"epsilon": statement["guarantee"]["epsilon"], "delta": statement["guarantee"]["delta"]}
    assert data.tags["privacy.epsilon"] == str(statement["guarantee"]["epsilon"])
    assert data.tags["privacy.neighbours"] == statement["adjacency"]
    released = {f"release/{path.name}" for path in (run / "release").iterdir()}
    assert set(files) == released | {"plan.json", "ledger_entry.json"}
    for path in (run / "release").iterdir():
        assert files[f"release/{path.name}"].read_bytes() == path.read_bytes()
    assert json.loads(files["plan.json"].read_bytes())["mechanism"] == "bounded-gnmax"
    entry = json.loads(files["ledger_entry.json"].read_bytes())
    assert set(entry) == {"account", "run", "sequence", "hash"}
    for secret in (b"secret-place", b"private.csv", b"fingerprints"):
        assert not any(secret in path.read_bytes() for path in files.values())


def test_the_student_predicts_by_mlflow_where_ostrakon_is_not(tracking, run, tmp_path):
    from ostrakon.mlflow import log_release

    with tracking.start_run() as active:
        info = log_release(run / "release", name="triage")
        assert tracking.active_run().info.run_id == active.info.run_id == info.run_id
    model = tracking.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path))
    program = (
        "import sys; sys.modules['ostrakon'] = None\n"
        "import mlflow.pyfunc, pandas\n"
        f"model = mlflow.pyfunc.load_model({model!r})\n"
        "print(*model.predict(pandas.DataFrame({'town': ['Ulm', 'Bonn'], 'age': [80, 20]})))\n"
    )
    # A folder without ostrakon, and no path to it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["yes", "no"], done.stderr
    assert set(logged(tracking, info)[1]) == {f"release/{path.name}" for path in (run / "release").iterdir()}


def test_a_changed_release_a_folder_without_one_and_a_claim_of_nothing(tracking, run, tmp_path):
    from ostrakon.mlflow import log_release

    with pytest.raises(InvalidInput, match="folder must be a release or a run with one, got"):
        log_release(tmp_path / "none")
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "release" / "labels.csv").write_text("changed")
    with pytest.raises(InvalidInput, match=r"labels.csv was changed"):
        log_release(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "release")
    with pytest.raises(InvalidInput, match="a run that has no release yet"):
        log_release(tmp_path / "run")
    folder = tmp_path / "unclaimed"
    shutil.copytree(run / "release", folder)
    content = json.loads((folder / "statement.json").read_bytes())
    (folder / "statement.json").write_text(json.dumps(content | {"private": False, "not_private": "a test"}))
    write_manifest(folder)
    data, _ = logged(tracking, log_release(folder))
    assert not data.metrics
    assert "privacy.epsilon" not in data.tags
    assert data.tags["privacy.private"] == "False"
