"""The public facts of a study, in a folder that everybody reviews before anybody joins."""

import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.data.checksummed import array_from, digest_of_json, npy, read_regular, sha256
from ostrakon.data.files import write_atomically
from ostrakon.features.representation import require_shared
from ostrakon.features.text import reads_text
from ostrakon.mechanisms.summed_gnmax import SUM, SharedGNMax, SummedGNMax
from ostrakon.options.options import AUTO, Options
from ostrakon.options.report_details import ReportDetails
from ostrakon.planning.defaults import require_delta
from ostrakon.planning.plan import Plan
from ostrakon.run.stages.features import View, view_of
from ostrakon.statements.statement import round_up
from ostrakon.study.exchange import EXCHANGES, Exchange, find_exchange, trust_model_of
from ostrakon.study.local_teachers import LocalTeachers, require_short_name
from ostrakon.study.owners import Owner, owners_from, require_reachable
from ostrakon.study.pool import Pool
from ostrakon.validation import InvalidInput, positive, quote, whole
from ostrakon.votes import IntArray

FORMAT = 2
DESCRIPTION = "study.toml"
_LARGEST_DESCRIPTION = 2**24
"""Bytes. A study of 1,000 owners with certificates takes a tenth of it."""
QUERIES = "representatives.npy"
FEATURES = "features.npy"
NOISE = ("sigma2", "max_contributions", "owners_per_person")
NEAR = 1e-5
"""Allowed difference of features between machines, absolute and relative to the largest."""

