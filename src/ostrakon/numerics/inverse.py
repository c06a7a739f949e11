"""Inverses of falling costs: the least number, or the most queries, within a limit on the cost."""

import math
import sys
from collections.abc import Callable

_LARGEST = sys.float_info.max / 4


def least(
    cost: Callable[[float], float],
    at_most: float,
    *,
    start: float,
    tolerance: float,
    growth: float = 2.0,
    furthest: float = _LARGEST,
) -> float:
    """Return the least x at which `cost(x)` is at most `at_most`, from above; inf if there is none up to `furthest`.

    cost: falls with x > 0. start: the first x, above 0; the bracket grows by `growth` until it contains the solution.
    tolerance: how far above the least x the result may be, relative to it.

    Guarantee: the cost was computed at the result and was at most `at_most` there, even if it does not fall. A NaN
    counts as above every limit.

    >>> least(lambda x: 1 / x, 0.25, start=1.0, tolerance=1e-9)
    4.0
    >>> least(lambda x: float("nan"), 0.25, start=1.0, tolerance=1e-9)
    inf
    """
    low, high = 0.0, start
    while not cost(high) <= at_most:
        if not high < furthest:
            return math.inf
        low, high = high, min(high * growth, furthest)
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if cost(middle) <= at_most else (middle, high)
    return high


def least_of_power(
    cost: Callable[[float], float],
    at_most: float,
    *,
    tolerance: float,
    growth: float,
    nearest: float,
    furthest: float,
) -> float:
    """Return `least` for a slow cost that is nearly a power of x, searched for around 1.

    at_most: above 0. nearest, furthest: the range of the search, below 1 and above it. 0 if the cost is within its
    limit even at `nearest`, inf if it is not at `furthest`. False position in logarithms, and a bisection if it stalls.

    Guarantee: as `least`.

    >>> x = least_of_power(lambda x: 5 / x**2, 1.25, tolerance=1e-4, growth=4, nearest=1e-9, furthest=1e9)
    >>> 2 <= x <= 2.0002
    True
    """
    low = high = 1.0
    over = under = cost(1.0)
    if under <= at_most:
        while over <= at_most:
            if not low > nearest:
                return 0.0
            high, under = low, over
            low = max(low / growth, nearest)
            over = cost(low)
    else:
        while not under <= at_most:
            if not high < furthest:
                return math.inf
            low, over = high, under
            high = min(high * growth, furthest)
            under = cost(high)

    def narrow(x: float) -> bool:
        nonlocal low, over, high, under
        value = cost(x)
        if value <= at_most:
            high, under = x, value
            return True
        low, over = x, value
        return False

    stalled = False
    while high / low > 1 + tolerance:
        powers = 0 < under < over < math.inf and not stalled
        share = math.log(over / at_most) / math.log(over / under) if powers else 0.5
        aim = low * (high / low) ** min(max(share, 0.0), 1.0)
        middle = min(max(aim * (1 + tolerance / 2), low * (1 + tolerance / 2)), high / (1 + tolerance / 2))
        before = high / low
        if narrow(middle) and high / low > 1 + tolerance and not stalled:
            # One step below the last success usually closes the bracket.
            narrow(max(middle / (1 + 0.9 * tolerance), low * (1 + tolerance / 4)))
        stalled = not stalled and high / low > math.sqrt(before)
    return high


def most(holds: Callable[[int], bool], *, at_least: int, below: int) -> int:
    """Return the largest whole number at which `holds`, which is true up to it and false above.

    at_least: returned, without a call, if no larger number holds. below: an upper bound that is not tried either.
    Guarantee: `holds` was true at the result, or the result is `at_least`.

    >>> most(lambda n: n * n <= 50, at_least=0, below=100)
    7
    """
    while below - at_least > 1:
        middle = (at_least + below) // 2
        at_least, below = (middle, below) if holds(middle) else (at_least, middle)
    return at_least
