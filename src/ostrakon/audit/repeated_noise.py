"""Test whether the noise of repeated tables is new in every cell and every draw, and has full resolution."""

from typing import Any

import numpy as np
from scipy import stats

from ostrakon.mechanisms.base import FloatArray
from ostrakon.validation import fraction, positive
from ostrakon.votes import STEPS

_MOST = 2000
"""Largest number of cells of which all pairs are compared."""
_MODULUS = 64
_TESTS = 6


def repeated_noise_breaks(residuals: FloatArray, sigma: float, *, error: float) -> str | None:
    """Return a contradiction between many draws of one table and new noise N(0, sigma^2) in each; None without one.

    Parameters
    ----------
    residuals : array of float, shape (draws, cells)
        Released minus exact numbers, in votes.
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
    Six tests, each at a sixth of the error, with slack for rounding to 1/1024 vote: the sum of squares of each cell
    (chi-square, Bonferroni over cells) and of the total of all cells (chi-square); the products of all pairs of cells
    (Bernstein's bound for sub-exponential numbers, Bonferroni over pairs); the same of their magnitudes, made uniform
    by their law (Bernstein's bound for bounded numbers); the total of the magnitudes (a uniform number is
    sub-Gaussian, so its sum of squares has the upper tail bound of chi-square); and the remainders of the steps modulo
    64 (binomial, Bonferroni over remainders), which are uniform but for exp(-50) from 0.1 votes of noise on.
    """
    sigma, error = positive("sigma", sigma), fraction("error", error) / _TESTS
    z = np.asarray(residuals, np.float64) / sigma
    if not np.isfinite(z).all():
        return "the noise holds a NaN or an infinity"
    cells, rounding = z.shape[1], 1 / (STEPS * sigma)
    wrong = wrong_size(z, rounding, error=error)
    if wrong is not None:
        cell, seen = wrong
        return f"cell {cell} has noise of standard deviation {sigma * seen:.4g} where {sigma:.4g} is stated"
    total = z.sum(axis=1, keepdims=True) / cells**0.5
    wrong = wrong_size(total, rounding * cells**0.5, error=error)
    if wrong is not None:
        stated = sigma * cells**0.5
        return (
            f"the total of all cells has noise of standard deviation {stated * wrong[1]:.4g} where {stated:.4g} follows"
        )
    # Uniform, with mean 0 and variance 1.
    magnitudes = 12**0.5 * (2 * stats.norm.cdf(np.abs(z)) - 1.5)
    # A step moves a magnitude by at most 1.4 roundings, and a product by 5.
    for what, numbers, slack in (("noise", z, rounding + rounding**2), ("sizes of noise", magnitudes, 5 * rounding)):
        related = _related(numbers[:, :_MOST], slack, error=error)
        if related is not None:
            one, other, seen = related
            return f"the {what} of cells {one} and {other} have the correlation {seen:.2f}"
    level, runs = np.log(1 / error), len(z)
    size = float(np.square(magnitudes.sum(axis=1)).sum()) / (cells * runs)
    slack = 1.4 * rounding * cells**0.5
    if size**0.5 > (1 + 2 * np.sqrt(level / runs) + 2 * level / runs) ** 0.5 + slack:
        return f"the sizes of noise of all cells together vary {size:.2f} times as much as those of new noise"
    return _coarse(z * sigma, error=error) if sigma >= 0.1 else None


def wrong_size(z: FloatArray, rounding: float, *, error: float) -> tuple[int, float] | None:
    """Return (first column whose noise has another standard deviation than 1, its value); None without one.

    z: (runs, cells). rounding: a step of the grid; rounding moves a number by at most half of it.
    """
    runs, cells = z.shape
    sizes = np.square(z).sum(axis=0)
    low, high = stats.chi2.ppf([error / (2 * cells), 1 - error / (2 * cells)], runs)
    slack = rounding * np.sqrt(runs * np.maximum(sizes, runs)) + runs * rounding**2
    wrong = np.flatnonzero((sizes < low - slack) | (sizes > high + slack))
    return (int(wrong[0]), float(np.sqrt(sizes[wrong[0]] / runs))) if len(wrong) else None


def _related(numbers: FloatArray, slack: float, *, error: float) -> tuple[int, int, float] | None:
    """Return (two columns that depend on each other, their correlation); None without any."""
    runs, cells = numbers.shape
    pairs = cells * (cells - 1) // 2
    if not pairs:
        return None
    products = np.abs(np.triu(numbers.T @ numbers, 1))
    one, other = np.unravel_index(int(products.argmax()), products.shape)
    worst = float(products[one, other])
    if worst <= largest_product(runs, slack, tests=pairs, error=error):
        return None
    return int(one), int(other), worst / runs


def largest_product(terms: Any, slack: float, *, tests: int, error: float) -> Any:
    """Return a bound that sums of products of independent standard normals exceed with probability at most `error`.

    It holds for all `tests` together, by Bernstein's bound for sub-exponential numbers. terms: number of products in
    each sum. slack: effect of rounding on a product.
    """
    level = np.log(2 * tests / error)
    return np.sqrt(2 * terms * level) + 2 * level + terms * slack


def _coarse(residuals: FloatArray, *, error: float) -> str | None:
    """Return a sentence if a remainder of the steps modulo 64 is too frequent or too rare; else None."""
    steps = np.rint(residuals * STEPS).astype(np.int64).ravel() % _MODULUS
    counts = np.bincount(steps, minlength=_MODULUS)
    tail, law = error / (2 * _MODULUS), stats.binom(len(steps), 1 / _MODULUS)
    wrong = np.flatnonzero((law.cdf(counts) < tail) | (law.sf(counts - 1) < tail))
    if not len(wrong):
        return None
    return (
        f"{counts[wrong[0]] / len(steps):.1%} of the noise is {wrong[0]} modulo {_MODULUS} steps of 1/{STEPS} vote, "
        f"where {1 / _MODULUS:.1%} should be: its last digits are not random"
    )
