"""Join a study: an owner counts its people's votes on the public representatives and hands over one table."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostrakon.data.object_store import StoredFolder
from ostrakon.data.sources import open_table
from ostrakon.mechanisms.summed_gnmax import SharedGNMax
from ostrakon.noise import secure_rng
from ostrakon.run.budget import budget_of
from ostrakon.run.folder import RunFolder
from ostrakon.run.inputs.tables import task_from_tables
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import OneDraw
from ostrakon.run.stages.answers import Answers
from ostrakon.run.stages.votes import collect
from ostrakon.statements.statement import epsilon_in_words
from ostrakon.study.study import Study
from ostrakon.study.study_storage import StudyStorage
from ostrakon.study.tables import shares_folder, write_share
from ostrakon.teachers import TeacherStore
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, Votes

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The files of an owner that has joined.

    Parameters
    ----------
    share : pathlib.Path
        Its table: to hand over, or, if the owners add up their tables, inside private/.
    folder : pathlib.Path
        What stays with the owner.
    """

    share: Path
    folder: Path


def join_study(
    study: Study | str | os.PathLike[str],
    private: str | os.PathLike[str],
    *,
    owner: str,
    by: str,
    keep: str | os.PathLike[str] | None = None,
    shares: str | os.PathLike[str] | None = None,
    expect: str | None = None,
    ledger: Mapping[str, Any] | None = None,
    jobs: int | None = -1,
    progress: bool = False,
    say: Say = lambda stage: None,
) -> Joined:
    """Count one owner's votes and write the table that it hands over. Each owner does this on its own machine.

    The owner's people vote, or teachers that it trains on them, as the study says.

    Parameters
    ----------
    study : Study, or str or path-like
        The study or its folder.
    private : str or path-like
        The owner's table, with the study's columns, the target and the column `by`.
    owner : str
        The owner that joins.
    by : str
        The column that names the person whose row it is.
    keep : str or path-like, optional
        The owner's own folder. Default: STUDY-OWNER beside the study.
    shares : str or path-like, optional
        The folder for the table that is handed over. Default: `shares_folder`.
    expect : str, optional
        The hash that was agreed on.
    ledger : mapping, optional
        The options ledger, budget and ledger_account of a run. The cost of the study is reserved before noise is drawn.
    jobs : int or None
        Workers that train teachers, as joblib's n_jobs.
    progress : bool
        Whether to show the progress of training.
    say : callable
        Called with a sentence about each stage.

    Returns
    -------
    Joined

    Raises
    ------
    InvalidInput
        If the study was changed or is not the expected one, the owner is unknown, the table lacks a column or has an
        unknown class, or the data are not those of the first call.

    Notes
    -----
    Guarantee: as the study says, for every person with rows in `private`. If the call is killed and repeated with the
    same arguments, it continues: the noise of a table is drawn once, and a second call hands over the same table.
    """
    terms = study if isinstance(study, Study) else Study.read(study)
    require_expected(terms, expect)
    who = terms.owner(owner).name
    task = _task(terms, private, by=by)
    if terms.exchange.summed and shares is not None:
        raise InvalidInput("shares must not be given if owners add up their tables: the table stays where it is.")
    home = home_of(terms, who, keep)
    plan = terms.plan(teachers=_voters(terms, who, task.private.units))
    identity = {"owner": who, "by": by}
    storage = StudyStorage(home, task, terms, plan, identity)
    with storage.opened():
        options = terms.options(jobs=jobs, **(ledger or {}))
        budget = budget_of(plan, task, options, storage)
        storage.plan(lambda: plan)
        say("Learning features from the public data")
        view = storage.view(terms.view)
        trains = f"Training {plan.teachers} teachers, and counting their" if plan.trained_by_owners else "Counting the"
        say(f"{trains} votes at {plan.queries} public rows")

        def collect_votes(store: TeacherStore | None, folder: Path | StoredFolder | None) -> tuple[Votes, Any]:
            where: Any = {"store": store, "folder": folder}
            return collect(plan, task.private, view, terms.queries, options, progress=progress, **where)

        votes = storage.votes(plan, view, terms.queries, collect_votes)
        if budget is not None:
            budget.reserve()
        table = votes.counts
        if terms.exchange.noised:
            say("Adding noise")
            assert isinstance(terms.mechanism, SharedGNMax)
            table, _ = storage.log().draw("share", votes, _share(terms.mechanism), secure_rng())
        if budget is not None:
            labels, counts = table.argmax(axis=1), table / STEPS
            budget.settle(Answers(labels=labels, taught=labels, rounds=(), secure=True, counts=counts))
        share = write_share(home.private if terms.exchange.summed else shares_folder(terms, shares), terms, who, table)
    return Joined(share=share, folder=home.path)


