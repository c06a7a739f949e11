"""Blocks of private rows: all rows once, features and labels as the plain way makes them, nothing on the disk."""

from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import plain_votes
import pytest

from ostrakon.features.moments import MomentMap
from ostrakon.run.inputs import private_data
from ostrakon.run.inputs.files import task_from_files
from ostrakon.run.stages.features import view_of
from ostrakon.teachers import blocks
from ostrakon.teachers.gathering import Parts
from ostrakon.teachers.per_record import collect_per_record
from ostrakon.validation import InvalidInput

RNG = np.random.default_rng(0)


def table(rows, people=True):
    age = RNG.integers(18, 90, rows).astype(float)
    made = pd.DataFrame(
        {
            "age": np.where(RNG.random(rows) < 0.02, np.nan, age),
            "gain": np.where(RNG.random(rows) < 0.9, 0.0, np.exp(RNG.normal(9, 1, rows))),
            "score": np.round(RNG.normal(size=rows), 1),
            "work": RNG.choice(["farm", "office", "sea", None], rows, p=[0.5, 0.4, 0.05, 0.05]),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, rows), unit="D"),
            "person": RNG.integers(0, rows // 5 + 1, rows),
            "ill": np.where(age + 30 * RNG.normal(size=rows) > 50, "yes", "no"),
        }
    )
    return made if people else made.drop(columns="person")


@pytest.mark.slow
@pytest.mark.parametrize("by", [None, "person"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_votes_and_moments_are_those_of_the_plain_way(tmp_path, monkeypatch, by, suffix):
    monkeypatch.chdir(tmp_path)
    for name, rows in {"private": 4000, "public": 500}.items():
        made = table(rows, people=by is not None)
        made.to_parquet(f"{name}.parquet") if suffix == "parquet" else made.to_csv(f"{name}.csv", index=False)
    chosen = {"classes": "from-private"} | ({"by": by} if by else {})
    task = task_from_files(f"private.{suffix}", f"public.{suffix}", target="ill", **chosen)
    view = view_of(task.X_public)
    queries, moments = view.public[:60], MomentMap.of(view.public)
    options = {"classes": 2, "units": task.private.units, "max_contributions": 2 if by else 1}
    made = task.private.by_unit(seed=0, transform=view.transform, folder=tmp_path / "shards")
    votes = collect_per_record(made, queries, moments=moments, **options)
    assert (tmp_path / "shards").exists() == (by is not None)
    counts, sums = plain_votes.votes(task, view, queries, moments, folder=tmp_path / "plain", **options)
    assert votes.counts.sum() == (4000 if by is None else counts.sum())
    assert np.array_equal(votes.counts, counts)
    assert np.array_equal(votes.moments.counts, sums)
    # In parts, as an engine's workers read them.
    monkeypatch.setattr(private_data, "_ROWS_AT_A_TIME", 700)
    parts = task.private.parts_by_unit(seed=0, folder=tmp_path / "parts")
    assert len(parts) == 6
    by_workers = Parts(parts=parts, transform=view.transform, folder=tmp_path / "workers")
    for backend in ("sequential", "loky"):
        with joblib.parallel_config(backend, n_jobs=2):
            assert collect_per_record(by_workers, queries, moments=moments, **options) == votes
    with joblib.parallel_config("sequential"), pytest.raises(InvalidInput, match="units must be at least"):
        collect_per_record(replace(by_workers, parts=[*parts, parts[0]]), queries, **options)


def test_blocks_of_an_array_grow_while_they_are_quick_and_no_wider_than_memory():
    X, y = RNG.normal(size=(60_000, 2)), RNG.integers(0, 3, 60_000)
    made = list(blocks.blocks_of_array(X, y, lambda rows: rows * 2))
    assert np.array_equal(np.concatenate([features for _, features, _ in made]), 2 * X)
    assert np.array_equal(np.concatenate([labels for *_, labels in made]), y)
    assert all(np.array_equal(owners, np.arange(len(labels))) for owners, _, labels in made)
    sizes = [len(labels) for *_, labels in made]
    assert sizes[0] == blocks.FEWEST
    assert blocks.FEWEST < max(sizes) <= blocks.MOST
    wide = [len(labels) for *_, labels in blocks.blocks_of_array(X, y, lambda rows: np.zeros((len(rows), 4000)))]
    assert set(wide[:-1]) == {blocks.FEWEST}


def test_blocks_that_are_slow_stay_small(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0))
    monkeypatch.setattr(blocks.time, "perf_counter", lambda: next(clock))
    X, y = RNG.normal(size=(8000, 2)), RNG.integers(0, 3, 8000)
    sizes = [len(labels) for *_, labels in blocks.blocks_of_array(X, y, lambda rows: rows)]
    assert sizes == [1536] * 5 + [320]