_HEADER = """\
# A study of several owners, made by ostrakon: public facts alone. Review them, agree on the hash, then join.
# Nothing in this folder may change: a changed one can be neither joined nor finished.

"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """The public facts of a study, as its folder stores them.

    Parameters
    ----------
    folder : pathlib.Path
    hash : str
        SHA-256 of all facts and files. Owners compare it to be sure that they mean the same study.
    target : str
    classes : tuple of str
    exchange : Exchange
    mechanism : SummedGNMax
    epsilon : float above 0
    delta : float in (0, 1)
    owners : tuple of Owner
    teachers : LocalTeachers or None
        What every owner trains; None if every person votes.
    representation : str
        A name. Every machine learns the representation from the same public pool and compares its features of the
        representatives, so that no program is sent.
    student : str
        A name.
    seed : int
    public : pathlib.Path
        The file of the pool.
    pool_checksum : str
    queries : numpy.ndarray of int64
        Positions of the representatives in the pool.
    features : numpy.ndarray of float64, shape (queries, features)
        Their features.
    tuned : mapping of str to str
        What each parameter was chosen on.
    report : ReportDetails
        Who releases the student and what for.
    """

    folder: Path
    hash: str
    target: str
    classes: tuple[str, ...]
    exchange: Exchange
    mechanism: SummedGNMax
    epsilon: float
    delta: float
    owners: tuple[Owner, ...]
    teachers: LocalTeachers | None
    representation: str
    student: str
    seed: int
    public: Path
    pool_checksum: str
    queries: IntArray
    features: NDArray[np.float64]
    tuned: Mapping[str, str]
    report: ReportDetails

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> "Study":
        """Read and verify the study in a folder.

        Parameters
        ----------
        folder : str or path-like

        Returns
        -------
        Study

        Raises
        ------
        InvalidInput
            If there is no study, or anything in it has changed since it was created.
        """
        path = Path(folder)
        try:
            content = tomllib.loads(read_regular(path / DESCRIPTION, largest=_LARGEST_DESCRIPTION).decode("utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise InvalidInput(
                f"{path} must be a study with {DESCRIPTION}, and it cannot be read ({reason})."
            ) from None
        own = content.pop("ostrakon", None)
        if not isinstance(own, dict) or own.get("format") != FORMAT:
            raise InvalidInput(f"{path / DESCRIPTION} must be written by this version of ostrakon, format {FORMAT}.")
        try:
            digest = digest_of_json(content)
        except TypeError:
            raise InvalidInput(f"{path / DESCRIPTION} must hold words and numbers, and it holds dates.") from None
        if own.get("hash") != digest:
            raise InvalidInput(f"{path / DESCRIPTION} was changed after the study was created; get the original one.")
        listed = content.get("files")
        facts = content.get("study")
        if not isinstance(listed, dict) or not isinstance(facts, dict) or not isinstance(facts.get("public"), str):
            raise InvalidInput(f"{path / DESCRIPTION} must hold the facts of a study, with [study] and [files].")
        if set(listed) != {facts["public"], QUERIES, FEATURES}:
            raise InvalidInput(f"{path / DESCRIPTION} must list the pool, {QUERIES} and {FEATURES}, and nothing else.")
        for name, checksum in listed.items():
            if Path(name).name != name:
                raise InvalidInput(f"{path / DESCRIPTION} must name files beside it, got {name!r}.")
            try:
                actual = sha256(read_regular(path / name))
            except OSError:
                raise InvalidInput(f"{path / name} is missing from the study; get the original one.") from None
            if actual != checksum:
                raise InvalidInput(f"{path / name} was changed after the study was created; get the original one.")
        try:
            _require_facts(facts, content["noise"])
            for name in ("tuned", "versions"):
                _require_texts(name, content[name])
            study = cls._from(path, own["hash"], content)
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"{path / DESCRIPTION} must hold the facts of a study, and it does not: {error!r}."
            ) from None
        study.require_honest()
        if study.exchange.summed:
            require_reachable(study.owners)
        return study

    @classmethod
    def _from(cls, path: Path, digest: str, content: Mapping[str, Any]) -> "Study":
        facts = content["study"]
        exchange = find_exchange(facts["exchange"])
        owners = owners_from(content["owner"], source=str(path / DESCRIPTION))
        return cls(
            folder=path,
            hash=digest,
            target=facts["target"],
            classes=tuple(facts["classes"]),
            exchange=exchange,
            mechanism=exchange.mechanism(owners=len(owners), **content["noise"]),
            epsilon=facts["epsilon"],
            delta=facts["delta"],
            owners=owners,
            teachers=LocalTeachers.of_dict(content["teachers"]) if "teachers" in content else None,
            representation=facts["representation"],
            student=require_short_name("student", facts["student"]),
            seed=facts["seed"],
            public=path / facts["public"],
            pool_checksum=content["files"][facts["public"]],
            queries=_positions(array_from(read_regular(path / QUERIES))),
            features=_features(array_from(read_regular(path / FEATURES))),
            tuned=content["tuned"],
            report=ReportDetails(**content.get("report", {})),
        )

    def require_honest(self) -> None:
        """Refuse facts whose noise does not keep their epsilon, or whose delta is too large: they are false."""
        require_delta(self.delta, sum(owner.people for owner in self.owners), "person")
        if self.teachers is not None and self.mechanism.max_contributions != len(self.queries):
            raise InvalidInput(
                f"{self.folder / DESCRIPTION} must charge trained teachers for all {len(self.queries)} queries, on "
                f"each of which they vote, and it charges {self.mechanism.max_contributions}: do not join it."
            )
        epsilon = self.plan().bound.epsilon
        if not epsilon <= self.epsilon * (1 + 1e-9):
            raise InvalidInput(
                f"{self.folder / DESCRIPTION} says epsilon {self.epsilon:g}, and its noise only keeps "
                f"{round_up(epsilon):.4g}: do not join it."
            )

    def owner(self, name: str, *, given_as: str = "owner") -> Owner:
        """Return the owner of that name, or refuse the name with all names that there are."""
        owner = next((owner for owner in self.owners if owner.name == name), None)
        if owner is None:
            names = ", ".join(owner.name for owner in self.owners)
            raise InvalidInput(f"{given_as} must be one of this study's, {names}, got {quote(name)}.")
        return owner

    @property
    def text(self) -> bool:
        """Whether columns of free text are read."""
        return reads_text(self.representation)

    @cached_property
    def pool(self) -> Pool:
        """The public rows. Their file must not have changed since the study was read."""
        pool = Pool.read(self.public, target=self.target, text=self.text)
        if sha256(read_regular(self.public)) != self.pool_checksum:
            raise InvalidInput(f"{self.public} was changed while the study was read; get the original one.")
        return pool

    def view(self) -> View:
        """Return what the learners see of a row, learned from the pool on this machine.

        Raises
        ------
        InvalidInput
            If this machine computes other features of the representatives than the machine that created the study.
        """
        view = view_of(self.pool.X, self.representation, seed=self.seed)
        self.require_view(view)
        return view

    def require_view(self, view: View) -> None:
        """Refuse a view that is not the study's: see `view`."""
        pool = np.asarray(view.public, np.float64)
        seen = pool[self.queries] if self.queries.size and self.queries.max() < len(pool) else pool[:0]
        size = float(np.abs(self.features).max(initial=1.0))
        if seen.shape != self.features.shape or not np.allclose(seen, self.features, rtol=0, atol=NEAR * size):
            raise InvalidInput(
                "This machine makes other features of the public rows than the one that created the study; install the "
                f"versions that {self.folder / DESCRIPTION} names."
            )

    def mechanism_of(self, owners: int) -> SummedGNMax:
        """Return the mechanism if only this number of owners hand over a table. Each share of the noise stays the same.

        Parameters
        ----------
        owners : int

        Returns
        -------
        SummedGNMax

        Raises
        ------
        InvalidInput
            If the remaining shares of the noise do not keep the study's epsilon.
        """
        own, gone = self.mechanism, len(self.owners) - owners
        if not isinstance(own, SharedGNMax) or not gone:
            return own
        dropouts = own.dropouts
        if own.released == SUM:
            dropouts -= gone
            if dropouts < 0:
                raise InvalidInput(
                    f"without must name at most {own.dropouts} owners that dropped out, as the study says (dropouts), "
                    f"got {gone}: the noise of the others alone would not keep epsilon {self.epsilon:g}; wait for all, "
                    "or create a study with more dropouts, at the price of more noise."
                )
        sigma2 = own.sigma2 * float(np.sqrt(owners / len(self.owners)))
        return replace(own, owners=owners, dropouts=dropouts, sigma2=sigma2)

    @property
    def trust_model(self) -> str:
        """Who sees what and who has to be trusted, in words, without a final full stop."""
        return trust_model_of(self.exchange, self.mechanism)

    def voters(self, owners: Iterable[Owner]) -> int:
        """Return the number of voters of these owners: the teachers that they train, or the announced people."""
        return sum(owner.people if self.teachers is None else self.teachers.number(owner) for owner in owners)

    def plan(self, *, teachers: int | None = None, owners: int | None = None) -> Plan:
        """Return the plan that the facts fix.

        Parameters
        ----------
        teachers : int, optional
            Number of voters. Default: `voters` of all owners.
        owners : int, optional
            Number of owners that take part. Default: all.

        Returns
        -------
        Plan
        """
        mechanism = self.mechanism if owners is None else self.mechanism_of(owners)
        return Plan(
            teachers=self.voters(self.owners) if teachers is None else teachers,
            classes=len(self.classes),
            mechanism=mechanism,
            interactive=False,
            queries=len(self.queries),
            max_answers=None,
            delta=self.delta,
            bound=worst_case(mechanism, queries=len(self.queries), delta=self.delta),
            tuned=dict(self.tuned),
            trained_by_owners=self.teachers is not None,
        )

    def options(self, **others: Any) -> Options:
        """Return the options of a run by this study, with its representatives as queries and its learners."""
        own: dict[str, Any] = {"representation": self.representation, "student": self.student, "seed": self.seed}

        def chosen(features: Any, budget: int) -> IntArray:
            return self.queries

        strategy: Any = chosen
        teacher = AUTO if self.teachers is None else self.teachers.teacher
        return Options(query_strategy=strategy, teacher=teacher, **own, **others)

    def prices(self) -> list[tuple[str, float, float]]:
        """Return the price of every exchange at this epsilon.

        Returns
        -------
        list of tuple of (str, float, float)
            The exchange, the standard deviation of its noise on the sum in votes, and its ratio to that of a trusted
            aggregator.
        """
        own, owners = self.mechanism, len(self.owners)
        bounds = {"max_contributions": own.max_contributions, "owners_per_person": own.owners_per_person}
        sizes: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "queries": len(self.queries)}
        noises: dict[str, float] = {}
        for name, exchange in EXCHANGES.items():
            if exchange.summed and owners < 2:
                continue
            others = {fact: getattr(own, fact) for fact in exchange.facts if name == self.exchange.name}
            shape = exchange.mechanism(owners=owners, sigma2=10.0, **bounds, **others)
            noises[name] = calibrate(shape, **sizes).vote_noise or 0.0
        return [(name, noise, noise / noises["trusted"]) for name, noise in noises.items()]

    def price(self) -> str:
        """Return the noise of the sum in words, compared with that of a trusted aggregator."""
        times = next(times for name, _, times in self.prices() if name == self.exchange.name)
        ratio = "" if times == 1 else f", {times:.2f} times what a trusted aggregator would need"
        noise = f"standard deviation {self.mechanism.sigma2:.4g} votes on every count of the sum of all tables{ratio}"
        return f"{noise}; {self.shares_needed()}" if self.exchange.summed else noise

    def shares_needed(self) -> str:
        """Return how many owners' noise has to be enough, and what that costs, in words, for an exchange that sums."""
        own = self.mechanism
        assert isinstance(own, SharedGNMax)
        n, t, d = own.owners, own.colluders, own.dropouts
        lost = f"{t} of {n} owners may collude" + (f" and {d} drop out" if d else "")
        why = f"sqrt({n}/{n - t - d}) = {math.sqrt(n / (n - t - d)):.2f} times as much as if none did"
        return f"{lost}: {why}"


