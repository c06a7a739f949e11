"""Collecting the votes: of teachers trained on shards, or of every record as a teacher."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.data.checksummed import array_from, digest_of_json, find_checksummed, npy, write_checksummed
from ostrakon.data.domain import Domain
from ostrakon.data.files import private_folder
from ostrakon.data.labels import of_set_numbers
from ostrakon.data.object_store import StoredFolder
from ostrakon.estimators.choices import default_teacher, make_teacher
from ostrakon.features import build_graph
from ostrakon.features.cells import CellFeatures, PairMap
from ostrakon.features.labels import LabelMap
from ostrakon.features.moments import FEW_CLASSES, MomentMap, worth_their_noise
from ostrakon.features.rowwise import row_count, take_rows
from ostrakon.features.sums import SumMap
from ostrakon.mechanisms import LabelsGNMax, QuantityGNMax
from ostrakon.options.options import Options, is_auto
from ostrakon.planning.choices import refuse_teacher_options
from ostrakon.planning.defaults import MOST_PER_RECORD
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.private_data import PrivateData, PrivateTable
from ostrakon.run.stages.features import View
from ostrakon.teachers import TeacherStore, train_on_shards
from ostrakon.teachers.blocks import Block
from ostrakon.teachers.cells import collect_cells
from ostrakon.teachers.engines import LOCAL, engine_in_use
from ostrakon.teachers.gathering import Parts
from ostrakon.teachers.one_teacher import ForEachLabel, fingerprint_of
from ostrakon.teachers.per_record import collect_per_record, nearest
from ostrakon.validation import InvalidInput
from ostrakon.votes import FINE_STEPS, BoundedVotes, IntArray, LabelVotes, Moments, SplitVotes, Votes


def collect(
    plan: Plan,
    private: PrivateData,
    view: View,
    queries: IntArray,
    options: Options,
    *,
    progress: bool = False,
    store: TeacherStore | None = None,
    folder: Path | StoredFolder | None = None,
    engine: str = LOCAL,
    cache: dict[str, Any] | None = None,
) -> tuple[Votes, Any]:
    """Return (the votes on the chosen public rows, their teachers). Both private.

    options.smooth: each teacher's predictions are first smoothed over the neighbour graph of the public rows: a
    function of that teacher and of public data, so the guarantee is the same. store, folder: where teachers and shards
    are stored. engine: where teachers are trained (`ostrakon.teachers.engines`), set by the caller. cache: as of
    `transform_of`, for per-record teachers, who are not chosen, smoothed or stored: None.
    """
    if plan.per_record:
        refuse_teacher_options(teacher=options.teacher, smooth=options.smooth)
        if isinstance(view.fitted, CellFeatures):
            return _cell_votes(plan, private, view.fitted.domain, seed=options.seed, folder=folder), None
        if isinstance(folder, StoredFolder) and engine_in_use() is None:
            # Only this process reads shards of users and features.
            folder = folder.scratch
        features_folder = folder.with_name("features") if isinstance(folder, Path) else None
        transform = transform_of(view, features_folder, cache)
        query_features = view.public[queries]
        settings: Any = {
            "classes": plan.classes,
            "units": plan.teachers,
            "max_contributions": plan.mechanism.contribution_bound,
            "moments": moment_map(plan, view, queries),
            "weights": [level.weight for level in plan.levels],
            "progress": progress,
        }
        return collect_per_record(
            rows_of(private, transform, seed=options.seed, folder=folder), query_features, **settings
        ), None
    teachers = teachers_of(plan, private, view, options, progress=progress, store=store, folder=folder, engine=engine)
    if plan.labels is not None:
        return label_votes(teachers.predict(view.public[queries], progress=progress), plan.labels), teachers
    return votes_on(teachers, view, queries, classes=plan.classes, smooth=options.smooth, progress=progress), teachers


def rows_of(
    private: PrivateData, transform: Callable[[Any], Any], *, seed: int, folder: Path | StoredFolder | None
) -> Iterable[Block] | Parts:
    """Return private rows by unit, read here, or by the workers of the engine in use."""
    if folder is not None and isinstance(private, PrivateTable) and engine_in_use() is not None:
        parts_folder = folder.folder if isinstance(folder, StoredFolder) else folder
        return Parts(parts=private.parts_by_unit(seed=seed, folder=folder), transform=transform, folder=parts_folder)
    local_folder: Any = folder.scratch if isinstance(folder, StoredFolder) else folder
    return private.by_unit(seed=seed, transform=transform, folder=local_folder)


def _cell_votes(plan: Plan, private: PrivateData, domain: Domain, *, seed: int, folder: Any) -> BoundedVotes:
    local_folder: Any = folder.scratch if isinstance(folder, StoredFolder) else folder
    blocks = private.by_unit(seed=seed, transform=domain.codes, folder=local_folder)
    return collect_cells(
        blocks, sizes=domain.sizes, classes=plan.classes, units=plan.teachers, pairs=pair_map(plan, domain)
    )


def pair_map(plan: Plan, domain: Domain) -> PairMap | None:
    """Return the pairs of columns that a run without public rows counts; None for none."""
    if plan.mechanism.moment_noise is None:
        return None
    return PairMap(sizes=domain.sizes, pairs=domain.pairs, classes=plan.classes)


def require_engine_fits(engine: str, private: PrivateData, *, described: bool) -> None:
    """Refuse an engine that would receive private rows, or no work. Errors: `InvalidInput`.

    described: whether the columns are described instead of public rows.
    """
    if engine != LOCAL and described:
        raise InvalidInput(
            "engine cannot be used if columns are described: their cells are counted on this machine; leave the "
            "engine out."
        )
    if engine != LOCAL and not isinstance(private, PrivateTable):
        raise InvalidInput(
            "engine needs a private table on the disk: its workers receive positions of rows, never rows, and "
            "these are in memory; leave the engine out."
        )


def sees_rows(plan: Plan, private: PrivateData) -> str | None:
    """Return the engine in use if its workers read private rows: of trained teachers, or of a table on the disk."""
    return engine_in_use() if not plan.per_record or isinstance(private, PrivateTable) else None


def known_totals(private: PrivateData, view: View, queries: IntArray) -> IntArray | None:
    """Return the number of votes on each query, (queries,), if it is public; else None.

    It is if only labels are protected and every record votes once, on the nearest query: features are then public.
    """
    if private.protects != "labels" or private.unit != "record":
        return None
    return np.bincount(nearest(view.public, view.public[queries]), minlength=len(queries))


def teachers_of(
    plan: Plan,
    private: PrivateData,
    view: View,
    options: Options,
    *,
    progress: bool = False,
    store: TeacherStore | None = None,
    folder: Path | StoredFolder | None = None,
    engine: str = LOCAL,
) -> Any:
    """Return the plan's teachers, trained on shards or read from the store. Private. Arguments as in `collect`."""
    default = default_teacher(view.name if plan.labels is None else "table")
    choice = default if is_auto(options.teacher) else options.teacher
    # Features are private, so workers do not store them in their own folders.
    features_folder = folder.with_name("features") if isinstance(folder, Path) else None
    transform = transform_of(view, features_folder)
    where: Any = {"seed": options.seed, "transform": transform, "folder": folder}
    estimator = make_teacher(choice, public=view.public)
    if plan.labels is not None:
        if hasattr(estimator, "train_on_shards"):
            raise InvalidInput(
                f"teacher must be a classifier as scikit-learn's if rows have several labels, got "
                f"{type(estimator).__name__}, which trains all teachers its own way."
            )
        estimator = ForEachLabel(estimator, plan.labels)
    if engine != LOCAL and hasattr(estimator, "train_on_shards"):
        raise InvalidInput(
            f"engine spreads scikit-learn's classifiers, and {type(estimator).__name__} trains all teachers its own "
            "way on one machine; name another teacher, or leave the engine out."
        )
    return train_on_shards(
        estimator,
        private.shards(plan.teachers, classes=plan.classes if plan.labels is None else 2**plan.labels, **where),
        store=store,
        seed=options.seed,
        n_jobs=options.jobs,
        progress=progress,
    )


