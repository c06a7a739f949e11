"""Empirical checks of any mechanism against its own claims."""

from ostrakon.audit.audit import audit
from ostrakon.audit.certify import certified_epsilon, clopper_pearson
from ostrakon.audit.law_profile import worst_neighbours
from ostrakon.audit.neighbours import Pair, candidate_neighbours
from ostrakon.audit.result import LAW_CLAIM, SAMPLES_CLAIM, SAMPLES_LAW, AuditResult, Finding
from ostrakon.audit.runs import Sampler
from ostrakon.audit.training import TrainingAudit, audit_training

__all__ = [
    "LAW_CLAIM",
    "SAMPLES_CLAIM",
    "SAMPLES_LAW",
    "AuditResult",
    "Finding",
    "Pair",
    "Sampler",
    "TrainingAudit",
    "audit",
    "audit_training",
    "candidate_neighbours",
    "certified_epsilon",
    "clopper_pearson",
    "worst_neighbours",
]
