"""One repetition of a rehearsal: rows as private records and public pool, their votes and their student."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.features.representation import Representation, learn_representation
from ostrakon.features.rowwise import take_rows
from ostrakon.forecast.public_rows import PublicRows
from ostrakon.options.options import Options
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.noise_log import Log
from ostrakon.run.stages.answers import NOTHING, Answers, answer_queries
from ostrakon.run.stages.corrections import corrected, correction_of
from ostrakon.run.stages.features import View
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.narrowing import HISTOGRAM, histogram_rule, narrowed
from ostrakon.run.stages.other_targets import distilled
from ostrakon.run.stages.queries import queries_of
from ostrakon.run.stages.selected import released_counts
from ostrakon.run.stages.student import fit_student
from ostrakon.run.stages.student_errors import CORRECTIONS, draw_sums
from ostrakon.run.stages.votes import collect
from ostrakon.students.selection import FIRST_PARTS, Candidate, Selection, fit_candidate, select
from ostrakon.votes import BoundedVotes, IntArray, Moments, Votes

_BLOCK = 1000
"""Rows whose corrections are in memory at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """One repetition: features are learned once, and so are the queries, for all epsilons.

    rows, labels: of the simulated private records, as features; identity: the representation that keeps them.
    row_of_record: the row of each record. asked: queries by their number.
    """

    learning: Learning
    identity: Representation
    rows: Any
    labels: NDArray[Any]
    row_of_record: IntArray
    options: Options
    asked: dict[int, IntArray]

    @classmethod
    def of(
        cls, public: PublicRows, view: View, y: NDArray[Any], *, pool: IntArray, private: IntArray, options: Options
    ) -> Scene:
        """Build a scene. view: of all public rows, whose features are computed once for all scenes."""
        pool_view = dataclasses.replace(view, public=view.public[pool])
        learning = Learning(
            X_public=take_rows(public.X, pool), view=pool_view, student=options.student, seed=options.seed
        )
        distinct, row_of_record = np.unique(private, return_inverse=True)
        features = view.public[distinct]
        identity = learn_representation("raw", features)
        private_rows: Any = {"rows": features, "labels": y[distinct], "row_of_record": row_of_record}
        return cls(learning=learning, identity=identity, options=options, asked={}, **private_rows)

    @property
    def pool(self) -> int:
        """Number of rows of the simulated public pool."""
        return len(self.learning.view.public)

    def queries(self, count: int) -> IntArray:
        """Return the queries; a list of representatives is the start of every longer one, so the longest is reused."""
        longest = max(self.asked, default=0)
        if self.options.query_strategy == "representatives" and longest >= count:
            return self.asked[longest][:count]
        if count not in self.asked:
            self.asked[count] = queries_of(
                self.learning.view, count, strategy=self.options.query_strategy, seed=self.options.seed
            )
        return self.asked[count]

    def narrowed(self, plan: Plan, *, zero: int | None, rng: np.random.Generator) -> Plan:
        """Return the plan with the part of the range that a noisy histogram of a quantity gives, if it has one."""
        return narrowed(plan, self._histogram(plan, zero, rng), zero)

    def simulate(self, plan: Plan, *, rng: np.random.Generator, student: str | None = None) -> Selection:
        """Simulate a run by a plan of `narrowed`: votes, noise, student. student: the candidate to fit; None: choose
        one.
        """
        queries = self.queries(plan.rows)
        votes = self._votes(plan, queries)
        answers = answer_queries(plan, votes, queries=queries, learning=self.learning, log=Log(), rng=rng)
        selection = self._fitted(plan, answers, queries, student)
        if plan.mechanism.correction_noise is not None:
            sums = Moments(self._corrections(plan, queries, selection.student), teachers=plan.teachers)
            answers = draw_sums(CORRECTIONS, plan, answers, sums, log=Log(), rng=rng)
            selection = corrected(selection, self.learning, plan, answers, queries)
        return distilled(selection, self.learning)

    def _fitted(self, plan: Plan, answers: Answers, queries: IntArray, student: str | None) -> Selection:
        """Return the student before it is corrected. student: as of `simulate`."""
        if plan.target != "classes" or answers.counts is None:
            return fit_student(self.learning, plan, answers, queries)
        released = released_counts(self.learning, plan, answers, queries)
        moments = answers.moments is not None
        sizes = {"classes": plan.classes, "queries": plan.queries}
        candidates = [
            _quick_candidate(candidate) for candidate in self.learning.candidates(counts=True, moments=moments, **sizes)
        ]
        candidates = [candidate for candidate in candidates if candidate.name == student] or candidates
        if len(candidates) == 1:
            fitted = fit_candidate(candidates[0], candidates[0].student, self.learning.rows(candidates[0]), released)
            return Selection(chosen=candidates[0], student=fitted, agreement={})
        # A few parts choose nearly as well as all of them.
        tried = 1 if any(candidate.takes_rows for candidate in candidates) else FIRST_PARTS
        pool: tuple[Any, Any] = self.learning.X_public, self.learning.view.public
        return select(candidates, *pool, released, tried=tried, seed=self.options.seed)

    def _histogram(self, plan: Plan, zero: int | None, rng: np.random.Generator) -> Answers | None:
        """Return the noisy histogram of a quantity; None if the plan has none."""
        if plan.mechanism.histogram_noise is None:
            return None
        rule, targets = histogram_rule(plan, zero), self.labels[self.row_of_record]
        counts = rule.contributions_of((np.arange(len(targets)), np.zeros((len(targets), 1)), targets)).counts
        return draw_sums(HISTOGRAM, plan, NOTHING, Moments(counts, teachers=plan.teachers), log=Log(), rng=rng)

    def _corrections(self, plan: Plan, queries: IntArray, student: Any) -> IntArray:
        """Return the sums that correct a student."""
        rule, says = correction_of(plan, self.learning, queries, student)
        inputs = says(student, self.rows)
        multiplicity, total = np.bincount(self.row_of_record), rule.empty().counts
        for rows in np.split(np.arange(len(inputs)), range(_BLOCK, len(inputs), _BLOCK)):
            total = total + np.tensordot(multiplicity[rows], rule.steps(inputs[rows], self.labels[rows]), 1)
        return total

    def _votes(self, plan: Plan, queries: IntArray) -> Votes:
        """Return the votes of the records; per-record votes of repeated rows are computed once and multiplied."""
        view = dataclasses.replace(self.learning.view, representation=self.identity)

        def cast(rows: IntArray) -> Votes:
            # Split by position: by content, all copies of a row would go to one teacher.
            private = Rows(X=self.rows[rows], y=self.labels[rows], fixed=True)
            return collect(plan, private, view, queries, self.options)[0]

        if not plan.per_record:
            return cast(self.row_of_record)
        counts, sums, multiplicity, votes = 0, None, np.bincount(self.row_of_record), None
        # By binary digits of the multiplicity: a few calls instead of one for each multiplicity.
        for multiple in (
            1 << bit for bit in range(int(multiplicity.max()).bit_length()) if (multiplicity >> bit & 1).any()
        ):
            votes = cast(np.flatnonzero(multiplicity & multiple))
            assert isinstance(votes, BoundedVotes)
            counts = counts + multiple * votes.counts.astype(np.int64)
            if votes.moments is not None:
                sums = (0 if sums is None else sums) + multiple * votes.moments.counts
        assert votes is not None
        total = type(votes)(counts, teachers=plan.teachers, max_contributions=votes.max_contributions)
        total.moments = None if sums is None else Moments(sums, teachers=plan.teachers)
        return total


def _quick_candidate(candidate: Candidate) -> Candidate:
    """Return the candidate with its quick substitute as student, except for networks on images, which differ."""
    if candidate.takes_rows or candidate.tried is None:
        return candidate
    return dataclasses.replace(candidate, student=candidate.tried, tried=None)
