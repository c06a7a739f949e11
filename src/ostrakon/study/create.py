"""Creating a study: everything that is public is settled, priced and written down before anybody joins."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.classes import agree_on_classes
from ostrakon.data.files import sync_folder, writing
from ostrakon.estimators.choices import make_student, require_choices
from ostrakon.export.student_files import require_exportable
from ostrakon.features.representation import require_shared
from ostrakon.features.text import reads_text
from ostrakon.options.options import AUTO, is_auto
from ostrakon.planning.defaults import DEFAULT_EPSILON, ROWS_PER_TEACHER, default_delta, require_delta
from ostrakon.planning.settled import BY_THE_OPERATOR
from ostrakon.run.inputs.files import refuse_private_folder
from ostrakon.run.stages.features import view_of
from ostrakon.run.stages.votes import queries_of
from ostrakon.statements.versions import versions
from ostrakon.study.certificates import require_valid_now
from ostrakon.study.exchange import default_colluders, find_exchange
from ostrakon.study.local_teachers import LocalTeachers, require_short_name
from ostrakon.study.owners import Owner, read_owners, require_owners, require_reachable
from ostrakon.study.pool import Pool
from ostrakon.study.sizes import for_everybody, for_trained
from ostrakon.study.study import NOISE, Study, write_study
from ostrakon.validation import InvalidInput, positive, whole


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
) -> Study:
    """Write a study into the new folder `out`: the work of a coordinator, who sees public things alone.

    public: a table of unlabelled rows, free to publish, one file. target, classes: what is predicted, and all labels.
    owners: who takes part (`Owner`s, or a TOML file of them). exchange: a name in `EXCHANGES`. queries: how many
    representatives; None: so many that the votes on each are a few times its noise, from the announced numbers of
    people. max_contributions: representatives at which one person may vote, at each owner. max_owners_per_person: at
    how many owners a person may have rows and still be protected, at a price (`Study.prices`). teacher: what the owners
    train on their people's rows, a name; None: everybody votes for themselves. people_per_teacher: how many announced
    people make a teacher, 100 by default. colluders, dropouts: of `secure-sum`: so many owners may join all they know
    (None: a minority, but at least one), and so many may be missing from the sum (None: none): the noise of all others
    suffices. representation, student: names (see `ostrakon.estimators.choices`).

    Errors: `InvalidInput` for a folder that is there, files that cannot be read, an epsilon that drowns the votes,
    an owner that announces too few people for one teacher.
    """
    place, source = Path(out), Path(public)
    if place.exists():
        raise InvalidInput(f"out must be a new folder, and {place} is there.")
    refuse_private_folder(source)
    if not source.is_file():
        raise InvalidInput(f"public must be one file of public rows, got {source}.")
    way = find_exchange(exchange)
    known = require_owners(read_owners(owners) if isinstance(owners, str | os.PathLike) else list(owners))
    if not isinstance(target, str) or not target:
        raise InvalidInput(f"target must be the name of the column to predict, got {target!r}.")
    labels, _ = agree_on_classes(
        dict.fromkeys(map(str, classes), 1), None, list(classes), target=target, public="", alone=False
    )
    require_shared(representation)
    require_choices(teacher=AUTO, student=require_short_name("student", student), representation=representation)
    if not is_auto(student):
        require_exportable(make_student(student, seed=seed))
    trained = _trained(teacher, people_per_teacher, max_contributions=max_contributions)
    people, tuned = sum(owner.people for owner in known), dict[str, str]()
    tuned["epsilon"] = BY_THE_OPERATOR
    tuned["delta"] = BY_THE_OPERATOR if delta is not None else "a power of ten below 1 / number of people announced"
    delta = default_delta(people) if delta is None else require_delta(delta, people, "person")
    per_person = whole("max_owners_per_person", max_owners_per_person, at_least=1, at_most=len(known))
    most = whole("max_contributions", max_contributions, at_least=1)
    among: dict[str, int] = {}
    if way.summed:
        require_reachable(known)
        for each in known:
            require_valid_now(each.name, each.certificate or "")
        among["colluders"] = default_colluders(len(known)) if colluders is None else whole("colluders", colluders)
        among["dropouts"] = whole("dropouts", 0 if dropouts is None else dropouts)
        tuned["colluders, dropouts"] = BY_THE_OPERATOR if colluders is not None else "a minority may collude"
    elif colluders is not None or dropouts is not None:
        given = "colluders" if colluders is not None else "dropouts"
        raise InvalidInput(f"{given} is for the exchange secure-sum, and exchange is {way.name}.")
    pool = Pool.read(source, target=target, text=reads_text(representation))
    rows = len(pool.X)
    sizes: dict[str, Any] = {
        "pool": rows,
        "classes": len(labels),
        "epsilon": positive("epsilon", epsilon),
        "delta": delta,
        "queries": None if queries is None else whole("queries", queries, at_least=1, at_most=rows),
        "tuned": tuned,
    }
    shape = way.mechanism(owners=len(known), sigma2=10.0, max_contributions=most, owners_per_person=per_person, **among)
    if trained is None:
        tuned["number of teachers"] = "the sum of the numbers of people that the owners announced"
        tuned["max_contributions, owners_per_person"] = BY_THE_OPERATOR
        mechanism, asked = for_everybody(shape, people=people, **sizes)
    else:
        tuned["number of teachers"] = trained.in_words()
        tuned["owners_per_person"] = BY_THE_OPERATOR
        tuned["max_contributions"] = "the number of queries: every teacher votes on each"
        mechanism, asked = for_trained(shape, teachers=sum(map(trained.number, known)), **sizes)
    tuned["sigma2"] = f"the least that keeps epsilon {epsilon:g}, from public numbers alone"
    view = view_of(pool.X, representation, seed=seed)
    if trained is not None:
        trained.require_trainable(view.public, classes=len(labels))
    chosen = queries_of(view, asked, strategy="representatives", seed=seed)
    facts = {
        "target": target,
        "classes": list(labels),
        "exchange": way.name,
        "epsilon": float(epsilon),
        "delta": delta,
        "representation": representation,
        "student": student,
        "seed": whole("seed", seed),
        "public": f"pool{''.join(source.suffixes)}",
    }
    aside = place.with_name(f"{place.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    with writing(aside):
        aside.mkdir(parents=True)
        write_study(
            aside,
            facts=facts,
            noise={name: getattr(mechanism, name) for name in (*NOISE, *way.facts)},
            owners=known,
            teachers=trained,
            tuned=tuned,
            versions=versions(),
            public=source.read_bytes(),
            queries=chosen,
            features=np.asarray(view.public, np.float64)[chosen],
        )
        os.rename(aside, place)
        sync_folder(place.parent)
    return Study.read(place)


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
    each = ROWS_PER_TEACHER if people_per_teacher is None else people_per_teacher
    return LocalTeachers(teacher=teacher, people_per_teacher=each)
