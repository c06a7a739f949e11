"""A study on a federated platform: the study goes to the owners, and one table of each owner comes back."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ostrakon.data.checksummed import read_regular
from ostrakon.data.files import private_folder, read_toml, write_atomically
from ostrakon.report.release import publish
from ostrakon.study.finish import finish_study
from ostrakon.study.join import join_study, require_expected
from ostrakon.study.secure_sum import sum_study
from ostrakon.study.study import DESCRIPTION, FEATURES, QUERIES, Study
from ostrakon.study.tables import (
    read_share,
    read_shares,
    read_sum,
    share_path,
    shares_folder,
    write_share,
    write_sum,
)
from ostrakon.validation import InvalidInput, quote
from ostrakon.votes import IntArray

_WAIT = 300.0
_LONGEST = 2000
"""The most characters that are shown of an answer's text."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What one owner decides for itself, in a file on its own machine.

    Parameters
    ----------
    owner : str
        Its name in the study.
    private : str
        Its table.
    by : str
        The column that names the person whose row it is.
    expect : str
        The hash of the study that it agreed to, or its first 12 digits.
    keep : str
        Its own folder.
    key : str, optional
        For `secure-sum`: the private key of its certificate.
    ledger, budget, ledger_account : optional
        As of `ostrakon study join`.
    """

    owner: str
    private: str
    by: str
    expect: str
    keep: str
    key: str | None = None
    ledger: str | None = None
    budget: float | None = None
    ledger_account: str | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Site":
        """Read a TOML file with the parameters above; paths count from its folder.

        Raises
        ------
        InvalidInput
            If the file cannot be read, lacks a parameter, or has another one.
        """
        source, content = Path(path), read_toml("site", path)
        required = [field.name for field in fields(cls) if field.default is not None]
        for name in required:
            if not isinstance(content.get(name), str) or not content[name]:
                raise InvalidInput(f"{source} must give {name} as text, got {quote(content.get(name))}.")
        extras = sorted(content.keys() - {field.name for field in fields(cls)})
        if extras:
            raise InvalidInput(f"{source} must give {', '.join(required)} and no {extras[0]!r}.")
        paths = {name: str(source.parent / content[name]) for name in ("private", "keep", "key") if name in content}
        entries: dict[str, Any] = content | paths
        return cls(**entries)


def study_files(study: Study) -> dict[str, bytes]:
    """Return the files of a study by name: public facts, to be sent to every owner."""
    names = (DESCRIPTION, QUERIES, FEATURES, study.public.name)
    return {name: read_regular(study.folder / name) for name in names}


def join_by_message(files: Mapping[str, bytes], site: Site, *, wait: float = _WAIT) -> dict[str, Any]:
    """Join the study that a message holds, and return what this owner hands over.

    Parameters
    ----------
    files : mapping of str to bytes
        As `study_files` returns it on another machine.
    site : Site
    wait : float
        For `secure-sum`: seconds to wait for the other owners.

    Returns
    -------
    dict
        `owner`, `study` (its hash) and `table`, a file as of `ostrakon study join` (if the owners add up their tables,
        of `ostrakon study sum`); or `owner` and `refused`, one sentence.

    Notes
    -----
    Guarantee: as of `join_study`. Nothing is computed before the hash of the study is the one in the site's file, and a
    second call hands over the same table.
    """
    try:
        study, home = _received(files, site)
        if study.exchange.summed and site.key is None:
            raise InvalidInput("key must be given for a study by secure-sum: the private key of the certificate.")
        own: dict[str, Any] = {"owner": site.owner, "keep": home / "owner", "expect": site.expect}
        shares: dict[str, Any] = {} if study.exchange.summed else {"shares": home / "shares"}
        ledger = {"ledger": site.ledger, "budget": site.budget, "ledger_account": site.ledger_account}
        path = join_study(study, site.private, by=site.by, ledger=ledger, jobs=1, **own, **shares).share
        if site.key is not None and study.exchange.summed:
            path = sum_study(study, key=site.key, shares=home / "shares", wait=wait, **own).path
        return {"owner": site.owner, "study": study.hash, "table": path.read_bytes()}
    except InvalidInput as error:
        return {"owner": site.owner, "refused": str(error)}


def join_by_site_file(files: Mapping[str, bytes], path: Callable[[], Path], *, node: str) -> dict[str, Any]:
    """Join as the owner of a site file, as `join_by_message`; without such a file the refusal names the node."""
    try:
        site = Site.read(path())
    except InvalidInput as error:
        return {"owner": node, "refused": str(error)}
    return join_by_message(files, site)


def finish_by_messages(study: Study, answers: Iterable[Any], *, without: Sequence[str] = (), silent: str = "") -> Path:
    """Store what the owners handed over, finish the study, and return its release.

    Parameters
    ----------
    study : Study
    answers : iterable of mapping
        What `join_by_message` returned on every machine that answered.
    without : sequence of str
        Owners that dropped out.
    silent : str
        What is said of owners that gave no answer, for example "within 60 seconds".

    Raises
    ------
    InvalidInput
        If an answer is a refusal or holds no table of this study, two answers hold different tables of one owner or
        different sums, or an owner gave no answer. Nothing of these answers is stored then, except where owners gave
        no answer and the others' tables are handed over: these stay, so that a second call needs the missing ones
        alone.
    """
    taking = [owner.name for owner in study.owners if owner.name not in without]
    for name in without:
        study.owner(name)
    folder = private_folder(shares_folder(study, None))
    tables, refusals = _tables_of(study, folder, answers)
    if study.exchange.summed:
        refusals += _different_sums(tables, taking)
    else:
        refusals += _other_than_stored(study, folder, tables)
    if refusals:
        raise InvalidInput(f"{' '.join(refusals)} Nothing of this job was stored, and nothing was finished.")
    if study.exchange.summed:
        handed_over, otherwise = set(tables), ""
    else:
        for table in tables.values():
            write_share(folder, study, table.sender, table.counts)
        handed_over, otherwise = set(read_shares(folder, study)), ", or finish without (without={})"
    missing = [name for name in taking if name not in handed_over]
    if missing:
        raise InvalidInput(
            f"{', '.join(missing)} gave no answer{silent and f' {silent}'}: run the same job again, in which nobody "
            f"draws noise twice{otherwise.format(','.join(missing))}."
        )
    if study.exchange.summed:
        for table in tables.values():
            write_sum(folder, study, list(table.owners), table.counts)
    return publish(finish_study(study, without=without), study.report)


def owners_to_leave_out(text: str) -> list[str]:
    """Return the names in a text with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _received(files: Mapping[str, bytes], site: Site) -> tuple[Study, Path]:
    """Return the study of a message, in a folder of its own under `site.keep`, refused unless it is the agreed one."""
    keep = private_folder(Path(site.keep))
    aside = Path(tempfile.mkdtemp(dir=keep, prefix=".received-"))
    try:
        for name, content in files.items():
            if Path(name).name != name or not isinstance(content, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"A study must be sent as files in one folder, got {quote(name)}.")
            (aside / name).write_bytes(content)
        study = Study.read(aside)
        require_expected(study, site.expect)
        home = private_folder(keep / study.hash[:12])
        if not (home / "study").is_dir():
            os.rename(aside, home / "study")
        return Study.read(home / "study"), home
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A table of an answer: who sent it, whose votes are in it, and the counts."""

    sender: str
    owners: tuple[str, ...]
    counts: IntArray

    def equals(self, other: "_Table") -> bool:
        return self.owners == other.owners and np.array_equal(self.counts, other.counts)


def _read(study: Study, aside: Path, answer: Any) -> _Table:
    """Return the table of an answer, refused unless it is one of this study and of who sent it."""
    if not isinstance(answer, Mapping):
        raise InvalidInput(f"An answer must be a dictionary, got {quote(answer)}.")
    content: Mapping[str, Any] = answer
    sender = content.get("owner")
    if "refused" in content:
        raise InvalidInput(f"{_line(sender)} did not join: {_line(content['refused']).rstrip('.')}.")
    try:
        owner, payload = study.owner(sender).name, content.get("table")  # pyright: ignore[reportArgumentType]
        if not isinstance(payload, bytes):
            raise InvalidInput("it holds no table.")
        path = aside / "opened.sum"
        write_atomically(path, payload)
        if study.exchange.summed:
            owners, counts = read_sum(aside, study)
        else:
            of, counts = read_share(path, study)
            owners = [of]
    except InvalidInput as error:
        raise InvalidInput(f"What {quote(sender)} sent was not taken: {_line(str(error))}") from None
    if owner not in owners:
        raise InvalidInput(f"What {quote(sender)} sent was not taken: it is the table of {', '.join(owners)}.")
    return _Table(sender=owner, owners=tuple(owners), counts=counts)


def _tables_of(study: Study, folder: Path, answers: Iterable[Any]) -> tuple[dict[str, _Table], list[str]]:
    """Return (the table of each sender, the sentences that refuse other answers)."""
    tables: dict[str, _Table] = {}
    refusals: list[str] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".received-") as aside:
        for answer in answers:
            try:
                table = _read(study, Path(aside), answer)
            except InvalidInput as error:
                refusals.append(str(error))
                continue
            if not table.equals(tables.setdefault(table.sender, table)):
                refusals.append(f"Two different tables of {table.sender} were sent: nobody can tell which is right.")
    return tables, refusals


def _different_sums(tables: Mapping[str, _Table], taking: Sequence[str]) -> list[str]:
    """Return sentences on sums that differ, or that are of other owners than the job. taking: the job's owners."""
    refusals = [
        f"The sum that {name} handed over is of {', '.join(table.owners)}, and this job is of {', '.join(taking)}."
        for name, table in tables.items()
        if set(table.owners) != set(taking)
    ]
    first = next(iter(tables.values()), None)
    if first is None or all(table.equals(first) for table in tables.values()):
        return refusals
    return [f"{', '.join(tables)} handed over different sums: nobody can tell which is right.", *refusals]


def _other_than_stored(study: Study, folder: Path, there: Mapping[str, _Table]) -> list[str]:
    """Return a sentence for each table that differs from the same owner's table of an earlier job."""
    own_shares = read_shares(folder, study)
    return [
        f"What {name} sent differs from what was sent before, in {share_path(folder, name)}: nobody can tell which is "
        "right."
        for name, table in there.items()
        if name in own_shares and not np.array_equal(own_shares[name], table.counts)
    ]


def _line(text: Any) -> str:
    """Return a text of somebody else as one line, with control characters replaced."""
    line = text if isinstance(text, str) else quote(text)
    return "".join(field if field.isprintable() else "\N{REPLACEMENT CHARACTER}" for field in line[:_LONGEST])
