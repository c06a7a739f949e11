"""The tables of the papers, recomputed: one file per paper, one row here.

`ostrakon reproduce NAME` prints what `reproduce(NAME)` returns.
"""

from collections.abc import Callable
from pathlib import Path

from ostrakon.data.files import require_writable
from ostrakon.papers import (
    exponential_2024,
    near_zero_cost,
    pate_2017,
    pate_2018,
    published_votes,
    written,
)
from ostrakon.papers.table import Table
from ostrakon.progress import Report
from ostrakon.validation import one_of

PAPERS: dict[str, Callable[[Path | None], list[Table]]] = {
    "pate-2017": pate_2017.tables,
    "pate-2018": pate_2018.tables,
    "near-zero-cost": near_zero_cost.tables,
    "exponential-2024": exponential_2024.tables,
}
"""Paper by name → function of the data folder (None: where `OSTRAKON_DATA` says) that returns its tables."""


def reproduce(
    paper: str,
    *,
    data: Path | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda sentence: None,
    progress: bool | Report | None = None,
) -> list[Table]:
    """Return the tables of one paper, recomputed from the published votes and from votes of teachers of our own.

    Parameters
    ----------
    paper : str
        A name in `PAPERS`.
    data : Path, optional
        Folder with the published votes, with image sets (mnist/, cifar10.zip or cifar-10-batches-bin/) or with votes of
        our own teachers (teacher_votes/*.npz, or *.npz). By default that of the environment variable `OSTRAKON_DATA`.
    out : Path, optional
        Folder for every table as CSV, every figure as PNG, and one page of all. The ensembles that near-zero-cost and
        exponential-2024 need and whose votes are not in `data` are then trained (ten minutes of processor time, stored
        in out/teacher_votes), and students are trained on their answers; without it nothing is trained.
    say : callable
        Receives a sentence for everything that is trained or left out.
    progress : bool or callable, optional
        As of `train_on_shards`.

    Raises
    ------
    InvalidInput
        For an unknown paper, and if the votes are not found.
    CannotWrite
    """
    one_of("paper", paper, PAPERS)
    if out is not None:
        require_writable("out", out)
    from ostrakon.papers import own_figures  # teachers and students load learners, which take time

    own = own_figures.tables(
        paper, published_votes.folder(data, own=paper in own_figures.SETS), out=out, say=say, progress=progress
    )
    published = PAPERS[paper](data) if published_votes.are_in(data) or not own else []
    tables = [*published, *own]
    if out is not None:
        written.write(paper, tables, out)
        say(f"Wrote {len(tables)} tables, their pictures and {out / paper}.md.")
    return tables


__all__ = ["PAPERS", "Table", "reproduce"]
