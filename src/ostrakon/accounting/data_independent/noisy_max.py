"""Properties of a mechanism for the envelope: how likely it answers, how likely a trailing class wins, the label's
cost.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from ostrakon.accounting.data_independent.argmax_rdp import argmax_rdp
from ostrakon.accounting.data_independent.likely_outcome import gaussian_likely_outcome_rdp, pure_likely_outcome_rdp
from ostrakon.mechanisms.base import FloatArray, Mechanism, NoisyArgmax, ThresholdTest
from ostrakon.mechanisms.laws.laplace import laplace_log_above
from ostrakon.mechanisms.rdp import rdp_of_bounded_range
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import Votes

NODES: FloatArray = np.linspace(-9.0, 9.0, 91)
"""Quadrature nodes for the Gaussian noise of the top class: 91, in standard deviations."""
NODES.setflags(write=False)


def quadrature_error(classes: int) -> float:
    """Return what is added to every probability summed over `NODES`: more than four times the largest measured error.

    The trapezoidal rule converges geometrically; many equal rivals sharpen the integrand, and measured errors grow from
    1e-14 (100 classes) over 2e-9 (1,000) to 2e-8 (3,000).
    """
    return 1e-8 * (1 + (classes / 1000) ** 2)


@dataclass(frozen=True, kw_only=True)
class AnswerLaw:
    """An aggregator of `teachers` votes on `classes`: an argmax of counts plus log-concave noise, with an optional
    check.

    A vote may also move to or from "abstain": every bound here is for at most `teachers` votes in all.
    """

    form: NoisyArgmax
    teachers: int
    classes: int

    @property
    def threshold_test(self) -> ThresholdTest | None:
        """The check before an answer, or None if every query is answered."""
        return self.form.threshold_test

    def log_answered(self) -> tuple[FloatArray, FloatArray]:
        """Return (log probability to answer, to refuse) by top count M = 0..teachers, both of shape (teachers + 1,)."""
        top = np.arange(self.teachers + 1, dtype=np.float64)
        if self.threshold_test is None:
            return np.zeros_like(top), np.full_like(top, -np.inf)
        margin = top - self.threshold_test.threshold
        if self.threshold_test.noise == "gaussian":
            return np.asarray(log_ndtr(margin / self.threshold_test.scale)), np.asarray(
                log_ndtr(-margin / self.threshold_test.scale)
            )
        return laplace_log_above(margin, self.threshold_test.scale)

    def behind(self) -> FloatArray:
        """Return an upper bound, by gap t = 0..teachers, on what a class that is t votes behind adds to P(the top class
        loses).

        Gaussian and Laplace: its probability to beat the top class alone (the union bound adds them up). Gumbel: its
        odds against the top class (exact: the probability is S / (1 + S) for their sum S).
        """
        x = np.arange(self.teachers + 1) / self.form.scale
        if self.form.noise == "gaussian":
            return ndtr(-x / math.sqrt(2))
        if self.form.noise == "laplace":
            return (2 + x) / 4 * np.exp(-x)
        return np.exp(-x)

    def likely_outcome_rdp(self, q: ArrayLike, orders: ArrayLike) -> FloatArray:
        """Return the largest cost of a label if some class wins with probability at least 1 - q, shape (K, Q)."""
        if self.form.noise == "gaussian":
            mu = math.sqrt(2) / self.form.scale
            whatever = argmax_rdp(mu, orders, classes=self.classes)
            return np.minimum(gaussian_likely_outcome_rdp(q, mu=mu, orders=orders), whatever[:, None])
        if self.form.noise == "laplace":
            return pure_likely_outcome_rdp(q, epsilon=2 / self.form.scale, orders=orders)
        epsilon = 2 / self.form.scale
        cap = rdp_of_bounded_range(np.asarray(orders, dtype=np.float64), epsilon)
        return np.minimum(pure_likely_outcome_rdp(q, epsilon=epsilon, orders=orders), cap[:, None])

    def worst_q(self) -> FloatArray:
        """Return the largest probability that the top class loses, by top count M = 0..teachers.

        If M is a majority, all other votes are on one class: the probability is log-concave and symmetric in the other
        counts, hence least at such a vertex. Below that, the top class still wins with probability at least 1 /
        `classes`.
        """
        top = np.arange(self.teachers + 1)
        even = 1 - 1 / self.classes
        lead = 2 * top - self.teachers
        rivals = np.zeros_like(lead, dtype=np.float64)
        majority = lead > 0
        # One rival `lead` behind, and classes - 2 that are M behind.
        shares = self.behind()
        rivals[majority] = shares[lead[majority]] + (self.classes - 2) * shares[top[majority]]
        if self.form.noise == "gumbel":
            rivals = rivals / (1 + rivals)
        return np.where(majority, np.minimum(rivals, even), even)


def answer_law(mechanism: Mechanism, *, teachers: int, classes: int) -> AnswerLaw | None:
    """Return the mechanism as an `AnswerLaw`, or None if it is not an argmax of counts plus independent noise.

    None, too, if its check depends on more than the top count (public offsets).
    """
    teachers, classes = whole("teachers", teachers, at_least=1), whole("classes", classes, at_least=2)
    # The form may depend on the shape of the votes, but not on the counts.
    form = mechanism.noisy_argmax(Votes([[teachers] + [0] * (classes - 1)]))
    if form is None or (form.threshold_test is not None and form.threshold_test.offsets is not None):
        return None
    return AnswerLaw(form=form, teachers=teachers, classes=classes)


def require_answer_law(mechanism: Mechanism, *, teachers: int, classes: int) -> AnswerLaw:
    """Return `answer_law`; refuse a mechanism without one."""
    law = answer_law(mechanism, teachers=teachers, classes=classes)
    if law is None:
        raise InvalidInput(
            f"mechanism must be an argmax of counts plus noise (gnmax, confident-gnmax, lnmax, exponential, "
            f"screened-exponential) to be gated, got {mechanism.name}."
        )
    return law
