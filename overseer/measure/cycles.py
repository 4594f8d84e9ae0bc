"""What repeats every few steps: an optimizer that steps after every fourth batch is no noise."""

from __future__ import annotations

from collections.abc import Sequence

from .changepoints import noise
from .statistics import quantile

#: The longest cycle looked for. A spike in seven steps or more is an outlier among them.
LONGEST = 16
#: What must be left of the noise without the cycle.
_LEFT = 0.5
#: Where steps differ less than this, as a part of their usual time, no cycle is in the way.
_CALM = 0.05


def without_cycle(values: Sequence[float]) -> Sequence[float]:
    """``values`` with the same mean for each place in the cycle they repeat, if they do repeat.

    The cycle is that of the second half: warm-up has no say.
    """
    sigma = noise(values)
    usual = quantile(sorted(values), 0.5) if values else 0.0
    if sigma <= _CALM * usual:
        return values
    for period in range(2, min(LONGEST, len(values) // 8) + 1):
        if noise(values, period) < _LEFT * sigma:
            evened = _evened(values, period)
            if noise(evened) < _LEFT * sigma:  # Not so where the cycle starts anew now and then.
                return evened
    return values


def _evened(values: Sequence[float], period: int) -> list[float]:
    half = len(values) // 2 // period * period
    usual = [quantile(sorted(values[half + at :: period]), 0.5) for at in range(period)]
    mean = sum(usual) / period
    return [value - usual[i % period] + mean for i, value in enumerate(values)]
