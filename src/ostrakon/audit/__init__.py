"""Empirical checks of any mechanism against its own claims."""

from ostrakon.audit.audit import Sampler, audit
from ostrakon.audit.certify import certified_epsilon, clopper_pearson
from ostrakon.audit.neighbours import Pair, candidate_neighbours, worst_neighbours
from ostrakon.audit.result import AuditResult

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
