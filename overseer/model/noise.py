"""The noise of a series whose mean may change, and outliers bounded by it.

Source: Fearnhead and Rigaill, "Changepoint detection in the presence of outliers" (JASA 114, 2019)
for bounding what one value can say.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort

from .statistics import quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

#: Steps that are bounded by the same median where they are kept in blocks.
CHUNK = 32
#: A difference smaller than this part of the usual value is no noise: clocks have a resolution.
LEAST: Final = 0.002
#: A value may be so many standard deviations from its neighbours' median.
_BOUND: Final = 3
_WINDOW: Final = 7
#: The 0.7 quantile of the absolute difference of two standard normal values.
_Q70 = 1.0364 * math.sqrt(2)


def noise(values: list[float]) -> float:
    """The standard deviation of one value about a mean that may change; above 0.

    From the 0.7 quantile of successive differences, which neither changes of the mean nor spikes at
    up to one value in seven move, and which sees two modes that alternate.
    """
    n, found = len(values), 1e-30
    if not n:
        return found
    differences: list[float] = []
    for i in range(1, n):
        difference = values[i] - values[i - 1]
        differences.append(difference if difference > 0 else -difference)
    if differences:
        differences.sort()
        spread = quantile(differences, 0.7) / _Q70
        if spread > found:
            found = spread
    least = LEAST * sorted(values)[n // 2]
    if least < 0:
        least = -least
    return least if least > found else found


def clipped(values: list[float], sigma: float) -> list[float]:
    """``values`` kept within three ``sigma`` of the median of the seven around each."""
    n, bound, half = len(values), _BOUND * sigma, _WINDOW // 2
    found: list[float] = []
    if not n:
        return found
    window = sorted(values[:_WINDOW])
    middle = window[len(window) // 2]
    for i in range(n):
        value = values[i]
        if half < i < n - half:  # The window moves on.
            del window[bisect_left(window, values[i - half - 1])]
            insort(window, values[i + half])
            middle = window[half]
        if value < middle - bound:
            value = middle - bound
        if value > middle + bound:
            value = middle + bound
        found.append(value)
    return found


def bounded_sum(values: Sequence[float], sigma: float) -> float:
    """The sum of some values, each kept within three ``sigma`` of their median.

    Of a sum nobody can tell whether all values were a little larger or one of them a lot, so steps
    that are kept in blocks are bounded before they are added up, ``CHUNK`` at a time.
    """
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    low, high = middle - _BOUND * sigma, middle + _BOUND * sigma
    if ordered[0] >= low and ordered[-1] <= high:
        return sum(values)
    begin, end = bisect_left(ordered, low), bisect_right(ordered, high)
    return low * begin + sum(ordered[begin:end]) + high * (len(ordered) - end)
