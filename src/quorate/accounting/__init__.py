"""What a run costs: curves, worst cases, exact local costs and the four epsilons."""

from quorate.accounting.account import Account, account
from quorate.accounting.curve import DEFAULT_ORDERS, Conversion, Curve
from quorate.accounting.epsilons import LOCAL_NOTICE, Gated, Local, Sanitized, WorstCase
from quorate.accounting.exact import exact_curve, local_costs

__all__ = [
    "DEFAULT_ORDERS",
    "LOCAL_NOTICE",
    "Account",
    "Conversion",
    "Curve",
    "Gated",
    "Local",
    "Sanitized",
    "WorstCase",
    "account",
    "exact_curve",
    "local_costs",
]
