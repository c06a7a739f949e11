"""Private values beyond the public range are counted for the trusted side, and nothing of it is released."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ostrakon
from ostrakon.cli import app
from ostrakon.data.columns import Columns
from ostrakon.data.outside_range import in_words, outside_memory, outside_table
from ostrakon.data.sources import open_table
from ostrakon.rows_in_memory import OutsidePublicRange

N = 300


def people(seed: int, *, months: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    tenure = rng.integers(1, 11, N)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N) + (400 if months else 0), unit="D")
    return pd.DataFrame(
        {
            "tenure": tenure * 12 if months else tenure,
            "age": rng.integers(20, 60, N),
            "paid": [f"${1000 * each:,.2f}" for each in (tenure * 12 if months else tenure)],
            "rate": [f"{each},5" for each in (tenure * 12 if months else tenure)],
            "iso": day.strftime("%Y-%m-%d"),
            "day": day.strftime("%d/%m/%Y"),
            "month": day.strftime("%m/%d/%Y 10:30"),
            "stay": np.where(tenure > 5, "long", "short"),
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_kind_of_number_and_date_is_counted_as_it_is_read(tmp_path: Path, suffix: str) -> None:
    private, public = people(0, months=True), people(1)
    private.loc[:9, ["tenure", "paid", "day"]] = None
    if suffix == "csv":
        private.to_csv(tmp_path / "p.csv", index=False)
    else:
        private.to_parquet(tmp_path / "p.parquet")
    columns = Columns.of(public)
    there, here = columns.apply(public), columns.apply(private)
    found = outside_table(open_table(tmp_path / f"p.{suffix}"), columns, there)
    assert found.keys() == set(private) - {"stay"}
    for name, share in found.items():
        known = here[name].dropna()
        assert share == ((known < there[name].min()) | (known > there[name].max())).mean(), name
    assert found["age"] < 0.05 < 0.8 < min(share for name, share in found.items() if name != "age")


@pytest.mark.slow
def test_it_is_said_on_the_terminal_and_in_private_alone(tmp_path: Path) -> None:
    people(0, months=True).to_csv(tmp_path / "private.csv", index=False)
    people(1).drop(columns="stay").to_csv(tmp_path / "public.csv", index=False)
    given = [
        "train",
        "--private",
        "private.csv",
        "--public",
        "public.csv",
        "--target",
        "stay",
        "--classes",
        "long,short",
    ]
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as here:
        here.chdir(tmp_path)
        done = CliRunner().invoke(app, [*given, "--student", "logistic", "--out", "run"])
    assert done.exit_code == 0, (done.output, done.exception)
    told = " ".join(done.output.split())
    assert "Private values beyond the public range:" in told
    assert "of 'tenure'" in told
    noted = json.loads((tmp_path / "run/private/outside_public_range.json").read_text())
    assert noted["shares"]["tenure"] > 0.8
    for file in (tmp_path / "run/release").rglob("*"):
        assert b"public range" not in file.read_bytes(), file.name
        assert b"outside_public" not in file.read_bytes(), file.name


def test_the_estimator_warns(tmp_path: Path) -> None:
    private, public = people(0, months=True), people(1)
    model = ostrakon.PATEClassifier(classes=["long", "short"], student="logistic", random_state=0)
    numbers = ["tenure", "age"]
    with pytest.warns(OutsidePublicRange, match="of 'tenure'"):
        model.fit(private[numbers], private["stay"], X_public=public[numbers])
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutsidePublicRange)
        other = people(2)
        model.fit(other[numbers].to_numpy(), other["stay"], X_public=public[numbers].to_numpy())
    for file in model.save_release(tmp_path / "release").rglob("*"):
        assert b"public range" not in file.read_bytes()


def test_chance_is_not_pointed_out() -> None:
    rng = np.random.default_rng(0)
    for rows in (5, 20, 100, 1000):
        for _ in range(20):
            X, U = rng.normal(size=(500, 4)), rng.normal(size=(rows, 4))
            assert in_words(outside_memory(X, U), public_rows=rows) is None
    assert outside_memory(np.zeros((3, 4, 4)), np.zeros((3, 4, 4))) == {}
    assert in_words({"a": 0.3, "b": 0.01}, public_rows=1000) == (
        "Private values beyond the public range: 30% of 'a'. Are both in the same unit? Leave out a column that "
        "only numbers or dates the rows (--drop). (This is private and is not released.)"
    )
