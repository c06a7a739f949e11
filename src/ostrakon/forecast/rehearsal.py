"""The rehearsal: complete runs, simulated on public rows in the place of private ones."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.data.quantity import Quantity
from ostrakon.estimators.choices import is_images
from ostrakon.features.rowwise import take_rows
from ostrakon.forecast.interval import MEASURES, Forecast, bounds_of
from ostrakon.forecast.offers import Offer, options_for
from ostrakon.forecast.public_rows import MIN_TO_REHEARSE, PublicRows
from ostrakon.forecast.scene import Scene
from ostrakon.forecast.without_noise import Scores, predictions_without_noise, scores_of, scores_of_constants
from ostrakon.numerics.threads import on_one_thread
from ostrakon.options.options import Options
from ostrakon.planning.make_plan import make_plan
from ostrakon.planning.plan import Plan
from ostrakon.planning.row_kind import RowKind
from ostrakon.progress import Report, in_phase, reporting, showing
from ostrakon.run.stages.features import View, view_of
from ostrakon.students.selection import Selection, warned_after
from ostrakon.teachers.parallel import spread
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray

REPETITIONS = 5
_LOCK = threading.Lock()
"""A rehearsal changes the thread limits and warning filters of the whole process."""
HOLDOUT, PRIVATE = 1 / 4, 3 / 8
"""Shares of the public rows that are held out, and that simulate private rows; all others are the pool."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Results of the repetitions of a run.

    Parameters
    ----------
    forecasts : tuple of Forecast
        One of each measure for every offer.
    constant : tuple of float
        Each measure of a constant prediction: the most frequent class, the mean of a quantity (for the error its
        median), or every label.
    without_noise : tuple of tuple of float
        For each repetition each measure of a model without noise (`WITHOUT_NOISE`), fitted on the simulated private
        rows.
    simulated : bool
        Whether labels were simulated.
    failures : dict
        From (epsilon, mechanism) to the reason why there is no forecast.
    pool : int
        Number of rows of the simulated public pool, the largest possible number of queries.
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
        """Return the mean, smallest and largest loss of accuracy against the model without noise."""
        lost = np.subtract([accuracy for (accuracy,) in self.without_noise], forecast.scores)
        return float(lost.mean()), float(lost.min()), float(lost.max())

    def of(self, offer: Offer) -> tuple[Forecast, ...]:
        """Return the forecasts of an offer, one for each measure; () without any."""
        asked = offer.epsilon, offer.mechanism
        return tuple(one for one in self.forecasts if (one.epsilon, one.mechanism) == asked)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Repetition:
    """One repetition, with all its rows and with half of them.

    small: half of the pool, and private rows drawn from half of the rows. holdout, test, features, actual: numbers of
    the held-out rows, these rows, their features and targets. constant, without_noise: as in `Rehearsal`.
    """

    public: PublicRows
    scene: Scene
    small: Scene
    holdout: IntArray
    test: Any
    features: NDArray[np.float32]
    actual: NDArray[Any]
    constant: Scores
    without_noise: Scores

    @classmethod
    def of(
        cls, public: PublicRows, view: View, rows: IntArray, repetition: int, options: Options, *, records: int
    ) -> _Repetition:
        """Build a repetition. rows: those with labels, or all, whose labels are then simulated. view: of all rows."""
        rng = np.random.default_rng([options.seed, repetition])
        simulated = not len(public.labelled)
        y = simulated_labels(view.public, classes=len(public.classes), rng=rng) if simulated else public.y
        targets = public.coding.steps(np.nan_to_num(y)) if isinstance(public.coding, Quantity) else y
        holdout, players, pool = _split(rows, repetition, seed=options.seed)
        if public.target == "quantity":
            players, pool = _overlapping(np.concatenate([players, pool]), public.rows)
        seeded = dataclasses.replace(options, seed=int(rng.integers(2**31)), jobs=1)
        private = players[rng.integers(len(players), size=records)]
        scene = Scene.of(public, view, targets, pool=pool, private=private, options=seeded)
        half = players[: len(players) // 2]
        drawn = half[rng.integers(len(half), size=records)]
        small = Scene.of(public, view, targets, pool=pool[: max(2, len(pool) // 2)], private=drawn, options=seeded)
        actual, features = y[holdout], view.public[holdout]
        return cls(
            public=public,
            scene=scene,
            small=small,
            holdout=holdout,
            test=take_rows(public.X, holdout),
            features=features,
            actual=actual,
            constant=scores_of_constants(public, y[players], actual),
            without_noise=scores_of(
                public,
                actual,
                *predictions_without_noise(public, view.public[players], y[players], features, seed=seeded.seed),
            ),
        )

    def scores(
        self, plan_for: Callable[[int], Plan], *, rng: np.random.Generator, student: str | None
    ) -> tuple[Scores, str]:
        """Return measures on the held-out rows, and the student's name. plan_for: from a pool size to a plan."""
        plan = self.scene.narrowed(plan_for(self.scene.pool), zero=self.public.zero, rng=rng)
        selection = self.scene.simulate(plan, rng=rng, student=student)
        return self._measure(selection, plan), selection.chosen.name

    def half_scores(self, plan_for: Callable[[int], Plan], *, rng: np.random.Generator, student: str) -> Scores:
        """Return measures with half of all rows; per-record runs have the same student."""
        plan = self.small.narrowed(plan_for(self.small.pool), zero=self.public.zero, rng=rng)
        selection = self.small.simulate(plan, rng=rng, student=student if plan.per_record else None)
        return self._measure(selection, plan)

    def _measure(self, selection: Selection, plan: Plan) -> Scores:
        rows = self.test if selection.chosen.takes_rows else np.asarray(self.features, np.float64)
        predicted, coding = selection.student.predict(rows), self.public.coding
        if isinstance(coding, Quantity):
            return scores_of(self.public, self.actual, coding.part(plan.narrowed).values(predicted))
        proba = None if coding is None else selection.student.predict_proba(rows)
        return scores_of(self.public, self.actual, predicted, proba)


def rehearse(
    public: PublicRows,
    offers: Sequence[Offer],
    options: Options,
    *,
    records: int,
    repetitions: int = REPETITIONS,
    progress: bool | Report = False,
) -> Rehearsal:
    """Simulate every offer that is not refused: features, queries, votes, noise, student, held-out rows.

    In each repetition the labelled public rows are split: some are held out, some simulate private rows (drawn with
    replacement up to `records`), the others are the pool; for a quantity both share rows. Students of noisy counts are
    chosen in the first repetition of an offer, with some of the parts that a run holds out. The loss with half of the
    rows is measured once for each mechanism, at its largest number of queries. Without labels, all rows get simulated
    ones, others in each repetition. Deterministic under the seed of `options`; noise is seeded, because no data are
    private.

    Parameters
    ----------
    public : PublicRows
    offers : sequence of Offer
    options : Options
    records : int
        Number of private records of the real run.
    repetitions : int, default 5
        At least 2.
    progress : bool or callable
        As in `ostrakon.progress.reporting`, in simulated plans.

    Raises
    ------
    InvalidInput
        For fewer than 2 repetitions or too few rows.
    """
    repetitions = whole("repetitions", repetitions, at_least=2)
    rows, asked = _enough_rows(public), tuple(offers)
    with showing(bool(progress)), in_phase("public rows"):
        view = view_of(public.X, options.representation, seed=options.seed)
    simulation = _Simulation(
        public=public, rows=rows, view=view, offers=asked, options=options, records=records, plans={}
    )
    total = repetitions * len(offers)
    # Threads share imports, but also the random numbers of networks and the filters of warnings, which scikit-learn's
    # forests and threads of other code change.
    threads = not is_images(public.X) and threading.active_count() == 1
    with (
        _LOCK,
        reporting(progress, label="Simulating", total=total) as report,
        on_one_thread(api=None),
        warned_after() if threads else nullcontext(),
    ):
        report(0, total)
        # The other repetitions need the students that the first one chooses, and are independent of each other.
        start = time.perf_counter()
        results = [simulation.run(0, {}, report=report, total=total)]
        seconds, others = time.perf_counter() - start, range(1, repetitions)
        play, prefer = partial(simulation.run, students=results[0].students), "threads" if threads else None
        for result in spread(play, others, total=len(others), n_jobs=options.jobs, seconds=seconds, prefer=prefer):
            results.append(result)
            report(len(results) * len(offers), total)
    return simulation.summary(sorted(results, key=lambda result: result.repetition))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Result:
    """Results of one repetition.

    scores: (measures, measures with half of the rows), by the number of the offer. students: their names.
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
class _Simulation:
    """Inputs of all repetitions: public rows, the usable ones, their features, offers and options.

    plans: a cache, by mechanism, epsilon and number of rows of the pool.
    """

    public: PublicRows
    rows: IntArray
    view: View
    offers: tuple[Offer, ...]
    options: Options
    records: int
    plans: dict[tuple[str, float, int], Plan]

    @cached_property
    def kind(self) -> RowKind:
        """The kind of the public rows."""
        return RowKind.of(self.public.X, self.options.representation)

    def run(
        self, repetition: int, students: dict[int, str], *, report: Report | None = None, total: int = 0
    ) -> _Result:
        """Run a repetition. students: names by the number of the offer; if empty, students are chosen."""
        with on_one_thread(api=None):
            data = _Repetition.of(self.public, self.view, self.rows, repetition, self.options, records=self.records)
            result = _Result(
                repetition=repetition,
                scores={},
                students=dict(students),
                failures={},
                constant=data.constant,
                without_noise=data.without_noise,
                holdout=data.holdout,
                pool=data.scene.pool,
            )
            gains: dict[str, Scores] = {}
            # The longest list of queries first, because it starts with every shorter one.
            longest_first = sorted(range(len(self.offers)), key=lambda number: -_query_count(self.offers[number]))
            for index, number in enumerate(longest_first):
                offer = self.offers[number]
                if offer.plan is not None and (not students or number in students):
                    noise = np.random.default_rng([self.options.seed, repetition, number])
                    plans = partial(self._plan_for, offer.mechanism, offer.epsilon)
                    try:
                        self._run_offer(data, number, plans, noise, result, gains)
                    except InvalidInput as refused:
                        result.failures[offer.epsilon, offer.mechanism] = str(refused)
                if report is not None:
                    report(index + 1, total)
        return result

    def summary(self, finished: Sequence[_Result]) -> Rehearsal:
        """Combine the results of all repetitions, in their order."""
        failures = {key: why for result in finished for key, why in result.failures.items()}
        scores = {
            number: [result.scores[number] for result in finished if number in result.scores]
            for number in range(len(self.offers))
        }
        sizes = {
            "holdout": finished[-1].holdout.size,
            "distinct": len(np.unique(np.concatenate([result.holdout for result in finished]))),
            "doublings": max(0.0, math.log2(self.public.rows / finished[-1].pool)),
        }
        return Rehearsal(
            forecasts=tuple(
                _forecast(self.offers[number], measure, [(full[at], half[at]) for full, half in pairs], **sizes)
                for number, pairs in scores.items()
                if len(pairs) == len(finished)
                for at, measure in enumerate(MEASURES[self.public.target])
            ),
            constant=_means([result.constant for result in finished]),
            without_noise=tuple(result.without_noise for result in finished),
            simulated=not len(self.public.labelled),
            pool=finished[-1].pool,
            failures=failures,
        )

    def _plan_for(self, mechanism: str, epsilon: float, pool: int) -> Plan:
        # As for a run with this pool; the number of queries, and so the noise, may be smaller.
        if (mechanism, epsilon, pool) not in self.plans:
            options = options_for(self.options, mechanism=mechanism, epsilon=epsilon)
            options = dataclasses.replace(options, queries=options.queries and min(options.queries, pool))
            sizes: dict[str, Any] = {"units": self.records, "pool": pool, "classes": len(self.public.classes)}
            sizes["target"] = self.public.target
            self.plans[mechanism, epsilon, pool] = make_plan(options, **sizes, kind=self.kind)
        return self.plans[mechanism, epsilon, pool]

    def _run_offer(
        self,
        data: _Repetition,
        number: int,
        plans: Callable[[int], Plan],
        noise: np.random.Generator,
        result: _Result,
        gains: dict[str, Scores],
    ) -> None:
        """Simulate an offer and add its results. gains: of all rows over half of them, by mechanism."""
        mechanism = self.offers[number].mechanism
        scores, student = data.scores(plans, rng=noise, student=result.students.get(number))
        result.students[number] = student
        if mechanism not in gains:
            gains[mechanism] = tuple(np.subtract(scores, data.half_scores(plans, rng=noise, student=student)).tolist())
        result.scores[number] = scores, tuple(np.subtract(scores, gains[mechanism]).tolist())


def _enough_rows(public: PublicRows) -> IntArray:
    """Return the labelled rows, or all rows if none has a label; refuse too few rows."""
    rows, kind = (public.labelled, "labelled ") if len(public.labelled) else (np.arange(public.rows), "")
    if len(rows) < MIN_TO_REHEARSE:
        raise InvalidInput(
            f"public must have at least {MIN_TO_REHEARSE} {kind}rows to rehearse a run on, got {len(rows)}."
        )
    return rows


def _forecast(offer: Offer, measure: str, results: list[tuple[float, float]], **sizes: Any) -> Forecast:
    scores, halved = zip(*results, strict=True)
    halved = tuple(np.clip(halved, *bounds_of(measure)).tolist())
    of: Any = {"epsilon": offer.epsilon, "mechanism": offer.mechanism, "measure": measure}
    return Forecast(**of, scores=scores, halved=halved, **sizes)


def _means(scores: Sequence[Scores]) -> Scores:
    return tuple(np.mean(scores, axis=0).tolist())


def _query_count(offer: Offer) -> int:
    return 0 if offer.plan is None else offer.plan.rows


def _split(rows: IntArray, repetition: int, *, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return (held out, private, pool): every row is held out once before any row a second time."""
    rounds = round(1 / HOLDOUT)
    order = np.random.default_rng([seed, repetition // rounds, 1]).permutation(rows)
    parts = np.array_split(order, rounds)
    holdout = parts[repetition % rounds]
    others = np.concatenate([part for number, part in enumerate(parts) if number != repetition % rounds])
    others = np.random.default_rng([seed, repetition, 2]).permutation(others)
    players = round(len(rows) * PRIVATE)
    return holdout, others[:players], others[players:]


def _overlapping(rows: IntArray, public: int) -> tuple[IntArray, IntArray]:
    """Return (private, pool) that share rows, so that their means differ by chance as much as in a run.

    public: number of rows of the run's pool. The first halves of both share half as many.
    """
    size = max(len(rows) // 2, round(public * (math.sqrt(1 + 2 * len(rows) / public) - 1)))
    order = np.argsort(np.arange(len(rows)) % 2, kind="stable")
    return rows[order[order < size]], rows[order[order >= len(rows) - size]]


_DIRECTIONS = 40


def simulated_labels(features: NDArray[np.float32], *, classes: int, rng: np.random.Generator) -> IntArray:
    """Return simulated class numbers of all rows, (rows,).

    Scores are random sums of cosines along random directions of the standardized features (so a Gaussian process, by
    random Fourier features), with a length scale and a share of unpredictable labels that are themselves drawn: some
    worlds are easy, some are hard. All classes are equally likely.

    Guarantee: a function of public features and `rng`.
    Source: Rahimi and Recht 2007, random Fourier features.
    """
    points = np.asarray(features, np.float64)
    scale = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    # The distance of two standardized rows is about sqrt(2 features).
    length = rng.uniform(0.7, 2.5) * np.sqrt(max(1, (scale > 0).sum()))
    directions = rng.normal(size=(points.shape[1], _DIRECTIONS)) / length
    waves = np.cos(points @ directions + rng.uniform(0, 2 * np.pi, _DIRECTIONS))
    scores = waves @ rng.normal(size=(_DIRECTIONS, classes))
    scores -= scores.mean(axis=0)
    sharp = rng.uniform(1.0, 6.0) / max(float(scores.std()), 1e-12)
    # The largest of scores with Gumbel noise is a draw from their softmax.
    return (sharp * scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int64)
