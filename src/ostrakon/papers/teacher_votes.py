"""Votes of teachers of our own on the papers' image sets: read where they are kept, else the teachers are trained."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ostrakon.data.files import write_atomically, writing
from ostrakon.papers.image_task import ImageTask
from ostrakon.progress import Report
from ostrakon.validation import InvalidInput
from ostrakon.votes import IntArray, PublicVotes

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TeacherVotes:
    """What an ensemble said of the queries, and what is true.

    votes: histograms (queries, classes); the image sets are public, and so are they. labels: true classes (queries,).
    about: who the teachers are, in words.
    """

    votes: PublicVotes
    labels: IntArray
    about: str

    @property
    def accuracy(self) -> float:
        """The mean accuracy of a teacher."""
        right = self.votes.counts[np.arange(self.votes.queries), self.labels]
        return float(right.mean() / self.votes.teachers)


def file_of(folder: Path, name: str, teachers: int) -> Path:
    """Return where the votes of an ensemble are kept."""
    return folder / f"{name}-{teachers}-teachers.npz"


def read(file: Path, teachers: int) -> TeacherVotes:
    """Return the votes that `keep` wrote; `InvalidInput` if the file is not whole or holds something else."""
    try:
        with np.load(file, allow_pickle=False) as content:
            counts, labels, about = content["counts"], content["labels"], str(content["about"])
    except Exception as error:  # a damaged .npz raises what its zip or zlib layer raises
        raise InvalidInput(f"{file} cannot be read as the votes of teachers ({type(error).__name__}).") from None
    votes = PublicVotes(counts, teachers=teachers)
    if labels.shape != (votes.queries,) or labels.dtype.kind not in "iu" or labels.max(initial=0) >= votes.classes:
        raise InvalidInput(f"{file} must hold a class for each of {votes.queries} queries as its labels.")
    return TeacherVotes(votes=votes, labels=labels.astype(np.int64), about=about)


def keep(file: Path, ensemble: TeacherVotes) -> None:
    """Write votes as a small compressed file, whole or not at all."""
    smallest = np.min_scalar_type(ensemble.votes.teachers)
    content = io.BytesIO()
    np.savez_compressed(
        content,
        counts=ensemble.votes.counts.astype(smallest),
        labels=ensemble.labels.astype(np.uint8),
        about=np.array(ensemble.about),
    )
    with writing(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content.getvalue(), mode=0o644)


def train(task: ImageTask, teachers: int, *, progress: bool | Report | None = None) -> TeacherVotes:
    """Train an ensemble and ask it, minutes of work."""
    said, about = task.teach(teachers, progress=progress)
    votes = PublicVotes.from_predictions(said, classes=10)
    return TeacherVotes(votes=votes, labels=task.task.y_public, about=about)


def ensembles(
    task: ImageTask,
    sizes: Iterable[int],
    *,
    kept: Sequence[Path],
    out: Path | None,
    say: Say,
    progress: bool | Report | None = None,
) -> Mapping[int, TeacherVotes]:
    """Return the votes of ensembles of `sizes` teachers, by size.

    kept: folders in which votes may lie. out: where missing ones are trained and kept; None: they are left out.
    say: receives what is trained. Every ensemble is stored when it is finished; a killed run continues from there.
    """
    by_size: dict[int, TeacherVotes] = {}
    for teachers in sizes:
        places = [file_of(folder, task.name, teachers) for folder in ([out] if out else []) + list(kept)]
        stored = next((file for file in places if file.is_file()), None)
        if stored is not None:
            by_size[teachers] = read(stored, teachers)
        elif out is not None:
            say(f"Training {teachers} teachers on {task.name}; their votes are kept in {places[0]}.")
            by_size[teachers] = train(task, teachers, progress=progress)
            keep(places[0], by_size[teachers])
    return by_size
