"""No public entry of the privacy side takes a number that is none: each bad value is one sentence, no traceback."""

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import ostrakon.accounting
import ostrakon.mechanisms
from ostrakon.accounting import privacy_curve
from ostrakon.accounting import rdp as curve
from ostrakon.accounting.account import account
from ostrakon.accounting.calibration import gated as gate_calibrate
from ostrakon.accounting.calibration import noise as calibrate
from ostrakon.accounting.composition import gaussian_dp, pure_dp
from ostrakon.accounting.composition import run as run_cost
from ostrakon.accounting.composition import sum_of_discrete_gaussians as discrete
from ostrakon.accounting.data_dependent import exact
from ostrakon.accounting.data_independent import argmax_rdp, stages, worst_case
from ostrakon.accounting.data_independent import likely_outcome as likely_outcome_rdp
from ostrakon.accounting.data_independent import noisy_max as law
from ostrakon.accounting.data_independent import supremum as joint_supremum
from ostrakon.accounting.gate import certificate as gate_certificate
from ostrakon.accounting.gate import envelope, gate, score
from ostrakon.accounting.gate import sanitizer as sanitized
from ostrakon.accounting.gate import simulated_votes as simulate
from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.accounting.published import exponential_2024, pate_2017, pate_2018
from ostrakon.mechanisms import (
    BoundedGNMax,
    ConfidentGNMax,
    ExponentialMechanism,
    GNMax,
    InteractiveGNMax,
    LabelsGNMax,
    LNMax,
    MomentGNMax,
    QuantityGNMax,
    RunCost,
    interactive_gnmax,
    rdp,
)
from ostrakon.mechanisms.base import DiscreteShares, finite_orders
from ostrakon.mechanisms.bounded_gnmax import BoundedVotes
from ostrakon.mechanisms.contrib.immutable import Immutable
from ostrakon.mechanisms.contrib.noisy_median import NoisyMedian
from ostrakon.mechanisms.contrib.permute_and_flip import PermuteAndFlip
from ostrakon.mechanisms.contrib.propose_test_release import ProposeTestRelease
from ostrakon.mechanisms.contrib.screened_exponential import ScreenedExponential
from ostrakon.mechanisms.contrib.sparse_vector import SparseVector
from ostrakon.mechanisms.summed_gnmax import SharedGNMax, SummedGNMax
from ostrakon.numerics.compiled import Compiled
from ostrakon.papers import gnss
from ostrakon.papers import local_sensitivity as label_sensitivity
from ostrakon.papers import smooth_sensitivity as smooth
from ostrakon.validation import InvalidInput
from ostrakon.votes import PublicVotes, Votes

VOTES = Votes([[8, 2], [6, 4]])
PUBLIC = PublicVotes([[8, 2], [6, 4]])
QUIET = GNMax(sigma2=40)
LEVELS = ((0.9, 8.0, 0.5), (0.3, 6.0, 0.6), (1e-6, 4.0, 1.0))
SHARES = DiscreteShares(count=3, scale=2.0, shift=1.5, cells=4)
GATE = {"mechanism": ConfidentGNMax(threshold=7, sigma1=5, sigma2=4), "queries": 2, "teachers": 10, "classes": 2,
        "delta": 1e-5, "levels": LEVELS}  # fmt: skip

NOT_NUMBERS = [math.nan, math.inf, -math.inf, True, np.True_, "1", b"1", 1 + 0j, 10**400, -(10**400), 10**5000,
               Fraction(10**400), np.array([1]), np.array([1.5, 2.5]), [1], ()]  # fmt: skip
NOT_WHOLE = [1.5, 3.0, 2**53 + 1, -1, Fraction(3), np.float64(2)]
NOT_ORDERS = [math.nan, [math.nan], [2.0, math.inf], [0.5], [1.0], [-2.0], [],
              "2", ["2"], [True, 3.0], [True], [10**400], [2.0, [3.0]], [2 + 0j], None]  # fmt: skip
UNORDERED = [[3.0, 2.0], [2.0, 2.0], [[2.0]], 2.0]


