"""What a run costs: curves, worst cases, exact data-dependent costs and the four epsilons."""

from ostrakon.accounting.account import Account, account
from ostrakon.accounting.data_dependent.exact import data_dependent_costs, exact_curve
from ostrakon.accounting.epsilons import DATA_DEPENDENT_NOTICE, DataDependent, Gated, Sanitized, WorstCase
from ostrakon.accounting.rdp import DEFAULT_ORDERS, Conversion, Curve

__all__ = [
    "DEFAULT_ORDERS",
    "DATA_DEPENDENT_NOTICE",
    "Account",
    "Conversion",
    "Curve",
    "Gated",
    "DataDependent",
    "Sanitized",
    "WorstCase",
    "account",
    "exact_curve",
    "data_dependent_costs",
]
