"""Where a decay has come near its end: a step time that falls, or rises, to its level by and by.

No single step shows it where the decay is slow: from one to the next it changes less than the noise
does. What all around it tell together is an exponential's place, fitted by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Time constants that are tried, in steps: the first, each as a part of the one before it, and then
#: those about the best, ever nearer.
_FIRST, _NEXT, _FINER = 1.0, 1.2, (1.1, 1.05, 1.025, 1.0125, 1.006, 1.003)
#: The fit's squared error must be that of noise: no more than so many times its variance.
_NOISY = 1.6
#: By how much, in variances of the noise, it must fit better than a step does.
_MARGIN = 10


@dataclass(frozen=True)
class Decay:
    """``level + excess * exp(-i / tau)`` at the value of index ``i``."""

    level: float
    excess: float
    tau: float
    error: float

    def falls_to(self, excess: float) -> float:
        """The index from which on it is within ``excess`` of its level."""
        return self.tau * math.log(abs(self.excess) / excess) if self.excess else 0.0

    def mean(self, begin: int, end: int) -> float:
        """Mean excess of the values from ``begin`` until before ``end``."""
        if begin == end:
            return 0.0
        a, b = math.exp(-begin / self.tau), math.exp(-end / self.tau)
        return self.excess * (a - b) / (1 - math.exp(-1 / self.tau)) / (end - begin)


def decay(values: Sequence[float]) -> Decay | None:
    """The exponential with the least squared error, None of fewer than six values.

    Its time constant is no longer than a third of the series, so that its end is in it.
    """
    n, total = len(values), sum(values)
    if n < 6:
        return None
    tried = [_fitted(values, total, tau) for tau in _times(n)]
    best = min(tried, key=lambda each: each.error)
    for finer in _FINER:
        near = (best.tau * finer, best.tau / finer)
        best = min([best, *(_fitted(values, total, tau) for tau in near)], key=lambda d: d.error)
    return best


def _times(n: int) -> Iterator[float]:
    tau = _FIRST
    while tau <= n / 3:
        yield tau
        tau *= _NEXT


def _fitted(values: Sequence[float], total: float, tau: float) -> Decay:
    n, ratio, power = len(values), math.exp(-1 / tau), 1.0
    s = ss = sy = 0.0
    for value in values:
        s += power
        ss += power * power
        sy += power * value
        power *= ratio
    spread = ss - s * s / n
    excess = (sy - s * total / n) / spread
    level = (total - excess * s) / n
    error, power = 0.0, excess
    for value in values:
        rest = value - level - power
        error += rest * rest
        power *= ratio
    return Decay(level, excess, tau, error)


def is_decay(found: Decay, values: Sequence[float], cut: int, sigma: float) -> bool:
    """Whether it is what these times do: but for noise, and better than a step at ``cut``."""
    variance = sigma * sigma
    if found.level <= 0 or found.error > _NOISY * variance * len(values):
        return False
    step = sum(_square(part) for part in (values[:cut], values[cut:]) if part)
    return found.error < step - _MARGIN * variance


def _square(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)
