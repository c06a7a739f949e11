"""Three owners with patients of their own, and a public pool."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from loopback_owners import NAMES

from ostrakon.study import Owner, Study, create_study


class Three:
    """A place with the owners' tables north.csv, south.csv and west.csv, and pool.csv and test.csv."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"age": rng.integers(18, 90, 2400), "town": rng.choice(["Ulm", "Bonn", "Kiel"], 2400)})
        frame["ill"] = np.where(frame["age"] + rng.normal(0, 5, 2400) > 50, "yes", "no")
        frame["patient"] = np.arange(2400) // 2
        self.tables = {name: frame[:2000][frame["patient"][:2000] % 3 == at] for at, name in enumerate(NAMES)}
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
        frame[2000:2200].drop(columns=["ill", "patient"]).to_csv(folder / "pool.csv", index=False)
        frame[2200:].drop(columns=["patient"]).to_csv(folder / "test.csv", index=False)
        frame[:2000].to_csv(folder / "all.csv", index=False)
        self.owners = tuple(Owner(name=name, people=330) for name in NAMES)

    def create(self, out: str = "study", **changes: Any) -> Study:
        """A study with an answer per public row that is not all noise."""
        asked: dict[str, Any] = {
            "public": self.folder / "pool.csv",
            "target": "ill",
            "classes": ["no", "yes"],
            "owners": self.owners,
            "epsilon": 3.0,
            "delta": 1e-5,
            "queries": 8,
            "student": "logistic",
        }
        return create_study(self.folder / out, **{**asked, **changes})

    def table(self, owner: str) -> Path:
        """Where that owner's table is."""
        return self.folder / f"{owner}.csv"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Three:
    """See `Three`; one place for all tests of a module, which write beside each other."""
    return Three(tmp_path_factory.mktemp("three"))
