"""Whether a series rises, falls or decays: what drifts is not steady, and a decay has no step.

Lines and exponentials are fitted by least squares. Values come bounded: an outlier tilts no line.
"""

from __future__ import annotations

import math
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: A drift: a rise over the series as a part of its level, and how many standard errors it must be.
#: One that is certain may be smaller than one that hardly shows.
DRIFTS = (0.025, 4), (0.04, 3)
#: Fewer outliers than this do not tell whether they grow.
_PEAKS = 8
#: By how many times the variance of one value each change of level must fit better than a line, and
#: a decay better than a change.
_BETTER_STEP, _BETTER_DECAY = 16, 10
#: A decay's squared error must be that of noise: at most so many times its variance.
_NOISY = 1.6


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of the line through three points or more, and its standard error."""
    k, mx, my = len(x), sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mx) ** 2 for a in x)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / spread
    rest = sum((b - my - slope * (a - mx)) ** 2 for a, b in zip(x, y, strict=True))
    return slope, math.sqrt(rest / (k - 2) / spread)


def drifts(means: Sequence[float], level: float) -> bool:
    """Whether means of consecutive parts of equal length rise or fall over their length.

    Args:
        means: Of the parts, long enough that noise of a few steps counts once; four at least.
        level: What the rise is a part of.
    """
    k = len(means)
    if k < 4:
        return False
    slope, error = line(range(k), means)
    rise = abs(slope) * (k - 1)
    return any(rise > part * level and abs(slope) > errors * error for part, errors in DRIFTS)


def outliers_drift(at: Sequence[int], excess: Sequence[float], level: float) -> bool:
    """Whether outliers grow or shrink along the series, and its mean with them.

    What comes every so often and takes ever longer, such as a plot of all losses so far, does.

    Args:
        at: The indices of the outliers.
        excess: By how much each exceeds its bound.
        level: What the rise of the mean is a part of.
    """
    if len(at) < _PEAKS:
        return False
    slope, error = line(at, excess)
    part, errors = DRIFTS[0]
    return abs(slope) > errors * error and abs(slope) * len(at) > part * level


def fits_line(
    x: Sequence[float], y: Sequence[float], w: Sequence[float], cuts: Sequence[int], sigma: float
) -> bool:
    """Whether levels that change at ``cuts`` fit hardly better than one line.

    Levels have their places to choose, a line has not, so noise alone makes them fit well.

    Args:
        x: Where each value stands.
        y: The values.
        w: How many observations each value stands for.
        cuts: The indices of the first values of the levels, from 0.
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
    """What the weighted mean explains of the weighted sum of squares."""
    total = sum(b * c for b, c in zip(y, w, strict=True))
    return total * total / sum(w) if w else 0.0


class Decay:
    """``level + excess * exp(-i / tau)`` at the value of index ``i``; ``error`` is squared."""

    __slots__ = ("error", "excess", "level", "tau")

    def __init__(self, level: float, excess: float, tau: float, error: float) -> None:
        self.level, self.excess, self.tau, self.error = level, excess, tau, error

    def falls_to(self, excess: float) -> float:
        """The index from which on it is within ``excess`` of its level."""
        return self.tau * math.log(abs(self.excess) / excess) if self.excess else 0.0


def decay(values: Sequence[float], cut: int, sigma: float) -> Decay | None:
    """The exponential that these values follow; None if they do not.

    They do if it leaves no more than noise, and less than a step at ``cut``. Its time constant is
    no longer than a third of the series, so that its end is in it.

    Args:
        values: The series.
        cut: Where the best step is, as an index.
        sigma: The standard deviation of one value's noise.
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
