"""A run with trained teachers that a service may take over."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ostrakon.cli.train import train_from
from ostrakon.service import Labeller, open_service

TEACHERS = 20
NOISE = {"threshold": 14.0, "sigma1": 6.0, "sigma2": 4.0}


def rows_of(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Public rows number `start` and on, no two alike."""
    numbers = range(start, start + count)
    return [{"age": 18 + at * 31 % 72 + at / 1e6, "town": ("Ulm", "Bonn")[at % 2]} for at in numbers]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 20 teachers; its files lie beside it."""
    folder = tmp_path_factory.mktemp("service")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 900), "town": rng.choice(["Ulm", "Bonn"], 900)})
    frame["ill"] = np.where(frame["age"] + rng.normal(0, 5, 900) > 50, "yes", "no")
    frame[:600].to_csv(folder / "private.csv", index=False)
    frame[600:].drop(columns="ill").to_csv(folder / "public.csv", index=False)
    files = {
        "private": str(folder / "private.csv"),
        "public": str(folder / "public.csv"),
        "target": "ill",
        "classes": "no,yes",
    }
    options = {"teachers": TEACHERS, "teacher": "naive-bayes", "queries": 30, "student": "logistic", "delta": 1e-5}
    train_from({**files, **options, **NOISE, "jobs": 1}, out=folder / "run")
    return folder / "run"


class Place:
    """A copy of the run, and a ledger of its own; `open` takes it over, until it is closed or the test ends."""

    def __init__(self, folder: Path, trained: Path, stack: ExitStack) -> None:
        self.run = folder / "run"
        shutil.copytree(trained, self.run)
        self.ledger = f"sqlite:///{folder / 'budget.db'}"
        self.stack = stack

    def open(self, **changes: Any) -> Labeller:
        """The labeller; by default an account of epsilon 100, blocks of 5."""
        asked: dict[str, Any] = {"ledger": self.ledger, "budget": 100.0, "block": 5}
        return self.stack.enter_context(open_service(self.run, **{**asked, **changes}))

    def close(self) -> None:
        """End whoever holds it."""
        self.stack.close()


@pytest.fixture
def rows() -> Callable[..., list[dict[str, Any]]]:
    """See `rows_of`."""
    return rows_of


@pytest.fixture
def place(tmp_path: Path, trained: Path) -> Iterator[Place]:
    """See `Place`."""
    with ExitStack() as stack:
        yield Place(tmp_path, trained, stack)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Iterator[Place]:
    """A `Place` for all tests of a module, none of which spends."""
    with ExitStack() as stack:
        yield Place(tmp_path_factory.mktemp("shared"), trained, stack)


@pytest.fixture
def ask() -> Callable[..., Any]:
    """From a labeller, rows and a client to labels, or the refusal that there was."""

    def labels(labeller: Labeller, some: list[dict[str, Any]], client: str = "a", most: int = 10_000) -> Any:
        told = labeller.answer([labeller.read(client, most, some)])[0]
        return [labeller.stored_label(key) for key in told] if isinstance(told, tuple) else told

    return labels
