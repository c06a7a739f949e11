"""Outcome laws the slow way, in mpmath: nothing here is shared with the library."""

from functools import cache

import mpmath as mp
from histograms import DIGITS


def gaussian_law(counts: tuple[int, ...], sigma: int) -> list[mp.mpf]:
    """P(each class wins) under N(0, sigma^2) noise: the trapezoid rule at a step far below what 50 digits need."""
    with mp.workdps(DIGITS):
        top, low = max(counts), min(counts)
        step = mp.mpf(sigma) / 8
        first, last = (low + top) // 2 - 16 * sigma, top + 16 * sigma
        nodes = int((last - first) / step) + 1
        total = [mp.mpf(0)] * len(counts)
        for k in range(nodes):
            z = first + k * step
            phi = [_cdf(z - n, sigma) for n in counts]
            product = mp.fprod(phi)
            for i, n in enumerate(counts):
                total[i] += product / phi[i] * _density(z - n, sigma)
        return [t * step for t in total]


@cache
def _cdf(t: mp.mpf, sigma: int) -> mp.mpf:
    return mp.erfc(-t / (sigma * mp.sqrt(2))) / 2


@cache
def _density(t: mp.mpf, sigma: int) -> mp.mpf:
    return mp.exp(-((t / sigma) ** 2) / 2) / (sigma * mp.sqrt(2 * mp.pi))


def laplace_law(counts: tuple[int, ...], scale: int) -> list[mp.mpf]:
    """P(each class wins) under Laplace noise: between counts a polynomial in e^(-z/b), integrated term by term."""
    with mp.workdps(3 * DIGITS + int(sum(max(counts) - n for n in counts) / scale)):
        b = mp.mpf(scale)
        knots = sorted(set(counts))
        result = []
        for i, own in enumerate(counts):
            others = [n for j, n in enumerate(counts) if j != i]
            total = mp.mpf(0)
            for low, high in zip([None, *knots], [*knots, None], strict=True):
                above = [n for n in others if low is None or n > low]
                below = [n for n in others if not (low is None or n > low)]
                # With v = e^(z/b): F = v e^(-n/b)/2 for counts above, 1 - e^(n/b)/(2v) for those below.
                terms = {len(above): mp.fprod(mp.exp(-n / b) / 2 for n in above)}
                for n in below:
                    step = {}
                    for power, c in terms.items():
                        step[power] = step.get(power, 0) + c
                        step[power - 1] = step.get(power - 1, 0) - c * mp.exp(n / b) / 2
                    terms = step
                rising = low is None or own > low
                for power, c in terms.items():
                    k = power + (1 if rising else -1)
                    front = c * mp.exp((-own if rising else own) / b) / 2
                    total += front * _power_integral(
                        k, None if low is None else low / b, None if high is None else high / b
                    )
            result.append(total)
        return result


def _power_integral(k: int, low: mp.mpf | None, high: mp.mpf | None) -> mp.mpf:
    """The integral of e^(k z) from low to high; None: from -infinity, to infinity."""
    if k == 0:
        return high - low
    return ((mp.exp(k * high) if high is not None else 0) - (mp.exp(k * low) if low is not None else 0)) / k


def softmax_law(counts: tuple[int, ...], scale: int) -> list[mp.mpf]:
    with mp.workdps(DIGITS):
        weights = [mp.exp(mp.mpf(n) / scale) for n in counts]
        return [w / mp.fsum(weights) for w in weights]


def with_check(labels: list[mp.mpf], answered: mp.mpf) -> list[mp.mpf]:
    """The joint law of (label, no answer)."""
    with mp.workdps(DIGITS):
        return [answered * p for p in labels] + [1 - answered]


def gaussian_above(margin: mp.mpf, sigma: int) -> mp.mpf:
    with mp.workdps(DIGITS):
        return mp.erfc(-mp.mpf(margin) / (sigma * mp.sqrt(2))) / 2
