"""Create a study: everything that is public is decided, priced and written down before an owner joins."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.data.classes import agree_on_classes
from ostrakon.data.files import require_writable, sync_folder, writing
from ostrakon.estimators.choices import make_student, require_choices
from ostrakon.export.student_files import require_exportable
from ostrakon.features.representation import require_shared
from ostrakon.features.text import reads_text
from ostrakon.mechanisms.base import DEFAULT_NOISE
from ostrakon.mechanisms.summed_gnmax import SummedGNMax
from ostrakon.options.options import AUTO, is_auto
from ostrakon.options.report_details import ReportDetails
from ostrakon.planning.choices import BY_THE_OPERATOR
from ostrakon.planning.defaults import (
    DEFAULT_EPSILON,
    ROWS_PER_TEACHER,
    default_delta,
    default_per_record_queries,
    default_size,
    require_delta,
)
from ostrakon.planning.per_record_plan import require_votes_above_noise
from ostrakon.run.inputs.files import refuse_private_folder
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.queries import queries_of
from ostrakon.statements.versions import versions
from ostrakon.study.certificates import require_valid_now
from ostrakon.study.exchange import Exchange, default_colluders, find_exchange
from ostrakon.study.local_teachers import LocalTeachers, require_short_name
from ostrakon.study.owners import Owner, read_owners, require_owners, require_reachable
from ostrakon.study.pool import Pool
from ostrakon.study.study import NOISE, Study, write_study
from ostrakon.validation import InvalidInput, positive, whole

QUERIES = "number of queries"
"""The key of this number in `tuned`."""


def create_study(
    out: str | os.PathLike[str],
    *,
    public: str | os.PathLike[str],
    target: str,
    classes: Sequence[str],
    owners: str | os.PathLike[str] | Sequence[Owner],
    exchange: str = "trusted",
    epsilon: float = DEFAULT_EPSILON,
    delta: float | None = None,
    queries: int | None = None,
    max_contributions: int = 1,
    max_owners_per_person: int = 1,
    teacher: str | None = None,
    people_per_teacher: int | None = None,
    colluders: int | None = None,
    dropouts: int | None = None,
    representation: str = AUTO,
    student: str = AUTO,
    seed: int = 0,
    report: ReportDetails | None = None,
) -> Study:
    """Write a study into the new folder `out`. The coordinator who does this sees public data only.

    Parameters
    ----------
    out : str or path-like
        A new folder.
    public : str or path-like
        One table of unlabelled rows, free to publish.
    target : str
        The column to predict.
    classes : sequence of str
        All labels.
    owners : sequence of Owner, or str or path-like
        The owners, or a TOML file of them (`read_owners`).
    exchange : {"trusted", "files", "secure-sum"}
        How the owners' tables are combined (`EXCHANGES`).
    epsilon : float above 0
    delta : float in (0, 1), optional
        Default: the largest power of ten below 1 / number of people announced, at most 1e-5.
    queries : int, optional
        Number of public rows to ask about. Default: chosen from the announced numbers of people, so that each gets
        several times more votes than noise.
    max_contributions : int of at least 1
        Number of public rows at which one person may vote, at each owner.
    max_owners_per_person : int of at least 1
        Number of owners at which a person may have rows and still be protected. The noise grows with it.
    teacher : str, optional
        A short name: the owners train such teachers on their people's rows. Default: every person votes.
    people_per_teacher : int, optional
        Number of announced people for each such teacher. Default: 100.
    colluders : int, optional
        For `secure-sum`: the number of owners that may share all that they know. Default: a minority, at least one.
    dropouts : int, optional
        For `secure-sum`: the number of owners that may be missing from the sum. Default: 0.
    representation, student : str
        Names (`ostrakon.estimators.choices`).
    seed : int
        Of models, never of noise.
    report : ReportDetails, optional
        Who releases the student and what for. The owners agree on it, as on all facts.

    Returns
    -------
    Study

    Raises
    ------
    InvalidInput
        If the folder exists, a file cannot be read, epsilon is too small for the votes to exceed the noise, or an owner
        announces too few people for one teacher.
    """
    folder, source = Path(out), Path(public)
    if folder.exists():
        raise InvalidInput(f"out must be a new folder, and {folder} is there.")
    require_writable("out", folder)
    refuse_private_folder(source)
    if not source.is_file():
        raise InvalidInput(f"public must be one file of public rows, got {source}.")
    kind = find_exchange(exchange)
    owner_list = require_owners(read_owners(owners) if isinstance(owners, str | os.PathLike) else list(owners))
    labels = _require_learnable(target, classes, representation=representation, student=student, seed=seed)
    local_teachers = _trained(teacher, people_per_teacher, max_contributions=max_contributions)
    pool = Pool.read(source, target=target, text=reads_text(representation))
    bounds = {"max_contributions": max_contributions, "max_owners_per_person": max_owners_per_person}
    among = {"colluders": colluders, "dropouts": dropouts, "pool": len(pool.X), "classes": len(labels)}
    sizes: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "queries": queries, **bounds, **among}
    mechanism, delta, count, tuned = _choose_noise(kind, owner_list, local_teachers, **sizes)
    view = view_of(pool.X, representation, seed=seed)
    if local_teachers is not None:
        local_teachers.require_trainable(view.public, classes=len(labels))
    task = {"target": target, "classes": list(labels), "exchange": kind.name}
    learners = {"representation": representation, "student": student, "seed": whole("seed", seed)}
    guarantee = {"epsilon": float(epsilon), "delta": delta}
    chosen = queries_of(view, count, strategy="representatives", seed=seed)
    _write_aside(
        folder,
        facts={**task, **guarantee, **learners, "public": f"pool{''.join(source.suffixes)}"},
        noise={name: getattr(mechanism, name) for name in (*NOISE, *kind.facts)},
        owners=owner_list,
        teachers=local_teachers,
        tuned=tuned,
        versions=versions(),
        public=source.read_bytes(),
        queries=chosen,
        report=ReportDetails() if report is None else report,
        features=np.asarray(view.public, np.float64)[chosen],
    )
    return Study.read(folder)


def _choose_noise(
    kind: Exchange,
    owners: Sequence[Owner],
    local_teachers: LocalTeachers | None,
    *,
    pool: int,
    classes: int,
    epsilon: float,
    delta: float | None,
    queries: int | None,
    max_contributions: int,
    max_owners_per_person: int,
    colluders: int | None,
    dropouts: int | None,
) -> tuple[SummedGNMax, float, int, dict[str, str]]:
    """Return the mechanism, delta, the number of queries, and what each parameter was chosen on."""
    people, tuned = sum(owner.people for owner in owners), dict[str, str]()
    tuned["epsilon"] = BY_THE_OPERATOR
    by_default = "the largest power of ten below 1 / number of people announced, at most 1e-05"
    tuned["delta"] = by_default if delta is None else BY_THE_OPERATOR
    delta = default_delta(people) if delta is None else require_delta(delta, people, "person")
    bounds = {
        "max_contributions": whole("max_contributions", max_contributions, at_least=1),
        "owners_per_person": whole("max_owners_per_person", max_owners_per_person, at_least=1, at_most=len(owners)),
    }
    among = _among(kind, owners, colluders, dropouts, tuned)
    sizes: dict[str, Any] = {
        "pool": pool,
        "classes": classes,
        "epsilon": positive("epsilon", epsilon),
        "delta": delta,
        "queries": None if queries is None else whole("queries", queries, at_least=1, at_most=pool),
        "tuned": tuned,
    }
    shape = kind.mechanism(owners=len(owners), sigma2=10.0, **bounds, **among)
    size = (
        partial(_per_person_size, people=people)
        if local_teachers is None
        else partial(_trained_size, owners, local_teachers)
    )
    mechanism, count = size(shape, **sizes)
    tuned["sigma2"] = f"the least that keeps epsilon {epsilon:g}, from public numbers alone"
    return mechanism, delta, count, tuned


def _write_aside(folder: Path, **parts: Any) -> None:
    """Write a study under another name first, so that `folder` is never half-written."""
    aside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    with writing(aside):
        aside.mkdir(parents=True)
        write_study(aside, **parts)
        os.rename(aside, folder)
        sync_folder(folder.parent)


def _require_learnable(
    target: Any, classes: Sequence[str], *, representation: str, student: str, seed: int
) -> tuple[str, ...]:
    """Refuse a target, classes and names that no owner could learn from; return the classes."""
    if not isinstance(target, str) or not target:
        raise InvalidInput(f"target must be the name of the column to predict, got {target!r}.")
    labels, _ = agree_on_classes(
        dict.fromkeys(map(str, classes), 1), None, list(classes), target=target, public="", alone=False
    )
    require_shared(representation)
    require_choices(teacher=AUTO, student=require_short_name("student", student), representation=representation)
    if not is_auto(student):
        require_exportable(make_student(student, seed=seed))
    return tuple(labels)


def _among(
    kind: Exchange, owners: Sequence[Owner], colluders: int | None, dropouts: int | None, tuned: dict[str, str]
) -> dict[str, int]:
    """Return the parameters of an exchange in which owners add up their tables; no parameters of another one."""
    if not kind.summed:
        if colluders is not None or dropouts is not None:
            option = "colluders" if colluders is not None else "dropouts"
            raise InvalidInput(f"{option} is for the exchange secure-sum, and exchange is {kind.name}.")
        return {}
    require_reachable(owners)
    for owner in owners:
        require_valid_now(owner.name, owner.certificate or "")
    tuned["colluders, dropouts"] = BY_THE_OPERATOR if colluders is not None else "a minority may collude"
    return {
        "colluders": default_colluders(len(owners)) if colluders is None else whole("colluders", colluders),
        "dropouts": whole("dropouts", 0 if dropouts is None else dropouts),
    }


def _trained(teacher: str | None, people_per_teacher: int | None, *, max_contributions: int) -> LocalTeachers | None:
    if teacher is None:
        if people_per_teacher is not None:
            raise InvalidInput("people_per_teacher is for teachers that owners train: give teacher, too.")
        return None
    if max_contributions != 1:
        raise InvalidInput(
            f"max_contributions cannot be chosen for trained teachers, which vote on every query, got "
            f"{max_contributions!r}."
        )
    number = ROWS_PER_TEACHER if people_per_teacher is None else people_per_teacher
    return LocalTeachers(teacher=teacher, people_per_teacher=number)


def _per_person_size(
    shape: SummedGNMax,
    *,
    people: int,
    pool: int,
    classes: int,
    epsilon: float,
    delta: float,
    queries: int | None,
    tuned: dict[str, str],
) -> tuple[SummedGNMax, int]:
    """Return the mechanism and the number of queries if every person votes, at few public rows.

    `shape` may have any sigma2. `tuned` gets what the number of queries was chosen on.
    """
    # Any number of queries costs what `max_contributions` of them cost.
    size = pool if queries is None else queries
    mechanism: Any = calibrate(shape, epsilon=epsilon, queries=size, delta=delta)
    tuned["number of teachers"] = "the sum of the numbers of people that the owners announced"
    tuned["max_contributions, owners_per_person"] = BY_THE_OPERATOR
    tuned[QUERIES] = BY_THE_OPERATOR
    if queries is None:
        queries = default_per_record_queries(mechanism, units=people, pool=pool, classes=classes)
        tuned[QUERIES] = "chosen so that each query gets several times more votes than noise, from announced numbers"
    require_votes_above_noise(mechanism, units=people, queries=queries, delta=delta, unit="person")
    return mechanism, queries


def _trained_size(
    owners: Sequence[Owner],
    local_teachers: LocalTeachers,
    shape: SummedGNMax,
    *,
    pool: int,
    classes: int,
    epsilon: float,
    delta: float,
    queries: int | None,
    tuned: dict[str, str],
) -> tuple[SummedGNMax, int]:
    """Return the mechanism and the number of queries if owners train teachers, each of which votes on every query.

    By default, as many queries as noise of a fifth of the teachers pays for, as in a run of trained teachers.
    """
    teachers = sum(map(local_teachers.number, owners))
    tuned["number of teachers"] = local_teachers.in_words()
    tuned["owners_per_person"] = BY_THE_OPERATOR
    tuned["max_contributions"] = "the number of queries: every teacher votes on each"
    tuned[QUERIES] = BY_THE_OPERATOR
    if queries is None:
        loud: Any = replace(shape, sigma2=DEFAULT_NOISE * teachers, max_contributions=pool)
        sizes: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "classes": classes, "max_answers": None}
        queries, _ = default_size(loud, pool=pool, **sizes)
        tuned[QUERIES] = "chosen so that their noise is about a fifth of the teachers, from announced numbers"
    shape = replace(shape, max_contributions=queries)
    mechanism: Any = calibrate(shape, epsilon=epsilon, queries=queries, delta=delta, teachers=teachers)
    return mechanism, queries
