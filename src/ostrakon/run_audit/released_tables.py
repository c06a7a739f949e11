"""Test whether the tables of an audited release follow from its votes, its noise log and its mechanism."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ostrakon.audit.table_noise import noise_breaks
from ostrakon.data.checksummed import array_from, read_checksummed
from ostrakon.features.moments import CONSTANT
from ostrakon.mechanisms.base import FloatArray
from ostrakon.planning.plan import Plan
from ostrakon.report.earlier import table_of_file
from ostrakon.report.hub_page import HUB_PAGE
from ostrakon.report.manifest import MANIFEST
from ostrakon.report.model_card import (
    LABELS,
    NOISY_COUNTS,
    NOISY_MOMENTS,
    NOISY_TABLES,
    REFIT,
    VALUES,
)
from ostrakon.run.stages.votes import votes_from
from ostrakon.run.storage import VOTES
from ostrakon.run_audit.repeated import COUNTS, ERROR_COUNTS, FURTHER, HISTOGRAM_COUNTS, SUMS, table_noises
from ostrakon.votes import STEPS, BoundedVotes, Moments

KNOWN_FILES = {
    *("statement.json", LABELS, VALUES, *NOISY_TABLES),
    *("model_card.md", "report.html", "registry.json"),
    *(HUB_PAGE, REFIT),
    *("student.onnx", "student.safetensors", "student.json", "load_student.py", MANIFEST),
}
"""Files that a release of per-record teachers may hold."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunNoise:
    """Votes, errors of the student by table, and the noise of each released table of a finished run, in votes."""

    votes: BoundedVotes
    errors: dict[str, Moments]
    noise: dict[str, FloatArray]

    @classmethod
    def of(cls, folder: Path, plan: Plan) -> Self | None:
        """Read the folder of a run of per-record teachers; None if its votes or its noise are missing."""
        stored = read_checksummed(folder / "private" / VOTES, what="votes")
        if stored is None:
            return None
        votes, errors, noise = votes_from(plan, array_from(stored.payload)), dict[str, Moments](), {}
        assert isinstance(votes, BoundedVotes)
        sigmas = table_noises(plan.mechanism)
        for what, name in FURTHER.items():
            if sigmas[what] is None:
                continue
            stored_errors = read_checksummed(folder / "private" / f"{name}.npy", what=name)
            if stored_errors is None:
                return None
            errors[what] = Moments(array_from(stored_errors.payload), teachers=plan.teachers)
        for what, (_, draw, exact) in _tables(votes, errors).items():
            drawn = read_checksummed(folder / "private" / "noise" / f"{draw}.npy", what=draw)
            if drawn is None:
                return None
            noise[what] = array_from(drawn.payload) / STEPS - exact
        return cls(votes=votes, errors=errors, noise=noise)


def _tables(votes: BoundedVotes, errors: Mapping[str, Moments]) -> dict[str, tuple[str, str, FloatArray]]:
    """Return for every released table its file, its name in the noise log, and its exact numbers in votes."""
    tables = {COUNTS: (NOISY_COUNTS, "round-1", votes.in_votes)}
    if votes.moments is not None:
        tables[SUMS] = NOISY_MOMENTS, "moments-1", votes.moments.counts / STEPS
    files = {field: name for name, field in NOISY_TABLES.items()}
    return tables | {
        what: (files[FURTHER[what]], f"{FURTHER[what]}-1", exact.counts / STEPS) for what, exact in errors.items()
    }


def check_release(
    folder: Path,
    plan: Plan,
    run: RunNoise | None,
    expected: BoundedVotes,
    *,
    most: int,
    error: float,
    errors: Mapping[str, Moments],
) -> str | None:
    """Return a contradiction in the audited run in `folder`, in one sentence; None without one.

    Parameters
    ----------
    folder : Path
        Of the audited run, with canaries.
    plan : Plan
        Of the audited run.
    run : RunNoise or None
        The votes and the noise in `folder`; None if they are missing.
    expected : BoundedVotes
        The votes of all records and of the canaries, with their sums.
    most : int
        Largest total number of votes.
    error : float
        Bound on the probability that a run whose noise follows its law is refuted.
    errors : mapping of str to Moments
        Errors of the student on all records and canaries, by table.

    Notes
    -----
    Released minus exact tables must be noise of the stated size (`noise_breaks`), and the released tables must be
    those of the noise log, exactly. The run must have counted the expected votes, at most `most` of them, and one
    error for every unit. A release must contain known files only.
    """
    unknown_files = sorted(path.name for path in (folder / "release").iterdir() if path.name not in KNOWN_FILES)
    if unknown_files:
        return f"the release holds {unknown_files[0]}, which no noise log implies"
    if run is None:
        return "the run has stored no votes, or no noise"
    if run.votes != expected:
        return "the votes that the run counted are not those of its records"
    if run.errors != errors:
        return "the errors that the run counted are not those of its student and its records"
    for what in (HISTOGRAM_COUNTS, ERROR_COUNTS):
        counted = errors.get(what)
        if counted is None:
            continue
        cast, least = counted.counts.sum() / STEPS, counted.counts.min() / STEPS
        if cast != plan.teachers:
            return f"{plan.teachers} records added {cast:g} votes to the {what}, where each adds one"
        if least < 0:
            return f"records added {least:g} votes to a bin of the {what}, where none is taken away"
    by_class = expected.steps == 1 and expected.moments is not None
    sums = expected.moments.counts[0].sum() if by_class and expected.moments is not None else 0
    most *= expected.votes_at_once(expected.counts.shape)
    if expected.counts.sum() > most * expected.steps or sums > CONSTANT * plan.teachers:
        return f"{plan.teachers} records cast {expected.in_votes.sum():g} votes, where they may cast {most}"
    sigmas = table_noises(plan.mechanism)
    for what, (file, _, exact) in _tables(run.votes, run.errors).items():
        released, sigma = table_of_file(folder / "release" / file)[1], sigmas[what]
        if not np.array_equal(np.rint((released - exact) * STEPS), np.rint(run.noise[what] * STEPS)):
            return f"the {what} of the release are not those of the noise log"
        assert sigma is not None
        contradiction = noise_breaks(released - exact, sigma, error=error / len(run.noise))
        if contradiction is not None:
            return f"{what}: {contradiction}"
    return None
