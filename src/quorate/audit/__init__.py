"""Empirical checks of any mechanism against its own claims."""

from quorate.audit.audit import Sampler, audit
from quorate.audit.certify import certified_epsilon, clopper_pearson
from quorate.audit.neighbours import Pair, candidate_neighbours, worst_neighbours
from quorate.audit.result import AuditResult

__all__ = [
    "AuditResult",
    "Pair",
    "Sampler",
    "audit",
    "candidate_neighbours",
    "certified_epsilon",
    "clopper_pearson",
    "worst_neighbours",
]