def _require_facts(facts: Mapping[str, Any], noise: Mapping[str, Any]) -> None:
    labels: Any = facts["classes"]
    texts = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not texts or len(set(labels)) < max(2, len(labels)):
        raise InvalidInput(f"classes must be at least 2 different labels, got {quote(labels)}.")
    for name in ("target", "public"):
        if not isinstance(facts[name], str) or not facts[name]:
            raise InvalidInput(f"{name} must be a name, got {quote(facts[name])}.")
    names = (*NOISE, *find_exchange(facts["exchange"]).facts)
    if set(noise) != set(names):
        raise InvalidInput(f"[noise] must hold {', '.join(names)}, and nothing else, got {', '.join(noise)}.")
    require_shared(facts["representation"])
    whole("seed", facts["seed"])
    positive("epsilon", facts["epsilon"])


def _require_texts(name: str, values: Any) -> None:
    if not isinstance(values, dict) or not all(isinstance(text, str) for text in values.values()):
        raise InvalidInput(f"[{name}] must hold words, got {quote(values)}.")


def _positions(queries: NDArray[Any]) -> IntArray:
    integers = queries.ndim == 1 and queries.dtype == np.int64
    if not integers or queries.min(initial=0) < 0 or np.unique(queries).size < queries.size:
        raise InvalidInput(f"{QUERIES} must hold different positions in the pool.")
    return queries


