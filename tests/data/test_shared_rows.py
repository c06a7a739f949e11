"""Private rows in the public data are counted and refused; chance matches of low-entropy rows are not."""

import numpy as np
import pandas as pd
import pytest

import ostrakon
from ostrakon.data.identity import row_marks
from ostrakon.data.shared_rows import CountedRows, compared_columns, refuse_shared_rows
from ostrakon.data.task import open_task
from ostrakon.run.inputs.files import task_from_files
from ostrakon.validation import InvalidInput


def people(rows: int, *, seed: int, decimals: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, rows).round(decimals), "city": rng.choice(["Ulm", "Bonn"], rows)})
    return frame.assign(ill=np.where(frame["age"] > 50, "yes", "no"))


OPTIONS = {"target": "ill", "classes": ["no", "yes"]}


@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_that_share_rows_are_refused_unless_allowed(tmp_path, share, suffix):
    private = people(400, seed=0)
    private.to_csv(tmp_path / "private.csv", index=False)
    taken = private.sample(int(400 * share), random_state=1).drop(columns="ill")
    public = pd.concat([taken, people(200, seed=2).drop(columns="ill")])
    if suffix == "csv":
        public.to_csv(tmp_path / "public.csv", index=False)
    else:
        public.to_parquet(tmp_path / "public.parquet")
    files = tmp_path / "private.csv", tmp_path / f"public.{suffix}"
    with pytest.raises(InvalidInput, match=rf"^{len(taken)} of the 400 private rows .*--allow-shared-rows"):
        open_task(*files, **OPTIONS)
    assert open_task(*files, **OPTIONS, allow_shared_rows=True).private.rows() == 400


@pytest.mark.parametrize("sizes", [(3000, 300), (300, 3000), (3000, 30), (20_000, 60)])
def test_low_entropy_rows_match_by_chance(sizes):
    for seed in range(20):
        both = [people(rows, seed=2 * seed + k, decimals=seed % 3).drop(columns="ill") for k, rows in enumerate(sizes)]
        for names in compared_columns(both[1]):
            private, public = (row_marks(rows[names], rounded=True) for rows in both)
            refuse_shared_rows(CountedRows.of(private), public)


def test_images_and_texts_are_counted(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "private.npz", X=images, y=np.arange(60) % 2)
    np.save(tmp_path / "public.npy", np.concatenate([images[:30], 255 - images[:5]]))
    with pytest.raises(InvalidInput, match=r"^30 of the 60 private rows"):
        task_from_files(tmp_path / "private.npz", tmp_path / "public.npy", classes=["0", "1"])
    words = [" ".join(rng.choice(["red", "blue", "tall", "old", "new", "wide"], 9)) for _ in range(60)]
    for number, text in enumerate(words):
        place = tmp_path / "private" / ("bad" if number % 2 else "good")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(text)
    (tmp_path / "public.txt").write_text("".join(f"{text}\n" for text in words[:30]))
    with pytest.raises(InvalidInput, match=r"^30 of the 60 private rows"):
        task_from_files(tmp_path / "private", tmp_path / "public.txt", classes=["bad", "good"])
    again = task_from_files(
        tmp_path / "private", tmp_path / "public.txt", classes=["bad", "good"], allow_shared_rows=True
    )
    assert len(again.X_public) == 30


