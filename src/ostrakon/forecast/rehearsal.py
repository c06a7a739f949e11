"""The rehearsal: the whole run, played on public rows that stand in for the private ones."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.quantity import Quantity
from ostrakon.estimators.choices import is_images
from ostrakon.features.representation import is_embedded
from ostrakon.features.rowwise import take_rows
from ostrakon.forecast.interval import MEASURES, Forecast, bounds_of
from ostrakon.forecast.offers import Offer, asked_for
from ostrakon.forecast.public_rows import FEWEST_TO_REHEARSE, PublicRows
from ostrakon.forecast.scene import Scene
from ostrakon.forecast.without_noise import Scores, constant_of, learned_without_noise, scores_of
from ostrakon.numerics.threads import on_one_thread
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.progress import Report, in_phase, reporting, showing
from ostrakon.run.stages.features import View, view_of
from ostrakon.students.selection import Selection, warned_after
from ostrakon.teachers.parallel import spread
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray

REPETITIONS = 5
_ONE_AT_A_TIME = threading.Lock()
"""A rehearsal limits the threads of the whole process, and has its filters of warnings."""
HOLDOUT, PRIVATE = 1 / 4, 3 / 8
"""Shares of the public rows that are held out, and that play the private side; all others play the pool."""


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
class _Stage:
    """One repetition, with all its rows and with half of them.

    small: half of the pool, and private rows drawn from half of the rows. holdout, test, features, right: rows that are
    held out, by number, as they are, their features, and what is right there. constant, without_noise: as of
    `Rehearsal`, in this repetition.
    """

    shown: PublicRows
    scene: Scene
    small: Scene
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
        if shown.target == "quantity":
            players, pool = _sharing(np.concatenate([players, pool]), shown.rows)
        own = dataclasses.replace(options, seed=int(rng.integers(2**31)), jobs=1)
        private = players[rng.integers(len(players), size=records)]
        scene = Scene.of(shown, view, learned, pool=pool, private=private, options=own)
        few = players[: len(players) // 2]
        fewer = few[rng.integers(len(few), size=records)]
        small = Scene.of(shown, view, learned, pool=pool[: max(2, len(pool) // 2)], private=fewer, options=own)
        right, features = y[holdout], view.public[holdout]
        return cls(
            shown=shown,
            scene=scene,
            small=small,
            holdout=holdout,
            test=take_rows(shown.X, holdout),
            features=features,
            right=right,
            constant=scores_of(shown, right, *constant_of(shown, y[players], len(right))),
            without_noise=scores_of(
                shown, right, *learned_without_noise(shown, view.public[players], y[players], features, seed=own.seed)
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
            return scores_of(self.shown, self.right, read_by.values(said))
        likely = None if read_by is None else selection.student.predict_proba(seen)
        return scores_of(self.shown, self.right, said, likely)


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
    replacement up to `records`), the others are the pool; of a quantity both share rows. Students of noisy counts are
    chosen in the first repetition of an offer, by some of the parts that a run holds out. What half of the rows gives
    less is found out at the most queries of a mechanism. Without labels all rows get those of a simulated world, of
    another one in each repetition. Deterministic under the seed of `options`; noise is seeded, because nothing here is
    private.

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
    rows, asked = _enough_rows(shown), tuple(offers)
    with showing(bool(progress)), in_phase("public rows"):
        view = view_of(shown.X, options.representation, seed=options.seed)
    given = _Given(shown=shown, rows=rows, view=view, offers=asked, options=options, records=records, plans={})
    total = repetitions * len(offers)
    # Threads share what one process imported, but also the random numbers of networks, and the filters of warnings:
    # scikit-learn's forests reset each other's, and threads of somebody else would restore what they saw meanwhile.
    threads = not is_images(shown.X) and threading.active_count() == 1
    with (
        _ONE_AT_A_TIME,
        reporting(progress, label="Simulating", total=total) as report,
        on_one_thread(api=None),
        warned_after() if threads else nullcontext(),
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
    return given.summed(sorted(done, key=lambda one: one.repetition))


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
        with on_one_thread(api=None):
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

    def summed(self, done: Sequence[_Played]) -> Rehearsal:
        """What all repetitions gave, in their order."""
        failures = {key: why for one in done for key, why in one.failures.items()}
        scores = {
            number: [one.scores[number] for one in done if number in one.scores] for number in range(len(self.offers))
        }
        sizes = {
            "holdout": done[-1].holdout.size,
            "distinct": len(np.unique(np.concatenate([one.holdout for one in done]))),
            "doublings": max(0.0, math.log2(self.shown.rows / done[-1].pool)),
        }
        return Rehearsal(
            forecasts=tuple(
                _forecast(self.offers[number], measure, [(all_[at], half[at]) for all_, half in results], **sizes)
                for number, results in scores.items()
                if len(results) == len(done)
                for at, measure in enumerate(MEASURES[self.shown.target])
            ),
            constant=_means([one.constant for one in done]),
            without_noise=tuple(one.without_noise for one in done),
            simulated=not len(self.shown.labelled),
            pool=done[-1].pool,
            failures=failures,
        )

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


def _sharing(rest: IntArray, public: int) -> tuple[IntArray, IntArray]:
    """(private side, pool), which share rows, such that their means differ by chance as much as in a run.

    public: how many rows the run's pool has. First halves share half as many.
    """
    size = max(len(rest) // 2, round(public * (math.sqrt(1 + 2 * len(rest) / public) - 1)))
    order = np.argsort(np.arange(len(rest)) % 2, kind="stable")
    return rest[order[order < size]], rest[order[order >= len(rest) - size]]


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
