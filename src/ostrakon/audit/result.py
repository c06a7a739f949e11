"""The result of an audit."""

import math
from dataclasses import asdict, dataclass
from typing import Any

SAMPLES_CLAIM = "samples against the claim"
SAMPLES_LAW = "samples against the law"
LAW_CLAIM = "law against the claim"
ONE_RECORD = "one record moves one vote"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one test. detail: the contradiction in words, None if there is none."""

    test: str
    detail: str | None

    @property
    def refuted(self) -> bool:
        """Whether this test found a contradiction."""
        return self.detail is not None


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """A certified lower bound on epsilon beside a claim.

    mechanism: its name. claimed: the epsilon claimed at `delta` for `queries` queries together. lower_bound: the true
    epsilon is at least this, with probability `confidence` over the audit's own samples.
    neighbours: the first query's votes on the two datasets, synthetic. samples: runs on each of them.
    seen: how often the chosen event was seen on the one and on the other. findings: what each test found.
    """

    mechanism: str
    claimed: float
    lower_bound: float
    confidence: float
    delta: float
    queries: int
    samples: int
    neighbours: tuple[tuple[int, ...], tuple[int, ...]]
    seen: tuple[int, int]
    findings: tuple[Finding, ...]

    @property
    def refuted(self) -> bool:
        """Whether any test found a contradiction. What is sound is refuted with probability 1 - confidence at most."""
        return bool(self.refuted_by)

    @property
    def refuted_by(self) -> tuple[str, ...]:
        """The tests that found a contradiction."""
        return tuple(finding.test for finding in self.findings if finding.refuted)

    @property
    def verdict(self) -> str:
        """One sentence."""
        asked = "one query" if self.queries == 1 else f"{self.queries} queries"
        setting = f"{asked} at delta {self.delta:g}"
        claim = "no finite epsilon" if math.isinf(self.claimed) else f"epsilon {self.claimed:.4g}"
        sure = f"{100 * self.confidence:g}% confidence"
        if self.refuted:
            details = "; ".join(f"{finding.test}: {finding.detail}" for finding in self.findings if finding.refuted)
            return f"The claim is refuted: {self.mechanism} claims {claim} for {setting}; {details} ({sure})."
        return (
            f"No contradiction was found: {self.mechanism} claims {claim} for {setting}, and {self.samples} samples "
            f"certify at least {self.lower_bound:.4g} with {sure}; an audit can refute a claim, never prove it."
        )

    def as_json(self) -> dict[str, Any]:
        """{"mechanism", "claimed", "lower_bound", "confidence", ...}; a claim of no epsilon is null."""
        return {
            **asdict(self),
            "claimed": self.claimed if math.isfinite(self.claimed) else None,
            "refuted": self.refuted,
            "refuted_by": list(self.refuted_by),
            "findings": {finding.test: finding.detail for finding in self.findings},
            "verdict": self.verdict,
        }