def home_of(study: Study, owner: str, keep: str | os.PathLike[str] | None) -> RunFolder:
    """Return the owner's own folder: `keep`, or STUDY-OWNER beside the study."""
    path = study.folder.resolve()
    return RunFolder(path.with_name(f"{path.name}-{owner}") if keep is None else keep)


def require_expected(study: Study, expect: str | None) -> None:
    """Refuse a study whose hash does not begin with the agreed one, which has at least 12 digits."""
    if expect is not None and (len(expect) < 12 or not study.hash.startswith(expect.lower())):
        raise InvalidInput(f"expect must be the study's hash, {study.hash}, or its first 12 digits, got {expect!r}.")


def handed_over(study: Study, owner: str) -> dict[str, str]:
    """Return what an owner will hand over, in words by topic, from public facts only."""
    mechanism, plan = study.mechanism, study.plan()
    classes = len(study.classes)
    owners = mechanism.owners_per_person
    at = "1 owner" if owners == 1 else f"{owners} owners at most"
    facts = {
        "Study": f"{study.hash} (agree on it before you join)",
        "You are": f"{study.owner(owner).name}, one of {len(study.owners)} owners",
        "What leaves": f"{'later, hidden, ' if study.exchange.summed else ''}one table of whole numbers, "
        f"{plan.queries} public rows x {classes} classes, and nothing else",
        "What it is": study.exchange.handed_over,
        "A number says": _a_number_says(study, owner),
        "Guarantee": (
            f"({epsilon_in_words(plan.bound.epsilon)}, {plan.delta:g})-differential privacy of the release for every "
            f"person, with rows at {at}"
        ),
        "Noise": study.price(),
    }
    return facts | {"Who is trusted": f"{study.trust_model}."}


def _a_number_says(study: Study, owner: str) -> str:
    if study.teachers is not None:
        number = study.teachers.number(study.owner(owner))
        return (
            f"how many of your {number} teachers ({study.teachers.teacher}) say that class of that public row; each "
            "learns from some of your people here, and each of your people, with all their rows, is in one of them; "
            "the teachers stay"
        )
    some = study.mechanism.max_contributions
    return (
        f"how many of your people have that class, of those whose rows are nearest to that public row; each person "
        f"counts at {some} of them{'' if some == 1 else ' at most'}"
    )


def _voters(study: Study, owner: str, people: int) -> int:
    """Return the number of voters of an owner with this number of people."""
    if study.teachers is None:
        return people
    number = study.teachers.number(study.owner(owner))
    if people < number:
        raise InvalidInput(
            f"{owner} trains {number} teachers in this study, and its table holds {people} people: each teacher needs "
            "people of its own."
        )
    return number


def _require_columns(study: Study, private: str | os.PathLike[str], *, by: str) -> None:
    """Refuse a table that lacks columns of the study or has others, on which the owners have not agreed."""
    columns, features = list(open_table(private).columns), study.pool.features
    absent = [name for name in features if name not in columns]
    more = [name for name in columns if name not in (*features, study.target, by)]
    if absent:
        raise InvalidInput(
            f"The private table {private} has no column {absent[0]!r}, which the study uses ({len(absent)} of "
            f"{len(features)} columns are missing; it has {', '.join(map(repr, more[:5])) or 'none'} besides)."
        )
    if more:
        raise InvalidInput(
            f"The private table {private} must have the study's columns and {by!r} alone, and it has {more[0]!r}, too "
            f"({len(more)} columns to leave out)."
        )


def _task(study: Study, private: str | os.PathLike[str], *, by: str) -> Task:
    _require_columns(study, private, by=by)
    task = task_from_tables(
        private,
        study.public,
        target=study.target,
        by=by,
        classes=study.classes,
        text=study.text,
        alone=False,
        allow_shared_rows=True,
    )
    columns = list(task.X_public.columns)
    features = list(study.pool.X.columns)
    absent = [name for name in features if name not in columns]
    if absent:
        raise InvalidInput(
            f"The private table {private} has no column {absent[0]!r}, which the study uses ({len(absent)} of "
            f"{len(features)} columns are missing)."
        )
    return task


def _share(mechanism: SharedGNMax) -> OneDraw:
    """Return one owner's noisy table, in whole steps."""
    return OneDraw(
        name="noisy share", sample=lambda votes, rng: mechanism.share(votes), parameters=mechanism.parameters
    )
