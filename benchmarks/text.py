"""SST-2 and Banking77 as rows with a text and a label, and their embeddings, for `arena.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ostrakon.features import SentenceEncoder


def read(name: str, data: Path) -> dict[str, pd.DataFrame]:
    """Return training and test rows, with the columns text and label."""
    folder = data / "text"
    if name == "sst2":
        files = {part: folder / f"sst2-{part}.tsv" for part in ("train", "test")}
        frames = {part: pd.read_csv(file, sep="\t", header=None, quoting=3) for part, file in files.items()}
    else:
        frames = {part: pd.read_csv(folder / f"banking77-{part}.csv") for part in ("train", "test")}
    return {part: frame.set_axis(["text", "label"], axis=1).astype(str) for part, frame in frames.items()}


def embedded(name: str, rows: dict[str, pd.DataFrame], work: Path) -> dict[str, np.ndarray]:
    """Return the embeddings of all rows; they are computed once and stored in `work`."""
    file = work / f"{name}.npz"
    if not file.exists():
        encoder = SentenceEncoder()
        np.savez(file, **{part: encoder.encode(frame["text"].tolist()) for part, frame in rows.items()})
    return dict(np.load(file))
