"""Whether a series has a slope: what drifts is not steady, and no step fits it like a line does.

A line is fitted to means of many steps in a row (least squares), so that noise which lasts a few
steps counts once, and is believed when it rises by several of its standard errors. Values come
bounded: an outlier tilts no line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: How much a series must rise over its length, as a part of its level, and how many standard
#: errors that must be: a slope that is plain may be flatter than one that is hardly seen.
PLAIN = (0.025, 4)
SEEN = (0.04, 3)
#: A step must explain so many times the variance of one value more than a line does.
_MARGIN = 16


def drifts(means: Sequence[float], level: float) -> bool:
    """Whether means of consecutive parts of equal length rise or fall over their length."""
    if len(means) < 4:
        return False
    rise, error = rising(means)
    return any(
        abs(rise) > part * level and abs(rise) > errors * error for part, errors in (PLAIN, SEEN)
    )


def rising(means: Sequence[float]) -> tuple[float, float]:
    """By how much the line through three means or more rises over them, and its standard error."""
    k = len(means)
    middle, mean = (k - 1) / 2, sum(means) / k
    spread = sum((i - middle) ** 2 for i in range(k))
    slope = sum((i - middle) * (y - mean) for i, y in enumerate(means)) / spread
    rest = sum((y - mean - slope * (i - middle)) ** 2 for i, y in enumerate(means))
    return slope * (k - 1), math.sqrt(rest / (k - 2) / spread) * (k - 1)


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


def _square_of_mean(v: Sequence[float], w: Sequence[float]) -> float:
    """What the weighted mean explains of the weighted sum of squares."""
    total = sum(a * b for a, b in zip(v, w, strict=True))
    return total * total / sum(w)


def _explained_by_line(x: Sequence[float], v: Sequence[float], w: Sequence[float]) -> float:
    """What the weighted least squares line explains of the weighted sum of squares."""
    weight = sum(w)
    mx = sum(a * b for a, b in zip(x, w, strict=True)) / weight
    mv = sum(a * b for a, b in zip(v, w, strict=True)) / weight
    sxy = sum(c * (a - mx) * (b - mv) for a, b, c in zip(x, v, w, strict=True))
    sxx = sum(c * (a - mx) ** 2 for a, c in zip(x, w, strict=True))
    return mv * mv * weight + (sxy * sxy / sxx if sxx else 0.0)
