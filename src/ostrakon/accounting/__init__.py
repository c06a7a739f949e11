"""What a run costs, as four kinds of epsilon that are never mixed.

`account` prices votes in one call. `worst_case` holds for all votes; `calibrate` finds the noise for an epsilon. `Gate`
and `Sanitizer` decide what may be released when votes agree. `exact_curve` is the cost of the given votes, and private.

Packages: `composition` (adds costs), `data_independent` (bounds for all votes), `data_dependent` (costs of the given
votes; private), `gate`, `calibration`, `published` (the papers' bounds, to reproduce their numbers).
"""

from ostrakon.accounting.account import Account, account
from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_dependent.exact import data_dependent_costs, exact_curve
from ostrakon.accounting.data_independent.stages import Stage, worst_case_of_stages
from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE, DataDependent, Gated, Sanitized, WorstCase
from ostrakon.accounting.gate.gate import Gate
from ostrakon.accounting.gate.sanitizer import Sanitizer
from ostrakon.accounting.gate.simulated_votes import simulate_votes
from ostrakon.accounting.membership_guess import membership_guess
from ostrakon.accounting.published.bounds import published_curve
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Conversion, Curve

__all__ = [
    "DATA_DEPENDENT_NOTICE",
    "DEFAULT_ORDERS",
    "Account",
    "Conversion",
    "Curve",
    "DataDependent",
    "Gate",
    "Gated",
    "Sanitized",
    "Sanitizer",
    "Stage",
    "WorstCase",
    "account",
    "calibrate",
    "choose_guarantee",
    "data_dependent_costs",
    "exact_curve",
    "gaussian_dp_delta",
    "gaussian_dp_epsilon",
    "membership_guess",
    "published_curve",
    "pure_dp_epsilon",
    "run_epsilon",
    "simulate_votes",
    "worst_case",
    "worst_case_of_stages",
]