def votes_on(teachers: Any, view: View, queries: IntArray, *, classes: int, smooth: bool, progress: bool) -> Votes:
    """Return the votes of trained teachers on the chosen public rows. Private."""
    if not smooth:
        return Votes.from_predictions(teachers.predict(view.public[queries], progress=progress), classes=classes)
    graph = build_graph(view.public)
    predictions = teachers.predict(view.public, progress=progress)
    return Votes.from_predictions(graph.smooth(predictions, classes=classes, rows=queries), classes=classes)


def label_votes(predictions: IntArray, labels: int) -> Votes:
    """Return votes against and for every label of every row, row after row. Private.

    predictions: sets of labels as numbers, (rows, teachers).
    """
    if (predictions < 0).any():
        raise InvalidInput("Every teacher must vote on every label, and one without rows abstains.")
    votes = of_set_numbers(predictions, labels).sum(axis=1).reshape(-1)
    return Votes(np.column_stack([predictions.shape[1] - votes, votes]))


def moment_map(plan: Plan, view: View, queries: IntArray) -> MomentMap | SumMap | LabelMap | None:
    """Return the map from features to the sums that a plan's mechanism releases; None if it releases none.

    Sums by class have as many directions as exceed their noise, a public number; with embeddings and many classes also
    nearness to the queries. Few classes are centred, unless records have levels of consent.
    """
    noise = plan.mechanism.moment_noise
    if isinstance(plan.mechanism, LabelsGNMax):
        sum_map = SumMap.of(view.public, linear=plan.mechanism.linear)
        return LabelMap(sum_map=sum_map, labels=plan.classes, max_labels=plan.mechanism.max_labels)
    if isinstance(plan.mechanism, QuantityGNMax):
        span = (0, FINE_STEPS) if plan.narrowed is None else plan.narrowed
        return SumMap.of(view.public, linear=plan.mechanism.linear, span=span)
    if noise is None:
        return None
    many = view.embedded and plan.classes > FEW_CLASSES
    centres = view.public[queries[:MOST_PER_RECORD]] if many else None
    classes = None if plan.levels else plan.classes
    sums = MomentMap.of(view.public, most=worth_their_noise(plan.teachers, noise), centres=centres, classes=classes)
    if plan.mechanism.parameters().get("centred_classes", sums.classes) != sums.classes:
        raise InvalidInput(f"The sums of features must be centred over all classes, as {plan.mechanism!r} says.")
    return sums


