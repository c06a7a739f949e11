"""Private rows with changed numbers in the public data are found, and independent rows are not taken for them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ostrakon.data import images_on_disk, table
from ostrakon.data.changed_rows import refuse_changed_rows
from ostrakon.data.sources import open_table
from ostrakon.data.task import open_task
from ostrakon.validation import InvalidInput


def people(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    income = rng.lognormal(10, 0.7, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "weight": rng.normal(70, 12, rows),
            "height": rng.normal(170, 9, rows) + age / 9,
            "city": rng.choice(["Ulm", "Bonn", "Rom"], rows),
        }
    )


NUMBERS = ["age", "income", "weight", "height"]
CHANGES = {
    "two decimals": lambda rows: rows.round(2),
    "float16": lambda rows: rows.assign(**rows[NUMBERS].clip(upper=6e4).astype(np.float16).astype(float)),
    "standardised": lambda rows: rows.assign(**(rows[NUMBERS] - rows[NUMBERS].mean()) / rows[NUMBERS].std()),
    "other units": lambda rows: rows.assign(
        age=12.0 * rows["age"], weight=2.2 * rows["weight"], height=32 + rows["height"]
    ),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_changed_numbers_are_recognised(how, share):
    private = people(600, 0)
    copies = private.sample(frac=share, random_state=1)
    with pytest.raises(InvalidInput, match=r"of \d+ public rows that were compared are private rows with .*numbers"):
        refuse_changed_rows(private, CHANGES[how](copies))


@pytest.mark.parametrize("columns", [[*NUMBERS, "city"], ["age", "city"], ["income"], ["age", "height"]])
@pytest.mark.parametrize("sizes", [(600, 60), (600, 300), (60, 600)])
def test_independent_rows_pass(columns, sizes):
    for seed in range(7):
        private, public = (people(rows, 2 * seed + at)[columns] for at, rows in enumerate(sizes))
        refuse_changed_rows(private, public)
        refuse_changed_rows(private, public.assign(**{columns[0]: 0.8 * public[columns[0]]}))


def grid(rows, rng):
    return np.unique(rng.binomial(4, 0.5, (rows, 4)), axis=0).astype(float)


def wave(times):
    return np.column_stack([times, np.sin(times / 40)])


HONEST = {
    "one private row among all public ones": lambda rng: (
        np.vstack([rng.normal(size=(499, 2)), [[8, 8]]]),
        8 + 0.3 * rng.normal(size=(300, 2)),
    ),
    "rows of few values, each once": lambda rng: (grid(800, rng), grid(400, rng)),
    "every other step of a series": lambda rng: (wave(np.arange(0, 800.0, 2)), wave(np.arange(1, 800.0, 2))),
    "later years": lambda rng: (wave(np.arange(500.0)), wave(np.arange(500, 900.0))),
    "whole and half years": lambda rng: (
        np.arange(18.0, 90)[rng.integers(0, 72, 500), None],
        np.arange(18.5, 90)[rng.integers(0, 72, 300), None],
    ),
    "numbers near 0": lambda rng: (1e-170 * rng.normal(size=(200, 2)), 1e-170 * rng.normal(size=(100, 2))),
    "an array beside a frame": lambda rng: (
        rng.normal(size=(200, 2)),
        pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"]),
    ),
    "a pixel that is missing": lambda rng: (np.full((90, 8, 8), np.nan), rng.normal(size=(90, 8, 8))),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_rows_of_unusual_kinds_pass(kind):
    for seed in range(5):
        refuse_changed_rows(*HONEST[kind](np.random.default_rng(seed)))


def test_a_file_of_scaled_private_rows_is_refused(tmp_path):
    private = people(400, 0)
    label = np.where(private["age"] > 50, "yes", "no")
    private.assign(ill=label).to_csv(tmp_path / "private.csv", index=False)
    CHANGES["standardised"](private).to_csv(tmp_path / "public.csv", index=False)
    files = tmp_path / "private.csv", tmp_path / "public.csv"
    options = {"target": "ill", "classes": ["no", "yes"]}
    with pytest.raises(InvalidInput, match=r"private rows with numbers on another scale: .*--allow-shared-rows"):
        open_task(*files, **options)
    assert open_task(*files, **options, allow_shared_rows=True).private.rows() == 400


def drawings(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    across, down, width = rng.uniform(4, 24, (3, rows, 1, 1))
    grid = np.arange(28)
    far = (grid - across) ** 2 + (grid[:, None] - down) ** 2 * rng.uniform(0.3, 2, (rows, 1, 1))
    return (255 * np.exp(-far / width / 4)).astype(np.uint8)


@pytest.mark.parametrize("at_once", [4096, 7])
@pytest.mark.parametrize("colours", [False, True])
def test_changed_pictures_are_recognised(colours, at_once, monkeypatch):
    monkeypatch.setattr(images_on_disk, "_AT_ONCE", at_once)
    private, other = drawings(500, 0), drawings(500, 1)
    if colours:
        private, other = (np.repeat(images[..., None], 3, axis=3) for images in (private, other))
    refuse_changed_rows(private, other)
    rng = np.random.default_rng(2)
    grey = np.clip(private[:250] + rng.integers(-1, 2, private[:250].shape), 0, 255)
    with pytest.raises(InvalidInput, match="slightly changed pixels"):
        refuse_changed_rows(private, grey)
    with pytest.raises(InvalidInput, match="flipped from left to right"):
        refuse_changed_rows(private, private[:250, :, ::-1], allow="allow_shared_rows=True")


def test_the_part_of_a_large_table_is_the_same_in_every_order(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MOST_PRIVATE", 50)
    rows = pd.DataFrame({"a": np.random.default_rng(0).normal(size=400).round(3), "b": ["x", "y"] * 200})
    parts = []
    for number, order in enumerate((rows, rows[::-1], rows.sample(frac=1, random_state=0))):
        order.to_csv(tmp_path / f"{number}.csv", index=False)
        parts.append(open_table(tmp_path / f"{number}.csv").sample(["a", "b"]))
    assert len(parts[0]) == 50
    assert all(part.equals(parts[0]) for part in parts)
    # It is no stretch of the table in any sense that the numbers have.
    assert abs(parts[0]["a"].astype(float).mean()) < 0.5


def test_a_very_bright_private_picture_shows_in_no_warning():
    rng = np.random.default_rng(0)
    private, public = rng.random((60, 16, 16)), rng.random((50, 16, 16))
    private[0] = 1.7e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refuse_changed_rows(private, public)
