"""Columns that look like identifiers with several rows each: a run without --by warns of them."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import ostrakon
from ostrakon.rows_in_memory import (
    RECIPE,
    LeftOut,
    OutsidePublicRange,
    ReadAsCategories,
    ReadAsMissing,
    as_written,
    understood_frame,
    warn_of_text,
)
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput


def visits(rows: int, *, first: int, seed: int, form: str = "{}") -> pd.DataFrame:
    """Rows of about half as many patients; their numbers begin with `first`."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, rows), "Patient Id": first + rng.integers(0, rows // 2, rows)})
    frame["Patient Id"] = frame["Patient Id"].map(form.format) if form != "{}" else frame["Patient Id"]
    return frame.assign(ill=np.where(frame["age"] > 50, "yes", "no"))


@pytest.mark.parametrize(
    ("form", "name", "named"),
    [("{}", "Patient Id", True), ("P{:06d}", "Patient Id", True), ("{}", "serial", True), ("{}", "visits", False)],
)
def test_a_column_of_patients_is_named_with_what_to_do(tmp_path, form, name, named) -> None:
    far = 10_000 if name == "serial" else 0  # numbers far from the public ones tell, whatever the name is
    private = visits(400, first=far, seed=0, form=form).rename(columns={"Patient Id": name})
    public = visits(400, first=0, seed=1, form=form).rename(columns={"Patient Id": name})
    private.to_csv(tmp_path / "private.csv", index=False)
    public.to_csv(tmp_path / "public.csv", index=False)
    files = {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "ill"}
    notes = task_from_files(**files).understood.notes
    said, quoted = f"{name!r} looks like an identifier with several rows each", f"'{name}'" if " " in name else name
    assert any(said in note and f"--by {quoted} protects" in note for note in notes) == named
    assert any(f"--drop {quoted} leaves it out" in note for note in notes) == named
    assert not any("same unit" in note and repr(name) in note for note in notes)
    assert not any(said in note for note in task_from_files(**files, by=name).understood.notes)


def test_python_warns_of_it_too() -> None:
    private, public = visits(400, first=0, seed=0), visits(200, first=0, seed=1)
    model = ostrakon.PATEClassifier(classes=["no", "yes"], student="logistic", n_queries=20)
    X, U = private.drop(columns="ill"), public.drop(columns="ill")
    with pytest.warns(OutsidePublicRange, match=r"'Patient Id' looks like an identifier .*users=X\['Patient Id'\]"):
        model.fit(X, private["ill"], X_public=U)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutsidePublicRange)
        model.fit(X[["age"]], private["ill"], X_public=U[["age"]], users=X["Patient Id"])


def test_a_column_that_is_users_is_refused() -> None:
    private, public = visits(400, first=0, seed=0), visits(200, first=0, seed=1)
    model = ostrakon.PATEClassifier(classes=["no", "yes"], student="logistic", n_queries=20)
    X, U = private.drop(columns="ill"), public.drop(columns="ill")
    for rows, name in ((X, "Patient Id"), (X.to_numpy(), 1), (X.astype({"Patient Id": str}), "Patient Id")):
        pool = U.astype({"Patient Id": rows["Patient Id"].dtype}) if hasattr(rows, "columns") else U.to_numpy()
        with pytest.raises(
            InvalidInput, match=f"column {name!r} of X names the user of each row.*leave it out of X and X_pub"
        ):
            model.fit(rows, private["ill"], X_public=pool, users=X["Patient Id"])


