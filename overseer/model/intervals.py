"""95 % intervals of ratios over repeated runs.

Steps of one run are not independent, and say nothing about the next run: each run is one value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Student's t, 97.5 %, for 1 to 20 degrees of freedom; then the normal distribution's.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_Z = 1.959964
#: Logarithm of the largest ratio.
_MOST = 700.0


class Change(NamedTuple):
    """One side against another, or the mean of one.

    Attributes:
        ratio: The second side to the first, or the mean; None if not known.
        interval: Its 95 % interval; None for fewer than two values.
        deviation: The standard deviation of one pair, relative to the first side.
        n: Pairs, or values of the smaller side.
    """

    ratio: float | None
    interval: tuple[float, float] | None
    deviation: float
    n: int


def of_pairs(before: Sequence[float], after: Sequence[float]) -> Change:
    """The second value of pairs against the first.

    Student's t on the logarithms of ratios; if a value is not above 0, on differences, relative to
    the size of the first side's mean.
    """
    n = len(before)
    if not n:
        return Change(None, None, 0.0, 0)
    if min(*before, *after) > 0:
        mean, variance = _moments([math.log(b / a) for a, b in zip(before, after, strict=True)])
        return _changed(mean, variance, n, _exp)
    base = abs(math.fsum(before) / n)
    if not base:
        return Change(None, None, 0.0, n)
    mean, variance = _moments([(b - a) / base for a, b in zip(before, after, strict=True)])
    return _changed(mean, variance, n, _one_more)


def of_unpaired(before: Sequence[float], after: Sequence[float]) -> Change:
    """Processes of one side against those of another: Welch's t, on logarithms if all are above 0.

    Below, on values relative to the size of the first side's mean. One process against several has
    their variance.
    """
    n = min(len(before), len(after))
    if not n:
        return Change(None, None, 0.0, 0)
    back: Callable[[float], float] = _exp
    if min(*before, *after) > 0:
        sides = [[math.log(each) for each in side] for side in (before, after)]
    else:
        base = abs(math.fsum(before) / len(before))
        if not base:
            return Change(None, None, 0.0, n)
        sides = [[each / base for each in side] for side in (before, after)]
        back = _one_more
    (a, va), (b, vb) = map(_moments, sides)
    deviation = math.sqrt(va + vb)
    sizes = len(before), len(after)
    parts = [each / size for each, size in zip((va, vb), sizes, strict=True)]
    if max(sizes) < 2:
        return Change(back(b - a), None, deviation, n)
    whole, freedom = sum(parts), float(sum(sizes) - 2)
    if n < 2:
        whole = (va + vb) * sum(1 / size for size in sizes)
    elif whole:
        freedom = (
            whole * whole / sum(p * p / (size - 1) for p, size in zip(parts, sizes, strict=True))
        )
    reach = student(freedom) * math.sqrt(whole)
    return Change(back(b - a), (back(b - a - reach), back(b - a + reach)), deviation, n)


def _exp(logarithm: float) -> float:
    return math.exp(max(-_MOST, min(logarithm, _MOST)))


def _one_more(difference: float) -> float:
    return 1 + difference


def of_processes(values: Sequence[float]) -> Change:
    """The mean of independent values: geometric if all are above 0, otherwise arithmetic."""
    if not values:
        return Change(None, None, 0.0, 0)
    positive = min(values) > 0
    mean, variance = _moments([math.log(each) for each in values] if positive else values)
    return _changed(mean, variance, len(values), _exp if positive else float)


def _changed(mean: float, variance: float, n: int, back: Callable[[float], float]) -> Change:
    deviation = math.sqrt(variance)
    if n < 2:
        return Change(back(mean), None, deviation, n)
    reach = student(n - 1) * deviation / math.sqrt(n)
    return Change(back(mean), (back(mean - reach), back(mean + reach)), deviation, n)


def pairs_for(found: Change, threshold: float) -> int | None:
    """About how many more pairs would put the interval on one side of the threshold.

    It supposes that mean and deviation stay as they are; None if the mean is at the threshold.
    """
    if found.ratio is None:
        return None
    room = abs(abs(found.ratio - 1) - threshold)
    if room <= 0:
        return None
    needed = next(
        (n for n in range(found.n + 1, 5000)
         if student(n - 1) * found.deviation / math.sqrt(n) < room), None)  # fmt: skip
    return None if needed is None else needed - found.n


def beyond(interval: tuple[float, float], threshold: float) -> bool:
    """Whether an interval of ratios lies wholly beyond the threshold, in either direction."""
    return interval[0] > 1 + threshold or interval[1] < 1 - threshold


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t; degrees of freedom are rounded down.

    Beyond the table it is the first term of the Cornish-Fisher expansion of the normal quantile.
    """
    whole = math.floor(freedom) if freedom > 1 else 1  # Also of NaN, from infinite variances.
    return _T[whole - 1] if whole <= len(_T) else _Z + (_Z**3 + _Z) / (4 * whole)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance; the variance of one value is 0."""
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) * (value - mean) for value in values)
    return mean, squares / max(1, len(values) - 1)


def vetoed(found: Change, control: Change | None, against: Change | None, threshold: float) -> bool:
    """Whether the control of a bench speaks against a conclusion.

    It does if the reference differs from itself, or if the side differs from the reference, but on
    average not from the control.

    Args:
        found: A side against the reference.
        control: The reference once more against the reference; None without a control.
        against: The side against the control.
        threshold: The smallest difference to call one.
    """
    if control is None or control.interval is None:
        return False
    if beyond(control.interval, threshold):
        return True
    if found.ratio is None or found.interval is None or not beyond(found.interval, threshold):
        return False
    ratio = against.ratio if against is not None and against.ratio is not None else 1.0
    return ratio <= 1 + threshold if found.ratio > 1 else ratio >= 1 - threshold