@dataclass
class Entry:
    """A public callable with good arguments; every number among them is replaced by every bad one.

    at_least: where a number may be 0 (0.0) or of any sign (-inf); all others must be above 0. optional: may be None.
    """

    call: Callable[..., Any]
    good: dict[str, Any]
    at_least: dict[str, float]
    optional: frozenset[str]

    @property
    def any_shape(self) -> bool:
        """Whether orders may come in any order and shape."""
        curves = ("rdp_of_bounded_range", "rdp_of_pure_dp", "sum_of_discrete_gaussians_rdp")
        return self.label in ("finite_orders", *curves)

    @property
    def label(self) -> str:
        return self.call.__qualname__

    def bad(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for name, value in self.good.items():
            if name == "orders":
                found += [(name, wrong) for wrong in NOT_ORDERS]
                found += [] if self.any_shape else [(name, wrong) for wrong in UNORDERED]
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                found += [(name, wrong) for wrong in NOT_NUMBERS]
                least = self.at_least.get(name, math.ulp(0.0))
                found += [(name, wrong) for wrong in (0, 0.0, -1.0, -1e-9) if wrong < least]
                if isinstance(value, int):
                    found += [(name, wrong) for wrong in NOT_WHOLE]
                if name not in self.optional:
                    found.append((name, None))
        return found


def entry(
    call: Callable[..., Any], *, at_least: dict[str, float] | None = None, optional: str = "", **good: Any
) -> Entry:
    return Entry(call=call, good=good, at_least=at_least or {}, optional=frozenset(optional.split()))


ANY = {"threshold": -math.inf}
ENTRIES = [
    entry(account, votes=VOTES, mechanism=QUIET, delta=1e-5, orders=[2.0], max_answers=1,
          optional="max_answers", at_least={"max_answers": 0}),
    entry(law.answer_law, mechanism=QUIET, teachers=10, classes=2),
    entry(law.require_answer_law, mechanism=QUIET, teachers=10, classes=2),
    entry(calibrate.propose_test_release_within, epsilon=1.0, delta=1e-5, queries=3),
    entry(calibrate.sparse_vector_within, epsilon=1.0, delta=1e-5, queries=3, refusals=1),
    entry(calibrate.calibrate, mechanism=QUIET, epsilon=1.0, delta=1e-5, queries=3, max_answers=2, teachers=250,
          classes=3, optional="max_answers teachers classes", at_least={"max_answers": 0}),
    entry(envelope.envelope, votes=VOTES, mechanism=QUIET, orders=[2.0]),
    entry(exact.data_dependent_costs, votes=VOTES, mechanism=QUIET, orders=[2.0]),
    entry(exact.costs_and_chances, votes=VOTES, mechanism=QUIET, orders=[2.0]),
    entry(exact.exact_curve, votes=VOTES, mechanism=QUIET, orders=[2.0]),
    entry(gate.Gate, **GATE, prefix=1, at_least={"prefix": 0}),
    entry(gate.Gate.plan, public_votes=PUBLIC, mechanism=QUIET, delta=1e-5, epsilon=1.0, pass_probability=0.9,
          in_hand=1, prefix_price=0.1, at_least={"in_hand": 0, "prefix_price": 0}, optional="epsilon in_hand"),
    entry(gate.Gate(**GATE).delta_at, epsilon=1.0, at_least={"epsilon": 0}),
    entry(gate_calibrate.calibrate_gate, public_votes=PUBLIC, mechanism=QUIET, epsilon=1.0, delta=1e-5,
          pass_probability=0.9, prefix_price=0.1, at_least={"prefix_price": 0}),
    entry(gate_calibrate.choose_guarantee, public_votes=PUBLIC, mechanism=QUIET, epsilon=1.0, delta=1e-5),
    entry(gate_certificate.gate_delta, levels=LEVELS, epsilon=1.0, prefix_mu=0.1,
          at_least={"epsilon": 0, "prefix_mu": 0}),
    entry(gate_certificate.gate_epsilon, levels=LEVELS, delta=1e-5, prefix_mu=0.1,
          at_least={"prefix_mu": 0}),
    entry(gaussian_dp.gaussian_dp_log_delta, mu=1.0, epsilon=1.0, at_least={"mu": 0, "epsilon": 0}),
    entry(gaussian_dp.gaussian_dp_delta, mu=1.0, epsilon=1.0, at_least={"mu": 0, "epsilon": 0}),
    entry(gaussian_dp.gaussian_dp_epsilon, mu=1.0, delta=1e-5, at_least={"mu": 0}),
    entry(membership_guess, guarantees=((1.0, 1e-5),), prior=0.3),
    entry(privacy_curve.PrivacyCurve(points=((1.0, 1e-5),), mu=0.3).guess, prior=0.3),
    entry(privacy_curve.PrivacyCurve(points=((1.0, 1e-5),)).false_negatives, alpha=0.3),
    entry(gnss.GNSS, order=14.0, beta=0.03, sigma=6.0),
    entry(gnss.PrintedGNSS, order=14.0, beta=0.03, sigma=6.0),
    entry(gnss.GNSS(order=14.0, beta=0.03, sigma=6.0).estimate, data_dependent_rdp=0.1, smooth_sensitivity=0.1,
          delta=1e-5, at_least={"data_dependent_rdp": 0, "smooth_sensitivity": 0}),
    entry(gnss.GNSS(order=14.0, beta=0.03, sigma=6.0).release, data_dependent_rdp=0.1, smooth_sensitivity=0.1,
          delta=1e-5, rng=np.random.default_rng(0), at_least={"data_dependent_rdp": 0}),
    entry(gnss.optimal_gnss, totals=np.array([0.1, 0.2]), order=14.0, deviations=2.0),
    entry(joint_supremum.two_class_costs, mechanism=QUIET, orders=[2.0], teachers=10),
    entry(joint_supremum.joint_supremum, law=law.answer_law(QUIET, teachers=10, classes=3), orders=[2.0]),
    entry(likely_outcome_rdp.gaussian_likely_outcome_rdp, q=[0.1], mu=0.1, orders=[2.0]),
    entry(likely_outcome_rdp.pure_likely_outcome_rdp, q=[0.1], epsilon=0.1, orders=[2.0]),
    entry(argmax_rdp.argmax_rdp, mu=0.1, orders=[2.0], classes=3),
    entry(label_sensitivity.LabelSensitivity, sigma=40.0, order=14.0, classes=3),
    entry(label_sensitivity.LabelSensitivity(sigma=40.0, order=14.0, classes=3).check_conditions, teachers=250),
    entry(label_sensitivity.label_sensitivities, votes=VOTES, sigma2=4.0, order=2.0, distances=2, check=False,
          optional="distances"),
    entry(exponential_2024.log_q_exponential, counts=[[8, 2]], epsilon=0.1),
    entry(exponential_2024.rdp_exponential, counts=[[8, 2]], epsilon=0.1, orders=[2.0]),
    entry(pate_2018.log_q_gaussian, counts=[[8, 2]], sigma=4.0),
    entry(pate_2018.rdp_gaussian, log_q=[-9.0], sigma=4.0, orders=[2.0]),
    entry(pate_2018.log_pr_answered, counts=[[8, 2]], threshold=5.0, sigma1=4.0, at_least=ANY),
    entry(pate_2018.rdp_threshold, counts=[[8, 2]], threshold=5.0, sigma1=4.0, orders=[2.0], at_least=ANY),
    entry(pate_2018.log_q0, sigma=40.0, order=14.0),
    entry(pate_2017.log_q_laplace, counts=[[8, 2]], scale=4.0),
    entry(pate_2017.rdp_pure_eps, log_q=[-9.0], epsilon=0.1, orders=[2.0]),
    entry(pure_dp.pure_dp_epsilon, epsilon_per_query=0.1, queries=3, delta=1e-5, at_least={"epsilon_per_query": 0}),
    entry(run_cost.run_epsilon, cost=RunCost(mu=1.0), delta=1e-5),
    entry(sanitized.Sanitizer, mechanism=QUIET, order=8.0, kappa=0.1, s=1.0, delta=1e-5, confidence=0.9),
    entry(sanitized.Sanitizer.plan, public_votes=PUBLIC, mechanism=QUIET, delta=1e-5),
    entry(score.consensus, votes=VOTES, mechanism=QUIET, order=8.0, kappa=0.1),
    entry(simulate.simulate_votes, rng=np.random.default_rng(0), queries=3, teachers=10, classes=3, plurality=0.8,
          dispersion=0.1),
    entry(smooth.check_sensitivities, votes=VOTES, threshold=5.0, sigma1=4.0, order=8.0, distances=3, at_least=ANY,
          optional="distances"),
    entry(smooth.theorem_24, totals=[0.1, 0.2], smoothness=0.1),
    entry(smooth.smooth_sensitivity, votes=VOTES, mechanism=GNMax(sigma2=1.0), order=2.0, smoothness=0.1),
    entry(stages.Stage, mechanism=QUIET, queries=3, max_answers=2, optional="max_answers",
          at_least={"queries": 0, "max_answers": 0}),
    entry(stages.worst_case_of_stages, stages=[stages.Stage(mechanism=QUIET, queries=2)], delta=1e-5, teachers=10,
          classes=3, effort=1, optional="teachers classes"),
    entry(worst_case.worst_case, mechanism=QUIET, queries=3, delta=1e-5, max_answers=2, teachers=10, classes=3,
          optional="max_answers teachers classes", at_least={"queries": 0, "max_answers": 0}),
    entry(worst_case.gaussian_curve, mechanism=QUIET, basis=worst_case.GAUSSIAN, queries=3, max_answers=2,
          at_least={"queries": 0, "max_answers": 0}, optional="max_answers"),
    entry(worst_case.run_mu, mechanism=QUIET, queries=3, max_answers=2, at_least={"queries": 0, "max_answers": 0},
          optional="max_answers"),
    entry(worst_case.worst_case_at, mechanism=QUIET, queries=3, max_answers=2, teachers=10, classes=3,
          at_least={"queries": 0, "max_answers": 0}, optional="max_answers teachers classes"),
    entry(worst_case.worst_case_curve, mechanism=QUIET, orders=[2.0], queries=3, max_answers=2, teachers=10, classes=3,
          optional="max_answers teachers classes", at_least={"max_answers": 0}),
    entry(worst_case.worst_case_of, votes=VOTES, mechanism=QUIET, delta=1e-5, max_answers=2, optional="max_answers",
          at_least={"max_answers": 0}),
    entry(curve.require_orders, orders=[2.0]),
    entry(finite_orders, orders=[2.0]),
    entry(curve.Curve([2.0], [0.1]).epsilon, delta=1e-5),
    entry(rdp.rdp_of_bounded_range, orders=[2.0], epsilon=0.1),
    entry(rdp.rdp_of_pure_dp, orders=[2.0], epsilon=0.1, at_least={"epsilon": 0}),
    entry(ConfidentGNMax, threshold=5.0, sigma1=4.0, sigma2=3.0, at_least=ANY),
    entry(ExponentialMechanism, epsilon_per_query=0.1),
    entry(GNMax, sigma2=4.0),
    entry(Immutable, constant=5.0, gamma=0.1, optional="gamma"),
    entry(Immutable, constant=5.0, sigma2=4.0, optional="sigma2"),
    entry(Immutable(constant=5.0, sigma2=4.0).claimed_epsilon, queries=3, delta=1e-5, at_least={"queries": 0}),
    entry(InteractiveGNMax, threshold=5.0, sigma1=4.0, sigma2=3.0, scores=[[0.5, 0.5]], at_least=ANY),
    entry(interactive_gnmax.reinforce, answers=np.array([-1]), scores=[[0.5, 0.5]], confidence=0.8),
    entry(LNMax, gamma=0.1),
    entry(NoisyMedian, sigma2=4.0),
    entry(PermuteAndFlip, epsilon_per_query=0.1),
    entry(ProposeTestRelease, threshold=5.0, epsilon_per_query=0.1),
    entry(ProposeTestRelease, threshold=5.0, sigma1=4.0),
    entry(ProposeTestRelease.for_delta, epsilon_per_query=1.0, delta_per_query=1e-5),
    entry(ProposeTestRelease(threshold=5.0, sigma1=4.0).failure, queries=3, at_least={"queries": 0}),
    entry(ProposeTestRelease(threshold=5.0, sigma1=4.0).run_cost, queries=3),
    entry(BoundedGNMax, sigma2=4.0, max_contributions=2),
    entry(MomentGNMax, sigma2=4.0, max_contributions=2, moments=0.5),
    entry(QuantityGNMax, sigma2=4.0, max_contributions=2, moments=0.5),
    entry(LabelsGNMax, sigma2=4.0, max_contributions=2, moments=0.5, max_labels=3),
    entry(BoundedGNMax(sigma2=4.0).run_cost, queries=3),
    entry(SummedGNMax, sigma2=4.0, max_contributions=2, owners_per_person=2),
    entry(SharedGNMax, sigma2=4.0, max_contributions=2, owners_per_person=2, owners=3, colluders=1,
          at_least={"colluders": 0.0}),
    entry(DiscreteShares, count=3, scale=2.0, shift=1.5, cells=4),
    entry(discrete.sum_of_discrete_gaussians_oscillation, count=3, scale=2.0),
    entry(discrete.sum_of_discrete_gaussians_rdp, shares=SHARES, orders=[2.0, 3.0]),
    entry(discrete.sum_of_discrete_gaussians_epsilon, shares=SHARES, delta=1e-5),
    entry(BoundedVotes, counts=[[1, 0]], teachers=5, max_contributions=1),
    entry(ScreenedExponential, threshold=5.0, sigma1=4.0, epsilon_per_query=0.1, at_least=ANY),
    entry(SparseVector, threshold=5.0, refusals=2, epsilon1=0.1, epsilon2=0.1),
    entry(SparseVector(threshold=5.0, refusals=2, epsilon1=0.1, epsilon2=0.1).failure, queries=3,
          at_least={"queries": 0}),
    entry(SparseVector(threshold=5.0, refusals=2, epsilon1=0.1, epsilon2=0.1).run_cost, queries=3),
    entry(Votes, counts=[[8, 2]], teachers=10, optional="teachers"),
    entry(Votes.from_predictions, predictions=[[0, 1]], classes=2, optional="classes"),
]  # fmt: skip

PAPERS = ("gnss", "local_sensitivity", "smooth_sensitivity")
"""Modules of the papers that compute costs."""

ELSEWHERE = {
    # Numbers that the library itself has computed, and shapes that it has checked before.
    *(
        "Account",
        "Agreement",
        "Recall",
        "in_words",
        "rounded_outwards",
        "delta_in_words",
        "epsilon_in_words",
        "factor_in_words",
        "AnswerLaw",
        "Adjacent",
        "Level",
        "LevelClaim",
        "levels_within",
        "claims_of",
        "ThresholdTest",
        "Forecast",
        "GNSSEstimate",
        "Gated",
        "GateSearch",
        "LikelyOutcomeTable",
        "Private",
        "DataDependent",
    ),
    *(
        "NoisyArgmax",
        "Round",
        "RunCost",
        "Sanitized",
        "Statement",
        "Comparison",
        "Row",
        "Unbounded",
        "WorstCase",
        "argmax_costs_of",
        "at_distances",
    ),
    *("bisection_costs", "compose_bisections", "sizes_of_parts"),
    *("Envelope", "EnvelopeTables", "TwoClassTables", "largest_over_distances"),
    *("by_sorted_rows", "distinct", "gaussian_tables"),
    *("joint_cost", "joint_step", "likely_outcome_table", "laplace_log_above", "lowest_top_count", "quadrature_error"),
    *(
        "published_costs",
        "published_curve",
        "renyi_delta",
        "round_down",
        "round_up",
        "scaled",
        "sorted_histograms",
        "tail_rules",
    ),
    *("exponential_argmax_log_probabilities", "gaussian_argmax_log_probabilities", "laplace_argmax_log_probabilities"),
    *("gumbel_deviation", "laplace_deviation", "replaced_record", "weak_remark", "known_neighbours", "tightened"),
    "likely_price",
    # Every parameter is checked by the mechanism that is built.
    *("Parameter", "build", "build_with_defaults", "declared_parameters", "find", "register"),
    *("require_mechanism", "require_own"),
    # No number among their arguments.
    "require_public",
    *(
        "Curve",
        "Mechanism",
        "StatefulMechanism",
        "compose",
        "distance_to_instability",
        "require_pool",
        "require_no_pool",
    ),
    *(
        "gauss_legendre_table",
        "require_finite",
        "require_histograms",
        "require_log_q",
        "require_order",
        "require_scores",
    ),
    "noise_deviation",
    # Of a function and numbers: tests/papers/test_exponential_2024.py.
    *("delta_of_local_noise", "q_sensitivity"),
    # Of laws and profiles that the library itself has computed: tests/accounting/composition/test_adaptive.py and
    # tests/accounting/data_independent/test_adaptive_bound.py.
    *("Family", "Grid", "Profile", "Stencils", "ThreeOutcomes", "adaptive_profile", "compose_adaptively"),
    *("Steps", "adaptive_steps", "compose_steps", "gaussian_step", "plain_bounds", "sizes_of", "together_or_apart"),
    "by_size",
    *("compose_labels", "grid_for", "margins", "start_profile", "stencils_of", "three_outcomes", "two_class_family"),
    *(
        "every_nth_pair",
        "gaussian_family",
        "label_costs",
        "moves",
        "renyi_costs",
        "two_class_law",
        "two_points",
        "widest",
    ),
    # tests/accounting/data_independent/test_label_families.py.
    *("LabelPairs", "charged", "cover", "label_family"),
    # Of levels: tests/accounting/gate/test_certificate.py.
    *("level", "require_grid", "require_levels", "teachers_in_hand"),
    # Of public votes and levels: tests/accounting/gate/test_profile_envelope.py.
    *("ProfileEnvelope", "ProfileSearch", "grid_around", "has_profiles"),
    # Of laws that the library itself has computed: tests/accounting/test_move_lemma.py.
    *("MoveCosts", "move_costs"),
    # Of pairs: tests/accounting/test_privacy_curve.py.
    "curve_of",
    # Of votes: tests/accounting/data_dependent/test_adaptive_cost.py.
    "adaptive_epsilon",
    # Of votes and a table of mechanisms: tests/accounting/test_comparison.py.
    *("compare", "compared"),
}


_PLANS = ("choose_guarantee", "calibrate_gate", "Gate.plan")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if case.label in _PLANS else []) for case in ENTRIES],
    ids=lambda case: case.label,
)
def test_what_is_no_number_is_refused_in_one_sentence(case):
    case.call(**case.good)
    bad = case.bad()
    assert bad
    for name, wrong in bad:
        try:
            case.call(**{**case.good, name: wrong})
        except InvalidInput as error:
            if len(str(error)) > 500:
                pytest.fail(f"{name}: {str(error)[:200]} is no sentence")
        except Exception as error:
            pytest.fail(f"{name}={type(wrong)!s} {error!r}"[:500])
        else:
            pytest.fail(f"{name}={wrong!r} was taken")


def test_every_public_callable_is_here():
    found: set[str] = set()
    packages = (ostrakon.accounting, ostrakon.mechanisms)
    walked = [each.name for one in packages for each in pkgutil.walk_packages(one.__path__, f"{one.__name__}.")]
    for module in [*walked, *(f"ostrakon.papers.{name}" for name in PAPERS), "ostrakon.statements.statement"]:
        home = importlib.import_module(module)
        found |= {
            name
            for name, value in vars(home).items()
            if callable(value)
            and not name.startswith("_")
            and getattr(value, "__module__", None) == home.__name__
            and not isinstance(value, Compiled)
        }
    here = {case.label.split(".")[0] for case in ENTRIES} - {"Votes", "BoundedVotes", "_Theorem23"}
    assert found == here | ELSEWHERE
    assert not here & ELSEWHERE - {"Curve"}
