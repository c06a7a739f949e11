"""What a run costs, in four kinds of epsilon that are never mixed.

`account` prices votes in one call. `worst_case` holds whatever the votes are; `calibrate` finds noise for an epsilon.
`Gate` and `Sanitizer` say what may leave when votes agree. `exact_curve` is what these votes cost: private.

Rooms: `composition` (how costs add up), `data_independent` (whatever the votes are), `data_dependent` (these votes:
private), `gate`, `calibration`, `published` (the papers' bounds, to reproduce their numbers).
"""

from ostrakon.accounting.account import Account, account
from ostrakon.accounting.calibration.gated import choose_guarantee
from ostrakon.accounting.calibration.noise import calibrate
from ostrakon.accounting.composition.gaussian_dp import gaussian_dp_delta, gaussian_dp_epsilon
from ostrakon.accounting.composition.pure_dp import pure_dp_epsilon
from ostrakon.accounting.composition.run import run_epsilon
from ostrakon.accounting.data_dependent.exact import data_dependent_costs, exact_curve
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
]
