"""The result of an audit."""

import math
from dataclasses import asdict, dataclass
from typing import Any

SAMPLES_CLAIM = "sampled outputs vs. claimed epsilon"
SAMPLES_LAW = "sampled outputs vs. stated probabilities"
LAW_CLAIM = "exact epsilon vs. claimed epsilon"
ONE_RECORD = "one record moves one vote"
TABLE_NOISE = "noise of the released tables"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one test of an audit.

    Parameters
    ----------
    test : str
        Name of the test.
    detail : str or None
        The contradiction in words; None if there is none.
    """

    test: str
    detail: str | None

    @property
    def refuted(self) -> bool:
        """Whether this test found a contradiction."""
        return self.detail is not None


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The result of an audit of a mechanism.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism, or of the function.
    claimed : float
        Epsilon at `delta` for all `queries` together; inf if nothing is claimed.
    lower_bound : float
        The true epsilon is at least this with probability `confidence`.
    confidence, delta : float
        In (0, 1).
    queries : int
        Queries of one run.
    neighbours : tuple of two tuples of int
        Votes on the first query in the two synthetic data sets.
    samples : int
        Runs on each data set.
    seen : tuple of two ints
        How often the outputs that best distinguish the two occurred on each data set.
    findings : tuple of Finding
        Results of the tests.

    Notes
    -----
    `refuted` is true if any test found a contradiction. An audit can refute a claim, never prove it.
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
        """Whether a test found a contradiction; a true claim is refuted with probability at most 1 - confidence."""
        return bool(self.refuted_by)

    @property
    def refuted_by(self) -> tuple[str, ...]:
        """Names of the tests that found a contradiction."""
        return tuple(finding.test for finding in self.findings if finding.refuted)

    @property
    def verdict(self) -> str:
        """One sentence."""
        queries = "one query" if self.queries == 1 else f"{self.queries} queries"
        setting = f"{queries} at delta {self.delta:g}"
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
        """Return plain values for JSON; an infinite claim is null."""
        return {
            **asdict(self),
            "claimed": self.claimed if math.isfinite(self.claimed) else None,
            "refuted": self.refuted,
            "refuted_by": list(self.refuted_by),
            "findings": {finding.test: finding.detail for finding in self.findings},
            "verdict": self.verdict,
        }
