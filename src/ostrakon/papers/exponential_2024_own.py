"""The 2024 screening paper's Figures 3 to 13 and Table 2 with teachers of our own, on MNIST and CIFAR-10."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ostrakon.accounting.published.exponential_2024 import delta_of_local_noise, log_q_exponential, q_sensitivity
from ostrakon.accounting.published.pate_2017 import log_q_laplace
from ostrakon.mechanisms import NO_ANSWER
from ostrakon.mechanisms.base import FloatArray
from ostrakon.papers.exponential_2024 import (
    ANSWERS,
    ASKED,
    DELTA,
    EPSILON,
    EPSILONS,
    Run,
    cost_table,
    mechanisms,
    runs_of,
)
from ostrakon.papers.image_task import NAMES, SEED, ImageTask, Name
from ostrakon.papers.table import Cell, Chart, Table
from ostrakon.papers.teacher_votes import Say, TeacherVotes

TEACHERS = 80
"""As the paper chose for all but its Figures 3 and 4."""
SIZES = (10, 25, 50, TEACHERS, 100, 250)
DRAWS = 3
"""Students of every point of Figures 8 and 9, each of noise of its own."""
FIGURES: dict[Name, dict[str, int]] = {
    "mnist": {"cost": 6, "accuracy": 8, "asked": 10, "sensitivity": 12},
    "cifar10": {"cost": 7, "accuracy": 9, "asked": 11, "sensitivity": 13},
}
PRINTED: dict[Name, tuple[str, str]] = {"mnist": ("-0.62%", "+3.12%"), "cifar10": ("-12.54%", "almost equal or higher")}
"""Table 2, screening against Laplace: (epsilon, accuracy), as the text gives them."""
_NO_GUARANTEE = (
    "The published and the exact epsilon depend on the votes and are not a guarantee; the worst case is one. The "
    "paper's total leaves out its check (1/sigma1 a query, answered or not), so for screening it bounds nothing."
)
_LOG_Q: dict[str, Callable[[FloatArray], FloatArray]] = {
    "Laplace": partial(log_q_laplace, scale=2 / EPSILON),
    "exponential": partial(log_q_exponential, epsilon=EPSILON),
    "screening": partial(log_q_exponential, epsilon=EPSILON),
}


def tables(name: Name, ensembles: Mapping[int, TeacherVotes], *, task: ImageTask | None, say: Say) -> list[Table]:
    """Return the figures of one image set from the votes of ensembles, by size.

    task: its images, to train students on; None: the figures say how right the labels are, and nothing of students.
    """
    if not ensembles:
        return []
    results = [sizes(name, ensembles), sensitivity(name, ensembles)]
    if TEACHERS in ensembles:
        runs, about = runs_of(ensembles[TEACHERS].votes), f"{TEACHERS} teachers, {ensembles[TEACHERS].about}"
        title = "Figure {} ({}): epsilon against {}"
        number = FIGURES[name]
        costs = cost_table(
            runs,
            title=title.format(number["cost"], NAMES[name], "answers"),
            note=f"{about}; T = 0.6 of the teachers, sigma1 = 25, sigma2 = 1/0.3, delta {DELTA:g}. {_NO_GUARANTEE}",
        )
        asked = against_queries(runs, title=title.format(number["asked"], NAMES[name], "samples asked"))
        right = accuracy(name, ensembles[TEACHERS], runs, task=task, say=say)
        results += [consensus(name, ensembles[TEACHERS]), costs, right, asked, table_2(name, costs, right)]
    return results


def sizes(name: Name, ensembles: Mapping[int, TeacherVotes]) -> Table:
    """Figures 3 and 4: how right a teacher is, and how likely the plurality is named, by number of teachers."""
    rows: list[tuple[Cell, ...]] = []
    for teachers, ensemble in sorted(ensembles.items()):
        law = np.exp(mechanisms(teachers)["exponential"].log_probabilities(ensemble.votes))
        rows.append(
            (
                teachers,
                ensemble.accuracy,
                float((ensemble.votes.plurality == ensemble.labels).mean()),
                float((ensemble.votes.top / teachers).mean()),
                float(law[np.arange(ensemble.votes.queries), ensemble.votes.plurality].mean()),
                ensemble.about,
            )
        )
    columns = ("teachers", "accuracy of a teacher", "plurality right", "share that agrees", "P[plurality is named]")
    return Table(
        title=f"Figures 3 and 4 ({NAMES[name]}): number of teachers",
        columns=(*columns, "who"),
        rows=tuple(rows),
        note=f"Means over {_queries(ensembles)} queries; the exponential mechanism at epsilon {EPSILON} a query.",
        chart=Chart(x="teachers", panels=(columns[1], columns[2], columns[4])),
    )


def consensus(name: Name, ensemble: TeacherVotes) -> Table:
    """Figure 5: samples by the share of teachers that agree, all of them and those that the check lets pass."""
    screened = mechanisms(ensemble.votes.teachers)["screening"]
    passes = 1 - np.exp(screened.log_probabilities(ensemble.votes)[:, -1])
    rows: list[tuple[Cell, ...]] = []
    # In whole numbers: a share of three tenths lies on an edge, and would fall on either side of it.
    tenth = np.minimum(10 * ensemble.votes.top // ensemble.votes.teachers, 9)
    for what, weight in (("without screening", np.ones(ensemble.votes.queries)), ("with screening", passes)):
        heights = np.bincount(tenth, weights=weight, minlength=10)
        rows += [(number / 10, what, float(height)) for number, height in enumerate(heights)]
    columns = ("share that agrees, at least", "", "samples")
    return Table(
        title=f"Figure 5 ({NAMES[name]}): consensus and samples",
        columns=columns,
        rows=tuple(rows),
        note=(
            "With screening: expected numbers. The noise of the check (sigma1 = 25 votes) is so large beside "
            f"{ensemble.votes.teachers} teachers that {passes.min():.0%} to {passes.max():.0%} of any sample passes."
        ),
        chart=Chart(x=columns[0], panels=(columns[2],), by=columns[1]),
    )


def against_queries(runs: Mapping[str, Run], *, title: str) -> Table:
    """Figures 10 and 11: total epsilon by samples asked, of which screening answers some."""
    rows: list[tuple[Cell, ...]] = []
    most = min(run.votes.queries for run in runs.values())
    for queries in (count for count in ASKED if count <= most):
        for name, run in runs.items():
            answers = float((1 - run.law[:queries, -1]).sum())
            rows.append((queries, name, answers, *run.epsilons(queries)))
    return Table(
        title=title,
        columns=("samples asked", "mechanism", "expected answers", *EPSILONS),
        rows=tuple(rows),
        note=(
            "The paper does not say how its Figures 10 and 11 differ from 6 and 7; here these count the samples asked. "
            + _NO_GUARANTEE
        ),
        chart=Chart(x="samples asked", panels=EPSILONS, by="mechanism", log=True),
    )


def accuracy(name: Name, ensemble: TeacherVotes, runs: Mapping[str, Run], *, task: ImageTask | None, say: Say) -> Table:
    """Figures 8 and 9: accuracy of the answers, and of a student that learns from them."""
    rows: list[tuple[Cell, ...]] = []
    for number, (mechanism, run) in enumerate(runs.items()):
        if task is not None:
            say(f"Students of {mechanism} answers on {NAMES[name]}.")
        draws = [
            run.mechanism.sample(ensemble.votes, np.random.default_rng([SEED, number, draw])) for draw in range(DRAWS)
        ]
        given = [np.flatnonzero(draw != NO_ANSWER) for draw in draws]
        for answers in ANSWERS:
            queries = run.queries_for(answers)
            if queries is None:
                continue
            law = run.law[:queries]
            right = law[np.arange(queries), ensemble.labels[:queries]].sum() / (1 - law[:, -1]).sum()
            students = [
                task.spread(rows_of[:answers], draw[rows_of[:answers]])
                for draw, rows_of in zip(draws, given, strict=True)
                if task is not None and len(rows_of) >= answers
            ]
            mean = float(np.mean(students)) if students else None
            spread = float(np.std(students)) if students else None
            rows.append((answers, mechanism, queries, float(right), mean, spread))
    columns = ("answers", "mechanism", "queries", "answers right", "student right", "± (draws)")
    return Table(
        title=f"Figure {FIGURES[name]['accuracy']} ({NAMES[name]}): accuracy against answers",
        columns=columns,
        rows=tuple(rows),
        note=(
            f"{TEACHERS} teachers, {ensemble.about}. Answers right: expected. Student: answers spread over the graph "
            f"of all public images, mean of {DRAWS} draws of the noise, on those that nobody may ask about. Equal "
            "answers, so screening has asked more; what it answers is easier, and more alike."
        ),
        chart=Chart(x="answers", panels=columns[3:5] if task else columns[3:4], by="mechanism"),
    )


def sensitivity(name: Name, ensembles: Mapping[int, TeacherVotes]) -> Table:
    """Figures 12 and 13: mean local sensitivity of q (eq. 18), and what section 4.6 makes of it."""
    rows: list[tuple[Cell, ...]] = []
    for teachers, ensemble in sorted(ensembles.items()):
        passes = 1 - np.exp(mechanisms(teachers)["screening"].log_probabilities(ensemble.votes)[:, -1])
        for mechanism, log_q in _LOG_Q.items():
            moves = q_sensitivity(ensemble.votes.counts, log_q)
            weight = passes if mechanism == "screening" else None
            delta = delta_of_local_noise(teachers, log_q, epsilon=1.0) if teachers > 3 else None
            rows.append((teachers, mechanism, float(np.average(moves, weights=weight)), float(moves.max()), delta))
    columns = (
        "teachers",
        "mechanism",
        "mean sensitivity of q",
        "largest",
        "delta of 4.6 at epsilon 1, at least",
    )
    return Table(
        title=f"Figure {FIGURES[name]['sensitivity']} ({NAMES[name]}): sensitivity of q against number of teachers",
        columns=columns,
        rows=tuple(rows),
        note=(
            "The paper would publish q with Laplace noise of this *local* sensitivity. That is not private: the scale "
            "of the noise depends on the votes, and at a nominal epsilon of 1 no delta below the last column holds. "
            f"Noise that may be published has the scale of the largest move that any votes allow, for the exponential "
            f"mechanism {np.tanh(EPSILON / 4):.3g} at any number of teachers."
        ),
        chart=Chart(x="teachers", panels=(columns[2],), by="mechanism", log=True),
    )


def table_2(name: Name, costs: Table, right: Table) -> Table:
    """Table 2: screening beside Laplace at the most answers, and the relative difference beside the printed one."""
    most = max(int(cell) for cell in costs.column("answers") if isinstance(cell, int))
    priced = {row[1]: row[2:] for row in costs.rows if row[0] == most}
    learned = {row[1]: row[3:5] for row in right.rows if row[0] == most}
    rows: list[tuple[Cell, ...]] = []
    shown: list[tuple[float | None, ...]] = []
    for mechanism in ("Laplace", "screening"):
        if mechanism in priced and mechanism in learned:
            numbers = [*priced[mechanism][1:], *learned[mechanism]]
            shown.append(tuple(cell if isinstance(cell, float) else None for cell in numbers))
            rows.append((mechanism, most, DELTA, priced[mechanism][0], *numbers))
    if len(shown) == 2:
        changes = [None if a is None or b is None else f"{b / a - 1:+.2%}" for a, b in zip(*shown, strict=True)]
        rows.append(("change, ours", None, None, None, *changes))
    epsilon, gain = PRINTED[name]
    rows.append(("change, printed", None, None, None, epsilon, None, None, None, gain))
    return Table(
        title=f"Table 2 ({NAMES[name]}): privacy and accuracy of screening beside Laplace",
        columns=("mechanism", "answers", "delta", "queries", *EPSILONS, "answers right", "student right"),
        rows=tuple(rows),
        note=(
            "Changes are relative to Laplace. The printed ones are from the paper's text, which names no number of "
            f"samples and does not say whose accuracy. {_NO_GUARANTEE}"
        ),
    )


def _queries(ensembles: Mapping[int, TeacherVotes]) -> int:
    return next(iter(ensembles.values())).votes.queries
