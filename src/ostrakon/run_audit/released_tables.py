"""Are the tables of an audited release what its votes, its noise log and its mechanism imply?"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ostrakon.audit.table_noise import noise_breaks
from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.mechanisms.base import FloatArray
from ostrakon.planning.plan import Plan
from ostrakon.report.hub_page import HUB_PAGE
from ostrakon.report.manifest import MANIFEST
from ostrakon.report.model_card import NOISY_COUNTS, NOISY_MOMENTS
from ostrakon.run.stages.votes import votes_from
from ostrakon.run.storage import VOTES
from ostrakon.votes import STEPS, BoundedVotes, IntArray, Votes

KNOWN = {
    *("statement.json", "labels.csv", NOISY_COUNTS, NOISY_MOMENTS, "model_card.md", "report.html", "registry.json"),
    HUB_PAGE,
    *("student.onnx", "student.safetensors", "student.json", "load_student.py", MANIFEST),
}
"""Files that a release of per-record teachers may hold."""


def table_of_file(path: Path) -> tuple[IntArray, FloatArray]:
    """(the first column, the others) of a released table of numbers."""
    with open(path, encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    read = np.array(lines, dtype=np.float64)
    return read[:, 0].astype(np.int64), read[:, 1:]


def release_breaks(folder: Path, plan: Plan, without: Votes, planted: IntArray, *, error: float) -> str | None:
    """A contradiction in the audited run in `folder`, in one sentence; None where none is found.

    Parameters
    ----------
    folder : Path
        Of the audited run, with canaries.
    plan : Plan
        Of the audited run.
    without : Votes
        The votes of all records but the canaries.
    planted : array of int, shape (queries, classes)
        What the canaries add.
    error : float
        Probability with which a run whose noise follows its law is refuted at most.

    Notes
    -----
    Released minus exact tables must be noise of the stated size (`noise_breaks`). The released tables must be those of
    the noise log, to the last step. Each record and canary may add no more than the plan says, and a release may hold
    no file that is not known.
    """
    strange = sorted(path.name for path in (folder / "release").iterdir() if path.name not in KNOWN)
    if strange:
        return f"the release holds {strange[0]}, which no noise log implies"
    stored = read_checksummed(folder / "private" / VOTES, what="votes")
    if stored is None:
        return "the run has stored no votes"
    votes = votes_from(plan, array_from(stored.payload))
    if not np.array_equal(votes.counts, without.counts + planted):
        return "the votes that the run counted are not those of its records"
    bound = plan.mechanism.contribution_bound or 1
    if votes.counts.sum() > plan.teachers * bound:
        return f"{plan.teachers} records cast {votes.counts.sum()} votes, where each may cast {bound}"
    tables = {"noisy counts": (NOISY_COUNTS, "round-1", votes.counts.astype(np.float64), plan.mechanism.vote_noise)}
    if plan.mechanism.moment_noise is not None:
        assert isinstance(votes, BoundedVotes)
        assert votes.moments is not None
        exact = votes.moments.counts / STEPS
        tables["noisy sums of features"] = NOISY_MOMENTS, "moments-1", exact, plan.mechanism.moment_noise
    for what, (file, draw, exact, sigma) in tables.items():
        released = table_of_file(folder / "release" / file)[1]
        drawn = read_checksummed(folder / "private" / "noise" / f"{draw}.npy", what=draw)
        if drawn is None or not np.array_equal(np.rint(released * STEPS), array_from(drawn.payload)):
            return f"the {what} of the release are not those of the noise log"
        assert sigma is not None
        broken = noise_breaks(released - exact, sigma, error=error / len(tables))
        if broken is not None:
            return f"{what}: {broken}"
    return None
