"""Detects drifts and decays in a series, by least squares.

Outliers must be clipped beforehand, so that they do not tilt a line.
"""

from __future__ import annotations

import math
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The minimum rise of a drift, relative to the level, and the standard errors it must exceed: a
#: smaller rise must be more certain.
DRIFTS = (0.025, 4), (0.04, 3)
#: Minimum count of outliers to detect their growth.
_PEAKS = 8
#: The gain in squared error, in variances of one value, that each change of level needs over a
#: line, and a decay over a change of level.
_BETTER_STEP, _BETTER_DECAY = 16, 10
#: Maximum mean squared error of a decay, in variances of the noise.
_NOISY = 1.6


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of a line fitted to three or more points, and its standard error."""
    k, mx, my = len(x), sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mx) ** 2 for a in x)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / spread
    rest = sum((b - my - slope * (a - mx)) ** 2 for a, b in zip(x, y, strict=True))
    return slope, math.sqrt(rest / (k - 2) / spread)


def drifts(means: Sequence[float], level: float) -> bool:
    """Whether the means of consecutive parts of equal length rise or fall.

    Args:
        means: At least four means, of parts long enough to average out noise between neighbours.
        level: The level that the rise is relative to.
    """
    k = len(means)
    if k < 4:
        return False
    slope, error = line(range(k), means)
    rise = abs(slope) * (k - 1)
    return any(rise > part * level and abs(slope) > errors * error for part, errors in DRIFTS)


def outliers_drift(at: Sequence[int], excess: Sequence[float], level: float) -> bool:
    """Whether outliers grow or shrink along the series, and move its mean.

    An example is a plot of all losses so far, drawn every 100 steps.

    Args:
        at: The indices of the outliers.
        excess: The excess of each over its bound.
        level: The level that the rise of the mean is relative to.
    """
    if len(at) < _PEAKS:
        return False
    slope, error = line(at, excess)
    part, errors = DRIFTS[0]
    return abs(slope) > errors * error and abs(slope) * len(at) > part * level


def fits_line(
    x: Sequence[float], y: Sequence[float], w: Sequence[float], cuts: Sequence[int], sigma: float
) -> bool:
    """Whether a line fits nearly as well as levels that change at ``cuts``.

    The places of the cuts were chosen to fit, so levels must be clearly better.

    Args:
        x: The position of each value.
        y: The values.
        w: The number of observations behind each value.
        cuts: The index of each level's first value, from 0.
        sigma: The standard deviation of one observation.
    """
    total = sum(w)
    mx = sum(a * c for a, c in zip(x, w, strict=True)) / total
    sxx = sum(c * (a - mx) ** 2 for a, c in zip(x, w, strict=True))
    sxy = sum(c * (a - mx) * b for a, b, c in zip(x, y, w, strict=True))
    by_line = _explained(y, w) + (sxy * sxy / sxx if sxx else 0.0)
    by_steps = sum(_explained(y[a:b], w[a:b]) for a, b in pairwise([*cuts, len(y)]))
    return by_line > by_steps - _BETTER_STEP * (len(cuts) - 1) * sigma * sigma


def _explained(y: Sequence[float], w: Sequence[float]) -> float:
    """The part of the weighted sum of squares that the weighted mean explains."""
    total = sum(b * c for b, c in zip(y, w, strict=True))
    return total * total / sum(w) if w else 0.0


class Decay:
    """The fit ``level + excess * exp(-i / tau)`` over indices ``i``, with its squared error."""

    __slots__ = ("error", "excess", "level", "tau")

    def __init__(self, level: float, excess: float, tau: float, error: float) -> None:
        self.level, self.excess, self.tau, self.error = level, excess, tau, error

    def falls_to(self, excess: float) -> float:
        """The index from which it is within ``excess`` of its level."""
        return self.tau * math.log(abs(self.excess) / excess) if self.excess else 0.0


def decay(values: Sequence[float], cut: int, sigma: float) -> Decay | None:
    """Fit an exponential decay; None if the values do not follow one.

    The residual must be noise, and smaller than that of a step at ``cut``. The time constant is at
    most a third of the series, so that the series contains its end.

    Args:
        values: The series.
        cut: The index of the best step.
        sigma: The standard deviation of the noise of one value.
    """
    if len(values) < 6:
        return None
    taus, tau = [], 1.0
    while tau <= len(values) / 3:
        taus.append(tau)
        tau *= 1.2
    best = min((_fitted(values, tau) for tau in taus), key=_error)
    for finer in (1.1, 1.05, 1.025, 1.0125, 1.006, 1.003):
        near = (_fitted(values, tau) for tau in (best.tau * finer, best.tau / finer))
        best = min(best, *near, key=_error)
    step = sum(_square(part) for part in (values[:cut], values[cut:]) if part)
    variance = sigma * sigma
    noisy = best.error > _NOISY * variance * len(values)
    if best.level <= 0 or noisy or best.error >= step - _BETTER_DECAY * variance:
        return None
    return best


def _fitted(values: Sequence[float], tau: float) -> Decay:
    """The best decay with this time constant."""
    n, ratio = len(values), math.exp(-1 / tau)
    powers = [ratio**i for i in range(n)]
    s, total = sum(powers), sum(values)
    sy = sum(p * v for p, v in zip(powers, values, strict=True))
    excess = (sy - s * total / n) / (sum(p * p for p in powers) - s * s / n)
    level = (total - excess * s) / n
    error = sum((v - level - excess * p) ** 2 for p, v in zip(powers, values, strict=True))
    return Decay(level, excess, tau, error)


def _error(found: Decay) -> float:
    return found.error


def _square(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)
