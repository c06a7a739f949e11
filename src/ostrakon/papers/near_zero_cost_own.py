"""The near-zero-cost papers' Tables 1 to 3 with teachers of our own on MNIST."""

from collections.abc import Mapping

import numpy as np

from ostrakon.accounting.data_dependent.exact import exact_curve
from ostrakon.accounting.data_independent.worst_case import worst_case_of
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS
from ostrakon.mechanisms import LNMax, Mechanism
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.papers.image_task import SEED, ImageTask
from ostrakon.papers.near_zero_cost import CONSTANT, DELTA, MECHANISMS, PRINTED, expected_accuracy
from ostrakon.papers.table import Cell, Table
from ostrakon.papers.teacher_votes import Say, TeacherVotes
from ostrakon.votes import Votes

MANY, FEW = 250, 5
SIZES = (1, FEW, 10, 25, 50, 100, MANY)
IMMUTABLE = Immutable(constant=1e100, gamma=1e-10)
"""Table 1's c = 1e100 and noise of scale 1e10."""
TABLE_1: tuple[tuple[str, int, int, str | None, float | None], ...] = (
    ("LNMax", MANY, 100, "2.04", 0.635),
    ("LNMax", MANY, 1000, "8.03", 0.898),
    ("LNMax", MANY, 5000, "> 8.03", 0.941),
    ("LNMax", MANY, 9000, "> 8.03", 0.934),
    ("NZC", MANY, 9000, "about 0", 0.951),
    ("NZC", FEW, 9000, "about 0", 0.978),
    ("clean votes", MANY, 9000, None, 0.945),
    ("clean votes", FEW, 9000, None, 0.975),
    ("true labels", MANY, 9000, None, 0.981),
)
"""Aggregator, teachers, queries, epsilon and student's accuracy printed for MNIST (5 clean teachers: KDD version)."""
TABLE_2_SVHN = {"LNMax": 0.8711, "immutable": 0.8808, "clean": 0.8806}
TABLE_3: tuple[tuple[float, float], ...] = (
    *((0.9899, 0.9399), (0.9831, 0.9321), (0.9671, 0.9120), (0.9503, 0.8893), (0.9194, 0.8578), (0.9145, 0.8270)),
    (0.8118, 0.7593),
)
"""Mean accuracy of a teacher (MNIST, SVHN) at each of `SIZES`, KDD version."""
_SVHN = "The printed SVHN figures stand alone: its images are not read here."


def tables(ensembles: Mapping[int, TeacherVotes], *, task: ImageTask | None, say: Say) -> list[Table]:
    """Tables 1 to 3 from the votes of ensembles on MNIST, by size.

    task: its images, to train students on; None: Table 1 has no students of ours.
    """
    if not ensembles:
        return []
    results = [table_2(ensembles[MANY])] if MANY in ensembles else []
    if MANY in ensembles and FEW in ensembles:
        results.insert(0, table_1(ensembles, task=task, say=say))
    return [*results, table_3(ensembles)]


def table_1(ensembles: Mapping[int, TeacherVotes], *, task: ImageTask | None, say: Say) -> Table:
    """Table 1: what is claimed, what is true, and students trained on the answers alone."""
    learned: dict[bytes, float] = {}
    rows: list[tuple[Cell, ...]] = []
    for aggregator, teachers, queries, epsilon, printed in TABLE_1:
        ensemble = ensembles[teachers]
        count = min(queries, ensemble.votes.queries)
        votes, truth = ensemble.votes[:count], ensemble.labels[:count]
        mechanism: Mechanism | None = {"LNMax": LNMax(gamma=1 / 20), "NZC": IMMUTABLE}.get(aggregator)
        if aggregator == "true labels":
            labels, right = truth, 1.0
        elif mechanism is None:
            labels, right = votes.plurality, expected_accuracy(votes, truth, None)[0]
        else:
            labels = mechanism.sample(votes, np.random.default_rng([SEED, count]))
            right = expected_accuracy(votes, truth, mechanism)[0]
        student = None
        if task is not None:
            key = labels.tobytes()
            if key not in learned:
                say(f"A student of {count} labels: {aggregator}, {teachers} teachers.")
                learned[key] = task.network(np.arange(count), labels)
            student = learned[key]
        cells: list[Cell] = [aggregator, teachers, count, epsilon, *_epsilons(votes, mechanism)]
        rows.append((*cells, right, printed, student))
    return Table(
        title="Near-zero-cost, Table 1 with teachers of our own: MNIST, delta 1e-5",
        columns=(
            *("aggregator", "teachers", "queries", "epsilon, printed", "epsilon, claimed by its formula"),
            *("epsilon, exact data-dependent (private)", "epsilon, worst case (true)"),
            *("labels right", "student, printed", "student, ours"),
        ),
        rows=tuple(rows),
        note=(
            f"Teachers and students are small networks ({ensembles[MANY].about} with {MANY} teachers); one draw of the "
            "noise. The formula: Theorem 3 of 2017 for LNMax, the papers' Theorem 4 for NZC at c = 1e100 and noise of "
            f"scale 1e10, whose answers are the plurality: they are as private as no noise at all. {_SVHN} "
            + IMMUTABLE.warning
        ),
    )


def _epsilons(votes: Votes, mechanism: Mechanism | None) -> tuple[float | None, float | None, float | None]:
    """Return (as the papers claim, exact data-dependent, worst case); infinite without noise."""
    if mechanism is None:
        return None, None, None
    true = worst_case_of(votes, mechanism, delta=DELTA, adaptive=True).epsilon
    if isinstance(mechanism, Immutable):
        # Its law is cut off at leads of a thousand noise scales: an exact cost from it would be too small.
        return mechanism.claimed_epsilon(queries=votes.queries, delta=DELTA), None, true
    curve = published_curve(votes, mechanism, DEFAULT_ORDERS)
    claimed = None if curve is None else curve.epsilon(delta=DELTA, conversion="mironov")[0]
    return claimed, exact_curve(votes, mechanism, DEFAULT_ORDERS).epsilon(delta=DELTA)[0], true


def table_2(ensemble: TeacherVotes) -> Table:
    """Table 2: how many labels are right."""
    rows: list[tuple[Cell, ...]] = []
    for name, (printed, _) in PRINTED.items():
        mean, spread = expected_accuracy(ensemble.votes, ensemble.labels, MECHANISMS.get(name))
        rows.append((name, printed, mean, spread, TABLE_2_SVHN[name], None))
    return Table(
        title=f"Near-zero-cost, Table 2 with {MANY} teachers of our own: labels right",
        columns=("mechanism", "MNIST, printed", "MNIST, ours", "± (one draw)", "SVHN, printed", "SVHN, ours"),
        rows=tuple(rows),
        note=f"{ensemble.about}; Laplace scale 20, c = {CONSTANT:g}. {_SVHN}",
    )


def table_3(ensembles: Mapping[int, TeacherVotes]) -> Table:
    """Table 3: the mean accuracy of a teacher."""
    rows: list[tuple[Cell, ...]] = [
        (teachers, mnist, ensembles[teachers].accuracy, ensembles[teachers].about, svhn, None)
        for teachers, (mnist, svhn) in zip(SIZES, TABLE_3, strict=True)
        if teachers in ensembles
    ]
    return Table(
        title="Near-zero-cost, Table 3 with teachers of our own: mean accuracy of a teacher",
        columns=("teachers", "MNIST, printed", "MNIST, ours", "who", "SVHN, printed", "SVHN, ours"),
        rows=tuple(rows),
        note=_SVHN,
    )
