"""Teachers on the workers of Dask and Ray: the same bits as here, and killed workers' work is done again, once."""

import contextlib
import io
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from ostrakon.data.checksummed import read_checksummed
from ostrakon.run.inputs import private_data
from ostrakon.run.inputs.files import task_from_files
from ostrakon.teachers import TeacherStore, train_teachers
from ostrakon.teachers.engines import check_engine, engine_in_use, on_engine
from ostrakon.teachers.gathering import Parts
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput


@contextlib.contextmanager
def dask(workers: int = 2):
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        yield f"dask:{cluster.scheduler_address}"


@contextlib.contextmanager
def ray():
    import ray

    # Its workers import what they are sent by reference from where this file is.
    found = {
        "env_vars": {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    }
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=found)
    try:
        yield f"ray:{ray.get_runtime_context().gcs_address}"
    finally:
        ray.shutdown()


def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1200)
    return rng.normal(size=(1200, 4)) + y[:, None], y, rng.normal(size=(50, 4)) + 1


def cast(estimator, folder, *, n_jobs=-1):
    """The predictions of 70 teachers, and the store that keeps them."""
    X, y, public = data()
    store = TeacherStore(folder)
    teachers = train_teachers(
        estimator, X, y, np.arange(1200) % 70, n_teachers=70, classes=3, store=store, seed=3, n_jobs=n_jobs
    )
    return teachers.predict(public)


def models(file):
    """Those that a store keeps in a file."""
    piece = int(file.stem.rpartition("-")[2])
    return joblib.load(io.BytesIO(read_checksummed(file, what=f"teachers, piece {piece}").payload))


class KilledOnce(ClassifierMixin, BaseEstimator):
    """Kills the process of the first `fit` that finds no mark; counts whoever fits to the end."""

    def __init__(self, marks: str = "", here: int = 0):
        self.marks, self.here = marks, here

    def fit(self, X, y):
        time.sleep(0.005)
        mark = Path(self.marks) / "killed"
        if len(list(Path(self.marks).iterdir())) > 20 and os.getpid() != self.here:
            with contextlib.suppress(FileExistsError):
                mark.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        self.model_ = LogisticRegression().fit(X, y)
        (Path(self.marks) / f"fitted-{os.getpid()}-{time.time_ns()}").touch()
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Elsewhere(LogisticRegression):
    """Refuses to be trained, or asked, in the process `here`."""

    def __init__(self, here: int = 0):
        super().__init__()
        self.here = here

    def fit(self, X, y):
        assert os.getpid() != self.here
        return super().fit(X, y)

    def predict(self, X):
        assert os.getpid() != self.here
        return super().predict(X)


ENGINES = pytest.mark.parametrize("engine", [dask, ray])


@pytest.mark.slow
@ENGINES
def test_the_same_bits_on_every_engine(tmp_path, engine):
    here = cast(LogisticRegression(), tmp_path / "here", n_jobs=1)
    with engine() as address, on_engine(address):
        assert engine_in_use() in ("Dask", "Ray")
        there = cast(LogisticRegression(), tmp_path / "there")
    assert engine_in_use() is None
    np.testing.assert_array_equal(there, here)
    # Not the answers alone: the models.
    names = [file.name for file in (tmp_path / "here").glob("teachers-*.bin")]
    assert len(names) > 1
    for name in names:
        for one, other in zip(models(tmp_path / "here" / name), models(tmp_path / "there" / name), strict=True):
            assert one.model.coef_.tobytes() == other.model.coef_.tobytes()
            assert one.model.intercept_.tobytes() == other.model.intercept_.tobytes()


@dataclass
class FeaturesOnce:
    """Two columns as features; kills the first process that asks for them, unless it is this one."""

    mark: str
    here: int

    def __call__(self, rows):
        if os.getpid() != self.here:
            with contextlib.suppress(FileExistsError):
                Path(self.mark).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return rows[["a", "b"]].to_numpy(np.float32)


@pytest.mark.slow
@ENGINES
def test_per_record_votes_are_counted_once_where_a_worker_is_killed(tmp_path, engine, monkeypatch):
    monkeypatch.setattr(private_data, "_ROWS_AT_A_TIME", 300)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2300, 2)), columns=["a", "b"])
    frame["ill"] = np.where(frame["a"] + rng.normal(size=2300) > 0, "yes", "no")
    frame[:2000].to_parquet(tmp_path / "private.parquet")
    frame[2000:].to_parquet(tmp_path / "public.parquet")
    private = task_from_files(
        tmp_path / "private.parquet", tmp_path / "public.parquet", target="ill", classes="from-private"
    ).private
    transform, queries = FeaturesOnce(str(tmp_path / "killed"), os.getpid()), rng.normal(size=(50, 2))
    told = {"classes": 2, "units": 2000}
    here = collect_per_record(private.by_unit(seed=0, transform=transform, folder=tmp_path), queries, **told)
    assert here.counts.sum() == 2000
    with engine() as address, on_engine(address):
        parts = private.parts_by_unit(seed=0, folder=tmp_path / "shards")
        assert len(parts) == 7
        rows = Parts(parts=parts, transform=transform, folder=tmp_path / "told")
        there = collect_per_record(rows, queries, **told)
    assert (tmp_path / "killed").exists()
    assert there == here


@pytest.mark.slow
@ENGINES
def test_work_of_a_killed_worker_is_done_again_and_nothing_counts_twice(tmp_path, engine):
    marks = tmp_path / "marks"
    marks.mkdir()
    with engine() as address, on_engine(address):
        there = cast(KilledOnce(str(marks), os.getpid()), tmp_path / "there")
        fitted = len(list(marks.glob("fitted-*")))
        assert (marks / "killed").exists()
        again = cast(KilledOnce(str(marks), os.getpid()), tmp_path / "there")
    assert len(list(marks.glob("fitted-*"))) == fitted  # a second run trains nobody
    assert 70 <= fitted < 140
    np.testing.assert_array_equal(there, cast(LogisticRegression(), tmp_path / "here", n_jobs=1))
    np.testing.assert_array_equal(there, again)


@pytest.mark.slow
def test_dask_with_one_worker_gives_the_same_and_several_threads_are_refused(tmp_path):
    from distributed import LocalCluster

    here = cast(LogisticRegression(), tmp_path / "here", n_jobs=1)
    with dask(workers=1) as address, on_engine(address):
        np.testing.assert_array_equal(cast(Elsewhere(os.getpid()), tmp_path / "there"), here)
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        with (
            pytest.raises(InvalidInput, match="must have one thread each"),
            on_engine(f"dask:{cluster.scheduler_address}"),
        ):
            pass
        # Nor where the caller has set it.
        with (
            cluster.get_client() as client,
            joblib.parallel_config("dask", client=client),
            pytest.raises(InvalidInput, match="must have one thread each"),
        ):
            cast(LogisticRegression(), tmp_path / "threads")


@pytest.mark.parametrize(
    "value", ["", "spark:1", "dask:", "dask", "ray:ray://head:1", "dask:host", None, 3, "dask:a b:1"]
)
def test_what_is_no_engine_is_refused(value):
    with pytest.raises(InvalidInput, match="engine must be local, dask:HOST:PORT"):
        check_engine("engine", value)


def test_backends_of_this_machine_are_no_engine():
    for name in ("threading", "loky", "sequential"):
        with joblib.parallel_config(name):
            assert engine_in_use() is None
    with on_engine("local"):
        assert engine_in_use() is None
