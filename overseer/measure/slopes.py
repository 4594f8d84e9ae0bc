"""Whether a series has a slope: what drifts is not steady, and no step fits it like a line does.

A line is fitted to means of many steps in a row (least squares), so that noise which lasts a few
steps counts once, and is believed when it rises by several of its standard errors. Values come
bounded: an outlier tilts no line.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

#: How much a series must rise over its length, as a part of its level, and how many standard
#: errors that must be: a slope that is plain may be flatter than one that is hardly seen.
PLAIN = (0.025, 4)
SEEN = (0.04, 3)
#: So many values that were bounded tell whether they rise.
_PEAKS = 8
#: A step must explain so many times the variance of one value more than a line does.
_MARGIN = 16
#: A few levels must, for each change between them; and what slope is left within them must be no
#: more than so many of its standard errors.
_LEVELS, _CLEAR, _EVEN = 4, 15, 1.5


def drifts(
    means: Sequence[float], level: float, signs: Sequence[tuple[float, float]] = (PLAIN, SEEN)
) -> bool:
    """Whether means of consecutive parts of equal length rise or fall over their length.

    Args:
        means: Of the parts.
        level: What the rise is a part of.
        signs: Each a rise, as such a part, and how many of its standard errors it must be.
    """
    if len(means) < 4:
        return False
    rise, error = rising(means)
    return any(abs(rise) > part * level and abs(rise) > errors * error for part, errors in signs)


def rising(means: Sequence[float]) -> tuple[float, float]:
    """By how much the line through three means or more rises over them, and its standard error."""
    k = len(means)
    middle, mean = (k - 1) / 2, sum(means) / k
    spread = sum((i - middle) ** 2 for i in range(k))
    slope = sum((i - middle) * (y - mean) for i, y in enumerate(means)) / spread
    rest = sum((y - mean - slope * (i - middle)) ** 2 for i, y in enumerate(means))
    return slope * (k - 1), math.sqrt(rest / (k - 2) / spread) * (k - 1)


def peaks_rise(at: Sequence[int], excess: Sequence[float], level: float) -> bool:
    """Whether what was bounded rises or falls along the series, so that its mean does.

    Outliers have no size of their own. What comes every so often and takes ever longer, a plot of
    all losses so far say, has.

    Args:
        at: The indices of values that were bounded.
        excess: By how much each was outside.
        level: What the rise of the mean is a part of.
    """
    k = len(at)
    if k < _PEAKS:
        return False
    middle, mean = sum(at) / k, sum(excess) / k
    spread = sum((x - middle) ** 2 for x in at)
    slope = sum((x - middle) * (e - mean) for x, e in zip(at, excess, strict=True)) / spread
    rest = sum((e - mean - slope * (x - middle)) ** 2 for x, e in zip(at, excess, strict=True))
    part, errors = PLAIN
    plain = abs(slope) > errors * math.sqrt(rest / (k - 2) / spread)
    return plain and abs(slope) * k > part * level


def sloping(
    x: Sequence[float], v: Sequence[float], w: Sequence[float], cut: int, sigma: float
) -> bool:
    """Whether what looks like a change at ``cut`` is a slope: a step fits it hardly better.

    A step has its place to choose, a line has not, so noise alone makes a step fit well.

    Args:
        x: Where each value stands.
        v: The values.
        w: How many observations each value stands for.
        cut: The index of the first value after the change.
        sigma: The standard deviation of one observation.
    """
    step = _square_of_mean(v[:cut], w[:cut]) + _square_of_mean(v[cut:], w[cut:])
    return _explained_by_line(x, v, w) > step - _MARGIN * sigma * sigma


def levelled(
    x: Sequence[float],
    v: Sequence[float],
    w: Sequence[float],
    cuts: Sequence[int],
    level: float,
    sigma: float,
) -> bool:
    """Whether what looks like a slope is a few levels near each other.

    A line through a small change rises by up to half as much again as the change. Levels must fit
    clearly better than it, be even, and leave the end near the beginning.

    Args:
        x: Where each value stands.
        v: The values.
        w: How many observations each value stands for.
        cuts: The indices of the first values of the levels, from 0.
        level: What the change is a part of.
        sigma: The standard deviation of one observation.
    """
    if not 1 < len(cuts) <= _LEVELS:
        return False
    parts = [slice(a, b) for a, b in pairwise([*cuts, len(v)])]
    levels = sum(_square_of_mean(v[part], w[part]) for part in parts)
    if levels < _explained_by_line(x, v, w) + _CLEAR * (len(parts) - 1) * sigma * sigma:
        return False
    within = [_covariance(x[part], v[part], w[part]) for part in parts]
    sxy, sxx = (sum(each) for each in zip(*within, strict=True))
    if math.copysign(sxy, sxy * _covariance(x, v, w)[0]) > _EVEN * sigma * math.sqrt(sxx):
        return False
    fifth = (x[-1] - x[0]) / 5
    ends = slice(bisect_right(x, x[0] + fifth)), slice(bisect_left(x, x[-1] - fifth), None)
    return _near(v, w, parts, level, sigma) and _near(v, w, ends, level, sigma)


def _near(
    v: Sequence[float], w: Sequence[float], parts: Sequence[slice], level: float, sigma: float
) -> bool:
    """Whether the means of parts differ by no more than what is plain, and a standard error."""
    means = [(_mean(v[part], w[part]), sum(w[part])) for part in parts]
    (low, n), (high, m) = min(means), max(means)
    return high - low <= PLAIN[0] * level + sigma * math.sqrt(1 / n + 1 / m)


def _mean(v: Sequence[float], w: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(v, w, strict=True)) / sum(w)


def _covariance(x: Sequence[float], v: Sequence[float], w: Sequence[float]) -> tuple[float, float]:
    """The weighted sums of products about the means: of ``x`` with ``v``, and with itself."""
    mx, mv = _mean(x, w), _mean(v, w)
    sxy = sum(c * (a - mx) * (b - mv) for a, b, c in zip(x, v, w, strict=True))
    return sxy, sum(c * (a - mx) ** 2 for a, c in zip(x, w, strict=True))


def _square_of_mean(v: Sequence[float], w: Sequence[float]) -> float:
    """What the weighted mean explains of the weighted sum of squares."""
    total = sum(a * b for a, b in zip(v, w, strict=True))
    return total * total / sum(w)


def _explained_by_line(x: Sequence[float], v: Sequence[float], w: Sequence[float]) -> float:
    """What the weighted least squares line explains of the weighted sum of squares."""
    sxy, sxx = _covariance(x, v, w)
    return _square_of_mean(v, w) + (sxy * sxy / sxx if sxx else 0.0)
