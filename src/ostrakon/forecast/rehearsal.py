"""The rehearsal: the whole run, played on public rows that stand in for the private ones."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor
from threadpoolctl import threadpool_limits

from ostrakon.data.quantity import Quantity
from ostrakon.data.target import Target
from ostrakon.estimators.choices import is_images
from ostrakon.features.representation import Representation, is_embedded, learn_representation
from ostrakon.features.rowwise import take_rows
from ostrakon.forecast.interval import MEASURES, Forecast, bounds_of
from ostrakon.forecast.offers import Offer, asked_for
from ostrakon.forecast.public_rows import FEWEST_TO_REHEARSE, PublicRows
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.progress import Report, in_phase, reporting, showing
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.features import View, view_of
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import released_counts
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.boosting import MOST_BINS, Boosting
from ostrakon.students.label_student import thresholds_of
from ostrakon.students.measures import measures_of_labels, measures_of_quantity
from ostrakon.students.selection import RACED, Candidate, Selection, select, taught
from ostrakon.teachers.parallel import spread
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import BoundedVotes, IntArray, Moments, Votes

REPETITIONS = 5
_ONE_AT_A_TIME = threading.Lock()
"""A rehearsal limits the threads of the whole process, and has its filters of warnings."""
HOLDOUT, PRIVATE = 1 / 4, 3 / 8
"""Shares of the public rows that are held out, and that play the private side; all others play the pool."""


Scores = tuple[float, ...]
"""Of one model, each of the `MEASURES` of what is predicted."""
WITHOUT_NOISE: dict[Target, str] = {
    "classes": "gradient boosting",
    "quantity": "a random forest",
    "labels": "a random forest (with thresholds at the rates of its labels)",
}
"""What plans are compared with: models that learn without noise."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Results of the repetitions of a run.

    Parameters
    ----------
    forecasts : tuple of Forecast
        One of each measure for every offer.
    constant : tuple of float
        Each measure of always the most frequent class, the mean of a quantity, or the most frequent answer on each
        label.
    without_noise : tuple of tuple of float
        Of each repetition each measure of a model without noise (`WITHOUT_NOISE`), taught by the rows that play the
        private side.
    simulated : bool
        Whether labels were those of simulated worlds.
    failures : dict
        From (epsilon, mechanism) to the reason why there is no forecast.
    pool : int
        Number of rows that play the public pool: no more of them can be asked about.
    """

    forecasts: tuple[Forecast, ...]
    constant: Scores
    without_noise: tuple[Scores, ...]
    simulated: bool
    pool: int
    failures: dict[tuple[float, str], str]

    @property
    def not_private(self) -> Scores:
        """The mean of each measure without noise."""
        return _means(self.without_noise)

    def lost(self, forecast: Forecast) -> tuple[float, float, float]:
        """By how much accuracies are below those without noise: mean, least and most of the repetitions."""
        lost = np.subtract([accuracy for (accuracy,) in self.without_noise], forecast.scores)
        return float(lost.mean()), float(lost.min()), float(lost.max())

    def of(self, offer: Offer) -> tuple[Forecast, ...]:
        """The forecasts of an offer, one of each measure; () without any."""
        asked = offer.epsilon, offer.mechanism
        return tuple(one for one in self.forecasts if (one.epsilon, one.mechanism) == asked)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scene:
    """One repetition: features are learned once, and so are the queries, for all epsilons.

    rows, labels: those that play the records, as features already; as_it_is: the representation that leaves them so.
    drawn: the row that each record is.
    """

    learning: Learning
    as_it_is: Representation
    rows: Any
    labels: NDArray[Any]
    drawn: IntArray
    options: Options
    asked: dict[int, IntArray]

    @classmethod
    def of(
        cls, shown: PublicRows, view: View, y: NDArray[Any], *, pool: IntArray, private: IntArray, options: Options
    ) -> _Scene:
        """view: of all public rows, whose features are computed once for all scenes."""
        own = dataclasses.replace(view, public=view.public[pool])
        learning = Learning(X_public=take_rows(shown.X, pool), view=own, student=options.student, seed=options.seed)
        different, drawn = np.unique(private, return_inverse=True)
        seen = view.public[different]
        as_it_is = learn_representation("raw", seen)
        players: Any = {"rows": seen, "labels": y[different], "drawn": drawn}
        return cls(learning=learning, as_it_is=as_it_is, options=options, asked={}, **players)

    @property
    def pool(self) -> int:
        """Number of rows that play the public pool."""
        return len(self.learning.view.public)

    def queries(self, count: int) -> IntArray:
        """The public rows to ask about; of representatives each list begins every longer one, so one will do."""
        known = max(self.asked, default=0)
        if self.options.query_strategy == "representatives" and known >= count:
            return self.asked[known][:count]
        if count not in self.asked:
            self.asked[count] = queries_of(
                self.learning.view, count, strategy=self.options.query_strategy, seed=self.options.seed
            )
        return self.asked[count]

    def play(self, plan: Plan, *, rng: np.random.Generator, student: str | None = None) -> Selection:
        """Votes, noise and student of one run. student: the candidate that learns, where none is to be chosen."""
        queries = self.queries(plan.rows)
        votes = self._votes(plan, queries)
        answers = answer_queries(plan, votes, queries=queries, learning=self.learning, log=Log(), rng=rng)
        if plan.target != "classes" or answers.counts is None:
            return fit_student(self.learning, plan, answers, queries)
        released = released_counts(self.learning, plan, answers, queries)
        moments = answers.moments is not None
        sizes = {"classes": plan.classes, "queries": plan.queries}
        known = [_quick(one) for one in self.learning.candidates(counts=True, moments=moments, **sizes)]
        known = [one for one in known if one.name == student] or known
        if len(known) == 1:
            fitted = taught(known[0], known[0].student, self.learning.rows(known[0]), released)
            return Selection(chosen=known[0], student=fitted, agreement={})
        # Parts after which most candidates are left out tell nearly as much as all of them.
        tried = 1 if any(one.takes_rows for one in known) else RACED
        return select(
            known, self.learning.X_public, self.learning.view.public, released, tried=tried, seed=self.options.seed
        )

    def _votes(self, plan: Plan, queries: IntArray) -> Votes:
        """The votes of the records; of rows that are drawn often, those of per-record teachers are counted once."""
        view = dataclasses.replace(self.learning.view, representation=self.as_it_is)

        def cast(rows: IntArray) -> Votes:
            # Split by place: by content, all draws of a row would be one teacher's.
            private = Rows(X=self.rows[rows], y=self.labels[rows], fixed=True)
            return collect(plan, private, view, queries, self.options)[0]

        if not plan.per_record:
            return cast(self.drawn)
        counts, sums, often, votes = 0, None, np.bincount(self.drawn), None
        # Twice as many votes of the rows in question each time: a few calls instead of one for each number of draws.
        for times in (1 << bit for bit in range(int(often.max()).bit_length()) if (often >> bit & 1).any()):
            votes = cast(np.flatnonzero(often & times))
            assert isinstance(votes, BoundedVotes)
            counts = counts + times * votes.counts.astype(np.int64)
            if votes.moments is not None:
                sums = (0 if sums is None else sums) + times * votes.moments.counts
        assert votes is not None
        every = type(votes)(counts, teachers=plan.teachers, max_contributions=votes.max_contributions)
        every.moments = None if sums is None else Moments(sums, teachers=plan.teachers)
        return every


def _quick(candidate: Candidate) -> Candidate:
    """What is tried in the place of a candidate of features, which says nearly the same; pictures' networks do not."""
    if candidate.takes_rows or candidate.tried is None:
        return candidate
    return dataclasses.replace(candidate, student=candidate.tried, tried=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stage:
    """One repetition, with all its rows and with half of them.

    small: half of the pool, and private rows drawn from half of the rows. holdout, test, features, right: rows that are
    held out, by number, as they are, their features, and what is right there. constant, without_noise: as of
    `Rehearsal`, in this repetition.
    """

    shown: PublicRows
    scene: _Scene
    small: _Scene
    holdout: IntArray
    test: Any
    features: NDArray[np.float32]
    right: NDArray[Any]
    constant: Scores
    without_noise: Scores

    @classmethod
    def of(
        cls, shown: PublicRows, view: View, rows: IntArray, repetition: int, options: Options, *, records: int
    ) -> _Stage:
        """rows: with labels, or all rows, of which labels are then simulated. view: of all public rows."""
        rng = np.random.default_rng([options.seed, repetition])
        simulated = not len(shown.labelled)
        y = simulated_labels(view.public, classes=len(shown.classes), rng=rng) if simulated else shown.y
        learned = shown.read_by.steps(np.nan_to_num(y)) if isinstance(shown.read_by, Quantity) else y
        holdout, players, pool = _split(rows, repetition, seed=options.seed)
        own = dataclasses.replace(options, seed=int(rng.integers(2**31)), jobs=1)
        private = players[rng.integers(len(players), size=records)]
        scene = _Scene.of(shown, view, learned, pool=pool, private=private, options=own)
        few = players[: len(players) // 2]
        fewer = few[rng.integers(len(few), size=records)]
        small = _Scene.of(shown, view, learned, pool=pool[: max(2, len(pool) // 2)], private=fewer, options=own)
        right, features = y[holdout], view.public[holdout]
        return cls(
            shown=shown,
            scene=scene,
            small=small,
            holdout=holdout,
            test=take_rows(shown.X, holdout),
            features=features,
            right=right,
            constant=_scores(shown, right, *_constant(shown, y[players], len(right))),
            without_noise=_scores(
                shown, right, *_without_noise(shown, view.public[players], y[players], features, seed=own.seed)
            ),
        )

    def scores(
        self, planned: Callable[[int], Plan], *, rng: np.random.Generator, student: str | None
    ) -> tuple[Scores, str]:
        """Measures on the held-out rows, and who learned. planned: the plan for a pool; student: as of `play`."""
        selection = self.scene.play(planned(self.scene.pool), rng=rng, student=student)
        return self._measured(selection), selection.chosen.name

    def of_half(self, planned: Callable[[int], Plan], *, rng: np.random.Generator, student: str) -> Scores:
        """Measures with half of all rows; per-record runs have the same student."""
        plan = planned(self.small.pool)
        return self._measured(self.small.play(plan, rng=rng, student=student if plan.per_record else None))

    def _measured(self, selection: Selection) -> Scores:
        seen = self.test if selection.chosen.takes_rows else np.asarray(self.features, np.float64)
        said, read_by = selection.student.predict(seen), self.shown.read_by
        if isinstance(read_by, Quantity):
            return _scores(self.shown, self.right, read_by.values(said))
        likely = None if read_by is None else selection.student.predict_proba(seen)
        return _scores(self.shown, self.right, said, likely)


def rehearse(
    shown: PublicRows,
    offers: Sequence[Offer],
    options: Options,
    *,
    records: int,
    repetitions: int = REPETITIONS,
    progress: bool | Report = False,
) -> Rehearsal:
    """Play every offer that is not refused on public rows: features, queries, votes, noise, student, held-out rows.

    In each repetition the labelled public rows are split: some are held out, some play the private side (drawn with
    replacement up to `records`), the others are the pool. Students of noisy counts are chosen in the first
    repetition of an offer, by some of the parts that a run holds out. What half of the rows gives less is found out at
    the most queries of a mechanism. Without labels all rows get those of a simulated world, of another one in each
    repetition. Deterministic under the seed of `options`; noise is seeded, because nothing here is private.

    Parameters
    ----------
    shown : PublicRows
    offers : sequence of Offer
    options : Options
    records : int
        Number of private records of the real run.
    repetitions : int, default 5
        At least 2.
    progress : bool or callable
        As of `ostrakon.progress.reporting`, in plans played.

    Raises
    ------
    InvalidInput
        For fewer than 2 repetitions or too few rows.
    """
    repetitions = whole("repetitions", repetitions, at_least=2)
    rows = _enough_rows(shown)
    with showing(bool(progress)), in_phase("public rows"):
        view = view_of(shown.X, options.representation, seed=options.seed)
    given = _Given(
        shown=shown,
        rows=rows,
        view=view,
        offers=tuple(offers),
        options=options,
        records=records,
        plans={},
    )
    total = repetitions * len(offers)
    # Threads share what one process imported, but also the random numbers of networks, and the filters of warnings:
    # scikit-learn's forests reset each other's, and threads of somebody else would restore what they saw meanwhile.
    threads = not is_images(shown.X) and threading.active_count() == 1
    with (
        _ONE_AT_A_TIME,
        reporting(progress, label="Rehearsing", total=total) as report,
        threadpool_limits(1),
        warnings.catch_warnings(record=True) if threads else nullcontext(),
    ):
        report(0, total)
        # Students are chosen in the first repetition; the others need them, and each other not.
        begun = time.perf_counter()
        done = [given.played(0, {}, report=report, total=total)]
        taken, rest = time.perf_counter() - begun, range(1, repetitions)
        play, prefer = partial(given.played, students=done[0].students), "threads" if threads else None
        for one in spread(play, rest, total=len(rest), n_jobs=options.jobs, seconds=taken, prefer=prefer):
            done.append(one)
            report(len(done) * len(offers), total)
    done.sort(key=lambda one: one.repetition)
    failures = {key: why for one in done for key, why in one.failures.items()}
    scores = {number: [one.scores[number] for one in done if number in one.scores] for number in range(len(offers))}
    sizes = {
        "holdout": done[-1].holdout.size,
        "distinct": len(np.unique(np.concatenate([one.holdout for one in done]))),
        "doublings": max(0.0, math.log2(shown.rows / done[-1].pool)),
    }
    return Rehearsal(
        forecasts=tuple(
            _forecast(offers[number], measure, [(all_[at], half[at]) for all_, half in results], **sizes)
            for number, results in scores.items()
            if len(results) == repetitions
            for at, measure in enumerate(MEASURES[shown.target])
        ),
        constant=_means([one.constant for one in done]),
        without_noise=tuple(one.without_noise for one in done),
        simulated=not len(shown.labelled),
        pool=done[-1].pool,
        failures=failures,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Played:
    """What a repetition gave.

    scores: (measures, measures with half of the rows), by the number of the offer. students: who learned.
    """

    repetition: int
    scores: dict[int, tuple[Scores, Scores]]
    students: dict[int, str]
    failures: dict[tuple[float, str], str]
    constant: Scores
    without_noise: Scores
    holdout: IntArray
    pool: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Given:
    """What all repetitions are given: public rows, those to play with, their features, offers and options.

    plans: those that are known already, by mechanism, epsilon and number of rows of the pool.
    """

    shown: PublicRows
    rows: IntArray
    view: View
    offers: tuple[Offer, ...]
    options: Options
    records: int
    plans: dict[tuple[str, float, int], Plan]

    def played(
        self, repetition: int, students: dict[int, str], *, report: Report | None = None, total: int = 0
    ) -> _Played:
        """A repetition. students: who learns, by the number of the offer; the others are chosen here."""
        with threadpool_limits(1):
            stage = _Stage.of(self.shown, self.view, self.rows, repetition, self.options, records=self.records)
            played = _Played(
                repetition=repetition,
                scores={},
                students=dict(students),
                failures={},
                constant=stage.constant,
                without_noise=stage.without_noise,
                holdout=stage.holdout,
                pool=stage.scene.pool,
            )
            gains: dict[str, Scores] = {}
            # The longest list of queries first: it begins with every shorter one.
            longest_first = sorted(range(len(self.offers)), key=lambda number: -_asked(self.offers[number]))
            for index, number in enumerate(longest_first):
                offer = self.offers[number]
                if offer.plan is not None and (not students or number in students):
                    noise = np.random.default_rng([self.options.seed, repetition, number])
                    plans = partial(self._planned, offer.mechanism, offer.epsilon)
                    try:
                        self._one(stage, number, plans, noise, played, gains)
                    except InvalidInput as refused:
                        played.failures[offer.epsilon, offer.mechanism] = str(refused)
                if report is not None:
                    report(index + 1, total)
        return played

    def _planned(self, mechanism: str, epsilon: float, pool: int) -> Plan:
        # As a run of this pool would be planned, at the same teachers and delta; its noise may be for other queries.
        if (mechanism, epsilon, pool) not in self.plans:
            asked = asked_for(self.options, mechanism=mechanism, epsilon=epsilon)
            asked = dataclasses.replace(asked, queries=asked.queries and min(asked.queries, pool))
            embedded = is_embedded(self.options.representation, self.shown.X)
            sizes: dict[str, Any] = {"units": self.records, "pool": pool, "classes": len(self.shown.classes)}
            sizes["target"] = self.shown.target
            self.plans[mechanism, epsilon, pool] = make_plan(asked, **sizes, embedded=embedded)
        return self.plans[mechanism, epsilon, pool]

    def _one(
        self,
        stage: _Stage,
        number: int,
        plans: Callable[[int], Plan],
        noise: np.random.Generator,
        played: _Played,
        gains: dict[str, Scores],
    ) -> None:
        """Play an offer, and add what it gave. gains: what all of the rows give more than half of them."""
        mechanism = self.offers[number].mechanism
        scores, student = stage.scores(plans, rng=noise, student=played.students.get(number))
        played.students[number] = student
        if mechanism not in gains:
            gains[mechanism] = tuple(np.subtract(scores, stage.of_half(plans, rng=noise, student=student)).tolist())
        played.scores[number] = scores, tuple(np.subtract(scores, gains[mechanism]).tolist())


def _enough_rows(shown: PublicRows) -> IntArray:
    """The labelled rows, or all rows if none has a label; refused if they are too few."""
    rows, kind = (shown.labelled, "labelled ") if len(shown.labelled) else (np.arange(shown.rows), "")
    if len(rows) < FEWEST_TO_REHEARSE:
        raise InvalidInput(
            f"public must have at least {FEWEST_TO_REHEARSE} {kind}rows to rehearse a run on, got {len(rows)}."
        )
    return rows


def _forecast(offer: Offer, measure: str, results: list[tuple[float, float]], **sizes: Any) -> Forecast:
    scores, halved = zip(*results, strict=True)
    halved = tuple(np.clip(halved, *bounds_of(measure)).tolist())
    of: Any = {"epsilon": offer.epsilon, "mechanism": offer.mechanism, "measure": measure}
    return Forecast(**of, scores=scores, halved=halved, **sizes)


def _means(scores: Sequence[Scores]) -> Scores:
    return tuple(np.mean(scores, axis=0).tolist())


def _asked(offer: Offer) -> int:
    return 0 if offer.plan is None else offer.plan.rows


def _split(places: IntArray, repetition: int, *, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """(held out, private side, pool): every row is held out before any is so again."""
    rounds = round(1 / HOLDOUT)
    order = np.random.default_rng([seed, repetition // rounds, 1]).permutation(places)
    parts = np.array_split(order, rounds)
    holdout = parts[repetition % rounds]
    rest = np.concatenate([part for number, part in enumerate(parts) if number != repetition % rounds])
    rest = np.random.default_rng([seed, repetition, 2]).permutation(rest)
    players = round(len(places) * PRIVATE)
    return holdout, rest[:players], rest[players:]


def _scores(shown: PublicRows, right: NDArray[Any], said: Any, likely: Any = None) -> Scores:
    """The measures of what a model says. said: classes, values or labels; likely: probabilities of labels."""
    if shown.target == "classes":
        return (float(np.mean(said == right)),)
    if shown.target == "quantity":
        of_values = measures_of_quantity(said, right)
        return of_values.r2 or 0.0, of_values.mean_absolute_error
    of_labels = measures_of_labels(likely, said, right, shown.classes)
    return of_labels.macro_f1, of_labels.micro_f1, 0.5 if of_labels.auc is None else of_labels.auc


def _constant(shown: PublicRows, y: NDArray[Any], rows: int) -> tuple[Any, Any]:
    """(what is said, probabilities of labels), the same for every row. y: of the rows that play the private side."""
    if shown.target == "classes":
        return np.bincount(y).argmax(), None
    same = np.repeat(y.mean(axis=0, keepdims=True), rows, axis=0)
    return (same, None) if shown.target == "quantity" else (np.rint(same), same)


def _without_noise(shown: PublicRows, seen: Any, y: NDArray[Any], test: Any, *, seed: int) -> tuple[Any, Any]:
    """The same of a model (`WITHOUT_NOISE`) that learns from features; of a single class, that class."""
    # As many rows in a leaf as scikit-learn's 20, but so few where rows are few that trees may split at all.
    least = min(20, max(2, len(y) // 20))
    if shown.target == "classes" and len(np.unique(y)) < 2:
        return y[0], None
    if shown.target == "classes":
        steps: Any = {"max_iter": 40, "max_leaf_nodes": 15, "max_bins": MOST_BINS}
        model = Boosting(min_samples_leaf=least, random_state=seed, **steps)
        return model.fit(seen, y).predict(test), None
    said = RandomForestRegressor(min_samples_leaf=2, max_features=1 / 3, random_state=seed).fit(seen, y).predict(test)
    return (said, None) if shown.target == "quantity" else (said >= thresholds_of(said, y.mean(axis=0)), said)


_DIRECTIONS = 40


def simulated_labels(features: NDArray[np.float32], *, classes: int, rng: np.random.Generator) -> IntArray:
    """Class numbers of all rows in one world, (rows,).

    Scores are random sums of cosines along random directions of the standardized features (so a Gaussian process, by
    random Fourier features), with a length scale and a share of unpredictable labels that are themselves drawn: some
    worlds are easy, some are hard. Every class is as likely as in no other knowledge.

    Guarantee: a function of public features and `rng`.
    Source: Rahimi and Recht 2007, random Fourier features.
    """
    points = np.asarray(features, np.float64)
    scale = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    # Of standardized features two rows are about sqrt(2 features) apart.
    length = rng.uniform(0.7, 2.5) * np.sqrt(max(1, (scale > 0).sum()))
    directions = rng.normal(size=(points.shape[1], _DIRECTIONS)) / length
    waves = np.cos(points @ directions + rng.uniform(0, 2 * np.pi, _DIRECTIONS))
    scores = waves @ rng.normal(size=(_DIRECTIONS, classes))
    scores -= scores.mean(axis=0)
    sharp = rng.uniform(1.0, 6.0) / max(float(scores.std()), 1e-12)
    # The largest of scores with Gumbel noise is a draw from their softmax.
    return (sharp * scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int64)