def table_of(votes: Votes) -> IntArray:
    """Return the stored form of votes: their counts and, below them, the sums of features, if there are any."""
    moments = votes.moments if isinstance(votes, BoundedVotes) else None
    return votes.counts if moments is None else np.concatenate([votes.counts, moments.counts])


def votes_from(plan: Plan, table: ArrayLike) -> Votes:
    """Return the votes of a run from their stored form (`table_of`)."""
    bound, rows = plan.mechanism.contribution_bound, np.asarray(table)
    if bound is None:
        return Votes(rows)
    kind = SplitVotes if isinstance(plan.mechanism, QuantityGNMax) or plan.levels else BoundedVotes
    kind = LabelVotes if isinstance(plan.mechanism, LabelsGNMax) else kind
    votes = kind(rows[: plan.queries], teachers=plan.teachers, max_contributions=bound)
    if plan.mechanism.moment_noise is not None:
        votes.moments = Moments(rows[plan.queries :], teachers=plan.teachers)
    return votes


_BLOCK_ROWS = 512
_FEATURES = "features"


def transform_of(view: View, folder: Path | None, cache: dict[str, Any] | None = None) -> Callable[[Any], Any]:
    """Return the transform of private rows to features; a frozen encoder's are cached in `folder`, or else in `cache`.

    Guarantee: as `Representation.transform`; a damaged cache file is computed again.
    """
    encoder, transform = view.representation.encoder, partial(view.representation.transform, private=True)
    if (folder is None and cache is None) or encoder is None or not encoder.frozen:
        return transform
    return CachedTransform(
        transform=transform,
        folder=folder,
        view_digest=fingerprint_of(view.public),
        cache={} if cache is None else cache,
    )


@dataclass(frozen=True, kw_only=True)
class CachedTransform:
    """A function of rows whose results are cached in files of some hundred rows, by a checksum of the rows.

    transform: the function. folder: private; None: in `cache`, by the same checksums. view_digest: identifies the
    function.
    """

    transform: Callable[[Any], Any]
    folder: Path | None
    view_digest: str
    cache: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, X: Any) -> Any:
        """Return `transform(X)`."""
        rows = row_count(X)
        blocks = (np.arange(at, min(at + _BLOCK_ROWS, rows)) for at in range(0, rows, _BLOCK_ROWS))
        features = [self._block(take_rows(X, rows_of_block)) for rows_of_block in blocks]
        return np.concatenate(features) if features else self.transform(X)

    def _block(self, X: Any) -> Any:
        belongs = {"rows": fingerprint_of(X), "features": self.view_digest}
        name = f"{digest_of_json(belongs)}.npy"
        if self.folder is None:
            if name not in self.cache:
                self.cache[name] = self.transform(X)
            return self.cache[name]
        path = private_folder(self.folder) / name
        stored = find_checksummed(path, what=_FEATURES)
        if stored is not None and stored.belongs == belongs:
            return array_from(stored.payload)
        features = self.transform(X)
        write_checksummed(path, npy(features), what=_FEATURES, belongs=belongs)
        return features