def test_public_text_that_is_not_categories_is_named_in_python() -> None:
    public = pd.DataFrame(
        {
            "booking": [f"BK-{7 * row:06d}X" for row in range(200)],
            "city": ["Ulm", "Bonn", "Rom", "Bern"] * 50,
            "age": np.arange(200) % 60,
        }
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_of_text(public, "auto")
    (booking,) = (str(one.message) for one in heard if one.category is ReadAsCategories)
    assert booking.startswith("'booking' of X_public is text with 200 different values in 200 rows")
    assert "leave it out of X and X_public" in booking
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_text(public[["city", "age"]].assign(day=pd.date_range("2022-01-03", periods=200)), "auto")


def written(rows: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(columns as a file has them, the same ones typed)."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D")
    price, grade = rng.lognormal(7, 1, rows).round(2), rng.integers(1, 6, rows).astype(str)
    typed = pd.DataFrame({"day": day, "bought": day[::-1], "price": price, "share": price / 100, "grade": grade})
    texts = typed.assign(
        day=day.strftime("%d-%b-%Y"),
        bought=day[::-1].strftime("%Y%m%d").astype(int),
        price=[f"${one:,.2f}" for one in price],
        share=[str(one) for one in price / 100],
    )
    return texts, typed


@pytest.mark.slow
@pytest.mark.parametrize("protect", ["records", "labels"])
def test_text_in_memory_is_read_as_in_a_file(protect: Any, tmp_path: Path) -> None:
    (texts, typed), (public, public_typed) = written(600, 0), written(200, 1)
    y = (typed["price"] > typed["price"].median()).astype(int)
    found = []
    for rows, pool in ((texts, public), (typed, public_typed)):
        model = ostrakon.PATEClassifier(
            epsilon=4, classes=[0, 1], student="logistic", random_state=0, protect=protect, partition="random"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", ReadAsCategories)
            model.noise = np.random.default_rng(0)
            model.fit(rows, y, X_public=None if protect == "labels" else pool)
        found.append((model, model.predict_proba(pool)))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert (found[0][0].predict(public) == (public_typed["price"] > typed["price"].median())).mean() > 0.8
    card = (found[0][0].save_release(tmp_path / "release") / "model_card.md").read_text()
    assert "| Dates (eight digits, such as 20241231) | bought |" in card
    assert "| Numbers | share |" in card
    kinds = {one["name"]: one["kind"] for one in found[0][0].released_.form.columns}
    assert kinds["grade"] == "category"  # text of few plain numbers
    assert kinds["price"] == "amount"


def test_private_text_of_another_type_is_refused_and_odd_cells_are_missing() -> None:
    texts, public = written(60, 0)[0], written(60, 1)[0]
    rows, pool, columns = as_written(texts.assign(price=[[1], "never", *texts["price"][2:]]), public, "auto")
    assert rows["price"].isna().sum() == 2
    assert set(columns.kinds) == {"day", "bought", "price", "share"}
    assert not pool.isna().any().any()
    with pytest.raises(InvalidInput, match="column 'price' must hold the same in X as in X_public: X has numbers"):
        as_written(texts.assign(price=1.0), public, "auto")


def test_a_scaler_that_learned_from_private_rows_is_named() -> None:
    rng = np.random.default_rng(0)
    X, U = rng.normal(50, 10, (300, 2)), rng.normal(50, 10, (100, 2))
    model = ostrakon.PATEClassifier(classes=[0, 1], student="logistic", n_queries=20)
    with pytest.warns(OutsidePublicRange, match=r"mean 0 and standard deviation 1.*FrozenEstimator.*transform_input"):
        model.fit((X - X.mean(0)) / X.std(0), (X[:, 0] > 50).astype(int), X_public=U)


@pytest.mark.slow
def test_an_identifier_is_left_out_in_memory_as_in_a_file(tmp_path: Path) -> None:
    (texts, typed), (public, _) = written(600, 0), written(200, 1)
    rng = np.random.default_rng(2)
    rows, pool = (frame.assign(client_id=rng.permutation(len(frame)) + 10) for frame in (texts, public))
    y = (typed["price"] > typed["price"].median()).astype(int)
    options: dict[str, Any] = {"epsilon": 4, "classes": [0, 1], "student": "logistic", "random_state": 0}
    with pytest.warns(LeftOut, match="'client_id' is left out: in X_public it is a different whole number in every"):
        model = ostrakon.PATEClassifier(**options).fit(rows, y, X_public=pool)
    assert "client_id" not in {one["name"] for one in model.released_.form.columns}
    assert len(model.predict(pool)) == len(pool)
    card = (model.save_release(tmp_path / "release") / "model_card.md").read_text()
    assert "| Not used | client_id: a different whole number" in card
    understood = card.split("## How the data were read")[1].split("##")[0]
    assert all(name in understood for name in pool.columns)
    twice = rows.assign(client_id=np.arange(600) // 4)
    with pytest.warns(OutsidePublicRange, match="'client_id' looks like an identifier with several rows each"):
        ostrakon.PATEClassifier(**options).fit(twice, y, X_public=pool)


def test_words_in_a_public_column_of_numbers_are_said_to_be_missing() -> None:
    rng = np.random.default_rng(0)
    numbers = pd.Series(rng.normal(70, 12, 300).round(1), dtype=object)
    private, public = (pd.DataFrame({"age": rng.random(300), "weight": numbers}) for _ in range(2))
    private.loc[:9, "weight"] = "unknown"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_written(private, public, "tabular")  # private cells are not spoken of
    public.loc[:5, "weight"] = "n/a?"
    with pytest.warns(ReadAsMissing) as warned:
        _, read, columns = as_written(private, public, "tabular")
    words = "2.0% of its public cells, such as 'n/a?', count as missing"
    assert [str(one.message) for one in warned] == [f"'weight': {words}."]
    assert int(read["weight"].isna().sum()) == 6
    assert understood_frame(public, columns, "tabular").facts["Read as missing"] == f"weight ({words})"


def test_the_advice_on_a_scaler_runs_as_it_is_written() -> None:
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(50, 10, (300, 2)), rng.normal(50, 10, (100, 2))
    model = ostrakon.PATEClassifier(classes=[0, 1], student="logistic", n_queries=20)
    known = {"Pipeline": Pipeline, "FrozenEstimator": FrozenEstimator, "scaler": StandardScaler(), "model": model}
    with sklearn.config_context(enable_metadata_routing=True):
        fitted = eval(RECIPE, known | {"X": X, "y": (X[:, 0] > 50).astype(int), "X_public": X_public})
        assert len(fitted.predict(X_public)) == 100
