"""One repetition of a rehearsal: who plays the private side and the public pool, and their votes and student."""

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
from ostrakon.run.stages.features import View
from ostrakon.run.stages.learning import Learning
from ostrakon.run.stages.selected import released_counts
from ostrakon.run.stages.student import answer_queries, fit_student
from ostrakon.run.stages.votes import collect, queries_of
from ostrakon.students.selection import FIRST_PARTS, Candidate, Selection, fit_candidate, select
from ostrakon.votes import BoundedVotes, IntArray, Moments, Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
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
    ) -> Scene:
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
            fitted = fit_candidate(known[0], known[0].student, self.learning.rows(known[0]), released)
            return Selection(chosen=known[0], student=fitted, agreement={})
        # Parts after which most candidates are left out tell nearly as much as all of them.
        tried = 1 if any(one.takes_rows for one in known) else FIRST_PARTS
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
