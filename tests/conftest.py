"""Where the real data of the tests lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("QUORATE_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data (MNIST, Adult, published votes); tests skip where it is not."""
    if not (DATA / "votes").is_dir():
        pytest.skip(
            f"no real data: set QUORATE_DATA to the folder that holds mnist/, adult/ and votes/ (looked in {DATA})"
        )
    return DATA
