"""A budget over many runs on the same data: what each spent is written down before its noise is drawn."""

from ostrakon.ledger.cost import Cost, cost_of
from ostrakon.ledger.filter import KINDS, Filter
from ostrakon.ledger.ledger import Ledger, Receipt
from ostrakon.ledger.state import Account, Spend

__all__ = ["KINDS", "Account", "Cost", "Filter", "Ledger", "Receipt", "Spend", "cost_of"]
