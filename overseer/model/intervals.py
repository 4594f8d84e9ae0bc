"""95 % intervals of ratios over repeated runs.

Steps of one run are not independent, and say nothing about the next run: each run is one value.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Student's t, 97.5 %, for 1 to 20 degrees of freedom; then the normal distribution's.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_Z = 1.959964


def ratio_of_pairs(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """The interval of ``after / before`` over pairs of alternating runs.

    Student's t on differences of logarithms: what slows both runs of a pair cancels out. None for
    fewer than two pairs, or if a value is not above 0.
    """
    if len(before) != len(after) or len(before) < 2 or min(*before, *after) <= 0:
        return None
    mean, variance = _moments([math.log(b / a) for a, b in zip(before, after, strict=True)])
    return _interval(mean, math.sqrt(variance / len(before)), len(before) - 1)


def ratio_over_runs(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """The interval of ``after / before`` over unpaired runs, one value for each.

    Welch's t on logarithms; a side with a single run takes the variance of the other side. None
    without a repeat, or if a value is not above 0.
    """
    n, m = len(before), len(after)
    if n + m < 3 or not n or not m or min(*before, *after) <= 0:
        return None
    (a, va), (b, vb) = (_moments([math.log(each) for each in side]) for side in (before, after))
    if n == 1 or m == 1:
        return _interval(b - a, math.sqrt((va + vb) * (1 / n + 1 / m)), n + m - 2)
    whole, parts = va / n + vb / m, (va / n) ** 2 / (n - 1) + (vb / m) ** 2 / (m - 1)
    return _interval(b - a, math.sqrt(whole), whole**2 / parts if parts else n + m - 2)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t; degrees of freedom are rounded down.

    Beyond the table it is the first term of the Cornish-Fisher expansion of the normal quantile.
    """
    whole = max(1, math.floor(freedom))
    return _T[whole - 1] if whole <= len(_T) else _Z + (_Z**3 + _Z) / (4 * whole)


def _interval(mean: float, error: float, freedom: float) -> tuple[float, float]:
    reach = student(freedom) * error
    return math.exp(mean - reach), math.exp(mean + reach)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance; the variance of one value is 0."""
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, squares / max(1, len(values) - 1)
