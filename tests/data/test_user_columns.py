"""Columns that look like identifiers with several rows each: a run without --by warns of them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.rows_in_memory import OutsidePublicRange, ReadAsCategories, warn_of_text
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
            InvalidInput, match=f"column {name!r} of X says whose a row is.*leave it out of X and X_pub"
        ):
            model.fit(rows, private["ill"], X_public=pool, users=X["Patient Id"])


def test_public_text_that_is_not_categories_is_named_in_python() -> None:
    days = pd.date_range("2022-01-03", periods=200)
    public = pd.DataFrame(
        {
            "booking": [f"BK-{7 * row:06d}X" for row in range(200)],
            "day": days.strftime("%d-%b-%Y"),
            "price": [f"${row * 41:,.2f}" for row in range(200)],
            "city": ["Ulm", "Bonn", "Rom", "Bern"] * 50,
            "age": np.arange(200) % 60,
        }
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_of_text(public, "auto")
    assert [one.category for one in heard] == [ReadAsCategories] * 3
    booking, day, price = (str(one.message) for one in heard)
    assert booking.startswith("'booking' of X_public is text with 200 different values in 200 rows")
    assert "leave it out of X and X_public" in booking
    assert "holds dates as text: 200 different" in day
    assert "pd.to_datetime" in day
    assert "holds numbers as text: 200 different" in price
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_text(public[["city", "age"]].assign(day=days), "auto")


def test_a_scaler_that_learned_from_private_rows_is_named() -> None:
    rng = np.random.default_rng(0)
    X, U = rng.normal(50, 10, (300, 2)), rng.normal(50, 10, (100, 2))
    model = ostrakon.PATEClassifier(classes=[0, 1], student="logistic", n_queries=20)
    with pytest.warns(OutsidePublicRange, match=r"mean 0 and standard deviation 1.*FrozenEstimator.*transform_input"):
        model.fit((X - X.mean(0)) / X.std(0), (X[:, 0] > 50).astype(int), X_public=U)
