"""Test whether the noise of a released table is Gaussian, of the stated size, and new in every cell."""

import numpy as np
from scipy import stats

from ostrakon.audit.repeated_noise import largest_product, repeated_noise_breaks, wrong_size
from ostrakon.audit.result import TABLE_NOISE, Finding
from ostrakon.mechanisms.base import FloatArray, Mechanism
from ostrakon.validation import fraction, positive
from ostrakon.votes import STEPS, BoundedVotes, Moments

_CELLS, _CLASSES, _TEACHERS = 64, 3, 1000
_MOST = 200_000
"""Number of tested values of a table: enough to detect one percent of missing noise."""
_GRID = 1 / STEPS


def noise_breaks(residuals: FloatArray, sigma: float, *, error: float) -> str | None:
    """Return a contradiction between residuals (released minus exact) and new draws of N(0, sigma^2); None without one.

    Parameters
    ----------
    residuals : array of float
        In votes; the order in which they were drawn matters.
    sigma : float
        Standard deviation that the mechanism states, in votes; above 0.
    error : float
        Probability, in (0, 1), with which noise that follows its law is refuted at most.

    Returns
    -------
    str or None
        The contradiction in one sentence.

    Notes
    -----
    Three tests, each at a third of the error: the sum of squares (chi-square, both sides; rounding to the grid of
    1/1024 vote is allowed for), the shape (Kolmogorov and Smirnov, exact law of the statistic), and for noise that is
    used again, the autocorrelation at every lag (Bonferroni over lags; of numbers that repeat at a lag it is near the
    share of them).
    """
    sigma, error = positive("sigma", sigma), fraction("error", error) / 3
    z = np.asarray(residuals, np.float64).ravel() / sigma
    n, rounding = len(z), _GRID / sigma
    if not np.isfinite(z).all():
        return "the noise holds a NaN or an infinity"
    wrong = wrong_size(z[:, None], rounding, error=error)
    if wrong is not None:
        return f"{n} numbers have noise of standard deviation {sigma * wrong[1]:.4g} where {sigma:.4g} is stated"
    statistic = stats.kstest(z, "norm").statistic
    if stats.kstwo.sf(max(statistic - rounding, 0.0), n) < error:
        return f"the noise of {n} numbers is not Gaussian (Kolmogorov-Smirnov statistic {statistic:.3g})"
    if n >= 16:
        spectrum = np.abs(np.fft.rfft(z, 2 * n)) ** 2
        lagged = np.fft.irfft(spectrum)[1 : n - 7]
        pairs = n - np.arange(1, n - 7)
        most = largest_product(pairs, rounding + rounding**2, tests=len(lagged), error=error)
        worst = int(np.argmax(np.abs(lagged) / most))
        if abs(lagged[worst]) > most[worst]:
            return (
                f"noise is used again at a lag of {worst + 1} numbers (correlation {lagged[worst] / pairs[worst]:.2f})"
            )
    return None


def table_finding(subject: Mechanism, *, error: float, rng: np.random.Generator) -> Finding | None:
    """Return the finding on the tables that a mechanism releases besides its answers; None without such tables.

    Guarantee: a mechanism whose noise follows its law is refuted with probability at most `error`.
    """
    sampled = _sampled(subject, rng)
    if not sampled:
        return None
    share = error / (2 * len(sampled) + 1)
    for what, (residuals, sigma) in sampled.items():
        broken = noise_breaks(residuals, sigma, error=share) or repeated_noise_breaks(
            residuals.reshape(-1, _CELLS * _CLASSES), sigma, error=share
        )
        if broken is not None:
            return Finding(test=TABLE_NOISE, detail=f"{what}: {broken}")
    # All tables together, to detect noise that is used in two tables.
    all_tables = np.concatenate([residuals / sigma for residuals, sigma in sampled.values()])
    broken = noise_breaks(all_tables, 1.0, error=share) if len(sampled) > 1 else None
    return Finding(test=TABLE_NOISE, detail=None if broken is None else f"all tables together: {broken}")


def _sampled(subject: Mechanism, rng: np.random.Generator) -> dict[str, tuple[FloatArray, float]]:
    """Return for each released table (residuals in the order of the draws, stated standard deviation)."""
    samples: dict[str, tuple[FloatArray, float]] = {}
    runs = _MOST // (_CELLS * _CLASSES)
    # Small and large counts: noise may be missing for some values alone.
    exact = np.where(np.arange(_CELLS * _CLASSES) % 5, np.arange(_CELLS * _CLASSES) % 7, _TEACHERS // 200)
    exact = exact.reshape(_CELLS, _CLASSES)
    exact[0, 0] = _TEACHERS - exact.sum() + exact[0, 0]
    if subject.releases_counts and subject.vote_noise is not None and subject.contribution_bound is not None:
        votes = BoundedVotes(exact, teachers=_TEACHERS, max_contributions=subject.contribution_bound)
        noise = np.concatenate([(subject.noisy_counts(votes, rng) - exact).ravel() for _ in range(runs)])
        samples["noisy counts"] = noise, subject.vote_noise
    sums = Moments(exact * STEPS, teachers=_TEACHERS)
    for what, sigma, draw in (
        ("noisy histogram of the target", subject.histogram_noise, subject.noisy_histogram),
        ("noisy sums of features", subject.moment_noise, subject.noisy_moments),
        ("noisy corrections", subject.correction_noise, subject.noisy_corrections),
        ("noisy counts of errors", subject.error_noise, subject.noisy_errors),
    ):
        if sigma is not None:
            samples[what] = np.concatenate([(draw(sums, rng) - exact).ravel() for _ in range(runs)]), sigma
    return samples
