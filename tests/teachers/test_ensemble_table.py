"""Teachers of a table on disk, read one shard at a time, are the teachers of the same table in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from ostrakon.data.classes import label_indices
from ostrakon.data.partition import assign_teachers
from ostrakon.data.task import open_task
from ostrakon.features.tables import TableFeatures
from ostrakon.teachers import TableShards, TeacherStore, train_on_shards, train_teachers

KEY = bytes(32)


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, city = rng.integers(18, 90, n), rng.choice(["Ulm", "Bonn", "Rom"], n)
    sick = (age / 90 + (city == "Ulm") + rng.normal(size=n) / 4) > 0.9
    return pd.DataFrame({"age": age, "city": city, "user": rng.integers(0, 120, n), "sick": np.where(sick, "y", "n")})


@pytest.mark.parametrize("by", [None, "user"])
def test_shards_on_disk_train_the_same_teachers(tmp_path, by) -> None:
    people(900, 0).to_csv(tmp_path / "private.csv", index=False)
    people(200, 1).to_csv(tmp_path / "public.csv", index=False)
    task = open_task(tmp_path / "private.csv", tmp_path / "public.csv", target="sick", by=by, classes="from-private")
    features = TableFeatures().fit(task.public_rows())
    pool = features.transform(task.public_rows())
    folder = task.partition(tmp_path / "shards", 6, key=KEY)
    shards = TableShards(folder, task, transform=features.transform)
    store = TeacherStore(tmp_path / "teachers")
    on_disk = train_on_shards(LogisticRegression(), shards, store=store, n_jobs=1)
    frame = task.private.read()
    in_memory = train_teachers(
        LogisticRegression(),
        features.transform(task.columns.apply(frame)),
        label_indices(frame["sick"], task.classes),
        assign_teachers(frame if by is None else frame[by], 6, key=KEY),
        n_teachers=6,
        classes=2,
        n_jobs=1,
    )
    one, other = on_disk.predict(pool), in_memory.predict(pool)
    # Rows stand in another order on disk, and the solver adds them up in that order.
    assert (one == other).mean() > 0.998
    assert on_disk.classes.tolist() == ["n", "y"]
    stamps = {file: file.stat().st_mtime_ns for file in (tmp_path / "teachers").glob("teachers-*.bin")}
    train_on_shards(LogisticRegression(), shards, store=TeacherStore(tmp_path / "teachers"), n_jobs=1)
    assert {file: file.stat().st_mtime_ns for file in stamps} == stamps
    assert len(stamps) == 6