@pytest.mark.parametrize("frame", [True, False])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_the_estimator_counts_them_too(frame, share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    X = pd.DataFrame(X, columns=["a", "b", "c"]) if frame else X
    model = ostrakon.PATEClassifier(classes=[0, 1], student="logistic", random_state=0)
    count = int(200 * share)
    with pytest.raises(InvalidInput, match=rf"^{count} of the 200 private rows .*allow_shared_rows=True"):
        model.fit(X, y, X_public=X[:count].copy())


def shapes(half: pd.DataFrame) -> dict[str, pd.DataFrame]:
    single = half.astype({"age": np.float32})
    return {
        "rounded": half.round({"age": 4}),
        "single precision": single,
        "other numbers of rows": half.assign(number=1000 + np.arange(len(half))),
        "other column order": half[["city", "age"]],
    }


@pytest.mark.parametrize("how", shapes(people(2, seed=0)))
def test_rows_that_were_written_otherwise_are_known_again(tmp_path, how):
    private = people(400, seed=0, decimals=12)
    public = shapes(pd.concat([private[:200], people(200, seed=2, decimals=12)]).drop(columns="ill"))[how]
    if "number" in public:
        private = private.assign(number=np.arange(len(private)))
    private.to_csv(tmp_path / "private.csv", index=False)
    public.to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(InvalidInput, match=r"^(19\d|200) of the 400 private rows"):
        open_task(tmp_path / "private.csv", tmp_path / "public.csv", **OPTIONS)
    model = ostrakon.PATEClassifier(classes=["no", "yes"], student="logistic", random_state=0)
    if how != "other column order":
        with pytest.raises(InvalidInput, match=r"^(19\d|200) of the 400 private rows"):
            model.fit(private.drop(columns="ill"), private["ill"], X_public=public[private.columns.drop("ill")])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_few_private_rows_alone_as_public_ones_are_known(tmp_path, suffix):
    """30 public rows without a repetition say nothing about chance; that no private row is repeated does."""
    private = people(2000, seed=0)
    private.to_parquet(tmp_path / "private.parquet")
    private.to_csv(tmp_path / "private.csv", index=False)
    private[:30].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(InvalidInput, match=r"^30 of the 2,000 private rows"):
        open_task(tmp_path / f"private.{suffix}", tmp_path / "public.csv", **OPTIONS)
    X = private["age"].to_numpy()[:, None]
    with pytest.raises(InvalidInput, match=r"^30 of the 2,000 private rows"):
        ostrakon.PATEClassifier(classes=[0, 1]).fit(X, np.arange(2000) % 2, X_public=X[:30])


def written_otherwise(rows: int) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Rows, and the same rows as another export writes them."""
    rng = np.random.default_rng(0)
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, rows), unit="D"))
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "income": rng.lognormal(10, 1, rows).round(2),
            "when": days.dt.strftime("%Y-%m-%d"),
            "city": rng.choice(["Ulm", "Bonn", "Rom"], rows),
            "debts": np.where(rng.random(rows) < 0.5, 0.0, rng.lognormal(5, 1, rows)),
        }
    )
    numbers = ["age", "income", "debts"]
    keys = {name: [f"{name}{key:09x}" for key in rng.integers(0, 2**36, rows)] for name in "pq"}
    return frame.assign(key=keys["p"]), {
        "noise far below the last digit": frame.assign(
            **(frame[numbers] + 1e-9 * rng.normal(size=(rows, 3))), key=keys["p"]
        ),
        "other keys of text": frame.assign(key=keys["q"]),
        "other capitals": frame.assign(city=frame["city"].str.lower(), key=keys["q"]),
        "dates of another form": frame.assign(when=days.dt.strftime("%d/%m/%Y"), key=keys["q"]),
    }


@pytest.mark.parametrize("how", written_otherwise(2)[1])
def test_the_same_rows_from_another_export_are_known(how):
    private, others = written_otherwise(300)
    public = others[how]
    model = ostrakon.PATEClassifier(classes=[0, 1], student="logistic", random_state=0)
    with pytest.raises(InvalidInput, match=r"^(28\d|29\d|300) of the 300 private rows"):
        model.fit(private, np.arange(300) % 2, X_public=public)


def test_marks_compare_values_and_not_their_form():
    numbers = row_marks(pd.DataFrame({"x": [25.0, 25 + 1e-9, 25 - 1e-9, 25.01, 0.0, -1e-9]}), rounded=True)
    assert len({*numbers[:3]}) == 1
    assert len({*numbers}) == 3
    dates = ["2021-02-03", "03/02/2021", "3.2.2021", "2021-02-03 00:00:00", "2021-02-04", "2021-02-03T14:20:00"]
    marks = row_marks(pd.DataFrame({"day": dates}), rounded=True)
    assert len({*marks[:4]}) == 1
    assert len({*marks}) == 3
    moments = row_marks(pd.DataFrame({"day": pd.to_datetime(["2021-02-03 00:00", "2021-02-03 14:20"])}), rounded=True)
    assert moments.tolist() == marks[[0, 5]].tolist()
