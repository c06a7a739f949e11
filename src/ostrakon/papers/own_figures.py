"""Which papers have figures of teachers of our own, and where the votes for them come from."""

from pathlib import Path

from ostrakon.papers import exponential_2024_own, near_zero_cost_own
from ostrakon.papers.image_task import NAMES, ImageTask, Name
from ostrakon.papers.table import Table
from ostrakon.papers.teacher_votes import Say, ensembles
from ostrakon.progress import Report

SETS: dict[str, dict[Name, tuple[int, ...]]] = {
    "exponential-2024": {"mnist": exponential_2024_own.SIZES, "cifar10": exponential_2024_own.SIZES},
    "near-zero-cost": {"mnist": near_zero_cost_own.SIZES},
}
"""Paper → image set → numbers of teachers."""
FOLDER = "teacher_votes"
"""Of the votes, in the data folder and in what is written."""


def tables(paper: str, data: Path, *, out: Path | None, say: Say, progress: bool | Report | None = None) -> list[Table]:
    """Return a paper's tables from teachers of our own: of votes that are kept in `data` or `out`, else of trained
    teachers.

    Without `out` nothing is trained, no student either. An image set that is neither in `data` nor has votes is left
    out, and `say` receives a sentence.
    """
    results: list[Table] = []
    for name, sizes in SETS.get(paper, {}).items():
        task = ImageTask(name, data)
        here = out is not None and task.is_there
        votes = ensembles(
            task,
            sizes,
            kept=[folder / FOLDER for folder in (out, data) if folder is not None] + [data],
            out=out / FOLDER if out is not None and here else None,
            say=say,
            progress=progress,
        )
        missing = [str(teachers) for teachers in sizes if teachers not in votes]
        if missing:
            why = f"{data} has no images of it" if out is not None else "give --out to train them"
            say(f"{NAMES[name]}: no votes of {', '.join(missing)} teachers of our own; {why}.")
        students = task if here else None
        if paper == "near-zero-cost":
            results += near_zero_cost_own.tables(votes, task=students, say=say)
        else:
            results += exponential_2024_own.tables(name, votes, task=students, say=say)
    return results