def _features(features: NDArray[Any]) -> NDArray[np.float64]:
    if features.dtype != np.float64 or features.ndim < 2 or not np.isfinite(features).all():
        raise InvalidInput(f"{FEATURES} must hold finite numbers, got {features.dtype} of shape {features.shape}.")
    return features


def write_study(
    folder: Path,
    *,
    facts: Mapping[str, Any],
    noise: Mapping[str, Any],
    owners: tuple[Owner, ...],
    teachers: LocalTeachers | None,
    tuned: Mapping[str, str],
    versions: Mapping[str, str],
    public: bytes,
    queries: IntArray,
    features: NDArray[np.float64],
    report: ReportDetails,
) -> None:
    """Write what `Study.read` reads into an empty folder. The hash covers all of it."""
    files = {
        facts["public"]: public,
        QUERIES: bytes(npy(np.asarray(queries, np.int64))),
        FEATURES: bytes(npy(np.asarray(features, np.float64))),
    }
    for name, data in files.items():
        write_atomically(folder / name, data, mode=0o644)
    content: dict[str, Any] = {
        "study": dict(facts),
        "noise": dict(noise),
        "tuned": dict(tuned),
        "versions": dict(versions),
        "files": {name: sha256(data) for name, data in files.items()},
        "owner": [owner.as_dict() for owner in owners],
        **({} if teachers is None else {"teachers": teachers.as_dict()}),
        **({"report": report.as_toml()} if report.as_toml() else {}),
    }
    own = {"format": FORMAT, "hash": digest_of_json(content)}
    write_atomically(folder / DESCRIPTION, _HEADER + tomli_w.dumps({"ostrakon": own, **content}), mode=0o644)
